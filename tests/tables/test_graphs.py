"""Tables into graphs, against what was written into them."""

from __future__ import annotations

import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneup.data import EdgeSplit, NodeSplit
from tuneup.errors import InputError
from tuneup.tables import Shares, TableRequest, read_tables
from tuneup.tables.splits import seeded_node_split

EDGES = pl.DataFrame({"src": ["b", "a", "c", "c", "b"], "dst": ["a", "b", "b", "c", "a"]})
NODES = pl.DataFrame(
    {
        "node_id": ["c", "a", "b", "lonely"],
        "class": ["y", "x", "y", "x"],
        "f": [1.0, 2.0, 3.0, 4.0],
        "split": ["train", "valid", "Test", None],
    }
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    EDGES.write_csv("edges.csv")
    NODES.write_parquet("nodes.parquet")
    return tmp_path


def request(**more):
    return TableRequest(edges=("edges.csv",), nodes=("nodes.parquet",), **more)


def test_csv_and_parquet_into_one_graph(folder):
    found = read_tables(request())
    assert found.ids.values.to_list() == ["c", "a", "b", "lonely"]
    assert found.classes == ("x", "y")
    assert found.graph.y.tolist() == [1, 0, 1, 0]
    assert found.graph.adjacency.undirected
    pairs = {tuple(edge) for edge in found.graph.adjacency.edge_index.T.tolist()}
    assert pairs == {(1, 2), (2, 1), (0, 2), (2, 0)}
    assert found.graph.adjacency.num_self_loops == 1
    assert found.graph.adjacency.num_duplicates == 1
    assert found.plan.columns == ("f",)
    assert found.graph.x[:, 0].argsort().tolist() == [0, 1, 2, 3]
    assert isinstance(found.given, NodeSplit)
    assert [getattr(found.given, part).tolist() for part in ("train", "validation", "test")] == [
        [0],
        [1],
        [2],
    ]
    assert found.split() is found.given
    text = "\n".join(found.notes)
    for word in ("'src'", "'dst'", "'node_id'", "'class'", "'split'"):
        assert word in text, "guesses are noted"


def test_directed_edges(folder):
    adjacency = read_tables(request(directed=True)).graph.adjacency
    assert not adjacency.undirected
    pairs = {tuple(edge) for edge in adjacency.edge_index.T.tolist()}
    assert pairs == {(1, 2), (2, 1), (0, 2)}


def test_edges_alone(folder):
    found = read_tables(TableRequest(edges=("edges.csv",), task="link-prediction"))
    assert found.ids.values.to_list() == ["a", "b", "c"]
    assert found.graph.x.shape == (3, 0)
    assert found.plan.width == 0
    assert found.graph.y is None
    with pytest.raises(InputError, match="too few"):
        found.split()


def test_labels_in_a_table_of_their_own(folder):
    pl.DataFrame({"id": ["b", "a"], "label": [7, 3]}).write_csv("labels.csv")
    found = read_tables(TableRequest(edges=("edges.csv",), labels=("labels.csv",)))
    assert found.classes == (3, 7)
    assert found.graph.y.tolist() == [0, 1, -1]
    both = read_tables(request(labels=("labels.csv",)))
    assert both.graph.y.tolist() == [-1, 0, 1, -1]
    assert both.plan.columns == ("f",), "another table's class is no feature"


def test_unknown_ids_are_added_where_asked(folder):
    EDGES.vstack(pl.DataFrame({"src": ["z"], "dst": ["a"]})).write_csv("edges.csv")
    with pytest.raises(InputError, match="id 'z' has no row"):
        read_tables(request())
    found = read_tables(request(unknown_ids="add"))
    assert found.ids.values.to_list() == ["c", "a", "b", "lonely", "z"]
    assert found.added == 1
    assert found.graph.y.tolist()[-1] == -1
    assert found.graph.x[-1].tolist() == found.plan.blanks(1)[0].tolist()
    assert found.given.train.tolist() == [0]


def test_added_texts_among_numbers(folder):
    pl.DataFrame({"id": [1, 2], "label": ["x", "y"]}).write_csv("n.csv")
    (folder / "e.csv").write_text("source,target\n1,2\n2,new\n")
    request = TableRequest(edges=("e.csv",), nodes=("n.csv",), unknown_ids="add")
    assert read_tables(request).ids.values.to_list() == ["1", "2", "new"]


def test_which_columns_are_features(folder):
    wide = NODES.with_columns(g=pl.col("f") ** 2, color=pl.Series([*"abab"]))
    wide.write_parquet("nodes.parquet")
    assert read_tables(request()).plan.inputs == ("f", "g", "color")
    only = read_tables(request(features=("g",)))
    assert only.plan.inputs == ("g",)
    assert any("not used: f, color" in note for note in only.notes)
    rest = read_tables(request(exclude=("color", "f")))
    assert rest.plan.inputs == ("g",)


def test_equal_weights_are_let_go_and_others_where_asked(folder):
    EDGES.with_columns(weight=1.0).write_csv("edges.csv")
    assert any("every weight is 1.0" in note for note in read_tables(request()).notes)
    EDGES.with_columns(weight=pl.int_range(5)).write_csv("edges.csv")
    with pytest.raises(InputError, match="--ignore-weights"):
        read_tables(request())
    assert any("left out, as asked" in n for n in read_tables(request(ignore_weights=True)).notes)


def test_masks_are_a_split_and_never_features(folder):
    masks = {"train_mask": [True, False, False, False], "val_mask": [False, True, False, False]}
    NODES.drop("split").with_columns(**{k: pl.Series(v) for k, v in masks.items()}).write_parquet(
        "nodes.parquet"
    )
    found = read_tables(request())
    assert found.plan.inputs == ("f",)
    assert found.given.train.tolist() == [0]
    assert found.given.validation.tolist() == [1]


def test_a_split_of_edges(folder):
    frame = pl.DataFrame(
        {
            "source": [1, 2, 3, 2, 4, 4],
            "target": [2, 3, 4, 1, 4, 3],
            "split": ["train", "val", "test", "train", None, None],
        }
    )
    frame.write_csv("e.csv")  # a self-loop and a repeated edge need no part
    found = read_tables(TableRequest(edges=("e.csv",), task="link-prediction"))
    split = found.split()
    assert isinstance(split, EdgeSplit)
    assert split.train.tolist() == [[0], [1]]
    assert split.validation.tolist() == [[1], [2]]
    assert split.test.tolist() == [[2], [3]]


def test_a_seeded_split_of_edges(folder):
    pl.DataFrame({"source": range(50), "target": range(1, 51)}).write_csv("e.csv")
    found = read_tables(TableRequest(edges=("e.csv",), task="link-prediction"))
    split = found.split(Shares(0.6, 0.2), seed=3)
    assert [part.shape[1] for part in (split.train, split.validation, split.test)] == [30, 10, 10]
    assert torch.equal(split.train, found.split(Shares(0.6, 0.2), seed=3).train)
    assert not torch.equal(split.train, found.split(Shares(0.6, 0.2), seed=4).train)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-1, 3), min_size=4, max_size=60), st.integers(0, 2**31 - 1))
