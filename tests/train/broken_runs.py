"""Runs that are broken off and gone on with, that several tests share."""

import torch

from tests.train.toy import small_encoder
from tuneup.curriculum import Schedule, tuneup
from tuneup.train import Checkpoints, train

STAGES = tuneup(0.5, Schedule(5, lr=0.01), Schedule(4, lr=0.01))


class Stop(Exception):
    """Raised by a callback, in the place of a crash."""


def stop_at(stage: int, epoch: int):
    """A callback that stops a run after an epoch of a stage (both from 1)."""

    def callback(progress):
        if (progress.stage, progress.epoch) == (stage, epoch):
            raise Stop

    return callback


def assert_same(first, second) -> None:
    """Two results are equal in every bit."""
    assert first.record.curves() == second.record.curves()
    assert first.record.winner == second.record.winner
    for state, expected in zip(first.states, second.states, strict=True):
        assert state.keys() == expected.keys()
        assert all(torch.equal(value, expected[name]) for name, value in state.items())


def resume(folder, task, model=None, stages=STAGES, **options):
    model = small_encoder() if model is None else model
    return train(model, task, stages, checkpoints=Checkpoints(folder, 2), **options)


def sgd(parameters, lr, weight_decay):
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=weight_decay)
