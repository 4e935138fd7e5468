"""Checkpoints: open formats, whole or not at all, and refused with a reason if they do not fit."""

import functools
import json
import os
import threading
from dataclasses import dataclass, replace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.training.toy import (
    Counter,
    PygNet,
    Scripted,
    small_encoder,
    small_task,
    toy_curriculum,
    toy_modules,
)
from tuneup.curriculum import ExtraStep, Schedule, Stage, base, task_loss, tuneup
from tuneup.errors import CheckpointError, InputError, OutputError
from tuneup.training import Checkpoints, adam, train
from tuneup.training.record import Epoch, StageRecord, TrainingRecord
from tuneup.training.state import describe

STAGES = tuneup(0.5, Schedule(5, lr=0.01), Schedule(4, lr=0.01))


class Stop(Exception):
    """Raised by a callback, in the place of a crash."""


def stop_at(stage, epoch):
    def callback(progress):
        if (progress.stage, progress.epoch) == (stage, epoch):
            raise Stop

    return callback


@pytest.fixture(scope="module")
def task():
    return small_task()


@pytest.fixture(scope="module")
def whole(task):
    return train(small_encoder(), task, STAGES)


@pytest.fixture
def broken_off(task, tmp_path):
    """A folder whose run ended in the middle of stage 2."""
    with pytest.raises(Stop):
        train(
            small_encoder(),
            task,
            STAGES,
            checkpoints=Checkpoints(tmp_path, 2),
            callback=stop_at(2, 3),
        )
    return tmp_path


def resume(folder, task, model=None, stages=STAGES, **options):
    model = small_encoder(seed=7) if model is None else model
    return train(model, task, stages, checkpoints=Checkpoints(folder, 2), **options)


def assert_same(first, second):
    assert first.record.curves() == second.record.curves()
    assert first.record.winner == second.record.winner
    for state, expected in zip(first.states, second.states, strict=True):
        assert state.keys() == expected.keys()
        assert all(torch.equal(value, expected[name]) for name, value in state.items())


# What is written


def test_the_files(broken_off):
    names = sorted(path.name for path in broken_off.iterdir())
    assert names == ["checkpoint-stage-2-epoch-2-1.safetensors", "checkpoint.json"]
    manifest = json.loads((broken_off / "checkpoint.json").read_text(), parse_constant=refuse)
    assert manifest["format"] == 1
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


@pytest.mark.parametrize(
    ("broken_off_at", "goes_on_at"),
    [
        ((1, 1), (1, 1)),  # every second epoch is kept
        ((1, 4), (1, 5)),
        ((1, 5), (1, 5)),
        ((2, 1), (2, 1)),  # and the end of each stage
        ((2, 4), None),
    ],
)
def test_going_on_is_exact(task, whole, tmp_path, broken_off_at, goes_on_at):
    with pytest.raises(Stop):
        resume(tmp_path, task, model=small_encoder(), callback=stop_at(*broken_off_at))
    told = []
    assert_same(resume(tmp_path, task, callback=told.append), whole)
    assert (told and (told[0].stage, told[0].epoch)) == (goes_on_at or [])


def test_a_best_state_from_before_the_break_is_kept(tmp_path):
    stages = base(Schedule(6))
    task = Scripted((0, 1, 9, 2, 3, 4, 5))
    with pytest.raises(Stop):
        resume(tmp_path, task, Counter(), stages, callback=stop_at(1, 5))
    result = resume(tmp_path, task, Counter(), stages)
    assert (result.record.stages[0].best_epoch, result.record.stages[0].best_score) == (2, 9)
    assert int(result.model.steps) == 2


def test_going_on_after_base_with_checkpoints(task, whole, tmp_path):
    first = train(small_encoder(), task, STAGES[:1])
    with pytest.raises(Stop):
        resume(tmp_path, task, after=first, callback=stop_at(2, 3))
    assert_same(resume(tmp_path, task), whole)


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


def sgd(parameters, lr, weight_decay):
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=weight_decay)


def amsgrad(parameters, lr, weight_decay):
    parameters = list(parameters)
    groups = [{"params": parameters[:1], "lr": lr / 10}, {"params": parameters[1:]}]
    return torch.optim.AdamW(groups, lr=lr, weight_decay=weight_decay, amsgrad=True)


@pytest.mark.parametrize("optimizer", [sgd, amsgrad])
def test_any_optimiser_goes_on(task, tmp_path, optimizer):
    stages = tuneup(0.5, Schedule(4, lr=0.01, milestones=(2,)), Schedule(4, lr=0.01))
    expected = train(small_encoder(), task, stages, optimizer=optimizer)
    for place in ((1, 3), (2, 3)):
        with pytest.raises(Stop):
            resume(
                tmp_path,
                task,
                small_encoder(),
                stages,
                optimizer=optimizer,
                callback=stop_at(*place),
            )
    assert_same(resume(tmp_path, task, stages=stages, optimizer=optimizer), expected)


