"""The paper's numbers as data: carried whole, found by our names."""

import polars as pl
import pytest

from tuneup.bench.paper import paper_table, paper_tables, published, published_score
from tuneup.errors import InputError
from tuneup.methods import METHODS
from tuneup.methods.titles import ROWS


def test_all_of_it_is_there():
    frame = published()
    assert frame.height == 560
    assert set(frame["method"]) <= set(METHODS)
    assert set(frame["setting"]) == {"transductive", "inductive", "cold-30", "cold-60", "cold-90"}
    assert set(ROWS) == set(frame["method"])
    assert "ogbn-arxiv" in set(frame["dataset"])
    assert frame["mean"].null_count() == 0


@pytest.mark.parametrize(
    ("cell", "mean"),
    [
        (("gowalla", "recommendation", "gcn", "base", "transductive"), 0.0901),
        (("gowalla", "recommendation", "sage", "tuneup", "transductive"), 0.1025),
        (("gowalla", "recommendation", "sage-sum", "tuneup", "transductive"), 0.1028),
        (("ogbn-arxiv", "node-classification", "sage", "tuneup", "cold-90"), 0.5996),
        (("ogbn-arxiv", "node-classification", "sage", "dropedge", "cold-90"), 0.5449),
    ],
)
def test_numbers_that_the_protocol_quotes(cell, mean):
    assert published_score(*cell).mean == mean


def test_what_is_no_number_stays_what_it_is():
    words = published().filter(pl.col("mean").cast(pl.Float64, strict=False).is_null())
    row = words.row(0, named=True)
    keys = ("dataset", "task", "architecture", "method", "setting")
    found = published_score(*(row[key] for key in keys))
    assert found.mean is None
    assert found.text in ("OOM", "n/a")


def test_a_cell_that_the_paper_does_not_have():
    assert published_score("dblp", "node-classification", "gcn", "base", "transductive") is None


def test_tables_by_name():
    assert "recsys_table" in paper_tables()
    table = paper_table("recsys_table")
    assert set(table.blocks) == {("recommendation", "sage"), ("recommendation", "gcn")}
    assert table.datasets == ("gowalla", "amazon-book")
    assert "graphlessnn" not in table.methods
    assert len(paper_table("gnn_model_table").blocks) == 15
    with pytest.raises(InputError, match=r"no table 'recsys'; it has nodecls_sage_table, "):
        paper_table("recsys")


def test_columns_are_those_of_a_task():
    settings = paper_table("gnn_model_table").settings
    assert settings["recommendation"] == ("transductive",)
    assert settings["node-classification"] == ("transductive", "inductive", "cold-90")
