"""The store of stages: what runs share, how a killed one resumes, what a damaged file gives."""

import json
import os
import shutil
import threading
import warnings
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from torch import nn

from tests.train.broken_runs import STAGES, Stop, assert_same, resume, sgd, stop_at
from tests.train.toy import (
    Counter,
    PygNet,
    Scripted,
    small_encoder,
    toy_curriculum,
    toy_modules,
)
from tuneup.curriculum import CURRICULA, Schedule, Stage, base, tuneup
from tuneup.errors import CheckpointError, InputError, OutputError
from tuneup.train import Checkpoints, train
from tuneup.train.checkpoints import Entry


def trained(told):
    """The stages that were trained, of what a callback was called with."""
    return sorted({each.stage for each in told})


def stored(folder):
    return sorted(path.name.split("-")[0] for path in folder.glob("*.safetensors"))


# Resuming


@pytest.mark.parametrize(
    ("broken_off_at", "goes_on_at"),
    [
        ((1, 1), (1, 1)),  # every second epoch is stored
        ((1, 4), (1, 5)),
        ((2, 1), (2, 1)),  # and the end of each stage
        ((2, 3), (2, 3)),
    ],
)
def test_resuming_is_exact(task, whole, tmp_path, broken_off_at, goes_on_at):
    with pytest.raises(Stop):
        resume(tmp_path, task, callback=stop_at(*broken_off_at))
    told = []
    assert_same(resume(tmp_path, task, callback=told.append), whole)
    assert (told[0].stage, told[0].epoch) == goes_on_at
    told.clear()
    assert_same(resume(tmp_path, task, callback=told.append), whole)
    assert told == []


def test_a_best_state_from_before_the_break_is_restored(tmp_path):
    stages = base(Schedule(6))
    task = Scripted((0, 1, 9, 2, 3, 4, 5))
    with pytest.raises(Stop):
        resume(tmp_path, task, Counter(), stages, callback=stop_at(1, 5))
    result = resume(tmp_path, task, Counter(), stages)
    assert (result.record.stages[0].best_epoch, result.record.stages[0].best_score) == (2, 9)
    assert int(result.model.steps) == 2


def test_a_stage_that_is_not_yet_validated_is_stored_as_json(task, tmp_path):
    """It has no best score: -Infinity is not JSON."""
    stages = base(Schedule(4, validate_every=4))
    with pytest.raises(Stop):
        resume(tmp_path, task, stages=stages, callback=stop_at(1, 3))
    (path,) = tmp_path.glob("*.safetensors")
    with safe_open(path, "pt") as file:
        assert json.loads(file.metadata()["stage"])["record"]["best_score"] is None
        kinds = {name.split("/")[0] for name in list(file.keys())}
    assert kinds == {"module", "best", "optimizer"}
    assert_same(resume(tmp_path, task, stages=stages), train(small_encoder(), task, stages))


def amsgrad(parameters, lr, weight_decay):
    parameters = list(parameters)
    groups = [{"params": parameters[:1], "lr": lr / 10}, {"params": parameters[1:]}]
    return torch.optim.AdamW(groups, lr=lr, weight_decay=weight_decay, amsgrad=True)


@pytest.mark.parametrize("optimizer", [sgd, amsgrad])
def test_any_optimiser_is_resumed(task, tmp_path, optimizer):
    stages = tuneup(0.5, Schedule(4, lr=0.01, milestones=(2,)), Schedule(4, lr=0.01))
    options = {"stages": stages, "optimizer": optimizer}
    for place in ((1, 3), (2, 3)):
        with pytest.raises(Stop):
            resume(tmp_path, task, **options, callback=stop_at(*place))
    expected = train(small_encoder(), task, stages, optimizer=optimizer)
    assert_same(resume(tmp_path, task, **options), expected)


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


def test_a_run_from_other_weights_begins_anew_and_says_so(task, tmp_path):
    with pytest.raises(Stop):
        resume(tmp_path, task, callback=stop_at(1, 3))
    told = []
    with pytest.warns(UserWarning, match="call torch.manual_seed before the model is built"):
        resume(tmp_path, task, small_encoder(seed=1), callback=told.append)
    assert told[0].epoch == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resume(tmp_path, task)


# Sharing


@pytest.mark.parametrize("in_memory", [True, False])
def test_runs_that_begin_alike_train_their_first_stage_once(task, tmp_path, in_memory):
    store = Checkpoints() if in_memory else Checkpoints(tmp_path)
    names = ("base", "tuneup", "without-syn-tails", "dropedge", "tuneup")
    new = []
    for name in names:
        stages = CURRICULA[name](0.5, STAGES[0].schedule, STAGES[1].schedule)
        told = []
        found = train(small_encoder(), task, stages, checkpoints=store, callback=told.append)
        new.append(trained(told))
        alone = train(small_encoder(), task, stages)
        assert_same(found, alone)
        assert [s.digest for s in found.record.stages] == [s.digest for s in alone.record.stages]
    assert new == [[1], [2], [2], [1], []]
    assert stored(tmp_path) == ([] if in_memory else ["stage"] * 4)


def test_later_modules_do_not_decide_earlier_stages(task):
    """Base knows nothing of a student that another method trains from it."""
    store, told = Checkpoints(), []
    train(small_encoder(), task, base(Schedule(3)), checkpoints=store)
    stages = (*base(Schedule(3)), Stage(module="student", schedule=Schedule(3)))
    options = {"modules": {"student": PygNet()}, "callback": told.append}
    found = train(small_encoder(), task, stages, checkpoints=store, **options)
    assert trained(told) == [2]
    assert_same(found, train(small_encoder(), task, stages, modules={"student": PygNet()}))


