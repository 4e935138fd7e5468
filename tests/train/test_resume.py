"""A run that goes on from a checkpoint ends exactly as if it had never stopped."""

import pytest
import torch
from torch import nn

from tests.train.broken_runs import STAGES, Stop, assert_same, resume, sgd, stop_at
from tests.train.toy import Counter, Scripted, small_encoder
from tuneup.curriculum import Schedule, base, tuneup
from tuneup.train import train


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
