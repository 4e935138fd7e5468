"""Averages of the weights of Base and stage 2, and the one that is selected."""

import json
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from tests.train.loop_toys import same
from tests.train.toy import Counter, PygNet, Scripted, small_encoder, small_task
from tuneup.curriculum import Schedule, Stage, base, tuneup
from tuneup.errors import InputError
from tuneup.train import TrainingRecord, blend, train
from tuneup.train.selection import WEIGHTS, obstacle

BRIEF = Schedule(epochs=6, lr=0.02, validate_every=2)
STAGES = tuneup(0.5, BRIEF, BRIEF)


@pytest.fixture(scope="module")
def task():
    return small_task()


def turned(task, model=None, **options):
    return train(model or small_encoder(), task, STAGES, seed=3, final="dial", **options)


@pytest.mark.parametrize("selection", ["transductive", "balanced"])
def test_the_best_average_is_the_result(task, selection):
    task = replace(task, selection=selection)
    result = turned(task)
    dial = result.record.dial
    assert dial.weights == WEIGHTS
    for weight, score in zip(dial.weights, dial.scores, strict=True):
        model, naive = result.interpolate(weight), small_encoder()
        ends = (result.states[0], result.states[1])
        naive.load_state_dict({k: (1 - weight) * ends[0][k] + weight * ends[1][k] for k in ends[0]})
        for mine, theirs in zip(model.parameters(), naive.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs)
        assert task.validate(model) == pytest.approx(score)
    best = max(dial.scores)
    assert dial.score == best == result.record.validation
    assert best >= task.validate(result.copy(0))
    assert dial.chosen == max(w for w, s in zip(WEIGHTS, dial.scores, strict=True) if s == best)
    assert same(result.model.state_dict(), result.interpolate(dial.chosen).state_dict())
    assert same(result.model.state_dict(), result.best().state_dict())
    assert not result.model.training


def test_the_curve_shows_every_ratio_whatever_the_selection(task):
    dial = turned(task).record.dial
    assert sorted(dial.by_ratio) == [0.0, 0.3, 0.6, 0.9]
    assert dial.by_ratio[0.0] == dial.scores


def test_the_ends_are_the_stages_bit_for_bit(task):
    result = turned(task)
    for weight in (0, 1):
        assert same(result.interpolate(weight).state_dict(), result.states[weight])


def test_batch_statistics_are_those_of_the_average(task):
    result = turned(task, PygNet())
    model = result.interpolate(0.4)
    assert isinstance(model, PygNet)
    h = model.first(task.data.x, task.graph.edge_index)
    torch.testing.assert_close(model.norm.running_mean, h.mean(0))
    torch.testing.assert_close(model.norm.running_var, h.var(0))
    assert model.norm.momentum == 0.1
    assert not model.norm.training


class Rounded(nn.Module):
    """A linear model with whole numbers that training changes."""

    takes_adjacency = True

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 3)
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x, graph):
        self.seen += self.training
        return self.linear(x)


def test_weights_without_an_average_fall_back_to_the_ends(task):
    result = turned(task, Rounded())
    dial = result.record.dial
    assert dial.weights == (0.0, 1.0)
    assert dial.ends_only == "seen holds torch.int64, which has no average"
    with pytest.raises(InputError, match="cannot be averaged: seen holds"):
        result.interpolate(0.5)


def test_shared_parameters_stay_shared(task):
    class Twice(nn.Module):
        takes_adjacency = True

        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)
            self.second, self.out = self.first, nn.Linear(8, 3)

        def forward(self, x, graph):
            return self.out(self.second(self.first(x).relu()))

    model = turned(task, Twice()).interpolate(0.5)
    assert model.first.weight is model.second.weight


def test_states_that_have_no_average():
    one = {"w": torch.ones(2), "n": torch.tensor(1)}
    assert obstacle(one, one) == ""
    assert blend(one, {"w": torch.zeros(2), "n": torch.tensor(1)}, 0.25)["w"].tolist() == [0.75] * 2
    assert "two shapes" in obstacle(one, {**one, "w": torch.ones(3)})
    assert "same parameters" in obstacle(one, {"w": torch.ones(2)})


class Whole(nn.Module):
    """One weight, to which every update adds 1."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))


def add_one(update):
    return -update.trained.weight.sum()


@dataclass(frozen=True, eq=False)
class Overflowing(Scripted):
    """No score for what lies between the ends."""

    def validate(self, model):
        value = float(model.weight)
        return value if value.is_integer() else float("nan")


def test_an_average_that_diverges_is_not_selected():
    stage = Stage(schedule=Schedule(1, lr=1.0), objective=add_one)
    task = Overflowing((0.0,))
    result = train(Whole(), task, (stage, stage), optimizer=_sgd, final="dial")
    assert result.record.dial.chosen == 1.0
    assert list(result.record.dial.by_ratio) == [0.0]  # a task without cold copies


def _sgd(parameters, lr, decay):
    return torch.optim.SGD(parameters, lr)


def test_a_resumed_run_turns_the_same_dial(task, tmp_path):
    first = turned(task, checkpoints=tmp_path)
    again = turned(task, checkpoints=tmp_path)
    assert again.record.dial == first.record.dial
    assert same(again.model.state_dict(), first.model.state_dict())


def test_a_record_survives_json(task):
    record = turned(task).record
    text = json.dumps(record.to_json(), allow_nan=False)
    assert TrainingRecord.from_json(json.loads(text)) == record
    assert record.weight == record.dial.chosen


def test_one_stage_has_no_dial(task):
    result = train(small_encoder(), task, base(BRIEF), final="dial")
    assert result.record.dial is None
    assert same(result.best().state_dict(), result.states[0])
    with pytest.raises(InputError, match="two stages"):
        result.interpolate(0.5)
    with pytest.raises(InputError, match="0 to 1; got 2"):
        result.interpolate(2)


def test_a_stage_that_was_still_improving_is_marked():
    rising = Scripted(tuple(range(40)))
    plan = Stage(schedule=Schedule(10, lr=0.1))
    record = _train_counter(rising, plan)
    assert record.unfinished
    flat = Scripted((0, 5, 6, *[1] * 40))
    assert not _train_counter(flat, plan).unfinished
    patient = Stage(schedule=Schedule(10, lr=0.1, patience=4))
    assert not _train_counter(flat, patient).unfinished


def _train_counter(task, stage):
    return train(Counter(), task, (stage,), optimizer=_sgd).record.stages[0]