def test_every_module_is_restored_that_a_stage_trained(task, tmp_path):
    """An adversary's last weights are no stage's best state, and are needed all the same."""
    stages = toy_curriculum()
    whole = train(small_encoder(), task, stages, modules=toy_modules())
    for count in (1, 2, 3):
        part = stages[:count]
        found = train(
            small_encoder(), task, part, modules=toy_modules(), checkpoints=Checkpoints(tmp_path, 3)
        )
    assert_same(found, whole)
    for name, module in whole.modules.items():
        for key, value in module.state_dict().items():
            assert torch.equal(found.modules[name].state_dict()[key], value), f"{name} {key}"


def test_fresh_trains_again_and_replaces(task, whole, tmp_path):
    resume(tmp_path, task)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("stage-*.safetensors")}
    told = []
    assert_same(resume(tmp_path, task, fresh=True, callback=told.append), whole)
    assert trained(told) == [1, 2]
    after = {path: path.stat().st_mtime_ns for path in tmp_path.glob("stage-*.safetensors")}
    assert after.keys() == before.keys()
    assert all(after[path] > before[path] for path in before)


def test_two_threads_train_a_stage_once(task, whole, tmp_path):
    told, results = [], []

    def work(model):
        results.append(resume(tmp_path, task, model, callback=told.append))

    threads = [threading.Thread(target=work, args=(small_encoder(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == len(whole.record.curves())
    assert len(results) == 3
    for result in results:
        assert result.record.curves() == whole.record.curves()


# Files


def test_nothing_is_pickled_and_nothing_else_is_touched(task, tmp_path, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("pickle was used")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(f"pickle.{name}", never)
    monkeypatch.setattr("torch.save", never)
    monkeypatch.setattr("torch.load", never)
    mine = [tmp_path / "model.safetensors", tmp_path / "best.safetensors.bak"]
    for path in mine:
        path.write_bytes(b"mine")
    with pytest.raises(Stop):
        resume(tmp_path, task, callback=stop_at(2, 1))
    (digest,) = {path.name[6:-12] for path in tmp_path.glob("stage-*.safetensors")}
    killed = tmp_path / f".progress-{digest}.0a1b2c3d.partial.safetensors"
    killed.write_bytes(b"x")
    resume(tmp_path, task, fresh=True)
    assert not killed.exists()
    assert all(path.read_bytes() == b"mine" for path in mine)
    assert stored(tmp_path) == ["model.safetensors", "stage", "stage"]


def test_a_kill_leaves_nothing_that_is_not_removed(tmp_path):
    """Whatever lies in the folder while a stage is written is known to the next that locks it."""
    store = Checkpoints(tmp_path)
    seen, done = set(), threading.Event()

    def watch():
        while not done.is_set():
            seen.update(path.name for path in tmp_path.iterdir())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(3):
        store.save_progress("a-b", Entry({"x": torch.zeros(4_000_000)}, {}))
    done.set()
    watcher.join()
    assert seen - {"progress-a-b.safetensors"}, "nothing was seen of the writing"
    for name in seen:
        (tmp_path / name).touch()
    with store.locked("a-b"):
        left = {path.name for path in tmp_path.iterdir()}
    assert left == {"progress-a-b.safetensors", "stage-a-b.lock"}


def flip(path):
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


def change_record(path):
    path.write_bytes(path.read_bytes().replace(b"best_epoch", b"best_epech", 1))


def newer(path):
    path.write_bytes(path.read_bytes().replace(b'"format":"3"', b'"format":"4"', 1))


DAMAGES = {
    "is damaged: its checksum is wrong": flip,
    "is damaged: its checksum": change_record,
    "is damaged": lambda path: os.truncate(path, path.stat().st_size // 2),
    "is damaged: ": lambda path: path.write_bytes(b""),
    "is damaged: .*": lambda path: path.write_bytes(b"\xff\xfe\x00garbage"),
    "has format 4; this version reads 3": newer,
}


@pytest.mark.parametrize("kind", ["stage", "progress"])
def test_damage_is_named(broken_off, task, whole, tmp_path, kind):
    for number, (message, damage) in enumerate(DAMAGES.items()):
        folder = tmp_path / str(number)
        shutil.copytree(broken_off, folder, ignore=shutil.ignore_patterns("[0-9]"))
        (path,) = folder.glob(f"{kind}-*.safetensors")
        damage(path)
        with pytest.raises(CheckpointError, match=message) as caught:
            resume(folder, task)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert_same(resume(folder, task, fresh=True), whole)


def test_bad_arguments_are_refused_before_training(task, tmp_path):
    (tmp_path / "file").write_text("")
    told = []
    with pytest.raises(OutputError):
        resume(tmp_path / "file" / "below", task, callback=told.append)
    with pytest.raises(InputError, match="must be a folder or Checkpoints"):
        train(small_encoder(), task, STAGES, checkpoints=3, callback=told.append)
    with pytest.raises(InputError, match="every must be 1 epoch or more; got 0"):
        Checkpoints(tmp_path, 0)
    assert told == []


def test_a_lost_task_changes_every_stage(task):
    """Data, options and metric are part of what decides a stage."""
    store = Checkpoints()
    train(small_encoder(), task, STAGES, checkpoints=store)
    for other in (
        replace(task, train=task.train[1:]),
        replace(task, label_validation=True),
        replace(task, prune=False),
        replace(task, metric="macro-f1"),
    ):
        told = []
        train(small_encoder(), other, STAGES, checkpoints=store, callback=told.append)
        assert trained(told) == [1, 2]
