"""One run of a suite: in a folder that any process finds, begun once, read in several ways."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tests.bench.test_suite import small
from tests.problems import link_prediction
from tuneup.bench.records import read_records
from tuneup.methods import method_named

ROOT = Path(__file__).parents[2]


def test_stages_that_runs_have_in_common_are_trained_once(tmp_path):
    """NodeDup + TuneUp goes on from NodeDup of the same delta, as other rows do from Base."""
    suite = small(tmp_path, problem=link_prediction, task="link-prediction")
    nodedup, tuned = (method_named(name).settings for name in ("nodedup", "nodedup-tuneup"))
    first = suite.trainings.train("nodedup", 1, {}, nodedup).result
    before = set((tmp_path / "runs").rglob("stage-*.safetensors"))
    again = suite.trainings.train("nodedup-tuneup", 1, {}, tuned).result
    assert again.record.stages[0].epochs == first.record.stages[0].epochs
    new = set((tmp_path / "runs").rglob("stage-*.safetensors")) - before
    assert [path.stem for path in new] == [f"stage-{again.record.stages[1].digest}"]
    suite.trainings.forget("nodedup-tuneup", 1)
    assert not set((tmp_path / "runs").rglob("stage-*.safetensors"))


PROBE = """
from pathlib import Path
from tests.bench.test_suite import small
from tuneup.methods import method_named
trainings = small(Path(__import__("sys").argv[1])).trainings
settings = method_named("tuneup").settings
trainings.train("tuneup", 0, {"dropout": 0.0}, settings)
for path in sorted(trainings.folder.rglob("stage-*.safetensors")):
    print(path.name, path.stat().st_mtime_ns)
"""


def test_a_suite_finds_its_checkpoints_in_another_process(tmp_path):
    """Its files are named by what decides a run, never by where something is in memory."""
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
    assert said[0].count("stage-") == 2


def test_coldbrews_whole_grid_is_chosen_from_by_few_trainings(tmp_path):
    suite = replace(small(tmp_path), methods=("coldbrew",), seeds=(0,))
    assert [entry for entry in suite.plan().trials if entry[0] == "coldbrew"] == [
        ("coldbrew", seed) for seed in (0, 0, 0, 1)
    ]
    found = suite.choose("coldbrew")
    names = [path.name for path in suite.trainings.folder.glob("toy-*-coldbrew-*-*/")]
    assert sorted(name.split("-")[3] for name in names) == ["0", "0", "0", "1"]
    assert found.trainings == 4
    assert len({str(trial.point) for trial in found.trials}) == found.points == 15
    suite.run_all()
    (record,) = [record for record in read_records(tmp_path) if record.method == "coldbrew"]
    assert record.config["trials"] == 4
    assert suite.plan() == type(suite.plan())([], [])


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
