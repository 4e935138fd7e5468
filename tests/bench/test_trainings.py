"""One run of a suite: in a folder that any process finds, begun once, read in several ways."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tests.bench.test_suite import BRIEF, small
from tests.problems import link_prediction, node_classification
from tuneup.bench.records import read_records
from tuneup.curriculum import Schedule
from tuneup.data import block_graph
from tuneup.methods import method_named

ROOT = Path(__file__).parents[2]


def test_an_opening_is_trained_once_for_all_settings_and_architectures(tmp_path, monkeypatch):
    """LocalAug's generator; with it taken over, the run is the one that trains it itself."""
    from tuneup.bench import trainings
    from tuneup.methods import METHODS as REGISTRY
    from tuneup.methods import configured, method_named, run

    brief = replace(REGISTRY["localaug"].settings, generator=Schedule(epochs=3, validate_every=1))
    quick = {**REGISTRY, "localaug": replace(REGISTRY["localaug"], settings=brief)}
    monkeypatch.setattr(trainings, "method_named", lambda name: quick[name])
    opened, real = [], trainings.run_opening

    def watched(recipe, setup, seed, *, checkpoints, callback):
        seen = len(list(checkpoints.folder.glob("*")))
        opened.append(seen)
        return real(recipe, setup, seed, checkpoints=checkpoints, callback=callback)

    monkeypatch.setattr(trainings, "run_opening", watched)
    point, results = {"draws": 2, "weight": 0.5}, []
    for architecture in ("sage", "gcn"):
        runs = replace(small(tmp_path), architecture=architecture, methods=("localaug",))
        runs.problem = lambda shared, kind=architecture: node_classification(
            block_graph(200, 800, 2, 4), kind
        ).scheduled(BRIEF, BRIEF)
        for chosen in (point, {"draws": 4, "weight": 0.5}):
            settings = configured(quick["localaug"], chosen)
            trained = runs.trainings.train("localaug", 1, {"dropout": 0.5}, settings)
            results.append(trained.result)
        setup = runs.problem({}).setup
        alone = run(quick["localaug"], setup, settings=configured(quick["localaug"], point), seed=1)
        shared = results[-2]
        assert shared.record.curves() == alone.record.curves()
        assert all(shared.states[1][key].equal(alone.states[1][key]) for key in alone.states[1])
    assert [seen > 0 for seen in opened] == [False, True, True, True]
    assert len(list((tmp_path / "runs").glob("*/toy-localaug-opening-1-*/"))) == 1
    assert method_named("localaug").settings != brief
    first = results[0].record.stages[0]
    assert all(result.record.stages[0].epochs == first.epochs for result in results)
    runs.seeds = (1,)
    runs.forget()
    assert not list((tmp_path / "runs").glob("*/toy-localaug-opening-1-*/"))


def test_a_method_that_begins_as_another_goes_on_from_its_run(tmp_path, monkeypatch):
    """NodeDup + TuneUp, of the same delta and seed; it is then the run that trains all itself."""
    from tuneup.bench import trainings
    from tuneup.methods import METHODS as REGISTRY
    from tuneup.methods import run

    begun = []

    def watched(method, setup, **options):
        def callback(progress):
            begun.append((method.name, progress.stage))
            options["callback"](progress)

        return run(method, setup, **options | {"callback": callback})

    monkeypatch.setattr(trainings, "run", watched)
    suite = small(tmp_path, problem=link_prediction, task="link-prediction")
    nodedup, tuned = (REGISTRY[name].settings for name in ("nodedup", "nodedup-tuneup"))
    first = suite.trainings.train("nodedup", 1, {}, nodedup).result
    again = suite.trainings.train("nodedup-tuneup", 1, {}, tuned).result
    epochs = [("nodedup", 1)] * BRIEF.epochs + [("nodedup-tuneup", 2)] * BRIEF.epochs
    assert begun == epochs
    assert again.record.stages[0].epochs == first.record.stages[0].epochs
    alone = run(REGISTRY["nodedup-tuneup"], suite.problem({}).setup, seed=1)
    assert again.record.curves() == alone.record.curves()
    for one, other in zip(again.states, alone.states, strict=True):
        assert all(one[key].equal(other[key]) for key in other)
    begun.clear()  # another delta has another beginning, trained for it
    suite.trainings.train("nodedup-tuneup", 1, {}, replace(tuned, delta=1))
    assert begun == epochs


