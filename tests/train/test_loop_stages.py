"""Stages: which state is kept, when a stage stops, and which one is the result."""

from dataclasses import replace

import pytest
import torch

from tests.train.loop_toys import ten
from tests.train.toy import Counter, Scripted
from tuneup.curriculum import Schedule, Stage
from tuneup.train import train


def sgd(parameters, lr, weight_decay):
    return torch.optim.SGD(parameters, lr=lr)


def scripted(scores, curriculum, **options):
    return train(Counter(), Scripted(tuple(scores)), curriculum, optimizer=sgd, **options)


def plan(epochs, **options):
    return Stage(schedule=Schedule(epochs, lr=0.1, **options))


def test_the_best_state_is_kept_and_the_first_of_equals():
    result = scripted([0, 1, 5, 2, 5, 3], (plan(5),))
    stage = result.record.stages[0]
    assert (stage.best_epoch, stage.best_score) == (2, 5)
    assert int(result.states[0]["steps"]) == 2
    assert int(result.model.steps) == 2
    assert [epoch.score for epoch in stage.epochs] == [1, 5, 2, 5, 3]
    assert stage.stopped == "ran all 5 epochs"


def test_stage_2_starts_from_the_best_weights_with_a_fresh_optimiser():
    made = []

    def watched(parameters, lr, weight_decay):
        made.append(torch.optim.Adam(parameters, lr=lr))
        made[-1].empty_at_birth = not made[-1].state
        return made[-1]

    task = Scripted((0, 1, 9, 2, 3, 10))
    model = Counter()
    result = train(model, task, (plan(4), plan(3)), optimizer=watched)
    # Stage 1 keeps the state after 2 updates; stage 2 counts on from there.
    assert [epoch.score for epoch in result.record.stages[1].epochs] == [2, 3, 10]
    assert len(made) == 2
    assert all(optimizer.empty_at_birth for optimizer in made)
    assert int(made[1].state[model.weight]["step"]) == 3
    weight = result.states[0]["weight"]
    assert result.record.stages[1].epochs[0].loss == pytest.approx(float(weight.square()))


def test_validation_comes_when_it_is_due_and_at_the_end():
    stage = scripted(range(20), (plan(8, validate_every=3),)).record.stages[0]
    assert [epoch.score for epoch in stage.epochs] == [None, None, 3, None, None, 6, None, 8]
    assert [epoch.epoch for epoch in stage.epochs] == list(range(1, 9))


@pytest.mark.parametrize(
    ("scores", "options", "stops_at"),
    [
        ([0, 1, 2, 3, 3, 3, 3, 9], {"patience": 3}, 6),
        ([0, 1, 2, 3, 3, 3, 4, 4, 4, 4], {"patience": 3}, 9),
        ([0, 1, 2, 3, 3, 4, 4, 4, 4, 9], {"patience": 3}, 8),
        ([0] * 20, {"patience": 2}, 3),
        # Nothing is counted before the last step of the learning rate ...
        ([0, 5, 4, 4, 4, 4, 4, 4, 4, 4, 4], {"patience": 2, "milestones": (4, 6)}, 8),
        # ... and a step that never comes is no reason to wait.
        ([0, 5, 4, 4, 4, 4], {"patience": 2, "milestones": (99,)}, 3),
        # An epoch that is not validated cannot be without a better score.
        ([0, 1, 2, 3, 9, 5, 6, 7, 9, 9], {"patience": 2, "validate_every": 4}, 8),
        ([0, 1, 2, 3, 9, 5, 6, 7, 10], {"patience": 3, "validate_every": 4}, 10),
    ],
)
def test_patience(scores, options, stops_at):
    stage = scripted(scores, (plan(10, **options),)).record.stages[0]
    assert len(stage.epochs) == stops_at
    assert stage.epochs[-1].score is not None
    if stops_at < 10:
        since = stops_at - stage.best_epoch
        assert (
            stage.stopped == f"no better points for {since} epochs after epoch {stage.best_epoch}"
        )


def test_the_learning_rate_follows_its_milestones():
    result = scripted([0] * 9, (plan(4, milestones=(1, 3), gamma=0.5),))
    epochs = result.record.stages[0].epochs
    assert [epoch.lr for epoch in epochs] == pytest.approx([0.1, 0.05, 0.05, 0.025])
    weight = 1.0
    for epoch in epochs:
        assert epoch.loss == pytest.approx(weight**2)
        weight -= epoch.lr * 2 * weight  # one step of gradient descent on w^2


def test_a_worse_second_stage_loses_but_is_remembered():
    model = Counter()
    stages = (plan(3), plan(3))
    result = train(model, Scripted((0, 1, 9, 2, 3, 4)), stages, optimizer=sgd, final="best")
    assert result.record.winner == 0
    assert [stage.best_score for stage in result.record.stages] == [9, 4]
    assert int(result.model.steps) == 2
    assert int(result.states[1]["steps"]) == 5
    assert int(result.load(1).steps) == 5


def test_the_callers_model_is_left_in_the_winning_state():
    model = Counter()
    stages = (plan(3), plan(3))
    train(model, Scripted((0, 1, 9, 2, 3, 4)), stages, optimizer=sgd, final="best")
    assert int(model.steps) == 2
    assert not model.training


@pytest.mark.parametrize(
    ("scores", "final", "winner"),
    [
        ((0, 9, 1, 9, 1), "best", 1),  # a tie goes to the later stage
        ((0, 9, 1, 8, 1), "best", 0),
        ((0, 9, 1, 8, 1), "last", 1),
        ((0, 8, 1, 9, 1), "best", 1),
    ],
)
def test_which_stage_is_the_result(scores, final, winner):
    # Stage 1 sees states 1 and 2 and keeps 1; stage 2 sees 2 and 3.
    result = scripted(scores, (plan(2), plan(2)), final=final)
    assert result.record.winner == winner
    assert result.record.stages[winner].best_score == scores[int(result.model.steps)]


def test_a_stage_with_a_score_of_its_own_never_wins():
    own = replace(plan(2), score=ten)
    assert scripted([0, 3, 2, 1], (plan(2), own)).record.winner == 0
    assert scripted([0, 3, 2, 1], (own, plan(2))).record.winner == 1
    assert scripted([0, 1, 2, 3, 4, 5], (plan(2), own, plan(2))).record.winner == 2
    assert scripted([0, 1, 2, 3], (own,)).record.winner == 0
    assert scripted([0, 1, 2, 3], (own, own)).record.winner == 1
