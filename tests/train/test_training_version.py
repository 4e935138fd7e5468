"""Weights of short trainings: a change of training must raise ``TRAINING_VERSION``."""

import pytest
import torch

from tests.problems import link_prediction, recommendation
from tests.train.toy import PygNet, small_encoder, small_task, toy_curriculum, toy_modules
from tuneup.curriculum import Schedule, tuneup
from tuneup.data import block_graph, block_interactions
from tuneup.methods import METHODS, run
from tuneup.train import TRAINING_VERSION, train

BRIEF = Schedule(3, lr=0.01, validate_every=1)
STAGES = tuneup(0.5, BRIEF, BRIEF)


def of_problem(problem):
    return run(METHODS["tuneup"], problem.scheduled(BRIEF, BRIEF).setup, seed=1)


TRAININGS = {
    "encoder": lambda: train(small_encoder(), small_task(), STAGES, seed=1),
    "pyg": lambda: train(PygNet(), small_task(), STAGES, seed=1),
    "modules": lambda: train(
        small_encoder(), small_task(), toy_curriculum(3), modules=toy_modules(), seed=1
    ),
    "links": lambda: of_problem(link_prediction(block_graph(200, 800, 2, 4))),
    "pairs": lambda: of_problem(recommendation(block_interactions(60, 80, 1500, 4))),
}

EXPECTED = {
    "encoder": (59.633116, 3.63421548),
    "pyg": (93.6830454, -4.11966805),
    "modules": (31.0247872, 1.25874448),
    "links": (1482.33814, -12.5959713),
    "pairs": (2632.94795, -11.5169074),
}
"""Size of the weights after the last stage, and a projection of them."""

TOLERANCE = {"pyg": 2e-3}
"""PyG adds messages up in an order of the processor's own, and Adam magnifies what is rounded."""


def sums(result):
    states = [w.double().flatten() for w in result.states[-1].values() if w.is_floating_point()]
    weights = torch.cat(states)
    directions = torch.arange(len(weights), dtype=torch.double).cos()
    return float(weights.abs().sum()), float(weights @ directions)


@pytest.mark.parametrize("name", TRAININGS)
def test_weights_are_those_of_this_version(name):
    near = TOLERANCE.get(name, 1e-4)
    assert sums(TRAININGS[name]()) == pytest.approx(EXPECTED[name], rel=near, abs=1e-4), (
        f"Training {name!r} gives other weights than in version {TRAINING_VERSION}: raise "
        "TRAINING_VERSION, so that stored stages of the old version are not used, and put the new "
        "sums here."
    )
    assert TRAINING_VERSION == 1
