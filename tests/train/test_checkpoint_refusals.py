"""Checkpoints that are damaged or belong to another run are refused with a reason."""

import functools
import json
import os
from dataclasses import dataclass, replace

import pytest
from torch import nn

from tests.train.broken_runs import STAGES, Stop, resume, sgd, stop_at
from tests.train.toy import PygNet, small_encoder, toy_curriculum, toy_modules
from tuneup.curriculum import ExtraStep, Schedule, Stage, task_loss, tuneup
from tuneup.errors import CheckpointError, InputError, OutputError
from tuneup.train import Checkpoints, adam, train
from tuneup.train.state import describe


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
    (folder / "checkpoint.json").write_text('{"format": 2}')


def renamed(folder):
    path = folder / "checkpoint.json"
    path.write_text(path.read_text().replace('"lr":', '"rate":'))


def newer(folder):
    state = json.loads((folder / "checkpoint.json").read_text())
    (folder / "checkpoint.json").write_text(json.dumps({**state, "format": 3}))


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
        (incomplete, "is damaged: it does not say which run it belongs to"),
        (renamed, "is damaged .TypeError: Epoch"),
        (newer, "has format 3, this version reads 2"),
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
        {"stages": second(answers=True)},
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


def test_what_differs_is_said_in_words_of_options(broken_off, task):
    with pytest.raises(CheckpointError) as said:
        resume(broken_off, task, model=small_encoder(width=8), stages=second(answers=True))
    assert (
        "belongs to another run, which differs in the model (architecture, width, dropout and the "
        "like) and in the stages (alpha, epochs, learning rate, patience and the like). Use"
    ) in str(said.value)


def test_another_tasks_checkpoint_is_refused(broken_off, task):
    for other in (
        replace(task, train=task.train[1:]),
        replace(task, label_validation=True),
        replace(task, prune=False),
        replace(task, metric="macro-f1"),
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
