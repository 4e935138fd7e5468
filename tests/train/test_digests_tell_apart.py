"""Runs that differ in anything that decides training have different digests."""

from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from tuneup.curriculum import Schedule, Stage, tuneup
from tuneup.data import block_graph
from tuneup.errors import InputError
from tuneup.tasks import NodeClassification
from tuneup.train import Checkpoints, SlowModule, adam, train
from tuneup.train.digests import stage_digests

BRIEF = Schedule(2, lr=0.01)


def problem(kind=NodeClassification, **more):
    return kind(block_graph(60, 150, 3, 8, seed=0), torch.arange(30), torch.arange(30, 50), **more)


class Net(nn.Module):
    def __init__(self, **attributes):
        super().__init__()
        torch.manual_seed(0)
        self.lin = nn.Linear(8, 3)
        self.twin = nn.Linear(8, 3)
        self.__dict__.update(attributes)

    def forward(self, x, edge_index):
        return self.lin(x) * getattr(self, "scale", 1.0)


class Act:
    def __init__(self, power):
        self.power = power


def digest(model=None, *, optimizer=adam, stage=None, task=None):
    modules = {"model": Net() if model is None else model}
    found = stage_digests(
        modules, task or problem(), (stage or Stage(schedule=BRIEF),), 0, optimizer
    )
    return found[0]


def with_buffer(value):
    net = Net()
    net.register_buffer("mask", torch.full((3,), value), persistent=False)
    return net


def tied(*, really):
    net = Net()
    net.twin.weight = net.lin.weight if really else nn.Parameter(net.lin.weight.detach().clone())
    return net


def hooked(power):
    net = Net()
    net.register_forward_hook(partial(_raise_to, power))
    return net


def _raise_to(power, module, inputs, output):
    return output**power


@dataclass(frozen=True)
class Weighted:
    weight: torch.Tensor = field(compare=False)

    def __call__(self, update):
        return update.trained(update.task.data.x, None).sum() * self.weight.sum()


@dataclass(frozen=True, eq=False)
class Smooth(NodeClassification):
    smoothing: float = 0.0


def closure(values):
    return lambda update: values.sum()


PAIRS = {
    "tensor": lambda k: digest(Net(scale=torch.tensor(float(k)))),
    "array": lambda k: digest(Net(scale=np.full(3, k))),
    "namespace": lambda k: digest(Net(config=SimpleNamespace(dropout=k))),
    "callable object": lambda k: digest(Net(act=Act(k))),
    "set": lambda k: digest(Net(parts={k})),
    "whole-number keys": lambda k: digest(Net(rates={0: k})),
    "tensor beside a number": lambda k: digest(Net(parts={"p": k, "w": torch.ones(1)})),
    "hidden teacher": lambda k: digest(Net(teacher=[nn.Linear(2, 1 + k)])),
    "buffer that is not saved": lambda k: digest(with_buffer(float(k))),
    "tied parameters": lambda k: digest(tied(really=bool(k))),
    "hook": lambda k: digest(hooked(k)),
    "objective": lambda k: digest(
        stage=Stage(schedule=BRIEF, objective=Weighted(torch.full((1,), float(k))))
    ),
    "closure": lambda k: digest(stage=Stage(schedule=BRIEF, objective=closure(np.full(2, k)))),
    "task": lambda k: digest(task=problem(Smooth, smoothing=0.1 * k)),
}


@pytest.mark.parametrize("make", PAIRS.values(), ids=PAIRS)
def test_what_decides_training_is_in_the_digest(make):
    assert make(0) != make(1)
    assert make(1) == make(1)


def test_a_slow_module_is_told_from_another():
    net = Net()
    one, other = (digest(net, optimizer=SlowModule(part, 0.1)) for part in (net.lin, net.twin))
    assert one != other


def test_what_cannot_be_compared_is_described_all_the_same():
    net = Net()
    net.register_buffer("sparse", torch.eye(3).to_sparse())

    def recursive(update):
        return recursive

    assert digest(net, stage=Stage(schedule=BRIEF, objective=recursive))


def test_a_stopped_fresh_run_never_goes_on_with_old_stages(tmp_path):
    store, stages = Checkpoints(tmp_path), tuneup(0.5, BRIEF, BRIEF)

    class StopError(Exception):
        pass

    def stop(progress):
        if progress.stage == 2:
            raise StopError

    def run(scale, **more):
        torch.manual_seed(0)
        return train(Net(), problem(), stages, checkpoints=store, **more)

    run(1.0)
    with pytest.raises(StopError):
        run(1.0, fresh=True, callback=stop)
    seen = []
    run(1.0, callback=lambda progress: seen.append((progress.stage, progress.epoch)))
    assert (2, 2) in seen


def test_control_is_refused_before_training():
    def fail(progress):
        raise AssertionError("an epoch was trained")

    with pytest.raises(InputError, match="two stages"):
        train(Net(), problem(), (Stage(schedule=BRIEF),), control=True, callback=fail)
