"""`tuneup fit` where nodes have no features: their inputs are learned, and new nodes answered."""

from __future__ import annotations

import json
from itertools import cycle
from typing import get_args

import polars as pl
import pytest
import torch

from tuneup.cli import app
from tuneup.data import Graph, NodeSplit, block_graph, split_edges, split_nodes
from tuneup.errors import InputError
from tuneup.graph import adjacency_from
from tuneup.methods import METHODS
from tuneup.names import Architecture
from tuneup.serve import Predictor
from tuneup.tables import Shares, TableRequest, read_tables
from tuneup.workflow.fit import Loaded, fit
from tuneup.workflow.options import FitOptions
from tuneup.workflow.problems import with_identities
from tuneup.workflow.run_folders import save

COUNT, CLASSES, LATE = 400, 4, 40
"""Nodes, classes, and nodes that arrive when the model is trained."""


@pytest.fixture(scope="module")
def graph():
    return block_graph(COUNT, 2000, CLASSES, 1, homophily=0.8, seed=1)


@pytest.fixture(scope="module")
def folder(graph, tmp_path_factory):
    """Tables of all but the last nodes, and a table of the edges that the last have with these."""
    place = tmp_path_factory.mktemp("bare")
    sender, receiver = graph.adjacency.edge_index
    early = COUNT - LATE
    inside = (sender < receiver) & (receiver < early)
    named = torch.zeros(COUNT, dtype=torch.bool)
    named[sender[inside]] = named[receiver[inside]] = True
    for name, chosen in (("edges", inside), ("late", named[sender] & (receiver >= early))):
        ends = {"source": sender[chosen], "target": receiver[chosen]}
        frame = {key: [f"p{i}" for i in end.tolist()] for key, end in ends.items()}
        pl.DataFrame(frame).write_csv(place / f"{name}.csv")
    ids = [f"p{i}" for i in range(early)]
    topic = [f"t{label}" for label in graph.y[:early].tolist()]
    pl.DataFrame({"id": ids, "topic": topic}).write_csv(place / "nodes.csv")
    return place


def loaded(folder, task="node-classification"):
    nodes = (str(folder / "nodes.csv"),) if task == "node-classification" else ()
    label = "topic" if nodes else None
    tables = read_tables(TableRequest((str(folder / "edges.csv"),), nodes, task=task, label=label))
    return Loaded.of(tables, Shares(), 0)


def arrived(folder):
    """Ids of new nodes, and the known neighbours of each."""
    late = pl.read_csv(folder / "late.csv").group_by("target", maintain_order=True).agg("source")
    return late["target"], late["source"].to_list()


def run(*words):
    app([*map(str, words)], standalone_mode=False)


def test_classes_of_known_and_of_new_nodes(folder, graph, tmp_path):
    """A commonest class of a quarter of the nodes is what one could say without the edges."""
    found, options = loaded(folder), FitOptions(width=16, dropout=0.5, epochs=40)
    done = fit(found.problem(options), options)
    score = float(done.tuneup["transductive"].score.mean())
    assert score > 0.5
    place = save(found, options, done, tmp_path / "m", command=["tuneup", "fit"])
    ids, lists = arrived(folder)
    answers = Predictor.load(place).predict_new(None, lists, ids=ids).to_frame()
    truth = pl.Series([f"t{int(graph.y[int(name[1:])])}" for name in ids])
    assert float((answers["label"] == truth).mean()) > 0.5


def test_links_of_known_and_of_new_nodes(folder, graph, tmp_path):
    found, options = loaded(folder, "link-prediction"), FitOptions(width=16, epochs=40)
    done = fit(found.problem(options), options)
    score = float(done.tuneup["transductive"].score.mean())
    by_chance = 50 / found.tables.graph.num_nodes
    assert score > 2 * by_chance
    place = save(found, options, done, tmp_path / "m", command=["tuneup", "fit"])
    ids, lists = arrived(folder)
    ranked = Predictor.load(place).links_new(None, lists, 20, ids=ids)
    of = {f"p{i}": label for i, label in enumerate(graph.y.tolist())}
    alike = [of[node] == of[each.id] for each in ranked for node in each.candidates]
    assert sum(alike) / len(alike) > 1.5 / CLASSES, "edges are four in five among nodes of a class"


def test_every_architecture_trains_what_is_learned(folder):
    tasks = cycle(["node-classification", "link-prediction"])
    for architecture, task in zip(get_args(Architecture), tasks, strict=False):
        options = FitOptions(architecture, width=8, epochs=2)
        done = fit(loaded(folder, task).problem(options), options)
        first, second = (done.result.states[stage]["inputs.vectors"] for stage in (0, 1))
        assert (first != second).any(1).all()
        assert set(done.tuneup) == {"transductive"}