class Tied(nn.Module):
    """Two names for one tensor, and a tensor that is a slice of another's memory."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.first = nn.Linear(8, 3)
            self.again = nn.Linear(8, 3)
        self.again.weight = self.first.weight
        self.register_buffer("part", torch.arange(10.0)[2:5])

    def forward(self, x, edge_index):
        return self.first(x) + self.again(x) + self.part


def test_shared_memory_is_no_obstacle(task, tmp_path):
    with pytest.raises(Stop):
        resume(tmp_path, task, Tied(), callback=stop_at(2, 3))
    found = resume(tmp_path, task, Tied())
    assert_same(found, train(Tied(), task, STAGES))
    assert found.model.again.weight is found.model.first.weight


# What is refused


def spoil_tensors(folder):
    (path,) = folder.glob("*.safetensors")
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def cut_tensors(folder):
    (path,) = folder.glob("*.safetensors")
    os.truncate(path, path.stat().st_size // 2)


def lose_tensors(folder):
    next(folder.glob("*.safetensors")).unlink()


def cut_manifest(folder):
    os.truncate(folder / "checkpoint.json", 100)


def empty_manifest(folder):
    (folder / "checkpoint.json").write_text("")


def garbage(folder):
    (folder / "checkpoint.json").write_bytes(b"\xff\xfe\x00garbage")


def other_json(folder):
    (folder / "checkpoint.json").write_text("[1, 2]")


def someones_json(folder):
    (folder / "checkpoint.json").write_text('{"name": "of another program"}')


def incomplete(folder):
    (folder / "checkpoint.json").write_text('{"format": 1}')


def newer(folder):
    state = json.loads((folder / "checkpoint.json").read_text())
    (folder / "checkpoint.json").write_text(json.dumps({**state, "format": 2}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            spoil_tensors,
            "is damaged: checkpoint-stage-2-epoch-2-1.safetensors has a wrong checksum",
        ),
        (cut_tensors, "is damaged: checkpoint-stage-2-epoch-2-1.safetensors has a wrong checksum"),
        (lose_tensors, "is damaged: .*No such file"),
        (cut_manifest, "cannot be read"),
        (empty_manifest, "cannot be read"),
        (garbage, "cannot be read"),
        (other_json, "is damaged: checkpoint.json is not a checkpoint's"),
        (someones_json, "is damaged: checkpoint.json is not a checkpoint's"),
        (incomplete, "belongs to another run: it has fingerprint None"),
        (newer, "has format 2, this version reads 1"),
    ],
)
def test_damage_is_named(broken_off, task, damage, message):
    damage(broken_off)
    with pytest.raises(CheckpointError, match=message) as caught:
        resume(broken_off, task)
    text = str(caught.value)
    assert text.startswith(f"The checkpoint in {broken_off} ")
    assert text.endswith("Use another folder, or delete this one.")
    assert "\n" not in text


def other_loss(update):
    return 2 * task_loss(update)


@dataclass(frozen=True)
class Weighted:
    weight: float

    def __call__(self, update):
        return self.weight * task_loss(update)


def second(**options):
    return (STAGES[0], replace(STAGES[1], **options))


@pytest.mark.parametrize(
    "options",
    [
        {"seed": 1},
        {"stages": STAGES[:1]},
        {"stages": tuneup(0.25, STAGES[0].schedule, STAGES[1].schedule)},
        {"stages": second(objective=other_loss)},
        {"stages": second(guard=False)},
        {"model": small_encoder(width=8)},
        {"model": small_encoder(dropout=0.4)},
        {"model": small_encoder(activation="elu")},
        {"model": small_encoder(architecture="sage-sum")},
        {"model": PygNet()},
        {"optimizer": sgd},
    ],
)
def test_another_runs_checkpoint_is_refused(broken_off, task, options):
    with pytest.raises(CheckpointError, match="belongs to another run"):
        resume(broken_off, task, **options)
    resume(broken_off, task)  # and is still there for its own


def test_another_tasks_checkpoint_is_refused(broken_off, task):
    for other in (
        replace(task, train=task.train[1:]),
        replace(task, label_validation=True),
        replace(task, prune=False),
        replace(task, metric="another score"),
    ):
        with pytest.raises(CheckpointError, match="belongs to another run"):
            resume(broken_off, other)


@pytest.mark.parametrize("change", ["weight", "extra step"])
def test_settings_inside_objectives_count(task, tmp_path, change):
    def stages(value):
        if change == "weight":
            return (Stage(schedule=Schedule(2), objective=Weighted(value)),)
        extra = ExtraStep("critic", task_loss, lr=value)
        return (Stage(schedule=Schedule(2), extra_steps=(extra,)),)

    modules = {"critic": small_encoder(seed=1)}
    resume(tmp_path, task, stages=stages(0.5), modules=modules)
    with pytest.raises(CheckpointError, match="belongs to another run"):
        resume(tmp_path, task, stages=stages(0.25), modules=modules)


def test_descriptions_are_the_same_in_every_process():
    """No address, whatever a stage is made of: it would differ at the next start."""
    for thing in (
        STAGES,
        list(STAGES),
        toy_curriculum(),
        adam,
        functools.partial(sgd, lr=0.1),
        Weighted(0.5),
        nn.ReLU(),
        object(),
    ):
        assert " at 0x" not in describe(thing)
    assert describe(STAGES) == describe(list(STAGES))
    assert describe(Weighted(0.5)) != describe(Weighted(0.6))
    assert describe(functools.partial(sgd, lr=0.1)) != describe(functools.partial(sgd, lr=0.2))


def test_several_modules_are_told_apart(task, tmp_path):
    with pytest.raises(Stop):
        train(
            small_encoder(),
            task,
            toy_curriculum(),
            modules=toy_modules(),
            checkpoints=Checkpoints(tmp_path, 1),
            callback=stop_at(1, 2),
        )
    wider = {**toy_modules(), "student": PygNet()}
    with pytest.raises(CheckpointError, match="belongs to another run"):
        resume(tmp_path, task, stages=toy_curriculum(), modules=wider)


def test_bad_folders_are_refused_before_training(task, tmp_path):
    (tmp_path / "file").write_text("")
    told = []
    with pytest.raises(OutputError):
        resume(tmp_path / "file" / "below", task, callback=told.append)
    assert told == []
    with pytest.raises(InputError, match="every must be 1 epoch or more; got 0"):
        Checkpoints(tmp_path, 0)


# Records


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
