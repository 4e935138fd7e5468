"""What each column of nodes is taken for, and what is left out with a word about it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tuneup.errors import InputError
from tuneup.tables import FeatureOptions, Table
from tuneup.tables.columns import Notes
from tuneup.tables.fitting import RawFeatures
from tuneup.tables.kinds import choose_kinds
from tuneup.tables.listing import feature_lines
from tuneup.tables.places import Place
from tuneup.tables.table import Part

ROWS = range(40)


def table(**columns) -> Table:
    frame = pl.DataFrame(columns)
    return Table(frame, (Part(Place(Path("n.parquet"), "parquet"), frame.height),))


def kinds(**options):
    def of(**columns):
        notes = Notes()
        found = choose_kinds(table(**columns), list(columns), FeatureOptions(**options), notes)
        return {each.name: each.kind for each in found}, notes

    return of


UNIQUE = {
    "row numbers": [*ROWS],
    "row numbers among floats": [float(i) for i in ROWS],
    "unix ids with a few repeats": [10**9 + 7 * max(i, 1) for i in ROWS],
    "texts of numbers": [str(3 * i) for i in ROWS],
}


@pytest.mark.parametrize("values", UNIQUE.values(), ids=UNIQUE)
def test_whole_numbers_that_are_ids_are_left_out_unless_asked_for(values):
    found, notes = kinds()(facebook_id=values, f=[0.5 * (i % 7) for i in ROWS])
    assert found == {"f": "numeric"}
    (note,) = notes
    assert note.startswith("n.parquet: left out 'facebook_id': ")
    assert "--numeric facebook_id to use it" in note
    for forced in ({"numeric": ("facebook_id",)}, {"only": ("facebook_id",)}):
        assert kinds(**forced)(facebook_id=values)[0] == {"facebook_id": "numeric"}


@pytest.mark.parametrize(
    "values",
    [
        [i % 30 for i in ROWS],  # counts
        [i * i + 0.5 for i in ROWS],  # decimals
        [1000 * max(i, 1) for i in ROWS],  # long, but not long enough
    ],
)
def test_other_numbers_are_features(values):
    assert kinds()(f=values) == ({"f": "numeric"}, [])


def test_few_rows_prove_nothing_about_numbers():
    assert kinds()(f=[*range(19)])[0] == {"f": "numeric"}


@pytest.mark.parametrize("count", [3, 15, 40, 100])
def test_a_text_is_never_a_category_a_row(count):
    found, notes = kinds()(name=[f"n{i}" for i in range(count)], kind=["a", *"b" * (count - 1)])
    assert found == {"kind": "categorical"}
    assert "left out 'name': free text or an id" in notes[0]
    assert "--categorical name to use it" in notes[0]
    with pytest.raises(InputError, match="leave it out of --features, or pass --categorical name"):
        kinds(only=("name",))(name=[f"n{i}" for i in range(count)])


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["2024-01-02", None, "2023-11-30"] * 2, "dates"),
        (["2024-01-02T10:00:00Z"] * 6, "dates"),
        (["31.12.2024", "1.1.2025"] * 3, "dates"),
        (["12/31/2024 5:30 PM"] * 6, "dates"),
        (pl.Series(["2024-01-02"] * 6).str.to_date(), "dates"),
        ([["a", "b"]] * 6, "lists that do not hold numbers"),
        (["['a', 'b']", "[]"] * 3, "lists that do not hold numbers"),
        ([{"a": 1}] * 6, "values of type Struct"),
        ([None] * 6, "no values at all"),
    ],
)
def test_what_cannot_be_a_feature_is_left_out(values, reason):
    found, notes = kinds()(odd=values, f=[1, 2, 3, 1, 2, 3])
    assert found == {"f": "numeric"}
    assert notes[0].startswith(f"n.parquet: left out 'odd': {reason}")
    with pytest.raises(InputError, match=r"column 'odd': .*; leave it out of --features"):
        kinds(only=("odd",))(odd=values)


def test_columns_that_are_left_out_for_one_reason_are_one_note():
    texts = {f"t{i}": [f"{i}-{row}" for row in ROWS] for i in range(9)}
    _, (note,) = kinds()(**texts)
    assert "left out 't0', 't1', 't2', 't3', 't4', 't5' and 3 more: free text" in note


def test_a_mistake_among_numbers_can_be_excluded():
    with pytest.raises(InputError, match=r"infinite number; .*; or pass --exclude f\.") as refused:
        kinds()(f=[1.0, float("inf")])
    assert refused.value.fix == ("--exclude", "f")
    with pytest.raises(InputError) as refused:
        kinds()(f=["1.5", "2", "NA"])
    assert refused.value.fix == ("--missing", "NA")


def test_decimal_commas():
    columns = {"f": ["3,14", " -0,5", "2", None]}
    found, notes = kinds()(**columns)
    assert found == {"f": "numeric"}
    assert notes == ["n.parquet: decimal commas in 'f'."]
    raw = RawFeatures(table(**columns), choose_kinds(table(**columns), ["f"], FeatureOptions(), []))
    plan = raw.fit(None, Notes())
    same = table(f=[3.14, -0.5, 2.0, None])
    assert plan.apply(same).equal(plan.apply(table(**columns)))


@pytest.mark.parametrize("text", ["1,234", "12,345,678", "1,234.5"])
def test_commas_that_may_separate_thousands_are_questioned(text):
    with pytest.raises(InputError, match=r"row 2, .* may be a decimal comma or sep") as refused:
        kinds()(f=["5", text, "7"])
    assert refused.value.fix == ("--exclude", "f")
    assert kinds()(f=["0,123", "1,234"])[0] == {"f": "numeric"}


def test_every_feature_is_listed_with_its_kind():
    columns = {
        **{f"f{i}": [0.5, 1.5, 4.5] for i in range(30)},
        "age": [1, 2, 3],
        "ok": [True, False, None],
        "color": ["red", "blue", "red"],
        "v": [[1, 2], [3, 4], [5, 6]],
    }
    chosen = choose_kinds(table(**columns), list(columns), FeatureOptions(), Notes())
    plan = RawFeatures(table(**columns), chosen).fit(None, Notes())
    assert list(feature_lines(plan)) == [
        "Features as numbers: f0 ... f29, age.",
        "Features as yes or no: ok.",
        "Features as categories: color (2).",
        "Features as lists of numbers: v (2).",
    ]


def test_a_column_is_forced_in_one_way():
    with pytest.raises(InputError, match="'a' is in --categorical and in --numeric"):
        FeatureOptions(categorical=("a",), numeric=("a",))
