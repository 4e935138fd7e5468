"""`tuneup bench run`: what a request means and what it would cost."""

import re
import shutil

import pytest

from tests.bench.conftest import recorded_suite
from tuneup.bench import cells
from tuneup.bench.presets import applicable, schedules
from tuneup.errors import InputError


def asked(tmp_path, **given):
    wanted = {
        "table": None,
        "datasets": (),
        "task": None,
        "architectures": (),
        "methods": (),
        "seeds": None,
        "preset": "short",
        "trials": None,
    } | given
    order = ("table", "datasets", "task", "architectures", "methods", "seeds")
    return cells.suites(
        *(wanted[name] for name in order),
        preset=wanted["preset"],
        trials=wanted["trials"],
        results=tmp_path / "results",
        runs=tmp_path / "runs",
    )


def test_a_single_cell(tmp_path):
    (suite,) = asked(
        tmp_path,
        datasets=["dblp"],
        task="node-classification",
        architectures=["gcn"],
        methods=["tuneup"],
        seeds=[3],
    )
    assert (suite.dataset, suite.architecture) == ("dblp", "gcn")
    assert suite.methods == ("tuneup",)
    assert suite.seeds == (3,)
    assert suite.results == tmp_path / "results" / "node-classification"


def test_a_table_of_the_paper(tmp_path):
    found = asked(tmp_path, table="recsys_table", datasets=["gowalla"])
    assert [suite.architecture for suite in found] == ["sage", "gcn"]
    assert "rawls-gcn" in found[1].methods
    assert "rawls-gcn" not in found[0].methods
    assert all("tail-gnn" in suite.methods for suite in found)
    models = asked(tmp_path, table="gnn_model_table", datasets=["gowalla"])
    assert {s.architecture for s in models} == {"sage", "gcn", "gat", "sage-max", "sage-sum"}
    assert all(suite.methods == ("base", "tuneup") for suite in models)


def test_a_method_runs_on_those_of_the_datasets_that_it_applies_to(tmp_path):
    found = asked(tmp_path, datasets=["dblp", "gowalla"], methods=["graphlessnn"])
    assert {(suite.dataset, suite.task) for suite in found} == {("dblp", "node-classification")}


def test_nodes_come_before_links(tmp_path):
    tasks = [suite.task for suite in asked(tmp_path)]
    assert tasks == sorted(
        tasks, key=["node-classification", "link-prediction", "recommendation"].index
    )


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"datasets": ["dlbp"]}, "dataset is one of .*dblp.*; got 'dlbp'"),
        ({"task": "nodes"}, "task is one of node-classification, .*; got 'nodes'"),
        ({"architectures": ["gin"]}, "architecture is one of sage, .*; got 'gin'"),
        ({"methods": ["tuneup2"]}, "no method 'tuneup2'"),
        ({"preset": "fast"}, "preset is one of short, paper; got 'fast'"),
        ({"table": "x"}, "The paper has no table 'x'"),
        (
            {"table": "recsys_table", "datasets": ["dblp"]},
            r"^Nothing to run on dblp: recommendation has gowalla, amazon-book\.$",
        ),
        (
            {"table": "recsys_table", "datasets": ["gowalla", "dblp"]},
            r"^Nothing to run on dblp: recommendation has gowalla, amazon-book\.$",
        ),
        (
            {"table": "recsys_table", "architectures": ["gat"]},
            "^Table recsys_table has recommendation with sage, recommendation with gcn; ",
        ),
        ({"trials": 0}, "--trials must be 1 or more"),
        ({"seeds": [0, -1]}, "--seed must be 0 or more; got -1"),
        (
            {"task": "link-prediction", "methods": ["graphlessnn"], "architectures": ["gcn"]},
            "graphlessnn is for node-classification, not link-prediction",
        ),
        (
            {"task": "link-prediction", "methods": ["graphlessnn"]},
            "graphlessnn is for node-classification, not link-prediction",
        ),
    ],
)
def test_a_wrong_request_is_answered_before_any_work(tmp_path, given, reason):
    with pytest.raises(InputError, match=reason):
        asked(tmp_path, **given)
    assert not list(tmp_path.iterdir())


def test_the_papers_schedules():
    for task, (first, second) in {
        "node-classification": ((1500, 0.001), (1500, 0.001)),
        "link-prediction": ((1000, 0.0001), (1000, 0.0001)),
        "recommendation": ((2000, 0.001), (500, 0.0001)),
    }.items():
        found = schedules(task, "anything", "gcn", "paper")
        assert [(stage.epochs, stage.lr) for stage in found] == [first, second]
        assert all(stage.patience is None and stage.validate_every == 10 for stage in found)
    assert schedules("recommendation", "gowalla", "sage", "paper")[0].milestones == (1000, 1500)


def test_a_dry_run_says_what_and_how_long(tmp_path):
    (suite,) = asked(
        tmp_path, datasets=["dblp"], task="node-classification", architectures=["sage"]
    )
    lines = list(cells.describe_plan([suite]))
    rows = applicable("node-classification", "sage")
    assert f"{5 * len(rows)} runs without a record" in lines[0]
    assert "54 trials to choose by; trainings never timed: " in lines[0]
    assert "10 of tail-gnn" in lines[0]  # six points with one seed, four more seeds of the chosen
    assert "9 of tuneup" in lines[0]  # three points with two seeds each, which two runs then are
    assert lines[1] == "  base: 5 seeds"
    count = sum(int(words) for words in re.findall(r"(\d+) of ", lines[0]))
    assert lines[-1] == f"in all {count} trainings that were never timed"  # and no guess of hours
    assert not list(tmp_path.iterdir())


def test_a_dry_run_of_fresh_ones_says_what_would_go(recorded):
    suite = recorded_suite(recorded / "node-classification", ("tuneup",))
    assert "0 runs without a record, 0 trials" in next(iter(cells.describe_plan([suite])))
    lines = list(cells.describe_plan([suite], fresh=True))
    assert "3 runs without a record, 3 trials" in lines[0]
    assert lines[1] == "  3 records would be removed first"
    assert len(suite.kept) == 3


def test_a_dry_run_says_which_records_would_be_replaced(recorded, tmp_path):
    folder = tmp_path / "node-classification"
    shutil.copytree(recorded / "node-classification", folder)
    (folder / "selection" / "dblp-gcn-tuneup.json").unlink()
    suite = recorded_suite(folder, ("base", "tuneup"))
    lines = list(cells.describe_plan([suite]))
    assert "3 runs without a record, 3 trials" in lines[0]
    assert lines[1].startswith(
        "  3 of them have one of other settings, or of a choice that was not"
    )


def test_names_of_datasets_are_known_in_any_case(tmp_path):
    (suite,) = asked(
        tmp_path, datasets=["DBLP"], task="link-prediction", architectures=["gcn"], methods=["base"]
    )
    assert suite.dataset == "dblp"


def test_large_graphs_of_a_table_that_are_not_run_are_named():
    assert cells.unasked("recsys_table", ()) == (
        "Large graphs of recsys_table are run only by name: --dataset amazon-book."
    )
    assert cells.unasked("recsys_table", ["gowalla"]) == ""
    assert cells.unasked(None, ()) == ""
