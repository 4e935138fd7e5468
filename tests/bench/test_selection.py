"""Choosing by trials: as many for every method, by any number of processes, however they end."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from tuneup.bench.presets import TRIALS
from tuneup.bench.selection import DIVERGED, Selection, Trial, best_of, plan_trials
from tuneup.bench.studies import Studies
from tuneup.errors import InputError
from tuneup.methods import METHODS

POINTS = [{"a": a, "b": b} for a in (1, 2, 3) for b in (True, False)]


def test_a_grid_of_the_budgets_size_is_tried_once():
    plan = plan_trials(POINTS, 6)
    assert [p.point for p in plan] == POINTS
    assert {p.seed for p in plan} == {0}


@pytest.mark.parametrize("budget", [1, 3, 5])
def test_of_a_larger_grid_the_defaults_are_tried_and_a_draw_of_the_others(budget):
    plan = plan_trials(POINTS, budget)
    assert len(plan) == budget
    assert plan[0].point == POINTS[0]
    assert len({str(p.point) for p in plan}) == budget
    assert plan == plan_trials(POINTS, budget)  # always the same draw


@pytest.mark.parametrize("name", METHODS)
def test_the_usual_trials_show_every_value_of_a_grid(name):
    method = METHODS[name]
    for task in method.tasks:
        points = method.points(task)
        tried = [trial.point for trial in plan_trials(points, TRIALS[task])]
        for point in points if tried else ():
            assert all(any(other[key] == point[key] for other in tried) for key in point)


def test_points_that_differ_in_their_reading_alone_share_trainings():
    plan = plan_trials(POINTS, 4, lambda point: point["a"])
    expected = [(1, 0), (2, 0), (3, 0), (1, 1)]  # trainings; each is read with either b
    found = [(p.point["a"], p.seed) for p in plan]
    assert found == [training for training in expected for _ in range(2)]
    assert [p.point["b"] for p in plan] == [True, False] * 4
    few = plan_trials(POINTS, 2, lambda point: point["a"])
    assert [p.point["a"] for p in few[:2]] == [1, 1]
    assert len(few) == 4


def test_all_of_coldbrews_grid_is_read_off_three_trainings():
    method = METHODS["coldbrew"]
    for task in method.tasks:
        points = method.points(task)
        settings = {replace(method.settings, **point).as_fitted for point in points}
        assert (len(points), len(settings)) == (15, 3)


def test_a_smaller_grid_is_tried_with_more_seeds():
    plan = plan_trials(POINTS[:2], 5)
    assert [(p.point["b"], p.seed) for p in plan] == [
        (True, 0),
        (False, 0),
        (True, 1),
        (False, 1),
        (True, 2),
    ]


def test_nothing_to_choose_needs_no_trial():
    assert plan_trials(POINTS[:1], 6) == []


def test_the_best_mean_over_seeds_is_chosen():
    trials = [
        Trial({"a": 1}, 0, 0.9, 1.0),
        Trial({"a": 2}, 0, 0.8, 1.0),
        Trial({"a": 1}, 1, 0.5, 1.0),
        Trial({"a": 2}, 1, 0.8, 1.0),
    ]
    assert best_of(trials, 2).chosen == {"a": 2}
    assert best_of(trials[:2], 2).chosen == {"a": 1}
    # A seed that only one of them had decides nothing, not even between equals.
    assert best_of(trials[:3], 2).chosen == {"a": 1}
    equal = [replace(trial, score=0.7) for trial in trials[:2]]
    for score in (0.1, 0.9):
        assert best_of([*equal, replace(trials[2], score=score)], 2).chosen == {"a": 1}
        assert best_of([*equal, replace(trials[3], score=score)], 2).chosen == {"a": 1}


def test_every_training_counts_where_points_had_unequal_numbers_of_them():
    """Three points with one seed, two of them with another: these two are told apart by both."""
    scores = {(1, 0): 0.81, (2, 0): 0.81, (3, 0): 0.81, (1, 1): 0.83, (2, 1): 0.85}
    trials = [Trial({"a": a}, seed, score, 1.0) for (a, seed), score in scores.items()]
    assert best_of(trials, 3).chosen == {"a": 2}
    better = [*trials[:2], replace(trials[2], score=0.84), *trials[3:]]
    assert best_of(better, 3).chosen == {"a": 3}  # seed 1 is kind to all, not worse for it


def test_a_point_that_diverged_says_nothing_of_the_others():
    """GraphLessNN's plan, four points and two of them again: the first diverges with seed 1."""
    scores = {(1, 0): 0.70, (2, 0): 0.72, (3, 0): 0.75, (4, 0): 0.71, (1, 1): -1.0, (2, 1): 0.72}
    trials = [Trial({"a": a}, seed, score, 1.0) for (a, seed), score in scores.items()]
    found = best_of(trials, 4)
    assert found.chosen == {"a": 3}
    assert list(found.trials) == trials
    assert best_of([replace(trial, score=DIVERGED) for trial in trials], 4).chosen == {"a": 1}


