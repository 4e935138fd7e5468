"""``tuneup bench``: what a request means, what it prints, and what it refuses."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tuneup.bench import Store
from tuneup.bench.presets import DATASETS, SMALL, rules_for, table_methods
from tuneup.bench.report import read_run
from tuneup.bench.studies import STUDIES, Request, Rows, plan
from tuneup.cli import app
from tuneup.data import dataset_named
from tuneup.errors import InputError

ROOT = Path(__file__).parents[2]


def bench(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)], env={"COLUMNS": "120"})


def planned(tmp_path, **given):
    return plan(Request(**given), Store(tmp_path))


def test_big_datasets_are_run_only_by_name(tmp_path):
    found, _ = planned(tmp_path, architectures=["sage"], methods=["base"])
    assert [(s.task, s.dataset) for s in found] == [(t, n) for t, own in SMALL.items() for n in own]
    found, _ = planned(tmp_path, datasets=["OGBN-arxiv"], architectures=["sage"])
    assert [s.task for s in found] == ["node-classification", "link-prediction"]
    for task, names in DATASETS.items():
        assert all(task in dataset_named(name).tasks for name in names)


def test_a_table_names_its_task_architectures_and_rows(tmp_path):
    found, note = planned(tmp_path, table="recsys_table")
    kinds = {(s.task, s.architecture) for s in found}
    assert kinds == {("recommendation", "sage"), ("recommendation", "gcn")}
    assert "--dataset amazon-book" in note
    assert all("graphlessnn" not in s.methods for s in found)
    where = {"datasets": ["dblp"], "task": "link-prediction", "architectures": ["gcn"]}
    (suite,), _ = planned(tmp_path, **where, seeds=[4], trials=2)
    assert (suite.seeds, suite.budget, suite.config) == ([4], 2, None)
    assert suite.methods == table_methods("link-prediction", "gcn")


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"datasets": ["karate"]}, "karate"),
        ({"task": "dancing"}, "dancing"),
        ({"architectures": ["gin"]}, "gin"),
        ({"methods": ["magic"]}, "magic"),
        ({"preset": "long"}, "long"),
        ({"trials": 0}, "0"),
        ({"seeds": [-1]}, "-1"),
        ({"study": "moon"}, "moon"),
        ({"table": "moon"}, "moon"),
        ({"datasets": ["gowalla"], "methods": ["graphlessnn"]}, "graphlessnn"),
        ({"datasets": ["dblp"], "task": "recommendation"}, "nothing to run"),
        ({"table": "recsys_table", "task": "link-prediction"}, "recsys_table"),
        ({"study": "labels", "task": "link-prediction"}, "no such cell"),
    ],
)
def test_what_nothing_has_is_refused(tmp_path, given, word):
    with pytest.raises(InputError, match=word):
        planned(tmp_path, **given)


def test_a_study_of_methods_on_graphs_is_one_line(tmp_path, monkeypatch):
    rows = Rows([("recommendation", "gowalla")], ("base", "tuneup"), [0], ["gcn"], "paper")
    monkeypatch.setitem(STUDIES, "mine", rows)
    (suite,), _ = planned(tmp_path, study="mine", seeds=[1])
    assert suite.title == "gowalla recommendation gcn"
    assert (suite.seeds, suite.methods, suite.preset) == ([1], ("base", "tuneup"), "paper")
    spec = suite.spec("base", 1, {"l2": 0.0}, {})
    assert (spec.study, spec.config["pretrain"]["epochs"]) == ("mine", 2000)


def test_grids_and_rows_are_those_of_the_presets():
    for task in ("link-prediction", "recommendation"):
        assert len(rules_for(task, preset="paper")["grid"]["l2"]) == 7
        assert "dropout" not in rules_for(task)["grid"]
    assert table_methods("link-prediction", "gat") == ["base", "tuneup"]


def test_show_prints_what_is_recorded(recorded):
    options = ("--results", recorded.folder)
    told = bench("show", *options, "--dataset", "dblp")
    assert told.exit_code == 0, told.output
    assert "dblp, node-classification, gcn" in told.output
    frame = pl.read_csv(bench("show", *options, "--format", "csv").output.encode())
    assert set(frame["whose"]) == {"ours", "paper"}
    assert frame.filter(whose="ours", dataset="dblp", method="tuneup")["seeds"].to_list() == [3] * 5
    for form in ("markdown", "latex"):
        assert "TuneUp over Base" in bench("show", *options, "--format", form, "--paired").output
    assert "popularity" in bench("show", *options, "--dataset", "gowalla").output
    for refused in (("--format", "html"), ("--results", recorded.folder / "none")):
        assert isinstance(bench("show", *options, *refused).exception, InputError)


def test_a_table_of_the_paper_is_shown_without_any_results(tmp_path):
    told = bench("show", "--table", "nodecls_sage_table", "--results", tmp_path)
    assert told.exit_code == 0, told.output
    assert "59.96" in told.output


def test_figures_and_export_write_files(recorded, tmp_path):
    told = bench("figures", "--results", recorded.folder, "--dataset", "dblp", "--out", tmp_path)
    assert told.exit_code == 0, told.output
    kinds = {path.stem.rsplit("-", 1)[1] for path in tmp_path.glob("*.png")}
    assert kinds == {"degree", "degrees", "training", "start"}
    told = bench("export", "--results", recorded.folder, "--out", tmp_path / "out")
    assert told.exit_code == 0, told.output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"results.csv", "node-classification-dblp-gcn.tex"} <= names


def test_a_report_of_a_block(recorded, tmp_path):
    summary = read_run(recorded.folder / "node-classification" / "dblp-gcn")
    assert summary.title == read_run(recorded.folder / "dblp-gcn").title
    assert [m.name for m in summary.methods] == ["Base", "DropEdge", "TuneUp"]
    tuned = summary.methods[-1]
    assert len(tuned.runs) == 3
    assert all(len(run.stages) == 2 and len(run.curve) == 4 for run in tuned.runs)
    assert sum(trial.chosen for trial in tuned.trials) >= 1
    assert next(iter(tuned.runs[0].scores)) == "transductive"
    for path in (recorded.folder / "dblp-gat", tmp_path):
        with pytest.raises(InputError):
            read_run(path)


def test_results_of_this_repository_are_whole():
    """Every mean is that of its scores; nothing that the small presets ask for is missing."""
    store = Store(ROOT / "benchmarks" / "results")
    runs = store.runs(study="paper", task="recommendation")
    scored = [run for run in runs if run.means and run.architecture != "none"]
    assert len(store.scores(scored)) == len(scored) - 3  # of three the means alone are recorded
    suites, _ = planned(store.folder)
    jobs = [job for suite in suites for job in suite.jobs(store.runs())]
    assert {(job.run.dataset, job.run.seed >= 3, job.scored) for job in jobs} == {
        ("CS", True, True)
    }


def test_cells_of_a_study_are_those_of_its_task():
    words = ("--study", "selection", "--results", ROOT / "benchmarks" / "results", "--dry-run")
    shown = bench("run", *words, "--task", "link-prediction").output
    assert "link-prediction" in shown
    assert "node-classification" not in shown
    refused = bench("run", *words, "--task", "recommendation", "--dataset", "dblp")
    assert "no such cell" in str(refused.exception)


def test_a_cell_of_a_study_is_one_command(tmp_path):
    told = bench(
        "run", "--study", "debian", "--seed", 1, "--results", str(tmp_path / "none"), "--dry-run"
    )
    assert told.exit_code == 0, told.output
    assert "1 of tuneup-balanced" in told.output


def test_the_defaults_work_outside_of_a_clone(tmp_path):
    command = [sys.executable, "-m", "tuneup", "bench", "show", "--table", "recsys_table"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "10.94" in done.stdout
