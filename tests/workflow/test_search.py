"""The search over settings: its order, its budget, and going on after it was killed."""

from dataclasses import replace

import pytest
import torch

from tests.problems import node_classification
from tuneup.curriculum import Schedule
from tuneup.data import block_graph
from tuneup.errors import InputError
from tuneup.methods import METHODS, run
from tuneup.train import Checkpoints
from tuneup.workflow.search import Budget, search

AXES = {"architecture": ("sage", "gcn"), "lr": (0.01, 0.001, 0.03)}
GRAPH = block_graph(600, 1800, 3, 8, seed=1)


def problem(point):
    found = node_classification(GRAPH, point["architecture"])
    schedule = Schedule(epochs=6, lr=point["lr"])
    small = replace(found.setup.encoder, width=8, num_layers=2)
    return replace(
        found, setup=replace(found.setup, encoder=small, pretrain=schedule, finetune=schedule)
    )


def searched(budget=None, axes=AXES, checkpoints=None, callback=None):
    def train(number, point):
        def call(progress):
            if callback is not None:
                callback(replace(progress, stage=number))

        setup = problem(point).setup
        return run(METHODS["base"], setup, checkpoints=checkpoints, callback=call)

    return search(axes, train, budget)


def test_search_varies_one_setting_at_a_time_until_nothing_changes():
    found = searched()
    tried = [dict(trial.point) for trial in found.trials]
    assert tried[0] == {"architecture": "sage", "lr": 0.01}
    assert tried[1] == {"architecture": "gcn", "lr": 0.01}
    better = max(found.trials[:2], key=lambda trial: trial.score).point["architecture"]
    assert tried[2:4] == [{"architecture": better, "lr": lr} for lr in (0.001, 0.03)]
    assert found.trials[tried.index(found.point)].score == max(t.score for t in found.trials)
    assert len({tuple(point.items()) for point in tried}) == len(tried)
    assert sum("(chosen)" in line for line in found.notes) == 1


def test_base_of_the_search_is_stage_1_of_the_fit():
    store, epochs = Checkpoints(), []
    found = searched(Budget(2), checkpoints=store)
    setup = problem(found.point).setup
    again = run(METHODS["base"], setup, seed=0)
    for name, tensor in again.states[0].items():
        assert torch.equal(tensor, found.result.states[0][name])
    both = run(METHODS["tuneup"], setup, seed=0, checkpoints=store, callback=epochs.append)
    assert {each.stage for each in epochs} == {2}
    assert both.record.stages[0].best_score == max(trial.score for trial in found.trials)


def test_a_budget_stops_between_trials():
    assert len(searched(Budget(1)).trials) == 1
    assert len(searched(Budget(3)).trials) == 3
    assert len(searched(Budget(minutes=1e-9)).trials) == 1


def test_a_killed_search_resumes(tmp_path):
    whole = searched(Budget(3))
    stop = Killed(stage=2, epoch=3)
    with pytest.raises(KeyboardInterrupt):
        searched(Budget(3), checkpoints=tmp_path, callback=stop)
    seen = []
    found = searched(Budget(3), checkpoints=tmp_path, callback=seen.append)
    assert min((progress.stage for progress in seen), default=2) == 2  # the first trial is read
    assert [(t.point, t.score) for t in found.trials] == [(t.point, t.score) for t in whole.trials]
    assert found.point == whole.point


def test_settings_that_diverge_are_left_out():
    axes = {**AXES, "lr": (0.01, 1e20)}
    found = searched(Budget(3), axes)
    assert found.trials[-1].score is None
    assert found.point["lr"] == 0.01
    assert any("diverged" in line for line in found.notes)


def test_a_budget_is_a_number_or_a_time():
    assert Budget.parse("8") == Budget(8)
    assert Budget.parse("30m").minutes == 30
    assert Budget.parse("1.5h").minutes == 90
    for wrong in ("", "0", "x", "3d", "-1m"):
        with pytest.raises(InputError):
            Budget.parse(wrong)


class Killed:
    """Stops a search in the middle of a trial."""

    def __init__(self, stage, epoch):
        self.place = (stage, epoch)

    def __call__(self, progress):
        if (progress.stage, progress.epoch) == self.place:
            raise KeyboardInterrupt
