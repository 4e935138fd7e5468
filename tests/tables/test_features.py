"""Columns into numbers: by hand, through JSON, and on rows that training never saw."""

from __future__ import annotations

import json

import polars as pl
import pytest
import torch

from tuneup.errors import InputError
from tuneup.tables import FeaturePlan, Table, TableRequest, open_table
from tuneup.tables.nodes import choose_features
from tuneup.tables.reading import Notes

ROWS = range(40)
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
    return Table.of(frame, "n.parquet")


def fit(frame: pl.DataFrame, **options) -> tuple[FeaturePlan, Notes]:
    notes = Notes()
    raw = choose_features(table(frame), frame.columns, TableRequest(**options), notes)
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
    gaps = [note for note in notes if "missing values" in note]
    for words in ("are taken as the mean", "are taken as false", "are taken as no category"):
        assert sum(words in note for note in gaps) == 1
    assert len(gaps) == 3


def test_through_json_and_back():
    plan, _ = fit(FRAME)
    again = FeaturePlan.from_json(plan.to_json())
    assert again == plan
    assert torch.equal(again.apply(table(FRAME)), plan.apply(table(FRAME)))
    assert FeaturePlan.from_json(FeaturePlan().to_json()).width == 0
    json.loads(plan.to_json())
    numeric = {"kind": "numeric", "name": "f", "mean": 0.5, "std": 1.0}
    wrong = [
        1,
        {**numeric, "kind": "text"},
        {**numeric, "name": 3},
        {**numeric, "mean": "a"},
        {**numeric, "std": 0},
        {**numeric, "indicator": "no"},
        {**numeric, "levels": []},
        {"kind": "categorical", "name": "c", "levels": [1]},
        {"kind": "list", "name": "v", "mean": [0.0], "std": []},
    ]
    plans = [json.dumps({"version": 1, "features": [each]}) for each in wrong]
    for broken in ("", "{}", '{"version": 99, "features": []}', *plans):
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


CHANGES = [
    ({"age": pl.lit("old")}, "column 'age': 'old' is not a number"),
    ({"age": pl.lit(float("inf"))}, "row 1, column 'age': an infinite"),
    ({"ok": pl.lit("maybe")}, "column 'ok': 'maybe' is neither"),
    ({"vector": pl.lit(pl.Series([[1.0]]))}, "column 'vector': a list of 1 where 2"),
    ({"vector": pl.lit(5)}, "column 'vector': holds"),
    ({"color": pl.lit(pl.Series([[1.0]]))}, "column 'color': holds List"),
]


def test_new_rows_of_a_wrong_type_are_refused():
    plan, _ = fit(FRAME)
    for change, words in CHANGES:
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


def test_text_of_new_rows_is_typed_as_in_training(tmp_path):
    def write(rows):
        (tmp_path / "n.csv").write_text(f"yes,code,word,big\n{rows}")
        return open_table([str(tmp_path / "n.csv")]).read()

    rows = write("true,1,07,5\nfalse,2,x,99999999999999999999\ntrue,1,07,5\nFALSE,2,x,6\n")
    request = TableRequest(numeric=("yes",), categorical=("code", "big"))
    plan = choose_features(rows, rows.frame.columns, request, Notes()).fit(None, Notes())
    assert plan.columns[1:4] == ("code = 1", "code = 2", "code: other")
    assert "big = 99999999999999999999" in plan.columns
    assert plan.apply(rows)[:, 0].tolist() == [1, -1, 1, -1]
    few = write("true,1.0,07,5\n,2,7,5\n")
    assert plan.apply(few)[:, :7].tolist() == [[1, 1, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0, 1]]


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


def test_constant_and_empty_columns_are_left_out_with_a_note():
    frame = pl.DataFrame({"same": [2, 2], "none": [None, None], "x": [1, 2]})
    plan, notes = fit(frame)
    assert plan.inputs == ("x",)
    assert len(notes) == 2


# Which columns are features, and of which kind


