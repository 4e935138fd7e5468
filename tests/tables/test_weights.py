"""Edge weights from a column: into the graph, through a fit, and refused with their reason."""

from __future__ import annotations

import json
import sys

import polars as pl
import pytest
import torch

from tuneup import cli
from tuneup.errors import InputError
from tuneup.methods import METHODS
from tuneup.serve import Predictor
from tuneup.tables import FeaturePlan, TableRequest, read_tables

COUNT = 60


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A ring with chords; edges within a class weigh more."""
    monkeypatch.chdir(tmp_path)
    ends = [(i, (i * k + 1) % COUNT) for i in range(COUNT) for k in (1, 3)]
    ends = sorted({(min(e), max(e)) for e in ends if e[0] != e[1]})
    frame = pl.DataFrame(ends, schema=["source", "target"], orient="row")
    same = (pl.col("source") % 3) == (pl.col("target") % 3)
    frame = frame.with_columns(w=pl.when(same).then(5.0).otherwise(0.5) + pl.col("source") / 100)
    frame.write_csv("edges.csv")
    nodes = {"id": range(COUNT), "label": [*"abc"] * 20, "f": [i % 7 / 2 for i in range(COUNT)]}
    pl.DataFrame(nodes).write_csv("nodes.csv")
    monkeypatch.setattr(cli, "relaunch", lambda: None)
    return tmp_path


def request(**more):
    return TableRequest(("edges.csv",), ("nodes.csv",), weight="w", **more)


def tuneup(monkeypatch, capsys, *words) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["tuneup", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    printed = capsys.readouterr()
    return int(stop.value.code or 0), printed.out, printed.err


@pytest.mark.parametrize("directed", [False, True])
def test_weights_are_those_of_the_rows(directed):
    tables = read_tables(request(directed=directed))
    graph = tables.graph.adjacency
    rows = {(s, t): w for s, t, w in pl.read_csv("edges.csv").iter_rows()}
    if not directed:
        rows |= {(t, s): w for (s, t), w in rows.items()}
    found = zip(*graph.edge_index.tolist(), graph.weight.tolist(), strict=True)
    assert {(s, t): pytest.approx(w) for s, t, w in found} == rows
    assert any("edge weights, 0.5 to 5.55" in note for note in tables.notes)
    assert read_tables(request(ignore_weights=True)).graph.adjacency.weight is None


WRONG = [
    ("0,5,NaN", "row 2 (line 3), column 'w': NaN"),
    ("0,5,-1", "row 2 (line 3), column 'w': a weight of -1; weights are above 0"),
    ("0,5,0", "row 2 (line 3), column 'w': a weight of 0"),
    ("0,5,inf", "row 2 (line 3), column 'w': an infinite number"),
    ("0,5,", "row 2 (line 3), column 'w': missing weight"),
    ("0,5,heavy", "row 2 (line 3), column 'w': 'heavy' is not a number"),
    ("0,5,1e-60", "column 'w': weights beyond single precision"),
    ("1,0,3", "row 2 (line 3), column 'target': this edge has the weights 2 and 3"),
]


def test_weights_that_are_none_are_named():
    for row, words in WRONG:
        with open("edges.csv", "w") as file:
            file.write(f"source,target,w\n0,1,2\n{row}\n2,3,4\n")
        with pytest.raises(InputError) as refused:
            read_tables(request())
        assert words in str(refused.value)
    with open("edges.csv", "w") as file:
        file.write("source,target,w\n0,1,2\n1,0,3\n2,3,4\n")
    assert read_tables(request(directed=True)).graph.adjacency.num_entries == 3


def test_tasks_and_models_without_a_meaning_refuse_them(monkeypatch, capsys):
    for task in ("link-prediction", "recommendation"):
        with pytest.raises(InputError, match=f"--weight is not supported for {task}"):
            read_tables(TableRequest(("edges.csv",), task=task, weight="w"))
    unasked = TableRequest(("edges.csv",), ("nodes.csv",), source="source", target="target")
    assert any("not used: w" in note or "'w'" in note for note in read_tables_notes(unasked))
    words = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--weight", "w", "--out", "m")
    for architecture in ("gat", "sage-max"):
        code, _, error = tuneup(
            monkeypatch, capsys, "fit", *words, "--architecture", architecture, "--epochs", "2"
        )
        assert code == 2
        assert f"{architecture} has no meaning for edge weights" in error
    assert {name for name, method in METHODS.items() if not method.reads_weights} >= {
        *("tail-gnn", "rawls-gcn", "localaug", "coldbrew"),
    }


def read_tables_notes(request) -> list[str]:
    """Of the request, or of the error that it ends in."""
    try:
        return [*read_tables(request).notes]
    except InputError as error:
        return [str(error)]


@pytest.mark.parametrize("architecture", ["sage", "gcn"])
def test_a_fit_uses_saves_and_serves_them(architecture, monkeypatch, capsys, folder):
    words = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--weight", "w", "--epochs", "4")
    more = ("--architecture", architecture, "--width", "8", "--out", "m")
    code, out, error = tuneup(monkeypatch, capsys, "fit", *words, *more)
    assert code == 0, error
    assert "edge weights, 0.5 to 5.55" in " ".join(out.split())
    predictor = Predictor.load("m", read_plan=FeaturePlan.from_json)
    artefact = predictor.model.artefact
    expected = read_tables(request()).graph.adjacency.weight
    assert artefact.adjacency.weight.equal(expected)
    light = artefact.model(artefact.x, artefact.adjacency.edge_index)
    heavy = artefact.model(artefact.x, artefact.adjacency)
    assert not torch.allclose(light, heavy), "weights change the answer"
    torch.testing.assert_close(predictor.model.outputs, heavy)
    code, out, error = tuneup(monkeypatch, capsys, "predict", "m", "--ids", "0,1,2")
    assert code == 0, error
    assert len(out.splitlines()) == 4
    pl.DataFrame({"id": [99], "f": [0.5]}).write_csv("new.csv")
    code, _, error = tuneup(monkeypatch, capsys, "predict", "m", "--nodes", "new.csv")
    assert code == 0, error
    pl.DataFrame({"source": [99], "target": [0]}).write_csv("new-edges.csv")
    arriving = ("--nodes", "new.csv", "--edges", "new-edges.csv")
    code, _, error = tuneup(monkeypatch, capsys, "predict", "m", *arriving)
    assert code == 2
    assert "--edges: the edges of this model have weights" in " ".join(error.split())
    report = json.loads((folder / "m" / "metrics.json").read_text())
    assert report
