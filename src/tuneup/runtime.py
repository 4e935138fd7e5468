"""The process: its memory, how glibc hands it out, what it may import, and what it runs on.

With glibc's defaults every tensor above 32 MiB is mapped when it is made and unmapped when it is
freed, so each training step pays one page fault for every 4 KiB it writes. `tune_malloc` ends that
from within a running process; `relaunch`, where a process may start itself again, keeps the memory
it costs small. Nothing here happens at import, and all of it is a no-op off glibc.
"""

import ctypes
import gc
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tuneup.errors import InputError

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_MMAP_MAX = -4
_INT_MAX = 2**31 - 1
_NEVER = -1

_NO_MEMORY = ("DefaultCPUAllocator", "can't allocate memory", "std::bad_alloc")
"""Words of torch's memory errors on the CPU, which have no class of their own."""

_PACKAGES = ("tuneup-gnn", "torch", "torch-geometric", "numpy")
"""What decides the numbers."""

_TUNABLES = "GLIBC_TUNABLES"
_POLARS, _SOON = "_RJEM_MALLOC_CONF", "dirty_decay_ms:100,muzzy_decay_ms:0"
_NO_RESTART = "TUNEUP_NO_RESTART"
_TCACHE_COUNT = "glibc.malloc.tcache_count"


def tune_malloc(mmap_threshold: int = 1 << 30, trim_threshold: int | None = None) -> bool:
    """Make glibc keep the memory of freed tensors for the next ones.

    The setting holds for the whole process and cannot be undone. Tensors made outside the main
    thread do not profit: glibc bounds the heaps of other threads at 64 MiB.

    Speed is paid for in memory, twice the peak with glibc 2.36: the few bytes cut off to align a
    tensor end up in the thread cache, where they keep free blocks from merging. Switch that cache
    off with `relaunch` or `tuned_environ`.

    Args:
        mmap_threshold: Blocks of at least this many bytes are still mapped one by one.
        trim_threshold: Free memory at the top of the heap goes back to the system beyond this
            many bytes; None, never. A step that frees more than that pays for all of it again.

    Returns:
        Whether both settings were accepted; False off glibc (macOS, musl, Windows).

    Raises:
        InputError: If a threshold does not fit mallopt's C int.
    """
    for name, value in (("mmap_threshold", mmap_threshold), ("trim_threshold", trim_threshold)):
        if value is not None and not 0 <= value <= _INT_MAX:
            raise InputError(f"{name} is {value}; give a number of bytes from 0 to {_INT_MAX}")
    libc = _glibc()
    if libc is None:
        return False
    # Older versions refuse thresholds above 32 MiB; there, forbid mapping altogether.
    mapped = libc.mallopt(_M_MMAP_THRESHOLD, mmap_threshold) or libc.mallopt(_M_MMAP_MAX, 0)
    trimmed = libc.mallopt(_M_TRIM_THRESHOLD, _NEVER if trim_threshold is None else trim_threshold)
    return bool(mapped and trimmed)


def tuned_environ(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return `environ` with allocators set for processes that call `tune_malloc` or read tables.

    glibc's thread cache is off, and polars' allocator gives memory back soon: else what reading one
    table took is still there when the next one is read. Both are looked at when a process starts:
    give it to a child process. Settings of your own stay.
    """
    tunables = environ.get(_TUNABLES, "")
    if _TCACHE_COUNT not in tunables:
        tunables = ":".join(filter(None, [tunables, f"{_TCACHE_COUNT}=0"]))
    decay = environ.get(_POLARS, "")
    if "decay" not in decay or (environ is os.environ and "polars" in sys.modules):
        # polars, once imported, has put its own decay there; of two, the later one counts
        decay = decay if _SOON in decay else ",".join(filter(None, [decay, _SOON]))
    return {**environ, _TUNABLES: tunables, _POLARS: decay}


def relaunch() -> None:
    """Start the running command again, in this process, with `tuned_environ` and patient threads.

    Threads that wait for each other sleep instead of spinning, unless `OMP_WAIT_POLICY` says
    otherwise: a tenth slower on an idle machine, several times faster on a busy one.

    For the first line of a program's `main`, before anything is imported that takes long. Returns
    if the environment is already so, off glibc, or if `TUNEUP_NO_RESTART` is set to anything but 0:
    for debuggers and profilers, which lose a process that is replaced.
    """
    environ = {"OMP_WAIT_POLICY": "PASSIVE", **tuned_environ()}
    if os.environ.get(_NO_RESTART, "0") not in ("", "0"):
        return
    if _glibc() is None or environ == dict(os.environ):
        return
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None where the shell has closed it
            stream.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environ)


def require(module: str, extra: str) -> Any:
    """Import a module that an extra of this package installs.

    Raises:
        InputError: If it is missing; the message says what to install.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"{module} is not installed: it comes with the extra {extra}; "
            f"pip install 'tuneup-gnn[{extra}]'"
        ) from error


def refuse_distributed(environ: Mapping[str, str] = os.environ) -> None:
    """Refuse to train in one of several processes, which would all train the same model.

    Raises:
        InputError: If torch's process group has more than one process, or ``environ`` is that of
            one of several processes that ``torchrun`` started.
    """
    distributed = sys.modules.get("torch.distributed")  # whoever makes a group imports it
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank, size = distributed.get_rank(), distributed.get_world_size()
    elif all(environ.get(name, "").isdecimal() for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")):
        rank, size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    else:
        return
    if size > 1:
        raise InputError(
            f"this command runs in one process, and this is process {rank} of {size} (RANK, "
            "WORLD_SIZE): start it without torchrun"
        )


def peak_rss() -> int:
    """Return the largest resident memory this process has had, in bytes (Linux and macOS)."""
    if sys.platform == "linux":
        # Not ru_maxrss: there a child process inherits its parent's peak, through fork and exec.
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    import resource  # absent on Windows, where the rest of this module must still import

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def forget_peak_rss() -> bool:
    """Give freed memory back and reset `peak_rss`, for a process of several runs.

    Returns:
        Whether that is possible: on Linux.
    """
    gc.collect()
    libc = _glibc()
    if libc is not None and hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as refs:
            refs.write("5")
    except OSError:  # another system, or a container that hides it
        return False
    return True


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory could not be allocated, of the CPU or of a device."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    said = str(error)
    return isinstance(error, RuntimeError) and any(words in said for words in _NO_MEMORY)


def _glibc() -> ctypes.CDLL | None:
    """Return the C library of this process if it is glibc."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None


def versions() -> dict[str, str]:
    """Of everything that decides the numbers."""
    from importlib.metadata import version  # takes its time

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

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if not git("ls-files", Path(__file__).name):  # someone else's repository around us
            return None
        changed = git("status", "--porcelain", "--untracked-files=no", str(here))
        return git("log", "-1", "--format=%h", "--abbrev=12", "--", str(here)) + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return None


def machine() -> dict[str, str | int]:
    """Processor, threads and the most memory this process has had; nothing that names an owner."""
    import torch

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