def test_a_selection_is_read_back(tmp_path):
    found = Selection({"a": 1}, [Trial({"a": 1}, 0, 0.5, 1.5)], 3, 1)
    found.write(tmp_path / "deep" / "chosen.json")
    assert Selection.read(tmp_path / "deep" / "chosen.json") == found
    (tmp_path / "bad.json").write_text('{"chosen": {}}')
    with pytest.raises(InputError, match=r"bad\.json is not a record of a selection"):
        Selection.read(tmp_path / "bad.json")


def test_every_planned_trial_is_made_once(tmp_path):
    made = []

    def train(point, seed):
        made.append((point["a"], point["b"], seed))
        return point["a"] - seed

    studies = Studies(tmp_path / "runs" / "studies.db")
    found = studies.select("x / y", POINTS, plan_trials(POINTS, 8), train)
    assert found.chosen == POINTS[4]  # the first of two equals
    assert len(made) == len(set(made)) == len(found.trials) == 8
    again = studies.select("x / y", POINTS, plan_trials(POINTS, 8), train)
    assert len(made) == 8
    assert again.chosen == found.chosen
    with pytest.raises(InputError, match="was begun with other trials"):
        studies.select("x / y", POINTS, plan_trials(POINTS, 7), train)


def test_a_failed_trial_is_tried_again(tmp_path):
    studies = Studies(tmp_path / "studies.db")
    calls = []

    def breaks_once(point, seed):
        calls.append(point)
        if len(calls) == 2:
            raise ValueError("no space left")
        return 0.0

    plan = plan_trials(POINTS[:2], 2)
    with pytest.raises(ValueError, match="no space") as failure:
        studies.select("x", POINTS[:2], plan, breaks_once)
    assert failure.traceback  # who keeps it, as a notebook does, keeps no lock with it
    found = studies.select("x", POINTS[:2], plan, breaks_once)
    assert len(found.trials) == 2
    assert len(calls) == 3


def test_a_database_that_is_none_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "studies.db"
    path.write_text("no database\n" * 1000)
    with pytest.raises(InputError, match=r"studies\.db is no database of studies .*Remove it"):
        Studies(path).select("x", POINTS, plan_trials(POINTS, 3), lambda point, seed: 0.0)
    assert path.read_text().startswith("no database")


def test_what_was_lost_on_the_way_into_the_study_is_enqueued_again(tmp_path):
    """Killed between naming the plan and enqueuing all of it: the others do not wait for ever."""
    optuna = pytest.importorskip("optuna")
    studies = Studies(tmp_path / "studies.db")
    plan = plan_trials(POINTS, 6)
    study = studies._open("x", plan)
    assert study.trials == []
    assert len(studies.select("x", POINTS, plan, lambda point, seed: 0.0).trials) == 6
    states = {trial.state for trial in study.trials}
    assert states == {optuna.trial.TrialState.COMPLETE}


WORKER = """
import sys, time
from pathlib import Path
from tuneup.bench.selection import plan_trials
from tuneup.bench.studies import Studies
from tests.bench.test_selection import POINTS
folder = Path(sys.argv[1])
def train(point, seed):
    with open(folder / "begun", "a") as file:
        file.write("x")
    time.sleep(float(sys.argv[2]))
    with open(folder / "made", "a") as file:
        file.write(f"{point['a']} {point['b']} {seed}\\n")
    return float(point["a"])
print(Studies(folder / "studies.db").select("x", POINTS, plan_trials(POINTS, 6), train).chosen["a"])
"""


def worker(folder, seconds):
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def test_a_killed_process_loses_its_trial_to_the_others(tmp_path):
    killed = worker(tmp_path, 60)
    deadline = time.monotonic() + 60
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    two = [worker(tmp_path, 0.2) for _ in range(2)]
    assert [process.communicate(timeout=120)[0].strip() for process in two] == ["3", "3"]
    made = (tmp_path / "made").read_text().splitlines()
    assert len(made) == len(set(made)) == 6


def test_optuna_can_show_the_study(tmp_path):
    optuna = pytest.importorskip("optuna")
    studies, plan = Studies(tmp_path / "studies.db"), plan_trials(POINTS, 6)
    studies.select("x", POINTS, plan, lambda point, seed: point["a"])
    study = optuna.load_study(study_name="x", storage=f"sqlite:///{tmp_path / 'studies.db'}")
    assert json.loads(study.user_attrs["plan"])[0]["point"] == POINTS[0]
    assert {trial.params["a"] for trial in study.trials} == {1, 2, 3}
