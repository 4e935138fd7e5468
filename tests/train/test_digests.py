"""Digests: equal for equal runs, in every process; different for whatever decides the weights."""

import functools
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch_geometric.nn import GraphSAGE

from tests.train.broken_runs import STAGES, sgd
from tests.train.toy import (
    NUM_CLASSES,
    NUM_FEATURES,
    PygNet,
    small_encoder,
    small_task,
    toy_curriculum,
    toy_modules,
)
from tuneup.curriculum import ExtraStep, Schedule, Stage, task_loss, tuneup
from tuneup.errors import InputError
from tuneup.train import SlowModule, adam, describe, stage_digests

ROOT = Path(__file__).parents[2]


def digests(model=None, stages=STAGES, seed=0, optimizer=adam, task=None, **modules):
    named = {"model": small_encoder() if model is None else model, **modules}
    return stage_digests(named, task or small_task(), tuple(stages), seed, optimizer)


def other_loss(update):
    return 2 * task_loss(update)


@dataclass(frozen=True)
class Weighted:
    weight: float
    cache: dict = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, update):
        return self.weight * task_loss(update)


def step_lr(size):
    return lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, size)


class Gain(nn.Module):
    def __init__(self, function, **settings):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(1))
        vars(self).update(settings)


class Reader(Gain):
    reading_settings = ("least",)


def frozen(model):
    model.convs[0].requires_grad_(False)
    return model


def sage(**options) -> GraphSAGE:
    torch.manual_seed(0)
    return GraphSAGE(NUM_FEATURES, 8, num_layers=2, out_channels=NUM_CLASSES, **options)


def second(**options):
    return (STAGES[0], replace(STAGES[1], **options))


def test_equal_runs_have_equal_digests():
    assert digests() == digests(stages=list(STAGES)) == digests(small_encoder().eval())
    assert digests(sage(dropout=0.5)) == digests(sage(dropout=0.5))
    assert digests(optimizer=functools.partial(sgd)) == digests(optimizer=functools.partial(sgd))
    assert digests(stages=second(objective=Weighted(2, {1: 2}))) == digests(
        stages=second(objective=Weighted(2))
    )
    assert len(set(digests())) == 2


def test_what_decides_the_first_stage_changes_both():
    plain = set(digests())
    for options in (
        {"seed": 1},
        {"optimizer": sgd},
        {"optimizer": functools.partial(adam, weight_decay=1.0)},
        {"model": small_encoder(seed=1)},
        {"model": small_encoder(width=8)},
        {"model": small_encoder(dropout=0.4)},
        {"model": small_encoder(activation="elu")},
        {"model": small_encoder(architecture="sage-sum")},
        {"model": frozen(small_encoder())},
        {"model": PygNet()},
        {"stages": tuneup(0.5, Schedule(6, lr=0.01), STAGES[1].schedule)},
    ):
        assert not plain & set(digests(**options)), options


def test_a_later_stage_leaves_the_digests_before_it():
    extra = ExtraStep("critic", task_loss, lr=0.5)
    for stages in (
        tuneup(0.25, STAGES[0].schedule, STAGES[1].schedule),
        second(objective=other_loss),
        second(objective=Weighted(0.5)),
        second(optimizer=SlowModule(small_encoder(), 0.5)),
        second(pseudo_labels=False),
        second(extra_steps=(extra,)),
    ):
        modules = {"critic": PygNet()} if stages[1].extra_steps else {}
        found = digests(stages=stages, **modules)
        assert found[0] == digests()[0]
        assert found[1] != digests()[1]


def test_only_modules_that_a_stage_can_read_decide_it():
    stages, modules = toy_curriculum(), toy_modules()
    plain = digests(stages=stages, **modules)
    other = digests(stages=stages, **{**modules, "student": PygNet()})
    assert [one == two for one, two in zip(plain, other, strict=True)] == [True, True, False]


def test_settings_that_pygs_repr_hides_count():
    plain = sage(dropout=0.5)
    for options in ({"dropout": 0.0}, {"aggr": "max"}, {"act": "elu"}):
        other = sage(**{"dropout": 0.5, **options})
        assert repr(plain) == repr(other)
        assert digests(plain) != digests(other)


def test_plain_attributes_count_unless_they_only_change_the_reading():
    def first(*settings, kind=Gain, **named):
        return digests(kind(*settings, **named))[0]

    assert first(torch.relu) == first(torch.relu) != first(torch.sigmoid)
    assert first([0.5]) == first((0.5,)) != first([0.1])
    assert first({"eps": 1}) != first({"eps": 2})
    assert first(None, least=1) != first(None, least=2)
    assert first(None, least=1, kind=Reader) == first(None, least=2, kind=Reader)
    assert first(object()) == first(object())  # no setting that could be described


def test_functions_are_known_by_name_and_what_is_bound_to_them():
    assert describe(other_loss) == f"{__name__}.other_loss"
    assert describe(step_lr(3)) == describe(step_lr(3)) != describe(step_lr(4))
    assert describe(lambda x: x) != describe(
        lambda x: x  # on another line
    )
    assert describe(functools.partial(sgd, lr=0.1)) != describe(functools.partial(sgd, lr=0.2))
    assert describe(Schedule) == "tuneup.Schedule"  # its file may be renamed
    slow = describe(SlowModule(nn.Linear(1, 1), 0.5))
    assert slow["class"] == "tuneup.SlowModule"
    assert slow["rate"] == 0.5
    assert describe({"a": (1, float("inf"))}) == {"a": [1, "inf"]}
    assert describe({3, 1, 2}) == [1, 2, 3]
    assert describe(torch.ones(2)) == describe(torch.ones(2)) != describe(torch.ones(3))


PROBE = """
from tests.train.test_digests import digests
from tests.train.toy import toy_curriculum, toy_modules
print(*digests(stages=toy_curriculum(), **toy_modules()))
"""


def test_digests_are_the_same_in_every_process():
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", PROBE],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**__import__("os").environ, "PYTHONHASHSEED": seed},
        )
        assert tuple(done.stdout.split()) == digests(stages=toy_curriculum(), **toy_modules())


def test_a_slow_module_has_a_rate_of_its_own():
    model = nn.ModuleDict({"slow": nn.Linear(2, 3), "fast": nn.Linear(3, 1)})
    factory = SlowModule(model["slow"], 0.01)
    groups = factory(model.parameters(), 0.1, 0.0).param_groups
    assert [group["lr"] for group in groups] == [0.1, pytest.approx(0.001)]
    assert [id(p) for p in groups[1]["params"]] == [id(p) for p in model["slow"].parameters()]
    assert len(factory(model["fast"].parameters(), 0.1, 0.0).param_groups) == 1
    with pytest.raises(InputError, match="rate is a share"):
        SlowModule(model["slow"], 2.0)


def test_a_stage_is_described_by_its_settings():
    assert describe(Stage())["class"] == "tuneup.Stage"
    assert describe(Stage())["schedule"]["epochs"] == 300
