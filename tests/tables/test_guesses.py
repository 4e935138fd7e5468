"""What is guessed from names of columns, and what is said where nothing can be."""

from __future__ import annotations

import polars as pl
import pytest

from tuneup.errors import InputError
from tuneup.tables import GraphTables, PairTables, load_graph, load_pairs

SHOP = {
    "row": range(4),
    "user_id": ["u1", "u2", "u1", "u3"],
    "sku": ["a", "b", "c", "a"],
    "when": ["x"] * 4,
}


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(SHOP).write_csv("orders.csv")
    return tmp_path


@pytest.mark.parametrize("item", ["sku", "product_id", "Article ID", "track"])
@pytest.mark.parametrize("user", ["user_id", "CustomerId", "buyer"])
def test_users_and_items_are_found_among_other_columns(shop, user, item):
    pl.DataFrame(SHOP).rename({"user_id": user, "sku": item}).write_csv("orders.csv")
    found = load_pairs(PairTables(("orders.csv",)))
    assert (len(found.users), len(found.items)) == (3, 3)
    assert f"user is column {user!r}, item is {item!r}" in found.notes[0]


def test_edges_that_look_like_orders_are_pointed_to_recommendation(shop):
    links = GraphTables(("orders.csv",), task="link-prediction")
    with pytest.raises(
        InputError, match=r"pass --task recommendation --user user_id --item sku\.$"
    ):
        load_graph(links)
    pl.DataFrame(SHOP).rename({"user_id": "who"}).write_csv("orders.csv")
    with pytest.raises(InputError, match="--user COLUMN --item sku"):
        load_graph(links)
    pl.DataFrame(SHOP).rename({"user_id": "who", "sku": "what"}).write_csv("orders.csv")
    with pytest.raises(InputError) as said:
        load_graph(links)
    assert "recommendation" not in str(said.value)


def test_two_columns_of_users_and_items_are_told_as_links_too(shop):
    pl.DataFrame(SHOP).select("user_id", "sku").write_csv("orders.csv")
    notes = load_graph(GraphTables(("orders.csv",), task="link-prediction")).notes
    assert any("look like users and items; --task recommendation" in note for note in notes)
    asked = GraphTables(("orders.csv",), task="link-prediction", source="user_id", target="sku")
    assert not any("look like users" in note for note in load_graph(asked).notes)


def test_nodes_without_labels_are_pointed_to_links(shop):
    pl.DataFrame({"id": [1, 2], "size": [1.0, 2.0]}).write_csv("nodes.csv")
    pl.DataFrame({"source": [1], "target": [2]}).write_csv("edges.csv")
    with pytest.raises(InputError, match="or --task link-prediction, which needs no labels"):
        load_graph(GraphTables(("edges.csv",), ("nodes.csv",)))
