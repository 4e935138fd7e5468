"""Two fits into one place, fits that are killed, and disks that are full."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from safetensors import safe_open

from tuneup.cli import app
from tuneup.errors import DivergenceError, InputError, OutputError
from tuneup.files import ensure_room
from tuneup.serve import Predictor
from tuneup.workflow.run_folders import claimed

TUNEUP = Path(sys.executable).with_name("tuneup")
BRIEF = ("--width", "16", "--select", "transductive", "--no-interpolate", "--epochs")
CHECKPOINTS = ".m.tuneup-fit/checkpoints"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a table of edges, which the command runs in."""
    edges = "".join(f"{k},{(7 * k + step) % 90}\n" for k in range(90) for step in (1, 2, 5))
    (tmp_path / "edges.csv").write_text(f"source,target\n{edges}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fit(*words):
    app(["fit", "--edges", "edges.csv", "--out", "m", *BRIEF, *words], standalone_mode=False)


def names(folder):
    return {path.name for path in folder.iterdir()} - {"edges.csv"}


@contextmanager
def fitting(folder, *words):
    """A fit in another process, which has trained for some epochs; killed if it still runs."""
    before = epochs(folder)
    command = [TUNEUP, "fit", "--edges", "edges.csv", "--out", "m", *BRIEF, *words]
    # Who runs the tests in a shell's background runs them with this signal ignored.
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "300"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        while process.poll() is None and epochs(folder) <= before:
            time.sleep(0.01)
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate()


def epochs(folder):
    """How many the checkpoint of the stage in progress has."""
    for path in (folder / CHECKPOINTS).glob("progress-*.safetensors"):
        with safe_open(path, "pt") as file:
            return json.loads(file.metadata()["stage"])["epoch"]
    return 0


LONG = ("100000", "--patience", "100000")


def test_a_second_fit_fails_at_once_and_a_killed_one_resumes(here, capsys):
    with fitting(here, *LONG) as process:
        with pytest.raises(OutputError, match=rf"another fit .* \(process {process.pid} on .*wait"):
            fit("40")
        assert process.poll() is None
        process.kill()
        process.wait()
    assert names(here) == {".m.tuneup-fit"}
    assert epochs(here) >= 20
    with fitting(here, *LONG) as process:  # the same arguments
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
    assert "resumed after epoch" in out
    assert "The training so far is saved in" in said
    assert "run the same command to resume it." in said
    assert names(here) == {".m.tuneup-fit"}


LIMITED = """
import resource, sys
from tuneup import cli

cli.relaunch = lambda: None  # it would replace this process
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
sys.argv[0] = "tuneup"
cli.main()
"""


def test_a_model_that_finds_no_room_is_saved_later_without_training(here, capsys):
    """The disk takes the checkpoints, but not the model with its graph."""
    edges = "".join(f"{k},{(k + step) % 1500}\n" for k in range(1500) for step in range(1, 61))
    nodes = "".join(f"{k},{k % 7},{k % 3}\n" for k in range(1500))
    (here / "edges.csv").write_text(f"source,target\n{edges}")
    (here / "nodes.csv").write_text(f"id,f,label\n{nodes}")
    words = ["fit", "--edges", "edges.csv", "--nodes", "nodes.csv", "--out", "m", *BRIEF, "3"]
    command = [sys.executable, "-c", LIMITED, *words]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"Error: cannot write {here / 'm'}: File too large; ")
    assert line.endswith("checkpoints: run the same command to resume it")
    assert names(here) == {".m.tuneup-fit", "nodes.csv"}
    capsys.readouterr()
    app(words, standalone_mode=False)
    assert "Nothing was left to train" in capsys.readouterr().out
    assert names(here) == {"m", "nodes.csv"}
    assert len(Predictor.load(here / "m").ids) == 1500


def test_a_disk_that_is_too_small_is_refused_before_training(here, capsys):
    with pytest.raises(OutputError, match=r"cannot write .*m: about [\d,]+ GB are needed on its"):
        fit("3", "--width", "1000000")
    assert "Base" not in capsys.readouterr().out
    assert names(here) == set()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a megabyte; only root can make one."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a file system needs root on Linux")
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this container may not mount file systems")
    yield place
    subprocess.run(["umount", place], check=True)


def test_room_is_checked_on_each_disk(small_disk, tmp_path):
    ensure_room((tmp_path / "model", 4 << 20), (small_disk / "new" / "checkpoints", 1 << 19))
    with pytest.raises(OutputError, match=f"cannot write {small_disk}/a: about 0.001 GB"):
        ensure_room((small_disk / "a", 1 << 19), (small_disk / "b", 3 << 18))


def test_the_folder_of_checkpoints_is_locked(tmp_path):
    claim_of = partial(claimed, overwrite=False, checkpoints=tmp_path / "c" / "d", say=print)
    with claim_of(tmp_path / "one") as claim:
        assert claim.checkpoints == tmp_path / "c" / "d"
        other = claim_of(tmp_path / "two")
        with pytest.raises(OutputError, match="another fit has its checkpoints there"), other:
            pytest.fail("two fits would remove each other's checkpoints")
        claim.checkpoints.joinpath("stage-1.safetensors").write_text("")
    assert [path.name for path in tmp_path.rglob("*")] == ["c", "d", "stage-1.safetensors"]


def test_only_what_can_be_resumed_is_left(tmp_path, capsys):
    def train(out, error, epoch) -> None:
        with claimed(out, overwrite=False, checkpoints=None, say=print) as claim:
            claim.checkpoints.mkdir()
            if epoch:
                (claim.checkpoints / "progress-1.safetensors").touch()
            raise error

    errors = (InputError("wrong"), DivergenceError("no"), MemoryError(), KeyboardInterrupt())
    for number, (error, epoch) in enumerate(product(errors, (0, 40))):
        out = tmp_path / str(number) / "m"
        with pytest.raises(type(error)):
            train(out, error, epoch)
        left = epoch > 0 and not isinstance(error, DivergenceError)
        assert out.parent.exists() is left
        assert ("run the same command to resume it" in capsys.readouterr().out) is left


def test_unusable_places_are_refused_before_the_tables_are_read(here):
    (here / "m").mkdir()
    (here / "m" / "thesis.txt").write_text("mine")
    (here / "file").touch()
    for words, problem in {
        ("--out", "m"): "m is not empty: choose another --out",
        ("--out", "file"): "cannot write .*file: it is not a folder",
        ("--out", "n", "--checkpoints", "n/c"): "is inside --out",
    }.items():
        with pytest.raises(InputError, match=problem):
            app(["fit", "--edges", "none.csv", *words], standalone_mode=False)
    with pytest.raises(OutputError, match="choose another place"):
        app(["fit", "--edges", "none.csv", "--out", "file/m"], standalone_mode=False)
    assert names(here) == {"m", "file"}
