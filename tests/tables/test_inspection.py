"""What the doctor says, against counting by hand, and how it is shown."""

from __future__ import annotations

import json
import math
import sys

import polars as pl
import pytest
import torch

from tuneup import cli
from tuneup.data import COLD_RATIOS
from tuneup.metrics.topk import INNER_PRODUCT
from tuneup.nn import HadamardScorer
from tuneup.tables import Shares, TableRequest, inspect_tables, read_tables
from tuneup.tables.inspection import (
    LINK_SOURCES,
    LINK_TILE,
    NEW_SETTINGS,
    PAIR_TILE,
    START,
    degrees_of,
    duration,
    estimate_fit,
    size,
    validates_every,
)
from tuneup.tasks import VALIDATION_SOURCES
from tuneup.train.defaults import DEFAULTS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A star of 8 leaves, one edge twice, one both ways, one loop and a node alone."""
    monkeypatch.chdir(tmp_path)
    ends = [(0, leaf) for leaf in range(1, 9)] + [(0, 1), (2, 0), (3, 3)]
    pl.DataFrame(ends, schema=["source", "target"], orient="row").write_csv("edges.csv")
    pl.DataFrame(
        {"id": range(10), "label": [*"aabbbbbbb", None], "f": [float(i) for i in range(10)]}
    ).write_csv("nodes.csv")
    return tmp_path


def run(monkeypatch, capsys, *arguments, columns=60):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "argv", ["tuneup", "inspect", *arguments])
    monkeypatch.setattr(cli, "relaunch", lambda: None)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    printed = capsys.readouterr()
    assert stop.value.code == 0, printed.err
    return printed.out


def test_counts(folder):
    found = inspect_tables(read_tables(TableRequest(("edges.csv",), ("nodes.csv",))))
    assert dict(found.counts) == {
        "nodes": 10,
        "edges": 8,
        "rows of edges": 11,
        "repeated edges": 1,
        "self-loops": 1,
        "edges listed both ways": 1,
        "ids without a row": 0,
        "nodes without an edge": 1,
        "features": 1,
    }
    degrees = found.degrees["nodes"]
    assert (degrees.tail, degrees.tail_share, degrees.largest) == (9, 0.9, 8)
    assert {each.label: each.count for each in degrees.bins if each.count} == {
        "0": 1,
        "1": 8,
        "6-10": 1,
    }
    assert found.labels == (("b", 7), ("a", 2))
    assert found.unlabelled == 1
    assert found.num_bytes == sum(path.stat().st_size for path in folder.iterdir())


def test_pairs_are_counted_from_both_sides(folder):
    users = [user for user in range(10) for _ in range(user + 1)]
    items = [item for user in range(10) for item in range(user + 1)]
    pl.DataFrame({"user": [*users, 9], "item": [*items, 9]}).write_csv("p.csv")
    found = inspect_tables(read_tables(TableRequest(("p.csv",), task="recommendation")))
    assert found.counts["repeated pairs"] == 1
    assert found.counts["pairs"] == 55
    assert found.degrees["users"].tail == 5
    assert found.degrees["items"].tail == 5


def test_bins_cover_every_degree_once():
    degree = torch.arange(0, 5000)
    found = degrees_of(degree)
    assert sum(each.count for each in found.bins) == 5000
    assert found.bins[-1].label == "> 1000"
    assert sum(each.count for each in found.bins if each.high and each.high <= 5) == 5
    assert any(each.high == 5 for each in found.bins)


def test_tables_fit_60_columns(folder, monkeypatch, capsys):
    out = run(monkeypatch, capsys, "--edges", "edges.csv", "--nodes", "nodes.csv")
    assert max(map(len, out.splitlines())) <= 60
    for words in ("self-loops", "tail (at most 5 edges): 9 of 10", "6-10", "(no label)", "is esti"):
        assert words in out
    assert sorted(path.name for path in folder.iterdir()) == ["edges.csv", "nodes.csv"]


def test_json_is_the_same_and_nothing_else(folder, monkeypatch, capsys):
    arguments = ("--task", "node-classification", "--edges", "edges.csv", "--nodes", "nodes.csv")
    out = json.loads(run(monkeypatch, capsys, *arguments, "--json"))
    request = TableRequest(("edges.csv",), ("nodes.csv",), task="node-classification")
    tables = read_tables(request)
    found = inspect_tables(
        tables.with_split(tables.split(request.shares(has_split=False)))
    ).to_dict()
    assert out == json.loads(json.dumps(found))
    assert out["degrees"]["nodes"]["tail_share"] == 0.9


def test_the_task_is_guessed_by_what_is_there(folder, monkeypatch, capsys):
    pl.DataFrame({"a": range(30), "b": range(1, 31)}).write_csv("links.csv")
    out = json.loads(run(monkeypatch, capsys, "--edges", "links.csv", "--json"))
    assert out["counts"]["edges"] == 30
    assert out["labels"] == []
    assert out["notes"][0] == (
        "task: link prediction, as there is no table of nodes or labels (--task)."
    )
    out = run(monkeypatch, capsys, "--edges", "links.csv", "--user", "a", "--item", "b", "--json")
    assert json.loads(out)["counts"]["pairs"] == 30
    assert json.loads(out)["notes"][0].startswith("task: recommendation, as --user is about pairs")
    pair = ("--edges", "links.csv", "--user", "a", "--item", "b", "--task", "recommendation")
    assert "as --user" not in run(monkeypatch, capsys, *pair, "--json")


def test_options_reach_the_request(folder, monkeypatch, capsys):
    (folder / "e.txt").write_text("x;y;w\n0;1;2\n1;77;3\n2;3;4\n")
    out = run(
        monkeypatch, capsys, "--edges", "e.txt", "--nodes", "nodes.csv", "--json",
        "--format", "csv", "--delimiter", ";", "--source", "y", "--target", "x",
        "--ignore-weights", "--directed",
        "--unknown-ids", "add", "--exclude", "f", "--width", "32", "--epochs", "7",
    )  # fmt: skip
    assert "e.txt" in out
    found = json.loads(out)
    assert found["counts"]["ids without a row"] == 1
    assert found["counts"]["features"] == 0
    assert (found["estimate"]["width"], found["estimate"]["epochs"]) == (32, 7)


def test_an_estimate_grows_with_everything():
    base = estimate_fit(1000, 5000, 50)
    for more in ((2000, 5000, 50), (1000, 9000, 50), (1000, 5000, 90)):
        other = estimate_fit(*more)
        assert other.memory > base.memory
        assert other.seconds > base.seconds
    assert estimate_fit(1000, 5000, 50, width=512).seconds > base.seconds
    longer = estimate_fit(1000, 5000, 50, epochs=600)
    assert longer.seconds - START == pytest.approx(2 * (base.seconds - START))


def test_an_estimate_knows_what_a_fit_ranks(folder):
    """Its own constants are those of the rooms that rank, which tables cannot import."""
    assert LINK_SOURCES == VALIDATION_SOURCES
    assert (HadamardScorer.tile, INNER_PRODUCT.tile) == (LINK_TILE, PAIR_TILE)
    assert 1 + len(COLD_RATIOS) == NEW_SETTINGS
    paper = DEFAULTS["node-classification"].schedules(60, select="transductive")
    assert paper[0].validate_every == validates_every(60) == 3


def test_ranking_is_most_of_what_link_prediction_costs(folder):
    """The same 300 nodes of a ring, as links: 500 sources at most, and new nodes in 4 settings."""
    pl.DataFrame({"source": range(300), "target": [*range(1, 300), 0]}).write_csv("ring.csv")
    tables = read_tables(TableRequest(("ring.csv",), task="link-prediction"))
    split = tables.split(Shares(new=0.1))
    found = inspect_tables(tables, split=split).estimate
    bare = estimate_fit(300, 600, 0)
    validated, tested = (part.unique().numel() for part in (split.validation, split.test))
    new = len(set(split.new.tolist()) & set(split.new_target.flatten().tolist()))
    pairs = 120 * 16 * math.ceil(validated / 16) + 2 * 16 * math.ceil((tested + 4 * new) / 16)
    ranked = 1024 * pairs * (3.7e-11 * 128 * 129 + 2e-9)
    losses = 600 * 3 * 9e-11 * 128 * 129 * split.train.shape[1]
    assert found.seconds == pytest.approx(bare.seconds + ranked + losses)
    assert found.seconds > 2 * (bare.seconds - START)
    assert found.memory > bare.memory > 400e6  # the program itself is in it


def test_a_fit_that_does_not_fit_the_memory_is_warned_of(folder, monkeypatch, capsys):
    cost = estimate_fit(10**6, 10**7, 100)
    assert cost.warning(None) is None
    assert cost.warning(cost.memory) is None
    warning = cost.warning(2 * 10**9)
    assert warning.startswith(f"Warning: a fit may need {size(cost.memory)} of memory, but 2.0 GB")
    assert "--width" in warning
    monkeypatch.setattr("tuneup.tables.inspection.free_memory", lambda: 10**6)
    words = ("--edges", "edges.csv", "--nodes", "nodes.csv")
    assert "1.0 MB are free" in " ".join(run(monkeypatch, capsys, *words).split())
    json.loads(run(monkeypatch, capsys, *words, "--json"))


def test_numbers_for_people():
    assert [size(each) for each in (12, 1500, 2e6, 3e12)] == [
        "12 bytes",
        "1.5 KB",
        "2.0 MB",
        "3000.0 GB",
    ]
    assert [duration(each) for each in (0.1, 60, 600, 9000)] == [
        "1 second",
        "60 seconds",
        "10 minutes",
        "2.5 hours",
    ]
