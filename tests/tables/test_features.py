"""Columns into numbers: by hand, through JSON, and on rows that training never saw."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
import torch

from tuneup.errors import InputError
from tuneup.tables import FeatureOptions, FeaturePlan, Table
from tuneup.tables.columns import Notes
from tuneup.tables.fitting import RawFeatures
from tuneup.tables.kinds import choose_kinds
from tuneup.tables.places import Place
from tuneup.tables.table import Part

FRAME = pl.DataFrame(
    {
        "age": [1.0, None, 3.0, 5.0],
        "count": [1, 2, 3, 6],
        "ok": [True, False, None, True],
        "color": ["red", "blue", "red", None],
        "vector": [[1.0, 0.0], [3.0, 0.0], None, [5.0, 0.0]],
    }
)


def table(frame: pl.DataFrame) -> Table:
    return Table(frame, (Part(Place(Path("n.parquet"), "parquet"), frame.height),))


def fit(frame: pl.DataFrame, **options) -> tuple[FeaturePlan, Notes]:
    notes = Notes()
    options = FeatureOptions(**options)
    columns = choose_kinds(table(frame), frame.columns, options, notes)
    raw = RawFeatures(table(frame), columns, options.max_levels)
    return raw.fit(None, notes), notes


def test_each_kind_by_hand():
    plan, notes = fit(FRAME)
    x = plan.apply(table(FRAME))
    assert x.dtype == torch.float32
    assert plan.columns == (
        "age",
        "age is missing",
        "count",
        "ok",
        "ok is missing",
        "color = red",
        "color = blue",
        "color: other",
        "vector[0]",
        "vector[1]",
        "vector is missing",
    )
    assert x.shape == (4, plan.width)
    spread = (8 / 3) ** 0.5  # of 1, 3, 5
    assert x[:, 0].tolist() == pytest.approx([-2 / spread, 0, 0, 2 / spread])
    assert x[:, 1].tolist() == [0, 1, 0, 0]
    assert float(x[:, 2].mean()) == pytest.approx(0, abs=1e-6)
    assert float(x[:, 2].std(correction=0)) == pytest.approx(1)
    assert x[:, 3:8].tolist() == [
        [1, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 1, 1, 0, 0],
        [1, 0, 0, 0, 0],
    ]
    assert x[:, 8].tolist() == pytest.approx([-2 / spread, 0, 0, 2 / spread])
    assert x[:, 9].tolist() == [0, 0, 0, 0]
    assert x[:, 10].tolist() == [0, 0, 1, 0]
    gaps = [note for note in notes if " missing value" in note]
    for words in ("are taken as the mean", "is taken as false", "is taken as no category"):
        assert sum(words in note for note in gaps) == 1
    assert len(gaps) == 3


def test_through_json_and_back():
    plan, _ = fit(FRAME)
    again = FeaturePlan.from_json(plan.to_json())
    assert again == plan
    assert torch.equal(again.apply(table(FRAME)), plan.apply(table(FRAME)))
    assert FeaturePlan.from_json(FeaturePlan().to_json()).width == 0
    json.loads(plan.to_json())
    for broken in ("", "{}", '{"version": 99, "features": []}', '{"version": 1, "features": [1]}'):
        with pytest.raises(InputError, match="plan of features"):
            FeaturePlan.from_json(broken)


def test_rows_that_training_never_saw():
    plan, _ = fit(FRAME)
    new = FRAME.head(1).with_columns(color=pl.lit("green"), count=pl.lit(None, pl.Int64))
    row = plan.apply(table(new.select(reversed(FRAME.columns)).with_columns(extra=1)))
    assert row[0, 5:8].tolist() == [0, 0, 1], "a new colour counts as other"
    assert row[0, 2] == 0, "missing where none was before: the mean"


def test_a_node_without_a_row_is_a_row_without_values():
    plan, _ = fit(FRAME)
    nothing = FRAME.clear().vstack(
        pl.DataFrame({name: [None] for name in FRAME.columns}, schema=FRAME.schema)
    )
    assert torch.equal(plan.blanks(1), plan.apply(table(nothing)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"age": pl.lit("old")}, "column 'age': 'old' is not a number"),
        ({"age": pl.lit(float("inf"))}, "row 1, column 'age': an infinite"),
        ({"ok": pl.lit("maybe")}, "column 'ok': 'maybe' is neither"),
        ({"vector": pl.lit(pl.Series([[1.0]]))}, "column 'vector': a list of 1 where 2"),
        ({"vector": pl.lit(5)}, "column 'vector': holds"),
        ({"color": pl.lit(pl.Series([[1.0]]))}, "column 'color': holds List"),
    ],
)
def test_new_rows_of_a_wrong_type_are_refused(change, words):
    plan, _ = fit(FRAME)
    with pytest.raises(InputError, match=r"n\.parquet") as refused:
        plan.apply(table(FRAME.head(1).with_columns(**change)))
    assert words in str(refused.value)


def test_a_missing_column_is_named():
    plan, _ = fit(FRAME)
    with pytest.raises(InputError, match=r"lacks column 'age'.*\(and 1 more\)"):
        plan.apply(table(FRAME.drop("age", "ok")))


def test_csv_types_are_understood():
    frame = pl.DataFrame(
        {"a": ["1.5", "nan?"], "b": ["[1, 2]", "[3, 4.5]"], "c": ["True", "false"]}
    )
    plan, _ = fit(frame.drop("a"))
    assert [feature.kind for feature in plan.features] == ["list", "boolean"]
    assert plan.width == 3


def test_rare_levels_share_a_column():
    frame = pl.DataFrame({"c": ["a"] * 5 + ["b"] * 4 + ["c", "d"]})
    plan, notes = fit(frame, max_levels=2)
    assert plan.columns == ("c = a", "c = b", "c: other")
    assert plan.apply(table(frame))[:, 2].sum() == 2
    assert "4 categories" in notes[0]


def test_numbers_as_categories_where_asked():
    frame = pl.DataFrame({"code": [10, 20, 10]})
    plan, _ = fit(frame, categorical=("code",))
    assert plan.columns == ("code = 10", "code = 20", "code: other")
    again = plan.apply(table(pl.DataFrame({"code": [20.0, None]})))  # after a detour as floats
    assert again.tolist() == [[0, 1, 0], [0, 0, 0]]


def test_columns_that_say_nothing_are_left_out_and_told():
    frame = pl.DataFrame({"same": [2, 2], "none": [None, None], "x": [1, 2]})
    plan, notes = fit(frame)
    assert plan.inputs == ("x",)
    assert len(notes) == 2
