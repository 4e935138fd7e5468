"""The machine and this process, as Linux's ``/proc`` tells: the benchmarks run on Linux only."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tuneup.workflow.provenance import source_revision

from .case import THREADS


def describe() -> dict[str, str]:
    """Processor, memory and versions; nothing that names the machine or its owner."""
    import torch
    import torch_geometric

    return {
        "processor": _field("/proc/cpuinfo", "model name"),
        "cores": f"{os.cpu_count()} ({THREADS} threads used)",
        "memory": f"{_kilobytes('/proc/meminfo', 'MemTotal') / 2**30:.0f} GiB",
        "system": f"{platform.system()}, {' '.join(platform.libc_ver())}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": f"{torch_geometric.__version__}, {_extensions()}",
        "tuneup": source_revision() or version("tuneup-gnn"),
    }


def _extensions() -> str:
    from torch_geometric import typing

    found = [
        name
        for name, present in (
            ("pyg-lib", typing.WITH_PYG_LIB),
            ("torch-scatter", typing.WITH_TORCH_SCATTER),
            ("torch-sparse", typing.WITH_TORCH_SPARSE),
        )
        if present
    ]
    return f"with {', '.join(found)}" if found else "without compiled extensions"


def memory_available() -> int:
    """Bytes that new processes could use."""
    return _kilobytes("/proc/meminfo", "MemAvailable")


def resident() -> int:
    """Bytes of this process in memory."""
    return _kilobytes("/proc/self/status", "VmRSS")


def peak_resident() -> int:
    """The most that :func:`resident` has been since :func:`settle`."""
    return _kilobytes("/proc/self/status", "VmHWM")


def settle() -> int:
    """Hand freed memory back to the system, forget the peak so far, and return what is resident.

    Without this, a model would be built in the holes that reading the graph left, for free.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return resident()


@dataclass(frozen=True)
class Clock:
    """Processor time so far, of this process and of everything on the machine, in seconds."""

    wall: float
    own: float
    busy: float

    @classmethod
    def now(cls) -> Clock:
        """Read the clocks."""
        user, nice, system, _, _, irq, softirq, steal = map(
            int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
        )
        ticks = user + nice + system + irq + softirq + steal
        busy = ticks / os.sysconf("SC_CLK_TCK")
        return cls(time.perf_counter(), time.process_time(), busy)

    def others_until(self, end: Clock) -> float:
        """Share of all cores' time that other processes took until ``end``."""
        taken = (end.busy - self.busy) - (end.own - self.own)
        return max(0.0, taken / ((end.wall - self.wall) * (os.cpu_count() or 1)))


def _kilobytes(path: str, name: str) -> int:
    return int(_field(path, name).split()[0]) * 1024


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text(errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "0 kB" if name.startswith(("Vm", "Mem")) else "unknown"
