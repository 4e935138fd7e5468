"""What a number was made with: versions, source revision, machine, memory."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from tuneup.runtime import peak_rss

_PACKAGES = ("tuneup-gnn", "torch", "torch-geometric", "numpy")


def versions() -> dict[str, str]:
    """Of everything that decides the numbers."""
    found = {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
    revision = source_revision()
    return found if revision is None else {**found, "revision": revision}


@cache
def source_revision() -> str | None:
    """The commit that last changed this package, with a ``+`` if files differ from it.

    None outside a checkout of its own.  Asked once: what a long run computes with was loaded when
    it began.
    """
    here = Path(__file__).parent
    package = str(here.parent)

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if not git("ls-files", Path(__file__).name):  # someone else's repository around us
            return None
        changed = git("status", "--porcelain", "--untracked-files=no", package)
        return git("log", "-1", "--format=%h", "--abbrev=12", "--", package) + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return None


def machine() -> dict[str, str | int]:
    """Processor, threads and the most memory this process has had; nothing that names an owner."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "peak_rss": peak_rss(),
    }


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    text = described.read_text("ascii", "replace") if described.exists() else ""
    model = re.search(r"^model name\s*:(.*)$", text, re.MULTILINE)
    return model[1].strip() if model else platform.processor() or platform.machine()
