import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from tuneup import runtime
from tuneup.errors import InputError
from tuneup.runtime import (
    out_of_memory,
    peak_rss,
    refuse_distributed,
    require,
    tune_malloc,
    tuned_environ,
)

on_glibc = pytest.mark.skipif(runtime._glibc() is None, reason="needs glibc")
MIB = 1 << 20


def run(code: str, environ: Mapping[str, str] = os.environ, *arguments: str) -> list[int]:
    """Return the numbers that code prints in a process of its own: malloc cannot be untuned."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    said = subprocess.check_output(command, env=dict(environ), text=True)
    return [int(word) for word in said.split()]


@on_glibc
@pytest.mark.parametrize("environ", [os.environ, tuned_environ()], ids=["default", "tuned"])
def test_tuning_removes_the_page_faults_of_repeated_big_tensors(
    environ: Mapping[str, str],
) -> None:
    code = """
        import resource, torch
        from tuneup.runtime import tune_malloc

        def faults(times):
            start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for _ in range(times):
                torch.empty(64 << 18).fill_(1.0)
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - start

        print(faults(3))
        print(int(tune_malloc()))
        faults(20)  # while the thread cache fills, old glibc still takes new memory
        print(faults(3))
    """
    before, accepted, after = run(code, environ)
    assert accepted == 1
    assert before >= 3 * 32  # 64 MiB, three times, in pages of at most 2 MiB
    assert after < before / 20


@on_glibc
def test_what_a_step_frees_at_its_end_is_there_for_the_next_one() -> None:
    code = """
        import resource, torch
        from tuneup.runtime import tune_malloc

        tune_malloc({trim})

        def step():
            start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            kept = [torch.empty(64 << 18).fill_(1.0) for _ in range(3)]
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - start

        print(step(), step(), step())
    """
    first, *later = run(code.format(trim=""), tuned_environ())
    assert max(later) < first / 20
    first, *later = run(code.format(trim="trim_threshold=64 << 20"), tuned_environ())
    assert min(later) > first / 2  # given back, and paid for again


@on_glibc
def test_without_the_thread_cache_freed_memory_is_reused_at_once() -> None:
    code = """
        import torch
        from tuneup.runtime import peak_rss, tune_malloc

        tune_malloc()
        start = peak_rss()
        for _ in range(20):
            torch.empty(64 << 18).fill_(1.0)
        print(peak_rss() - start)
    """
    (grown,) = run(code, tuned_environ())
    assert 60 * MIB < grown < 4 * 64 * MIB


@on_glibc
def test_importing_tuneup_leaves_malloc_alone() -> None:
    # A mapped block raises glibc's threshold when freed, unless somebody has set the threshold.
    code = """
        import ctypes
        {setup}
        libc = ctypes.CDLL(None)
        libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
        libc.free.argtypes = [ctypes.c_void_p]
        libc.free(libc.malloc(24 << 20))
        block = libc.malloc(23 << 20)
        print(int(block < libc.sbrk(0)))
    """
    assert run(code.format(setup="import tuneup, tuneup.runtime, tuneup.files")) == [1]
    assert run(code.format(setup="import tuneup.runtime as r; r.tune_malloc(1 << 20)")) == [0]


def test_older_glibc_is_told_not_to_map_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    class OldGlibc:
        def mallopt(self, parameter: int, value: int) -> int:
            calls.append((parameter, value))
            return int(not (parameter == -3 and value > 32 * MIB))

    monkeypatch.setattr(runtime, "_glibc", OldGlibc)
    assert tune_malloc(1 << 30, 1 << 29)
    assert calls == [(-3, 1 << 30), (-4, 0), (-1, 1 << 29)]


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_off_glibc_nothing_happens(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert not tune_malloc()
    runtime.relaunch()


def test_thresholds_must_fit_a_c_int() -> None:
    for name, value in [("mmap_threshold", 2**31), ("trim_threshold", -1)]:
        with pytest.raises(InputError, match=f"{name} is {value}; .* from 0 to 2147483647"):
            tune_malloc(**{name: value})


def test_tuned_environ_adds_to_what_is_there() -> None:
    for old, new in [
        (None, "glibc.malloc.tcache_count=0"),
        ("glibc.malloc.perturb=1", "glibc.malloc.perturb=1:glibc.malloc.tcache_count=0"),
        ("glibc.malloc.tcache_count=3", "glibc.malloc.tcache_count=3"),
    ]:
        environ = {"HOME": "/home"} | ({"GLIBC_TUNABLES": old} if old else {})
        assert tuned_environ(environ) == {"HOME": "/home", "GLIBC_TUNABLES": new, POLARS: SOON}


POLARS, SOON = "_RJEM_MALLOC_CONF", "dirty_decay_ms:100,muzzy_decay_ms:0"


def test_what_polars_keeps_is_yours_to_say() -> None:
    for old, new in [
        ("narenas:1", f"narenas:1,{SOON}"),
        ("dirty_decay_ms:7", "dirty_decay_ms:7"),
        (SOON, SOON),
    ]:
        assert tuned_environ({POLARS: old})[POLARS] == new


def test_what_polars_itself_says_gives_way() -> None:
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, polars; from tuneup.runtime import tuned_environ as tuned\n"
            f"print(os.environ['{POLARS}']); print(tuned()['{POLARS}'])",
        ],
        env={key: value for key, value in os.environ.items() if key != POLARS},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert said[1] == f"{said[0]},{SOON}"


@on_glibc
def test_relaunch_keeps_process_and_arguments_and_happens_once() -> None:
    code = """
        import os, sys
        from tuneup.runtime import relaunch

        print(os.getpid(), len(os.environ["GLIBC_TUNABLES"]))
        relaunch()
        print(*sys.argv[1:])
    """
    first, before, second, after, *arguments = run(
        code, {**os.environ, "GLIBC_TUNABLES": ""}, "7", "8"
    )
    assert first == second
    assert (before, after) == (0, len("glibc.malloc.tcache_count=0"))
    assert arguments == [7, 8]


@on_glibc
def test_relaunched_threads_wait_as_asked() -> None:
    for asked, length in [(None, len("PASSIVE")), ("ACTIVE", len("ACTIVE"))]:
        environ = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
        code = """
            import os
            from tuneup.runtime import relaunch

            relaunch()
            print(len(os.environ["OMP_WAIT_POLICY"]))
        """
        assert run(code, environ | ({"OMP_WAIT_POLICY": asked} if asked else {})) == [length]


@on_glibc
def test_a_variable_switches_relaunching_off() -> None:
    code = "from tuneup.runtime import relaunch; print(1); relaunch(); print(2)"
    environ = {**os.environ, "GLIBC_TUNABLES": ""}
    assert run(code, environ | {"TUNEUP_NO_RESTART": "1"}) == [1, 2]
    assert run(code, environ | {"TUNEUP_NO_RESTART": "0"}) == [1, 1, 2]


def test_a_missing_extra_is_named_with_its_install_line() -> None:
    assert require("json", "none").loads("1") == 1
    with pytest.raises(InputError, match=r"pip install 'tuneup-gnn\[report\]'"):
        require("no_such_module", "report")


def test_peak_rss_sees_a_block_that_is_gone() -> None:
    before, after = run("""
        from tuneup.runtime import peak_rss

        print(peak_rss())
        block = b"x" * (200 << 20)
        del block
        print(peak_rss())
    """)
    assert before > 5 * MIB
    assert 150 * MIB < after - before < 260 * MIB


@on_glibc
def test_a_peak_can_be_forgotten() -> None:
    start, high, forgotten, later = run("""
        import torch
        from tuneup.runtime import forget_peak_rss, peak_rss, tune_malloc

        tune_malloc()
        print(peak_rss())
        block = torch.ones(50_000_000)
        print(peak_rss())
        del block
        print(int(forget_peak_rss()))
        print(peak_rss())
    """)
    assert high - start > 150 * MIB
    assert forgotten
    assert later - start < 50 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is all that macOS has")
def test_peak_rss_of_a_child_is_not_its_parents() -> None:
    parent, child = run("""
        import subprocess, sys
        from tuneup.runtime import peak_rss

        block = b"x" * (300 << 20)
        print(peak_rss(), flush=True)
        code = "from tuneup.runtime import peak_rss; print(peak_rss())"
        subprocess.run([sys.executable, "-c", code], check=True)
    """)
    assert child < parent - 200 * MIB


def test_peak_rss_is_in_bytes() -> None:
    assert 10 * MIB < peak_rss() < 1 << 50


def test_running_out_of_memory_is_told_from_other_errors() -> None:
    for work in (
        lambda: bytearray(1 << 62),
        lambda: np.empty(1 << 58),
        lambda: torch.empty(1 << 58),
    ):
        with pytest.raises((MemoryError, RuntimeError)) as raised:
            work()
        assert out_of_memory(raised.value)
    assert out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    with pytest.raises(RuntimeError) as raised:
        torch.ones(2, 3) @ torch.ones(2, 3)
    assert not out_of_memory(raised.value)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_a_process_group_of_several_is_refused(tmp_path: Path) -> None:
    code = """
        import os, sys
        import torch.distributed
        from tuneup.errors import InputError
        from tuneup.runtime import refuse_distributed

        refuse_distributed({})
        size = int(sys.argv[2])
        rank = 0 if size == 1 or os.fork() else 1
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=size
        )
        try:
            refuse_distributed({})
        except InputError as error:
            assert f"process {rank} of 2" in str(error)
            if rank == 0:
                print(1)
        if rank == 0 and size > 1:
            os.wait()
    """
    assert run(code, os.environ, str(tmp_path / "two"), "2") == [1]
    assert run(code, os.environ, str(tmp_path / "one"), "1") == []


def test_ranks_that_other_programs_set_are_not_torchruns() -> None:
    for environ in (
        {"WORLD_SIZE": "4"},
        {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "many"},
        {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"},
    ):
        refuse_distributed(environ)
