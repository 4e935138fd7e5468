"""Columns that are guessed by their names, and errors where none can be."""

from __future__ import annotations

import polars as pl
import pytest

from tuneup.errors import InputError
from tuneup.tables import TableRequest, read_tables

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


@pytest.mark.parametrize(
    ("user", "item"), [("user_id", "sku"), ("CustomerId", "Article ID"), ("buyer", "product_id")]
)
def test_users_and_items_are_found_among_other_columns(shop, user, item):
    pl.DataFrame(SHOP).rename({"user_id": user, "sku": item}).write_csv("orders.csv")
    found = read_tables(TableRequest(("orders.csv",), task="recommendation"))
    assert (len(found.users), len(found.items)) == (3, 3)
    assert f"user is column {user!r}, item is {item!r}" in found.notes[0]


def test_edges_that_look_like_orders_are_pointed_to_recommendation(shop):
    links = TableRequest(("orders.csv",), task="link-prediction")
    with pytest.raises(
        InputError, match=r"pass --task recommendation --user user_id --item sku\.$"
    ):
        read_tables(links)
    pl.DataFrame(SHOP).rename({"user_id": "who"}).write_csv("orders.csv")
    with pytest.raises(InputError, match="--user COLUMN --item sku"):
        read_tables(links)
    pl.DataFrame(SHOP).rename({"user_id": "who", "sku": "what"}).write_csv("orders.csv")
    with pytest.raises(InputError) as refused:
        read_tables(links)
    assert "recommendation" not in str(refused.value)


def test_columns_of_users_and_items_are_noted_for_links(shop):
    pl.DataFrame(SHOP).select("user_id", "sku").write_csv("orders.csv")
    notes = read_tables(TableRequest(("orders.csv",), task="link-prediction")).notes
    assert any("look like users and items; --task recommendation" in note for note in notes)
    asked = TableRequest(("orders.csv",), task="link-prediction", source="user_id", target="sku")
    assert not any("look like users" in note for note in read_tables(asked).notes)


@pytest.mark.parametrize("name", ["Value", "qty"])
def test_columns_that_may_be_weights_are_noted(shop, name):
    pl.DataFrame({"payer": [1, 2], "payee": [2, 3], name: [5.0, 7.5]}).write_csv("e.csv")
    notes = read_tables(TableRequest(("e.csv",), task="link-prediction")).notes
    assert "source is column 'payer', target is 'payee'" in notes[0]
    assert any(f"{name!r} looks like a weight; all rows count alike" in n for n in notes)
    pl.DataFrame(SHOP).with_columns(pl.lit(2).alias(name)).write_csv("orders.csv")
    notes = read_tables(TableRequest(("orders.csv",), task="recommendation")).notes
    assert any(f"{name!r} looks like a weight" in note for note in notes)


def nodes_with(**columns):
    pl.DataFrame({"id": [1, 2, 3], "label": [*"aba"], **columns}).write_csv("nodes.csv")
    pl.DataFrame({"source": [1, 2], "target": [2, 3]}).write_csv("edges.csv")
    return read_tables(TableRequest(("edges.csv",), ("nodes.csv",))).with_split(None)


def test_missing_values_are_noted_by_what_they_are_taken_as(shop):
    found = nodes_with(
        f=[1.0, None, 3.0], g=[None, None, 2.0], ok=[True, None, None], color=["red", None, "red"]
    )
    gaps = [note for note in found.notes if "missing" in note]
    assert gaps == [
        "nodes.csv: missing values ('g' 2, 'f' 1) are taken as the mean, and a further feature "
        "says so.",
        "nodes.csv: missing values ('ok' 2) are taken as false, and a further feature says so.",
        "nodes.csv: missing values ('color' 1) are taken as no category.",
    ]
    color = [name.startswith("color") for name in found.plan.columns]
    assert not found.graph.x[1, color].any()


@pytest.mark.parametrize("name", ["name", "node_id", "UUID", "e-mail"])
def test_columns_of_ids_are_recognised(shop, name):
    pl.DataFrame({name: [*"pqr"], "label": [*"aba"], "f": [1, 2, 2]}).write_csv("nodes.csv")
    pl.DataFrame({"source": [*"pq"], "target": [*"qr"]}).write_csv("edges.csv")
    found = read_tables(TableRequest(("edges.csv",), ("nodes.csv",)))
    assert found.ids.values.to_list() == [*"pqr"]
    assert found.plan.inputs == ("f",)
    assert any(f"id is column {name!r}" in note for note in found.notes)


def test_a_line_of_json_that_was_cut(shop):
    for cut in ('{"source": 2, "targ', '{"source": 2, "target": 3', '{"source":'):
        (shop / "e.jsonl").write_text('{"source": 1, "target": 2}\n' + cut)
        with pytest.raises(InputError, match=r"row 2 \(line 2\): the line ends too early, after"):
            read_tables(TableRequest(("e.jsonl",), task="link-prediction"))


def test_nodes_without_labels_are_pointed_to_links(shop):
    pl.DataFrame({"id": [1, 2], "size": [1.0, 2.0]}).write_csv("nodes.csv")
    pl.DataFrame({"source": [1], "target": [2]}).write_csv("edges.csv")
    with pytest.raises(InputError, match="or --task link-prediction, which needs no labels"):
        read_tables(TableRequest(("edges.csv",), ("nodes.csv",)))