def test_a_stopped_run_resumes_bit_for_bit(folder, tmp_path):
    """Who is hidden is drawn from the moment, as all is."""
    options = FitOptions(width=8, epochs=6)
    whole = fit(loaded(folder).problem(options), options)
    count = 0

    def stop(*_):
        nonlocal count
        count += 1
        if count == 8:  # in stage 2
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(loaded(folder).problem(options), options, checkpoints=tmp_path / "c", callback=stop)
    assert any((tmp_path / "c").iterdir())
    again = fit(loaded(folder).problem(options), options, checkpoints=tmp_path / "c")
    for one, other in zip(whole.result.states, again.result.states, strict=True):
        assert all(one[name].equal(other[name]) for name in one)


def test_nodes_outside_training_have_no_identity(graph):
    split = split_nodes(COUNT, labelled=0.5, new=0.1, y=graph.y)
    seen = graph.adjacency.induce(split.known)
    expected = torch.zeros(COUNT, dtype=torch.bool)
    expected[split.known[seen.degree > 0]] = True
    assert (with_identities(graph, split).x.rowptr.diff() > 0).equal(expected)
    assert not expected[split.new].any()
    edges = split_edges(graph.adjacency, new=0.1)
    expected = torch.zeros(COUNT, dtype=torch.bool)
    expected[edges.train.flatten()] = True
    assert (with_identities(graph, edges).x.rowptr.diff() > 0).equal(expected)


def test_a_node_with_outgoing_edges_only_has_an_identity():
    adjacency = adjacency_from(torch.tensor([[0, 1], [1, 2]]), 4, undirected=False)
    bare = Graph(adjacency, torch.zeros(4, 0), torch.tensor([0, 1, 0, 1]))
    one = torch.arange(4)
    split = NodeSplit(one, one[:0], one[:1], one[1:2], one[2:3])
    assert with_identities(bare, split).x.rowptr.diff().tolist() == [1, 1, 1, 0]


def test_from_tables_to_answers_by_commands(folder, tmp_path, capsys):
    words = ("--edges", folder / "edges.csv", "--nodes", folder / "nodes.csv", "--label", "topic")
    note = "no column of nodes can be a feature: a vector of --width numbers is learned"
    run("inspect", *words)
    assert note in " ".join(capsys.readouterr().out.split())
    run("fit", *words, "--out", tmp_path / "m", "--new", "0", "--epochs", "4", "--width", "16")
    said = " ".join(capsys.readouterr().out.split())
    assert note in said
    assert "16 learned numbers a node" in said
    assert "learned numbers a node" in (tmp_path / "m" / "report.html").read_text()
    assert json.loads((tmp_path / "m" / "config.json").read_text())["model"]["known"] == 359
    run("predict", tmp_path / "m", "--ids", "p0,p5")
    assert pl.read_csv(capsys.readouterr().out.encode())["id"].to_list() == ["p0", "p5"]
    run("predict", tmp_path / "m", "--edges", folder / "late.csv")
    ids, lists = arrived(folder)
    answers = pl.read_csv(capsys.readouterr().out.encode())
    assert dict(answers.select("id", "degree").iter_rows()) == {
        name: len(each) for name, each in zip(ids, lists, strict=True)
    }


def test_links_from_edges_alone_by_commands(folder, tmp_path, capsys):
    run("fit", "--edges", folder / "edges.csv", "--out", tmp_path / "m", "--epochs", "4",
        "--width", "8")  # fmt: skip
    assert "no table of nodes: a vector of --width numbers" in " ".join(
        capsys.readouterr().out.split()
    )
    pl.DataFrame({"id": ["new", "alone"]}).write_csv(tmp_path / "new.csv")
    pl.DataFrame({"a": ["new"], "b": ["p1"]}).write_csv(tmp_path / "e.csv")
    run("predict", tmp_path / "m", "--nodes", tmp_path / "new.csv", "--edges", tmp_path / "e.csv",
        "--top", "3")  # fmt: skip
    answers = pl.read_csv(capsys.readouterr().out.encode())
    assert answers["id"].to_list() == ["new"] * 3 + ["alone"] * 3
    assert answers["degree"].to_list() == [1] * 3 + [0] * 3
    assert "p1" not in answers.head(3)["node"].to_list()


def test_methods_that_read_features_are_refused(folder):
    setup = loaded(folder).problem(FitOptions(width=8)).setup
    fits = [method for method in METHODS.values() if setup.task_name in method.tasks]
    refused = [method for method in fits if method.needs_features]
    assert refused
    for method in refused:
        with pytest.raises(InputError, match="needs node features, and there are none"):
            method.check(setup)
