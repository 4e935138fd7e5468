import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import polars as pl
import pytest
import torch
from safetensors.torch import save_file

from tuneup.errors import InputError, OutputError, TuneupError
from tuneup.files import (
    atomic_folder,
    atomic_path,
    ensure_writable,
    remove_partials,
    write_atomic,
)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_write_is_exact_and_leaves_no_sibling(tmp_path: Path) -> None:
    for data in ["Kaffee für 3 €\n", b"\x00\xff\r\n"]:
        path = tmp_path / "metrics.json"
        for _ in range(2):  # new, then replacing
            write_atomic(path, data)
            assert path.read_bytes() == (data.encode() if isinstance(data, str) else data)
            assert names(tmp_path) == ["metrics.json"]


def test_permissions_are_those_of_an_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "ordinary").touch()
    write_atomic(tmp_path / "atomic", "")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_the_old_file_is_untouched_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    path.write_text("old")
    with atomic_path(path) as partial:
        assert partial.parent == tmp_path
        assert partial.suffix == ".safetensors"
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [RuntimeError("boom"), KeyboardInterrupt(), InputError("bad")])
def test_a_failed_write_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "table.csv"

    def fail() -> None:
        with atomic_path(path) as partial:
            partial.write_text("half of")
            raise error

    with pytest.raises(type(error)) as raised:
        fail()
    assert raised.value is error
    assert names(tmp_path) == []
    path.write_text("old")
    with pytest.raises(type(error)):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["table.csv"]


def test_a_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomic(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_writers_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_path(path) as first, atomic_path(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full"])
def test_a_device_or_folder_is_never_replaced(tmp_path: Path, device: str) -> None:
    for path in (Path(device), tmp_path):
        with pytest.raises(OutputError, match=f"{path}: it is not a regular file"):
            write_atomic(path, "text")
        assert not path.is_file()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot write .*missing/x\.json: .*create the folder"):
        write_atomic(tmp_path / "missing" / "x.json", "{}")


def test_what_a_library_says_of_the_sibling_is_said_of_the_file(tmp_path: Path) -> None:
    """polars raises the system's errors without their number."""
    path = tmp_path / "missing" / "x.csv"
    with (
        pytest.raises(OutputError, match=rf"cannot write {path}: No such file .*create the folder"),
        atomic_path(path) as partial,
    ):
        pl.DataFrame({"x": [1]}).write_csv(partial)


def test_errors_about_other_files_pass_unchanged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised, atomic_path(tmp_path / "out"):
        (tmp_path / "input").read_text()
    assert not isinstance(raised.value, TuneupError)
    with pytest.raises(ConnectionResetError), atomic_path(tmp_path / "out"):
        raise ConnectionResetError(104, "Connection reset by peer")
    with pytest.raises(FileNotFoundError) as raised, atomic_path(tmp_path / "out"):
        pl.read_parquet(tmp_path / "input.parquet")
    assert not isinstance(raised.value, TuneupError)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"

    def write() -> None:
        with atomic_path(path) as partial:
            partial.symlink_to("/dev/full")
            partial.write_text("{}")

    with pytest.raises(OutputError) as raised:
        write()
    message = f"cannot write {path}: No space left on device; free some space"
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)
    assert names(tmp_path) == []


WRITERS = {
    "bytes": "write_atomic(path, bytes(1 << 20))",
    "safetensors": "with atomic_path(path) as p: save_file({'x': torch.zeros(1 << 18)}, p)",
    "polars": "with atomic_path(path) as p: pl.DataFrame({'x': noise}).write_parquet(p)",
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_write_cut_short_by_the_system_leaves_nothing(tmp_path: Path, writer: str) -> None:
    code = f"""
        import resource, sys
        import numpy as np, polars as pl, torch
        from safetensors.torch import save_file
        from tuneup.errors import OutputError
        from tuneup.files import atomic_path, write_atomic

        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        path = sys.argv[1]
        noise = np.random.default_rng(0).random(1 << 17)
        try:
            {WRITERS[writer]}
        except OutputError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "big")]
    said = subprocess.check_output(command, text=True)
    assert said.startswith(f"cannot write {tmp_path}/big: File too large; raise the file size")
    assert names(tmp_path) == []


def test_other_libraries_write_through_it(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "x.safetensors") as partial:
        save_file({"x": torch.ones(3)}, partial)
    with atomic_path(tmp_path / "x.parquet") as partial:
        pl.DataFrame({"x": [1, 2]}).write_parquet(partial)
    assert names(tmp_path) == ["x.parquet", "x.safetensors"]


def test_what_a_killed_process_leaves_can_be_removed(tmp_path: Path) -> None:
    code = """
        import os, signal, sys
        from tuneup.files import atomic_path

        with atomic_path(sys.argv[1]) as partial:
            partial.write_text("half of")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    path = tmp_path / "state.json"
    path.write_text("old")
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 2
    remove_partials(tmp_path)
    assert names(tmp_path) == ["state.json"]
    assert path.read_text() == "old"


def test_ensure_writable_creates_the_folder_and_leaves_it_empty(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    for _ in range(2):
        assert ensure_writable(folder) == folder
        assert names(folder) == []


# As root, permission bits stop nothing: these fail for everybody.
@pytest.mark.parametrize("below", ["", "runs", "runs/demo"])
def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / below
    with pytest.raises(OutputError, match=f"cannot write {folder}: .*; a part of this path is a"):
        ensure_writable(folder)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_folder_that_takes_no_files_is_named() -> None:
    with pytest.raises(OutputError, match="cannot write /proc/self: "):
        ensure_writable("/proc/self")


def test_a_folder_on_a_full_disk_is_named(tmp_path: Path) -> None:
    code = """
        import resource, sys
        from tuneup.errors import OutputError
        from tuneup.files import ensure_writable

        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        try:
            ensure_writable(sys.argv[1])
        except OutputError as error:
            sys.exit(7)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), tmp_path], check=False)
    assert done.returncode == 7
    assert names(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="Permission denied; check the permissions"):
        ensure_writable(tmp_path)


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "deep" / "model"
    with atomic_folder(target) as partial:
        (partial / "inner").mkdir()
        (partial / "inner" / "file").write_text("new")
        assert not target.exists()
    assert (target / "inner" / "file").read_text() == "new"
    with pytest.raises(OutputError), atomic_folder(target, replace=True) as partial:
        (partial / "no such folder" / "file").write_text("half")
    assert [path.name for path in target.parent.iterdir()] == ["model"]
    with atomic_folder(target, replace=True) as partial:
        (partial / "other").write_text("newer")
    assert [path.name for path in target.iterdir()] == ["other"]
    assert [path.name for path in target.parent.iterdir()] == ["model"]


def test_a_folder_in_use_is_refused_before_any_work(tmp_path):
    (tmp_path / "model").mkdir()
    with atomic_folder(tmp_path / "model"):  # empty: nothing is lost
        pass
    (tmp_path / "model" / "file").write_text("mine")
    with pytest.raises(OutputError, match="not empty"), atomic_folder(tmp_path / "model"):
        raise AssertionError("no work was to be done")
    with pytest.raises(OutputError, match="not a folder"), atomic_folder(__file__):
        raise AssertionError("no work was to be done")


def test_folders_of_killed_processes_are_removed(tmp_path):
    (tmp_path / ".model.0a1b2c3d.partial" / "inner").mkdir(parents=True)
    (tmp_path / ".model.0a1b2c3d.replaced").mkdir()  # may be the only copy
    remove_partials(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".model.0a1b2c3d.replaced"]
