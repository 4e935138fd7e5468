"""Tables of users and of items: ids, features, and what training may know of them."""

from __future__ import annotations

import json
import sys

import polars as pl
import pytest
import torch

from tuneup import cli
from tuneup.errors import InputError
from tuneup.tables import Shares, TableRequest, read_tables

USERS = pl.DataFrame({"user_id": ["u2", "u1", "u3"], "age": [30.0, 20.0, 70.0], "city": [*"aba"]})
ITEMS = pl.DataFrame(
    {
        "sku": [10, 40, 20, 30],
        "title": ["red wine glass", "oak table leg", "blue wine cup", "steel table top"],
        "v": [[0.5, 1.0], [1.5, 3.0], [2.5, -1.0], [0.0, 0.0]],
    }
)
PAIRS = pl.DataFrame({"user": ["u2", "u1", "u1", "u2"], "product": [30, 10, 20, 10]})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    USERS.write_csv("users.csv")
    ITEMS.write_parquet("items.parquet")
    PAIRS.write_csv("pairs.csv")
    monkeypatch.setattr(cli, "relaunch", lambda: None)
    return tmp_path


def request(**more):
    return TableRequest(("pairs.csv",), users=("users.csv",), items=("items.parquet",), **more)


def test_rows_are_users_and_items_in_the_order_of_their_tables():
    found = read_tables(request(text_width=2))
    assert found.users.values.to_list() == ["u2", "u1", "u3"]
    assert found.items.values.to_list() == [10, 40, 20, 30]
    data = found.interactions
    assert (data.num_users, data.num_items) == (3, 4)
    assert sorted(zip(data.user.tolist(), data.item.tolist(), strict=True)) == [
        (0, 0), (0, 3), (1, 0), (1, 2)
    ]  # fmt: skip
    assert found.user_x is None, "made when a split says what training knows"
    ready = found.with_split(None)
    assert ready.described["users"].plan.columns == ("age", "city = a", "city = b", "city: other")
    assert ready.user_x[:, 1:].tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert ready.user_x[:, 0].argsort().tolist() == [1, 0, 2]
    assert ready.described["items"].plan.inputs == ("title", "v")
    assert ready.item_x.shape == (4, 4)
    assert "items: Features as free text: title (2)." in ready.notes
    only = read_tables(TableRequest(("pairs.csv",), items=("items.parquet",))).with_split(None)
    assert only.user_x is None
    assert only.users.values.to_list() == ["u1", "u2"]


def test_features_are_fitted_to_those_with_training_pairs():
    PAIRS.with_columns(split=pl.Series(["train", "val", "test", "train"])).write_csv("pairs.csv")
    found = read_tables(request(features=("age", "v")))
    split = found.split(Shares())
    ready = found.with_split(split)
    assert split.train.user.unique().tolist() == [0]
    assert ready.described["users"].plan.width == 0, "one age in training says nothing"
    items = ready.described["items"].plan.features[0]
    assert items.mean == pytest.approx((0.25, 0.5)), "of items 10 and 30"


REFUSED = [
    (
        {},
        {"users.csv": USERS.head(1)},
        "column 'user': id 'u1' has no row in users.csv, column 'us",
    ),
    (
        {},
        {"users.csv": pl.concat([USERS, USERS])},
        "row 4 (line 5), column 'user_id': id 'u2' again",
    ),
    ({"features": ("height",)}, {}, "users.csv: no column 'height' (--features)"),
    ({"exclude": ("sku",), "features": ("user_id",)}, {}, "is the id, the label or the split"),
    ({"users": (), "items": (), "numeric": ("age",)}, {}, "column of --users or --items"),
    ({"task": "link-prediction"}, {}, "--users is not supported for link-prediction"),
    ({"nodes": ("users.csv",)}, {}, "--nodes is not supported for recommendation"),
]


@pytest.mark.parametrize(("options", "files", "words"), REFUSED)
def test_what_does_not_fit_is_refused(options, files, words):
    for name, frame in files.items():
        frame.write_csv(name)
    given = {"users": ("users.csv",), "items": ("items.parquet",), "task": "recommendation"}
    with pytest.raises(InputError) as refused:
        read_tables(TableRequest(("pairs.csv",), **{**given, **options}))
    assert words in str(refused.value)


def test_ids_without_a_row_are_added_where_asked():
    USERS.head(1).write_csv("users.csv")
    found = read_tables(request(unknown_ids="add")).with_split(None)
    assert found.users.values.to_list() == ["u2", "u1"]
    assert found.described["users"].added == 1
    assert found.user_x.shape == (2, found.described["users"].plan.width)
    assert torch.equal(found.user_x[1], found.described["users"].plan.blanks(1)[0])


def test_inspect_counts_and_lists_them(monkeypatch, capsys):
    ends = {"user": [f"u{1 + i % 2}" for i in range(42)], "product": [10, 20, 30] * 14}
    pl.DataFrame(ends).write_csv("pairs.csv")
    words = ["--edges", "pairs.csv", "--users", "users.csv", "--items", "items.parquet"]

    def inspect(*more: str) -> str:
        monkeypatch.setattr(sys, "argv", ["tuneup", "inspect", *words, *more])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capsys.readouterr()
        assert stop.value.code == 0, printed.err
        return printed.out

    found = json.loads(inspect("--json", "--train", "0.5", "--validation", "0.2", "--new", "0"))
    counts = found["counts"]
    assert [counts[f"{kind} without a pair"] for kind in ("users", "items")] == [1, 1]
    assert [counts[f"{kind} without a row"] for kind in ("users", "items")] == [0, 0]
    assert found["features"]["items: title"] == "text"
    assert found["features"]["users: age"] == "numeric"
    out = inspect("--train", "0.5", "--validation", "0.2", "--exclude", "city")
    assert "do not read tables of users and items yet" in " ".join(out.split())
    assert "--users" not in out.partition("tuneup fit")[2]
