"""Runs that are killed with SIGKILL, again and again, end like runs that never were."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.train import kill_worker
from tuneup.train import Checkpoints

NAMES = ("encoder", "pyg", "toy")
ROOT = Path(__file__).parents[2]

# About to happen when the process dies: a checkpoint is complete but has no name yet, is about to
# take the place of an older one, or the stage is stored and its progress is not yet removed.
MOMENTS = [
    "rename encoder/progress 1",
    "rename encoder/progress 3",
    "rename encoder/stage 1",
    "remove encoder/progress 1",
    "rename encoder/progress 2",
    "remove encoder/progress 1",
    "rename pyg/progress 1",
    "remove pyg/progress 1",
    "rename pyg/progress 1",
    "rename pyg/stage 1",
    "rename toy/progress 1",
    "rename toy/stage 1",
    "remove toy/progress 1",
    "rename toy/stage 2",
    "remove toy/stage 1",
]


class Worker:
    """The process that starts the others."""

    def __init__(self) -> None:
        paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.train.kill_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        )

    def start(self, folder: Path, die: str | None = None) -> int:
        """Begin or go on; the process's id."""
        self.process.stdin.write(json.dumps({"folder": str(folder), "die": die}) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def status(self) -> int:
        """How it ended: minus the signal, if by one."""
        return int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def worker():
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def expected():
    """Uninterrupted, without any checkpoint, in this process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    results = kill_worker.runs(None)
    torch.set_num_threads(threads)
    return {name: kill_worker.flat(result) for name, result in results.items()}


def assert_finished(folder, expected):
    for name in NAMES:
        tensors, measured = expected[name]
        assert (folder / f"{name}.json").read_text() == measured
        found = load_file(folder / f"{name}.safetensors")
        assert found.keys() == tensors.keys()
        for key, value in tensors.items():
            assert torch.equal(found[key], value), f"{name}: {key}"
        log = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        curves = [[line["stage"] - 1, *map(line.get, ("epoch", "loss", "score"))] for line in log]
        assert curves == json.loads(measured)[0]  # each epoch once, in its order
        # The stages, nothing half-written, no progress.
        left = sorted(path.name for path in (folder / name).iterdir())
        assert len(left) == len(json.loads(measured)[1]), left
        assert all(file.startswith("stage-") and file.endswith(".safetensors") for file in left)


def epochs_told(folder):
    progress = folder / "progress"
    return progress.read_text().splitlines() if progress.exists() else []


def test_killed_while_writing(worker, expected, tmp_path):
    for moment in MOMENTS:
        worker.start(tmp_path, moment)
        assert worker.status() == -signal.SIGKILL, f"never came to: {moment}"
    worker.start(tmp_path)
    assert worker.status() == 0
    assert_finished(tmp_path, expected)


def test_killed_at_any_moment(worker, expected, tmp_path):
    """From outside, a few epochs after each start, up to the last stage of the last run."""
    draws = random.Random(0)
    killed = 0
    while "toy 3 1" not in epochs_told(tmp_path):
        enough = len(epochs_told(tmp_path)) + draws.randint(2, 5)
        pause = draws.random() * 0.01
        child, deadline = worker.start(tmp_path), time.monotonic() + 60
        while time.monotonic() < deadline:
            told = epochs_told(tmp_path)
            if len(told) >= enough or "toy 3 1" in told:
                break
            time.sleep(0.004)
        time.sleep(pause)
        with contextlib.suppress(ProcessLookupError):  # the last one may have ended by itself
            os.kill(child, signal.SIGKILL)
        killed += worker.status() == -signal.SIGKILL
        assert killed < 60, "the runs do not get on"
    worker.start(tmp_path)
    assert worker.status() == 0
    assert_finished(tmp_path, expected)
    # Whether an epoch is repeated depends on the moment of the kill.  One that was saved just
    # before is not repeated, and so not told: its loss is in the curves that were compared above.
    told = epochs_told(tmp_path)
    assert killed >= 6
    trained = {
        f"{name} {stage + 1} {epoch}"
        for name in NAMES
        for stage, epoch, *_ in json.loads(expected[name][1])[0]
    }
    assert set(told) <= trained
    assert len(trained - set(told)) <= killed


def test_a_finished_run_returns_at_once(worker, expected, tmp_path):
    """In another process than the one that trained, with models that were begun anew."""
    worker.start(tmp_path)
    assert worker.status() == 0
    assert_finished(tmp_path, expected)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/stage*")}
    told = []
    results = kill_worker.runs(tmp_path, lambda *progress: told.append(progress))
    assert told == []
    for name, result in results.items():
        tensors, measured = kill_worker.flat(result)
        assert measured == expected[name][1]
        assert all(torch.equal(tensors[key], value) for key, value in expected[name][0].items())
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/stage*")} == before
    first = results["encoder"].record.stages[0]
    stored = Checkpoints(tmp_path / "encoder").find(first.digest).plain["record"]
    assert [epoch["seconds"] for epoch in stored["epochs"]] == [e.seconds for e in first.epochs]
