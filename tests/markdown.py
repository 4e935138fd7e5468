"""The fenced blocks of our Markdown files, and how they are run: as a reader would run them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SHELLS = {"bash", "console", "sh", "shell"}

_FENCE = re.compile(
    r"(?P<skip>^<!-- no-run: .+ -->\n+)?^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    language: str
    line: int
    code: str

    def commands(self) -> list[str]:
        """The commands of a shell block; in a console block, those after a `$` prompt."""
        lines = self.code.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [line.strip() for line in lines if line.strip() and not line.startswith("#")]

    def execute(self, file: str, names: dict[str, Any]) -> None:
        """Run a Python block here, in a namespace."""
        # The empty lines make a traceback point at the file's own line.
        exec(compile("\n" * self.line + self.code, file, "exec"), names)


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown text, but for those below `<!-- no-run: reason -->`."""
    for found in _FENCE.finditer(text):
        if not found["skip"]:
            line = text.count("\n", 0, found.start("code"))
            yield Block(found["language"], line, found["code"])


def without_blocks(text: str) -> str:
    """What is left of a text without its fenced blocks, run or not."""
    return _FENCE.sub("", text)


def like_a_clone(folder: Path) -> Path:
    """Make a folder look like the repository."""
    for name in ("examples", "benchmarks", "Makefile"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def run_command(command: str, folder: Path) -> str:
    """What a shell's command prints, run in a folder with the programs of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=environ, capture_output=True
    )
    assert done.returncode == 0, f"`{command}` failed:\n{done.stderr.decode()}"
    return done.stdout.decode()
