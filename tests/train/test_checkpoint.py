"""Checkpoints: open formats, whole or not at all, and nobody else's files are touched."""

import json
import threading

import pytest
import torch
from safetensors.torch import load_file

from tests.train.broken_runs import Stop, assert_same, resume, stop_at
from tests.train.toy import small_encoder
from tuneup.curriculum import Schedule, base
from tuneup.train import Checkpoints, train
from tuneup.train.record import Epoch, StageRecord, TrainingRecord


def test_the_files(broken_off):
    names = sorted(path.name for path in broken_off.iterdir())
    assert names == ["checkpoint-stage-2-epoch-2-1.safetensors", "checkpoint.json"]
    manifest = json.loads((broken_off / "checkpoint.json").read_text(), parse_constant=refuse)
    assert manifest["format"] == 2
    assert manifest["epoch"] == 2
    tensors = load_file(broken_off / names[0])
    assert {name.split("/")[0] for name in tensors} == {
        "module",
        "state",
        "best",
        "pseudo",
        "optimizer",
    }


def refuse(constant):
    raise AssertionError(f"{constant} is no JSON")


def test_a_manifest_is_json_before_the_first_validation(task, tmp_path):
    """A stage that was never validated has no best score: -Infinity would be no JSON."""
    stages = base(Schedule(4, validate_every=4))
    with pytest.raises(Stop):
        train(
            small_encoder(),
            task,
            stages,
            checkpoints=Checkpoints(tmp_path, 1),
            callback=stop_at(1, 2),
        )
    manifest = json.loads((tmp_path / "checkpoint.json").read_text(), parse_constant=refuse)
    assert manifest["record"]["stages"][0]["best_score"] is None
    assert_same(resume(tmp_path, task, stages=stages), train(small_encoder(), task, stages))


def test_nothing_is_pickled(task, tmp_path, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("pickle was used")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(f"pickle.{name}", never)
    monkeypatch.setattr("torch.save", never)
    monkeypatch.setattr("torch.load", never)
    with pytest.raises(Stop):
        resume(tmp_path, task, callback=stop_at(2, 1))
    resume(tmp_path, task)
    for path in tmp_path.iterdir():
        assert path.suffix in (".json", ".safetensors")


def test_other_peoples_files_stay(task, tmp_path):
    """The folder may hold the user's own tensors: only our own old ones are removed."""
    mine = [tmp_path / "model.safetensors", tmp_path / "best.safetensors.bak"]
    for path in mine:
        path.write_bytes(b"mine")
    resume(tmp_path, task)
    assert all(path.read_bytes() == b"mine" for path in mine)


def test_a_kill_can_leave_nothing_that_is_not_swept(tmp_path):
    """Whatever lies in the folder while a big checkpoint is written is known to `prepare`."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.prepare()
    seen, done = set(), threading.Event()

    def watch():
        while not done.is_set():
            seen.update(path.name for path in tmp_path.iterdir())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for index in range(3):
        checkpoints.save(f"{index}", {"x": torch.zeros(4_000_000)}, {})
    done.set()
    watcher.join()
    last = {path.name for path in tmp_path.iterdir()}
    assert seen - last, "nothing was seen of the writing"
    for name in seen:
        (tmp_path / name).touch()
    checkpoints.prepare()
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"checkpoint.json", *(f"checkpoint-{i}.safetensors" for i in range(3))}


def test_what_a_killed_writer_left_is_removed(task, tmp_path, whole):
    resume(tmp_path, task, model=small_encoder())
    (tmp_path / ".checkpoint.0a1b2c3d.partial.json").write_text("{")
    (tmp_path / ".checkpoint-stage-1-epoch-2-0.0a1b2c3d.partial.safetensors").write_bytes(b"x")
    (tmp_path / "checkpoint-stage-2-epoch-2-1.safetensors").write_bytes(b"old")
    assert_same(resume(tmp_path, task), whole)
    assert len(list(tmp_path.iterdir())) == 2


def test_records_survive_json():
    record = TrainingRecord(
        3,
        "accuracy",
        [
            StageRecord(0, "model", "Stage()", [Epoch(1, 0.1, None, 0.2, 0.3)], 0),
            StageRecord(1, "student", "Stage()", [Epoch(1, 0.1, 0.7, 0.2, 0.3)], 1, 0.7, "why", 5),
        ],
        winner=1,
    )
    text = json.dumps(record.to_json(), allow_nan=False)
    assert TrainingRecord.from_json(json.loads(text)) == record
    assert record.curves() == [(0, 1, 0.1, None), (1, 1, 0.1, 0.7)]
    assert record.stages[0].seconds == pytest.approx(0.3)
