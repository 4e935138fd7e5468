"""Features are fitted to what training knows: nothing about held-out nodes is in their plan."""

from __future__ import annotations

import polars as pl
import pytest
import torch

from tuneup.tables import Shares, TableRequest, read_tables
from tuneup.workflow.fit import Loaded

COUNT = 60
NODES = pl.DataFrame(
    {
        "id": range(COUNT),
        "size": [float(i % 11) + 0.5 for i in range(COUNT)],
        "color": [("red", "blue")[i % 2] for i in range(COUNT)],
        "gap": [None if i % 9 == 0 else i % 4 for i in range(COUNT)],
        "vector": [[i % 3, i % 5] for i in range(COUNT)],
        "label": [("a", "b", None)[i % 3] for i in range(COUNT)],
    }
)
TASKS = ("node-classification", "link-prediction")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ends = {"source": range(COUNT), "target": [(i * 7 + 1) % COUNT for i in range(COUNT)]}
    pl.DataFrame(ends).write_csv("edges.csv")
    return tmp_path


def loaded(task, nodes=NODES, new=0.2):
    nodes.write_parquet("nodes.parquet")
    request = TableRequest(("edges.csv",), ("nodes.parquet",), task=task)
    return Loaded.of(read_tables(request), Shares(0.6, 0.2, new), 0)


def poisoned(nodes: torch.Tensor) -> pl.DataFrame:
    """Other values in all features of some nodes."""
    hit = pl.col("id").is_in(nodes.tolist())
    return NODES.with_columns(
        size=pl.when(hit).then(1e6).otherwise("size"),
        color=pl.when(hit).then(pl.lit("green")).otherwise("color"),
        gap=pl.when(hit).then(None).otherwise("gap"),
        vector=pl.when(hit).then(pl.lit(pl.Series([[999, -999]]))).otherwise("vector"),
    )


@pytest.mark.parametrize("task", TASKS)
def test_held_out_nodes_change_nothing(folder, task):
    clean = loaded(task)
    split = clean.split
    held_out = [split.new, split.validation, split.test] if task == TASKS[0] else [split.new]
    nodes = torch.cat(held_out)
    assert len(nodes) >= 12
    dirty = loaded(task, poisoned(nodes))
    assert dirty.tables.plan == clean.tables.plan
    seen = torch.ones(COUNT, dtype=torch.bool)
    seen[nodes] = False
    assert dirty.tables.graph.x[seen].equal(clean.tables.graph.x[seen])
    assert not dirty.tables.graph.x[nodes].isclose(clean.tables.graph.x[nodes]).all(1).any()
    one = seen.nonzero()[:1, 0]
    assert loaded(task, poisoned(one)).tables.plan != clean.tables.plan, "poison is poured"


def test_training_nodes_have_mean_0_and_unlabelled_ones_are_among_them(folder):
    found = loaded("node-classification")
    split, graph = found.split, found.tables.graph
    training = torch.ones(COUNT, dtype=torch.bool)
    training[torch.cat([split.new, split.validation, split.test])] = False
    assert (training & (graph.y < 0)).any()
    assert graph.x[training, 0].mean().abs() < 1e-6
    assert graph.x[training, 0].std(correction=0).isclose(torch.tensor(1.0))


def test_without_a_split_all_rows_are_fitted(folder):
    NODES.write_parquet("nodes.parquet")
    found = read_tables(TableRequest(("edges.csv",), ("nodes.parquet",)))
    assert found.graph.x[:, 0].mean().abs() < 1e-6
    assert found.plan.width == found.graph.num_features > 0


def test_a_column_that_says_nothing_in_training_is_left_out(folder):
    test = pl.col("id") >= COUNT - 9
    nodes = NODES.select("id", "size").with_columns(
        flat=pl.when(test).then(5).otherwise(1),
        late=pl.when(test).then(pl.lit(2.5)),
        label=pl.col("id") % 2,
        split=pl.when(test).then(pl.lit("test")).when(pl.col("id") < 9).then(pl.lit("val"))
        .otherwise(pl.lit("train")),
    )  # fmt: skip
    found = loaded("node-classification", nodes, new=0.0).tables
    assert found.plan.inputs == ("size",)
    notes = "\n".join(found.notes)
    assert "left out 'flat': the same in all training rows" in notes
    assert "left out 'late': no values in training rows" in notes
    assert "Features as numbers: size." in notes
    bare = loaded("node-classification", nodes.drop("size"), new=0.0).tables
    assert any("no column of nodes can be a feature" in note for note in bare.notes)
    assert bare.graph.num_features == COUNT, "learned instead"
