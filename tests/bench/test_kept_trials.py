"""Trials outlive their checkpoints: a choice goes on where it was, on another machine too."""

import json
import shutil
from dataclasses import replace

import pytest

from tests.bench import test_suite
from tests.bench.test_suite import move_first_loss
from tuneup.bench.suite import Suite
from tuneup.errors import InputError


def small(results):
    """Two rows with one seed: Base is chosen by four trials, and so is DropEdge."""
    return replace(test_suite.small(results), methods=("base", "dropedge"), seeds=(0,))


class Stopped(Exception):
    """As if the machine were gone."""


def trained(monkeypatch, allowed=1000):
    """Every method whose score was worked out here, until so many were."""
    made = []
    score = Suite._score

    def counted(self, method, point, seed):
        if len(made) == allowed:
            raise Stopped
        made.append(method)
        return score(self, method, point, seed)

    monkeypatch.setattr(Suite, "_score", counted)
    return made


def choices(results):
    """By file, without seconds."""
    found = {path.name: json.loads(path.read_text()) for path in results.glob("selection/*.json")}
    for each in found.values():
        for trial in each["trials"]:
            trial.pop("seconds")
    return found


def stop_in_the_middle(results, monkeypatch, trials):
    """A suite of which so many trials were made, and no checkpoint is left."""
    with monkeypatch.context() as patch:
        trained(patch, trials)
        with pytest.raises(Stopped):
            small(results).run_all()
    shutil.rmtree(results / "runs")


@pytest.mark.parametrize("trials", [2, 5])
def test_no_trial_is_made_twice_though_its_checkpoints_are_gone(tmp_path, monkeypatch, trials):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    with monkeypatch.context() as patch:
        made = trained(patch)
        small(whole).run_all()
    stop_in_the_middle(parts, monkeypatch, trials)
    kept = list((parts / "trials").iterdir())
    assert len(kept) == trials % 4  # four make a choice, which has them all
    seconds = {json.loads(path.read_text())["seconds"] for path in kept}
    assert len(small(parts).plan().trials) == len(made) - trials
    made_later = trained(monkeypatch)
    small(parts).run_all()
    assert made_later == made[trials:]
    assert choices(parts) == choices(whole)
    assert not list((parts / "trials").iterdir())
    told = [json.loads(path.read_text()) for path in parts.glob("selection/*.json")]
    assert seconds <= {trial["seconds"] for each in told for trial in each["trials"]}


def test_a_trial_of_another_experiment_or_from_another_base_is_not_taken(tmp_path, monkeypatch):
    stop_in_the_middle(tmp_path, monkeypatch, 5)  # Base's four, and DropEdge's first
    left = len(small(tmp_path).plan().trials)
    other = small(tmp_path)
    other.config["width"] = 64
    assert len(other.plan().trials) > left
    move_first_loss(tmp_path / "toy-sage-base-0.json", 1e-6)
    assert len(small(tmp_path).plan().trials) == left + 1


def test_run_anew_no_trial_is_taken_over(tmp_path, monkeypatch):
    stop_in_the_middle(tmp_path, monkeypatch, 5)
    assert len(small(tmp_path).plan(fresh=True).trials) == len(small(tmp_path).plan().trials) + 5
    small(tmp_path).forget()
    assert not list((tmp_path / "trials").iterdir())


def test_what_is_no_trial_is_refused(tmp_path, monkeypatch):
    stop_in_the_middle(tmp_path, monkeypatch, 2)
    path = next((tmp_path / "trials").iterdir())
    path.write_text('{"score": 1}')
    with pytest.raises(InputError, match=rf"{path.name} is not a record of a trial"):
        small(tmp_path).run_all()
