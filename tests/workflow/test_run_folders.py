"""What `tuneup report` reads: run folders, tables of records, and what is wrong with others."""

import json
import shutil
from pathlib import Path

import pytest

from tests.problems import node_classification
from tests.report.pages import scores
from tuneup.bench import Run, Store
from tuneup.bench.report import read_run
from tuneup.curriculum import Schedule, full, tails
from tuneup.data import block_graph
from tuneup.errors import InputError
from tuneup.report.charts import charts_of, series_of
from tuneup.report.page import page_html
from tuneup.workflow.demo import run_demo, write_demo
from tuneup.workflow.outcome import stage_words

BRIEF = Schedule(epochs=3, lr=0.01)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("runs") / "demo"
    problem = node_classification(block_graph(600, 1800, 3, 8, seed=1)).scheduled(BRIEF, BRIEF)
    write_demo(run_demo(problem, alpha=0.25), made, lambda path: path.write_text("a figure"))
    return made


@pytest.fixture
def broken(folder, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(folder, tmp_path / "broken")


def record(folder: Path, method: str, seed: int, lift: float) -> None:
    """A run in a store of results."""
    found = {each: scores(each, lift, seed) for each in ("transductive", "cold-90")}
    stage = {"best_epoch": 2, "best_score": 0.7}
    later = method != "base"
    run = Run(
        *("paper", "node-classification", "dblp", "gcn", "short", method, seed),
        shared={"dropout": 0.5},
        point={"alpha": 0.5} if later else {},
        trial=True,
        validation=0.7,
        metric="accuracy",
        means={name: each.mean() for name, each in found.items()},
        stages=[stage, stage] if later else [stage],
        winner=int(later),
        seconds=2.0,
    )
    curve = [(k, e, 1.0, 0.5) for k in range(1 + later) for e in (1, 2)]
    store = Store(folder)
    store.add(run, found.values(), curve)
    store.fold()


def test_a_demo_folder_is_a_run(folder):
    run = read_run(folder)
    assert [method.name for method in run.methods] == ["Base", "Stage 2", "Result"]
    assert run.verdict
    assert run.record.dial is not None
    assert "logistic regression on features" in run.floors
    assert (run.task, run.metric, run.unit) == ("node-classification", "accuracy", "nodes")
    assert run.command == (
        "tuneup demo --task node-classification --architecture sage --alpha 0.25 --seed 0 "
        "--graph-seed 0"
    )
    assert run.data["nodes"] == "600"
    base, _, tuneup = (method.runs[0] for method in run.methods)
    assert (len(base.stages), len(tuneup.stages)) == (1, 2)
    assert {point[0] for point in base.curve} == {0}
    assert "25 % of all links hidden" in tuneup.stages[1].words
    assert "peak memory" in run.machine
    training = charts_of(series_of([run], []), run.settings)["training"]
    assert [view.table.head for view in training] == [["when", "Base", "Stage 2"]] * 2


def test_the_page_of_a_folder_is_the_one_in_it(folder):
    assert (folder / "report.html").read_text() == page_html([read_run(folder)])


def test_a_selection_in_the_metrics_is_shown(broken):
    path = broken / "metrics.json"
    found = json.loads(path.read_text())
    trial = {"point": {"alpha": 0.5}, "seed": 0, "score": 0.7, "seconds": 1.0}
    found["selection"] = {"chosen": {"alpha": 0.5}, "trials": [trial], "points": 1}
    path.write_text(json.dumps(found))
    (chosen,) = next(m for m in read_run(broken).methods if m.name == "Result").trials
    assert chosen.chosen
    assert chosen.score == 0.7


def test_malformed_folders_are_refused(folder, tmp_path):
    spoiled = {
        "does not describe a run": [
            lambda f: (f / "metrics.json").write_text("{"),
            lambda f: (f / "metrics.json").write_text("[]"),
            lambda f: (f / "metrics.json").write_text('{"task": "x"}'),
            lambda f: (f / "metrics.json").write_bytes(b"\xff\xfe"),
        ],
        "expected metrics.json": [lambda f: (f / "metrics.json").unlink()],
        "not a readable Parquet": [lambda f: (f / "scores-base.parquet").write_text("x")],
        r"no scores-METHOD\.parquet": [
            lambda f: [path.unlink() for path in f.glob("scores-*")],
        ],
    }
    cases = [(words, spoil) for words, spoils in spoiled.items() for spoil in spoils]
    for number, (words, spoil) in enumerate(cases):
        broken = shutil.copytree(folder, tmp_path / str(number))
        spoil(broken)
        with pytest.raises(InputError, match=words):
            read_run(broken)


def test_scores_of_another_metric_are_refused(broken):
    path = broken / "metrics.json"
    path.write_text(path.read_text().replace('"metric": "accuracy"', '"metric": "recall@50"'))
    with pytest.raises(InputError, match="one metric"):
        read_run(broken)


def test_a_table_of_results_is_a_run(tmp_path):
    for seed in (0, 1):
        record(tmp_path, "tuneup", seed, 0.1)
        record(tmp_path, "base", seed, 0.0)
    run = read_run(tmp_path)
    assert [method.name for method in run.methods] == ["Base", "TuneUp"]
    assert run.seeds == [0, 1]
    assert run.command.startswith("tuneup bench run --task node-classification --dataset dblp")
    assert [trial.chosen for trial in run.methods[1].trials] == [True, True]
    assert run.data["nodes"] == "17,716"
    assert read_run(tmp_path / "dblp-gcn").title == run.title
    assert "2 training seeds" in page_html([run])


def test_seeds_that_only_one_method_has_are_not_compared(tmp_path):
    for seed in (0, 1, 2):
        record(tmp_path, "base", seed, 0.0)
    record(tmp_path, "tuneup", 1, 0.1)
    run = read_run(tmp_path)
    assert "TuneUp helped" in page_html([run])
    first = run.rows[0]
    assert first.gains["TuneUp"].seeds == 1
    assert first.before("TuneUp") == pytest.approx(scores("transductive", 0.0, 1).mean())
    assert first.before("TuneUp") != pytest.approx(scores("transductive", 0.0, 0).mean())


def test_stage_words_name_the_share_of_hidden_links():
    assert stage_words((full,)).startswith("ordinary")
    half = stage_words((full, tails(0.5)), 12)
    assert "50 % of all links" in half
    assert half.endswith("12 of the model's own best guesses as extra examples")
    assert "another share of each node's links" in stage_words((tails("graded"),))
    assert stage_words(()) == "training"
