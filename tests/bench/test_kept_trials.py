"""Trials outlive their checkpoints: a choice goes on where it was, on another machine too."""

import json
import shutil
from dataclasses import replace

import pytest

from tests.bench import test_suite
from tests.bench.test_suite import move_first_loss
from tuneup.bench.selection import Planned, Trial
from tuneup.bench.suite import Suite
from tuneup.bench.trial_files import TrialFiles
from tuneup.errors import InputError


def small(results, methods=("base", "tuneup"), **others):
    """Rows with one seed: Base is chosen by four trials, and so is each method."""
    return replace(test_suite.small(results), methods=methods, seeds=(0,), **others)


class Stopped(Exception):
    """As if the machine were gone."""


def trained(monkeypatch, allowed=1000):
    """Every method, point and seed that was scored here, until so many were."""
    made = []
    score = Suite._score

    def counted(self, method, point, seed):
        if len(made) == allowed:
            raise Stopped
        made.append((method, dict(point), seed))
        return score(self, method, point, seed)

    monkeypatch.setattr(Suite, "_score", counted)
    return made


def trials_of(results):
    """All trials that choices were made by, with their seconds."""
    return {
        (path.stem, json.dumps(trial["point"]), trial["seed"]): (trial["score"], trial["seconds"])
        for path in results.glob("selection/*.json")
        for trial in json.loads(path.read_text())["trials"]
    }


def stop_in_the_middle(results, monkeypatch, trials):
    """A suite of which so many trials were made, and no checkpoint is left."""
    with monkeypatch.context() as patch:
        trained(patch, trials)
        with pytest.raises(Stopped):
            small(results).run_all()
    shutil.rmtree(results / "runs")


def files_of(results):
    return sorted((results / "trials").iterdir())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A suite that nothing stopped: its folder, and what was scored."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        made = trained(patch)
        small(folder).run_all()
    return folder, made


@pytest.mark.parametrize("trials", [2, 5])
def test_no_trial_is_made_twice_though_its_checkpoints_are_gone(
    tmp_path, monkeypatch, whole, trials
):
    (expected, made), parts = whole, tmp_path
    stop_in_the_middle(parts, monkeypatch, trials)
    kept = files_of(parts)
    assert len(kept) == trials % 4  # four make a choice, which has them all
    for path in kept:  # seconds that no trial could take by chance
        path.write_text(json.dumps({**json.loads(path.read_text()), "seconds": 1e6}))
    assert len(small(parts).plan().trials) == len(made) - trials
    later = trained(monkeypatch)
    small(parts).run_all()
    assert later == made[trials:]
    found = trials_of(parts)
    assert {key: score for key, (score, _) in found.items()} == {
        key: score for key, (score, _) in trials_of(expected).items()
    }
    taken = {key for key, (_, seconds) in found.items() if seconds == 1e6}
    assert len(taken) == len(kept)
    assert files_of(parts) == []


def test_a_dry_run_counts_what_is_left_and_what_will_be_trained_by_it(tmp_path, monkeypatch):
    """Two points with two seeds each: when one point's trial of seed 0 is kept, the run of seed 0
    may have to be trained for itself, and no other number changes."""
    before = small(tmp_path, ("base",)).plan()
    assert (len(before.trials), before.ready) == (4, (("base", 0),))
    stop_in_the_middle(tmp_path, monkeypatch, 1)
    after = replace(small(tmp_path, ("base",)), seeds=(0, 1)).plan()
    assert (len(after.trials), after.ready) == (3, (("base", 1),))
    assert after.trainings == {"base": 4}
    assert len(small(tmp_path, ("tuneup",)).plan(fresh=True).trials) == 3 + 4  # Base stays
    assert len(small(tmp_path).plan(fresh=True).trials) == 8


def test_a_trial_of_another_experiment_is_not_taken(tmp_path, monkeypatch):
    stop_in_the_middle(tmp_path, monkeypatch, 2)
    assert len(small(tmp_path).plan().trials) == 2 + 4
    assert len(small(tmp_path, config={"width": 64}).plan().trials) == 4 + 4


