"""Torch's learning-rate schedulers: their rates, and that a killed run resumes with them."""

from functools import partial

import pytest
import torch
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    CyclicLR,
    LinearLR,
    OneCycleLR,
    ReduceLROnPlateau,
    StepLR,
)

import tuneup
from tuneup.curriculum import base
from tuneup.curriculum import tuneup as two_stages
from tuneup.data import block_graph
from tuneup.errors import InputError
from tuneup.tasks import NodeClassification
from tuneup.train import Checkpoints, train

EPOCHS = 12
SCHEDULE = tuneup.Schedule(epochs=EPOCHS, lr=0.01, validate_every=2)


def task():
    graph = block_graph(120, 400, 3, 8, seed=0)
    return NodeClassification(graph, torch.arange(30), torch.arange(30, 60))


def model():
    torch.manual_seed(0)
    return tuneup.Encoder(8, 3, width=8, num_layers=2)


def rates(result, stage=0):
    return [epoch.lr for epoch in result.record.stages[stage].epochs]


@pytest.mark.parametrize(
    "made",
    [
        partial(CosineAnnealingLR, T_max=EPOCHS),
        partial(CyclicLR, base_lr=0.002, max_lr=0.1, step_size_up=2, cycle_momentum=False),
        partial(LinearLR, start_factor=0.1, total_iters=4),
    ],
    ids=lambda made: made.func.__name__,
)
def test_rates_are_those_of_the_scheduler_in_each_stage(made):
    curriculum = two_stages(0.5, SCHEDULE, SCHEDULE)
    result = train(model(), task(), curriculum, scheduler=made)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.01)
    scheduler, wanted = made(optimizer), []
    for _ in range(EPOCHS):
        wanted.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates(result, 0) == pytest.approx(wanted)
    assert rates(result, 1) == rates(result, 0)  # a fresh one for every stage


def test_steps_of_a_scheduler_and_of_a_schedule_train_alike():
    ours = tuneup.Schedule(epochs=EPOCHS, lr=0.01, milestones=(5, 10), gamma=0.1)
    plain = tuneup.Schedule(epochs=EPOCHS, lr=0.01)
    one = train(model(), task(), base(ours))
    other = train(model(), task(), base(plain), scheduler=partial(StepLR, step_size=5, gamma=0.1))
    assert [e.loss for e in one.record.stages[0].epochs] == pytest.approx(
        [e.loss for e in other.record.stages[0].epochs], rel=1e-5
    )


def test_a_plateau_is_told_the_validations():
    plateau = partial(ReduceLROnPlateau, mode="max", factor=0.5, patience=0, threshold=1.0)
    result = train(model(), task(), base(SCHEDULE), scheduler=plateau)
    # No score is twice the best one: from the second validation on, each halves the rate.
    assert rates(result) == pytest.approx([0.01 / 2 ** max(0, (k // 2) - 1) for k in range(EPOCHS)])


class KilledError(Exception):
    pass


SCHEDULERS = [
    partial(CosineAnnealingLR, T_max=EPOCHS),
    partial(OneCycleLR, max_lr=0.05, total_steps=EPOCHS + 1),
    partial(ReduceLROnPlateau, mode="max", factor=0.5, patience=0, threshold=1.0),
]


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda made: made.func.__name__)
@pytest.mark.parametrize("at", [(1, 7), (2, 3)])
def test_a_killed_run_resumes_bit_for_bit(scheduler, at, tmp_path):
    curriculum = two_stages(0.5, SCHEDULE, SCHEDULE)
    whole = train(model(), task(), curriculum, scheduler=scheduler)

    def kill(progress):
        if (progress.stage, progress.epoch) == at:
            raise KilledError

    places = tuneup.train.Checkpoints(tmp_path / "run", every=2)
    with pytest.raises(KilledError):
        train(model(), task(), curriculum, scheduler=scheduler, checkpoints=places, callback=kill)
    resumed = train(model(), task(), curriculum, scheduler=scheduler, checkpoints=places)
    assert resumed.record.curves() == whole.record.curves()
    assert [rates(resumed, k) for k in (0, 1)] == [rates(whole, k) for k in (0, 1)]
    for name, tensor in whole.states[1].items():
        assert torch.equal(tensor, resumed.states[1][name])


@pytest.mark.parametrize(
    ("scheduler", "schedule", "said"),
    [
        (partial(ReduceLROnPlateau), SCHEDULE, 'mode="max"'),
        (lambda optimizer: 0.1, SCHEDULE, "LRScheduler"),
        (SCHEDULERS[0], tuneup.Schedule(milestones=(5,)), "milestones"),
    ],
)
def test_refused_before_any_epoch(scheduler, schedule, said):
    with pytest.raises(InputError, match=said):
        train(model(), task(), base(schedule), scheduler=scheduler)


def stepping(gamma):
    return lambda optimizer: StepLR(optimizer, 1, gamma)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SCHEDULERS[0], SCHEDULERS[1]),
        (partial(StepLR, step_size=5), partial(StepLR, step_size=6)),
        (lambda optimizer: StepLR(optimizer, 1), lambda optimizer: StepLR(optimizer, 2)),
        (stepping(0.5), stepping(0.6)),  # one code, another closure
    ],
)
def test_another_scheduler_is_another_run(one, other):
    run = partial(train, task=task(), curriculum=base(SCHEDULE), checkpoints=Checkpoints())
    told = []
    for scheduler in (one, other, one):
        run(model(), scheduler=scheduler, callback=told.append)
    assert len(told) == 2 * SCHEDULE.epochs


def test_another_optimiser_is_another_run():
    run = partial(train, task=task(), curriculum=base(SCHEDULE), checkpoints=Checkpoints())
    told = []
    for share in (1, 2):
        sgd = lambda parameters, lr, decay: torch.optim.SGD(parameters, lr / share)  # noqa: B023, E731
        run(model(), optimizer=sgd, callback=told.append)
    assert len(told) == 2 * SCHEDULE.epochs