def test_a_seeded_split_has_every_labelled_node_once(labels, seed):
    y = torch.tensor(labels)
    labelled = (y >= 0).nonzero()[:, 0].tolist()
    if len(labelled) < 2:
        with pytest.raises(InputError, match="too few"):
            seeded_node_split(y, Shares(), seed, "g")
        return
    split = seeded_node_split(y, Shares(0.5, 0.25), seed, "g")
    parts = [split.train, split.validation, split.test]
    assert sorted(torch.cat(parts).tolist()) == labelled
    assert len(split.train) == max(1, int(0.5 * len(labelled)))


REFUSED = [
    ({"task": "node-classification", "nodes": ()}, "needs labels"),
    ({"edges": ()}, "no table of edges"),
    ({"task": "clustering"}, "--task is one of"),
    ({"unknown_ids": "drop"}, "unknown-ids is one of"),
    ({"task": "link-prediction", "directed": True}, "undirected"),
    ({"task": "link-prediction", "labels": ("l.csv",)}, "no labels"),
    ({"task": "link-prediction", "nodes": (), "id": "x"}, "--id names a column"),
    ({"task": "recommendation"}, "--nodes is not supported"),
    ({"task": "link-prediction", "time": "t"}, "--time is not supported"),
    ({"by_time": True, "split": "s"}, "two ways to split"),
    ({"categorical": ("a",), "numeric": ("a",)}, "'a' is in --categorical and in --numeric"),
    ({"encoding": "klingon"}, "no such encoding"),
    ({"max_levels": 0}, "--max-levels"),
]


def test_a_request_checks_itself():
    for more, words in REFUSED:
        with pytest.raises(InputError, match=words):
            TableRequest(**{"edges": ("e.csv",), "nodes": ("n.csv",), **more}).with_task()