def test_a_trial_from_another_run_of_base_is_not_taken(tmp_path, monkeypatch):
    stop_in_the_middle(tmp_path, monkeypatch, 5)  # Base's four, and TuneUp's first
    base = tmp_path / "toy-sage-base-0.json"
    assert len(small(tmp_path).plan().trials) == 3
    move_first_loss(base, 1e-6)  # rounded otherwise: the same run
    assert len(small(tmp_path).plan().trials) == 3
    record = json.loads(base.read_text())
    record["curve"][-1][3] += 0.1
    base.write_text(json.dumps(record))
    assert len(small(tmp_path).plan().trials) == 4


def test_a_study_forgets_trials_of_another_run_of_base(tmp_path, monkeypatch):
    """They would be chosen from beside trials of the one that is recorded now."""
    with monkeypatch.context() as patch:
        trained(patch, 6)  # Base's four, and two of TuneUp's; checkpoints and study stay
        with pytest.raises(Stopped):
            small(tmp_path).run_all()
    base = tmp_path / "toy-sage-base-0.json"
    record = json.loads(base.read_text())
    record["curve"][-1][3] += 0.1
    base.write_text(json.dumps(record))
    made = trained(monkeypatch)
    monkeypatch.setattr(Suite, "_check_base", lambda *given: None)  # as if it came out so here
    small(tmp_path).choose("tuneup")
    points = [point["alpha"] for method, point, seed in made if seed == 0]
    assert sorted(points) == [0.25, 0.5, 0.75]


def test_a_record_from_another_run_of_base_stands_for_no_trial(tmp_path):
    suite = small(tmp_path)
    suite.run_all()
    chosen = suite.choose("tuneup").chosen
    path = tmp_path / "toy-sage-tuneup-0.json"
    record = json.loads(path.read_text())
    record["config"]["trial_score"] = 0.987
    path.write_text(json.dumps(record))
    assert suite._score("tuneup", chosen, 0) == 0.987
    record["curve"][0][2] += 1e-3
    path.write_text(json.dumps(record))
    assert suite._score("tuneup", chosen, 0) != 0.987


def test_run_anew_no_trial_is_taken_over(tmp_path, monkeypatch):
    stop_in_the_middle(tmp_path, monkeypatch, 5)
    small(tmp_path).forget()
    assert files_of(tmp_path) == []
    assert len(small(tmp_path).plan().trials) == 8


def test_who_was_killed_before_it_removed_them_leaves_none_behind(tmp_path, monkeypatch):
    stop_in_the_middle(tmp_path, monkeypatch, 2)
    left = {path: path.read_text() for path in files_of(tmp_path)}
    other = tmp_path / "trials" / "toy-sage-base-01234567.json"
    other.write_text("of a choice by more trials")
    small(tmp_path, ("base",)).run_all()
    for path, text in left.items():
        path.write_text(text)
    small(tmp_path, ("base",)).run_all()
    assert files_of(tmp_path) == [other]


def test_what_is_no_trial_is_refused(tmp_path, monkeypatch):
    stop_in_the_middle(tmp_path, monkeypatch, 1)
    (path,) = files_of(tmp_path)
    path.write_text('{"score": 1}')
    with pytest.raises(InputError, match=rf"{path.name} is not a record of a trial .*; remove it"):
        small(tmp_path).run_all()


def test_files_are_told_apart_by_all_that_decides_a_trial(tmp_path):
    trial = Trial({"alpha": 0.5}, 1, 0.25, 3.0)
    planned = Planned(trial.point, trial.seed)
    files = TrialFiles(tmp_path, "toy-sage-tuneup", {"shared": {"l2": 0.1}}, {1: [(2, 0.5)]})
    files.put(trial)
    assert files.get(planned) == trial
    others = [
        replace(files, decisive={"shared": {"l2": 0.2}}),
        replace(files, beginnings={1: [(2, 0.6)]}),
        replace(files, beginnings={2: [(2, 0.5)]}),
        replace(files, name="toy-sage-max-tuneup"),
    ]
    assert [other.get(planned) for other in others] == [None] * 4
    assert files.get(Planned({"alpha": 0.75}, 1)) is None
    assert files.get(Planned(trial.point, 2)) is None
    others[2].put(trial)  # of a Base that nothing is known of
    assert len(list(tmp_path.iterdir())) == 1
    others[3].clear()
    assert files.get(planned) == trial
    files.clear()
    files.remove(planned)
    assert files.get(planned) is None
