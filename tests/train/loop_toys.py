"""Schedules, models and comparisons that the tests of the loop share."""

import torch

from tests.train.toy import PygNet, small_encoder, small_task
from tuneup.curriculum import Schedule
from tuneup.train import train

SEED, EPOCHS, LR, ALPHA = 5, 8, 0.01, 0.5
SCHEDULE = Schedule(EPOCHS, lr=LR, weight_decay=1e-3)
FINETUNE = Schedule(EPOCHS + 2, lr=LR / 2)
MODELS = {"ours": lambda: small_encoder(width=16), "pyg": PygNet}


def unpruned_task():
    """Nothing pruned, so that a plain call of the model draws the same dropout."""
    return small_task(prune=False)


def run(model, task, curriculum, seed=SEED, **options):
    return train(model, task, curriculum, seed=seed, **options)


def same(first, second):
    """Two states, bit for bit."""
    assert first.keys() == second.keys()
    return all(torch.equal(value, second[name]) for name, value in first.items())


def same_runs(first, second):
    return (
        first.record.curves() == second.record.curves()
        and first.record.winner == second.record.winner
        and len(first.states) == len(second.states)
        and all(map(same, first.states, second.states))
    )


def ten(modules, task):
    return 10.0