def kinds(**options):
    def of(**columns):
        notes = Notes()
        frame = pl.DataFrame(columns)
        raw = choose_features(table(frame), frame.columns, TableRequest(**options), notes)
        return {each.name: each.kind for each in raw.columns}, notes

    return of


UNIQUE = {
    "row numbers": [*ROWS],
    "row numbers among floats": [float(i) for i in ROWS],
    "unix ids with a few repeats": [10**9 + 7 * max(i, 1) for i in ROWS],
    "texts of numbers": [str(3 * i) for i in ROWS],
}


def test_whole_numbers_that_are_ids_are_left_out_unless_asked_for():
    for values in UNIQUE.values():
        check_ids_are_left_out(values)


def check_ids_are_left_out(values):
    found, notes = kinds()(facebook_id=values, f=[0.5 * (i % 7) for i in ROWS])
    assert found == {"f": "numeric"}
    (note,) = notes
    assert note.startswith("n.parquet: left out 'facebook_id': ")
    assert "--numeric facebook_id to use it" in note
    for forced in ({"numeric": ("facebook_id",)}, {"features": ("facebook_id",)}):
        assert kinds(**forced)(facebook_id=values)[0] == {"facebook_id": "numeric"}


def test_other_numbers_are_features():
    counts, decimals = [i % 30 for i in ROWS], [i * i + 0.5 for i in ROWS]
    short = [1000 * max(i, 1) for i in ROWS]
    assert kinds()(f=counts, g=decimals, h=short) == (dict.fromkeys("fgh", "numeric"), [])


def test_few_rows_prove_nothing_about_numbers():
    assert kinds()(f=[*range(19)])[0] == {"f": "numeric"}


@pytest.mark.parametrize("count", [3, 40])
def test_a_text_is_never_a_category_a_row(count):
    found, notes = kinds()(name=[f"n{i}" for i in range(count)], kind=["a", *"b" * (count - 1)])
    assert found == {"kind": "categorical"}
    assert "left out 'name': free text or an id" in notes[0]
    assert "--categorical name to use it" in notes[0]
    with pytest.raises(InputError, match="leave it out of --features, or pass --categorical name"):
        kinds(features=("name",))(name=[f"n{i}" for i in range(count)])


LEFT_OUT = [
    (["2024-01-02", None, "2023-11-30"] * 2, "dates"),
    (["2024-01-02T10:00:00Z"] * 6, "dates"),
    (["31.12.2024", "1.1.2025"] * 3, "dates"),
    (["12/31/2024 5:30 PM"] * 6, "dates"),
    (pl.Series(["2024-01-02"] * 6).str.to_date(), "dates"),
    ([["a", "b"]] * 6, "lists that do not hold numbers"),
    (["['a', 'b']", "[]"] * 3, "lists that do not hold numbers"),
    ([{"a": 1}] * 6, "values of type Struct"),
    ([None] * 6, "no values at all"),
]


def test_what_cannot_be_a_feature_is_left_out():
    for values, reason in LEFT_OUT:
        found, notes = kinds()(odd=values, f=[1, 2, 3, 1, 2, 3])
        assert found == {"f": "numeric"}
        assert notes[0].startswith(f"n.parquet: left out 'odd': {reason}")
        with pytest.raises(InputError, match=r"column 'odd': .*; leave it out of --features"):
            kinds(features=("odd",))(odd=values)


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
    plan, _ = fit(pl.DataFrame(columns))
    same = table(pl.DataFrame({"f": [3.14, -0.5, 2.0, None]}))
    assert plan.apply(same).equal(plan.apply(table(pl.DataFrame(columns))))


def test_commas_that_may_separate_thousands_are_questioned():
    for text in ("1,234", "12,345,678", "1,234.5"):
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
    plan, _ = fit(pl.DataFrame(columns))
    assert list(plan.lines()) == [
        "Features as numbers: f0 ... f29, age.",
        "Features as yes or no: ok.",
        "Features as categories: color (2).",
        "Features as lists of numbers: v (2).",
    ]
