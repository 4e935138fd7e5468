"""When numbers stop being finite: a clear error, the best state in the model, a usable folder."""

import re
from dataclasses import dataclass, replace

import pytest
import torch

from tests.train.toy import small_encoder
from tuneup.curriculum import ExtraStep, Schedule, Stage, Update, base, task_loss, tuneup
from tuneup.errors import DivergenceError
from tuneup.train import Checkpoints, train
from tuneup.train.optimizers import NotFiniteError, adam, step

SCHEDULE = Schedule(epochs=6, lr=0.01, milestones=(4,), gamma=0.5)


@dataclass(frozen=True)
class BreakAt:
    """The task's loss, spoilt at one epoch: in its value, or only in its gradient."""

    epoch: int
    how: str

    def __call__(self, update: Update) -> torch.Tensor:
        loss = task_loss(update)
        if update.moment.step + 1 != self.epoch:
            return loss
        if self.how == "gradient":  # the derivative of sqrt at 0 is infinite
            weight = next(update.trained.parameters()).flatten()[0]
            return loss + torch.sqrt((weight - weight.detach()) * 0.0)
        return loss * float(self.how)


def finite(model) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in model.state_dict().values())


def same(first, second) -> bool:
    return all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.mark.parametrize("how", ["nan", "inf", "gradient"])
@pytest.mark.parametrize("stage", [1, 2])
def test_a_loss_or_gradient_that_is_not_finite(task, tmp_path, how, stage):
    spoilt = Stage(schedule=SCHEDULE, objective=BreakAt(5, how))
    good = base(replace(SCHEDULE, epochs=4))
    curriculum = (spoilt,) if stage == 1 else (*good, spoilt)
    model, told = small_encoder(), []
    with pytest.raises(DivergenceError) as caught:
        train(model, task, curriculum, checkpoints=Checkpoints(tmp_path, 1), callback=told.append)
    text = str(caught.value)
    assert "\n" not in text
    assert f"Stage {stage}, epoch 5:" in text
    assert "learning rate 0.005" in text  # after its milestone
    assert ("a gradient is not finite" if how == "gradient" else f"the loss is {how}") in text
    # The model holds the best of the four good epochs.
    stopped = replace(SCHEDULE, epochs=4)
    healthy = (*curriculum[:-1], Stage(schedule=stopped))
    best = train(small_encoder(), task, healthy, final="best")
    record = best.record.stages[best.record.winner]
    if best.record.winner == stage - 1:
        assert f"epoch {record.best_epoch}, accuracy {record.best_score:.4f}" in text
    else:  # an earlier stage that validated better
        assert f"stage 1's best, accuracy {record.best_score:.4f}" in text
    assert same(model.state_dict(), best.states[best.record.winner])
    assert finite(model)
    assert all(parameter.grad is None for parameter in model.parameters())
    # The folder can be gone on from: the same error, at once, without a repeated epoch.
    again = []
    with pytest.raises(DivergenceError, match=re.escape(text)):
        train(
            small_encoder(),
            task,
            curriculum,
            checkpoints=Checkpoints(tmp_path, 1),
            callback=again.append,
        )
    assert again == []
    assert len(told) == (4 if stage == 1 else 8)


def test_before_anything_was_validated_the_start_is_kept(task):
    model = small_encoder()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    broken = (Stage(schedule=SCHEDULE, objective=BreakAt(1, "nan")),)
    with pytest.raises(DivergenceError, match="the state that stage 1 began with"):
        train(model, task, broken)
    assert same(model.state_dict(), start)


def test_a_step_that_ruins_the_weights_is_divergence(task):
    """Loss and gradient are finite, but the step is so long that the next answers are NaN."""
    model = small_encoder()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(DivergenceError, match=r"Stage 1, epoch 1: .*learning rate 1e\+30"):
        train(model, task, base(Schedule(epochs=5, lr=1e30)))
    assert finite(model)
    assert same(model.state_dict(), start)


def test_the_same_between_two_validations(task):
    model = small_encoder()
    with pytest.raises(DivergenceError, match="Stage 1, epoch 2: the loss is nan"):
        train(model, task, base(Schedule(epochs=5, lr=1e30, validate_every=5)))
    assert finite(model)


def not_a_number(modules, task):
    return float("nan")


def test_a_score_that_is_not_a_number(task):
    stage = Stage(schedule=SCHEDULE, score=not_a_number)
    with pytest.raises(DivergenceError, match="Stage 1, epoch 1: validation gives nan"):
        train(small_encoder(), task, (stage,))


def test_an_adversary_that_diverges(task):
    stage = Stage(schedule=SCHEDULE, extra_steps=(ExtraStep("critic", BreakAt(3, "nan"), lr=0.02),))
    model, critic = small_encoder(), small_encoder(seed=1)
    with pytest.raises(DivergenceError, match="Stage 1, epoch 3"):
        train(model, task, (stage,), modules={"critic": critic})
    assert finite(model)
    assert finite(critic)


def test_huge_learning_rate_in_stage_2_keeps_a_state_of_stage_1(task):
    model = small_encoder()
    curriculum = tuneup(0.5, SCHEDULE, replace(SCHEDULE, lr=1e30))
    with pytest.raises(DivergenceError, match="stage 1's best, accuracy"):
        train(model, task, curriculum)
    base_run = train(small_encoder(), task, base(SCHEDULE))
    assert same(model.state_dict(), base_run.states[0])


# The step itself


def test_a_refused_step_changes_nothing():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = adam([weight], 0.1, 0.0)
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    with pytest.raises(NotFiniteError, match="the loss is nan"):
        step(optimizer, (weight * float("nan")).sum(), 1.0)
    with pytest.raises(NotFiniteError, match="a gradient is not finite"):
        step(optimizer, torch.sqrt(weight - 1).sum(), 1.0)
    assert weight.tolist() == [1, 1]
    assert weight.grad is None
    assert not optimizer.state


def test_a_step_leaves_no_gradient_on_other_modules():
    mine, other = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
    unused = torch.nn.Parameter(torch.ones(1))
    optimizer = adam([mine, unused], 0.1, 0.0)
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    assert step(optimizer, (mine * other).sum(), 0.5) == 1.0
    assert float(mine.detach()) == pytest.approx(0.95)  # Adam's first step is the learning rate
    assert other.grad is None
    assert float(unused.detach()) == 1.0