PROBE = """
from pathlib import Path
from tests.bench.test_suite import small
from tuneup.bench import trainings
from types import SimpleNamespace
from tuneup.train import TrainingRecord
done = SimpleNamespace(record=TrainingRecord(0, "accuracy"))
trainings.run = lambda *given, checkpoints, **options: print(checkpoints.folder.name) or done
settings = trainings.method_named("tuneup").settings
small(Path(__import__("sys").argv[1])).trainings.train("tuneup", 0, {"dropout": 0.0}, settings)
"""


def test_a_suite_finds_its_checkpoints_in_another_process(tmp_path):
    """Its folders are named by what decides a run, never by where something is in memory."""
    said = [
        subprocess.run(
            [sys.executable, "-c", PROBE, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
        for _ in range(2)
    ]
    assert said[0] == said[1]
    assert len(said[0].split()) == 2  # the run and its Base


def test_coldbrews_whole_grid_is_chosen_from_by_few_trainings(tmp_path, monkeypatch):
    from tuneup.bench import trainings

    made, real = [], trainings.run

    def watched(method, setup, **options):
        if method.name == "coldbrew":
            made.append((options["settings"].delta, options["seed"]))
        return real(method, setup, **options)

    monkeypatch.setattr(trainings, "run", watched)
    suite = replace(small(tmp_path), methods=("coldbrew",), seeds=(0,))
    assert [entry for entry in suite.plan().trials if entry[0] == "coldbrew"] == [
        ("coldbrew", seed) for seed in (0, 0, 0, 1)
    ]
    found = suite.choose("coldbrew")
    assert set(made) == {(0, 0), (2, 0), (5, 0), (0, 1)}
    assert found.trainings == 4
    assert len({str(trial.point) for trial in found.trials}) == found.points == 15
    suite.run_all()
    (record,) = [record for record in read_records(tmp_path) if record.method == "coldbrew"]
    assert record.config["trials"] == 4
    assert suite.plan() == type(suite.plan())([], [])


def test_a_run_that_is_read_otherwise_is_the_run_that_is_trained_so(tmp_path):
    import torch

    from tuneup.methods import METHODS as REGISTRY
    from tuneup.methods import configured, run

    suite = small(tmp_path)
    setup = suite.problem({}).setup
    for point in REGISTRY["coldbrew"].points("node-classification"):
        settings = configured(REGISTRY["coldbrew"], point)
        read = suite.trainings.train("coldbrew", 0, {}, settings)
        trained = run(REGISTRY["coldbrew"], setup, settings=settings)
        assert read.score == trained.record.validation
        x, graph = setup.task.data.x, setup.task.graph
        with torch.no_grad():
            one, other = (result.copy(1)(x, graph) for result in (read.result, trained))
        assert torch.equal(one, other)
        assert read.result.model is not read.result.modules["model"]


def test_a_run_of_base_is_read_once_for_each_seed_and_choice(tmp_path):
    runs = small(tmp_path).trainings
    first = runs.base(0, {"dropout": 0.0})
    weights = {name: value.clone() for name, value in first.states[0].items()}
    runs.train("tuneup", 0, {"dropout": 0.0}, method_named("tuneup").settings)
    assert runs.base(0, {"dropout": 0.0}) is first
    assert all(value.equal(weights[name]) for name, value in first.states[0].items())
    others = runs.base(1, {"dropout": 0.0}), runs.base(0, {"dropout": 0.5})
    assert [each.record.seed for each in others] == [1, 0]
    assert first not in others
    runs.forget("base", 0)
    assert runs.base(0, {"dropout": 0.0}) is not first
