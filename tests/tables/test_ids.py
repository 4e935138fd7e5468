"""Ids to nodes and back."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneup.errors import InputError
from tuneup.tables import ids as ids_module
from tuneup.tables.files import DataFile
from tuneup.tables.ids import IdMap, KeyIndex, as_whole_numbers, clean_ids, distinct_ids
from tuneup.tables.reading import Part, Table

quick = settings(max_examples=60, deadline=None)

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 50)
TEXTS = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
    | st.integers(0, 30).map(str)
    | st.integers(0, 30).map("{:03d}".format)
    | st.sampled_from(["+7", "-0", "7.0", " 7", "1e3", "9" * 25])
    | st.uuids().map(str)
)


def table(frame: pl.DataFrame, suffix: str = "parquet") -> Table:
    return Table(frame, (Part(DataFile(Path("t"), suffix), frame.height),))


@quick
@given(st.lists(NUMBERS, unique=True), st.lists(NUMBERS))
def test_numbers_there_and_back(ids, asked):
    known = IdMap(as_whole_numbers(pl.Series("id", ids, dtype=pl.Int64)))
    expected = [ids.index(one) if one in ids else -1 for one in asked + ids]
    assert known.positions(pl.Series(asked + ids, dtype=pl.Int64)).tolist() == expected
    assert [known[node] for node in range(len(known))] == ids


@quick
@given(st.lists(TEXTS, unique=True), st.lists(TEXTS))
def test_texts_there_and_back(ids, asked):
    """Also where all of them look like numbers and are kept as such: 7 is not 007."""
    known = IdMap(as_whole_numbers(pl.Series("id", ids, dtype=pl.String)))
    expected = [ids.index(one) if one in ids else -1 for one in asked + ids]
    assert known.positions(pl.Series(asked + ids, dtype=pl.String)).tolist() == expected
    assert [str(known[node]) for node in range(len(known))] == ids


@quick
@given(st.lists(TEXTS), st.lists(TEXTS))
def test_distinct_ids_are_all_and_in_order(first, second):
    found = distinct_ids(pl.Series(first, dtype=pl.String), pl.Series(second, dtype=pl.String))
    assert sorted(map(str, found)) == sorted({*first, *second})
    assert found.is_sorted()


def test_whole_numbers_in_text_become_numbers_only_if_all_are_usual():
    assert IdMap(as_whole_numbers(pl.Series(["10", "-3"]))).values.to_list() == [10, -3]
    assert IdMap(as_whole_numbers(pl.Series(["10", "03"]))).values.to_list() == ["10", "03"]
    assert IdMap(as_whole_numbers(pl.Series(["10", "9" * 19]))).values.dtype == pl.String


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pl.Series([3, 1], dtype=pl.UInt8), [3, 1]),
        (pl.Series([2**64 - 1, 1], dtype=pl.UInt64), ["18446744073709551615", "1"]),
        (pl.Series(["b", "a"], dtype=pl.Categorical), ["b", "a"]),
        (pl.Series([b"\x01\xff", b"\x02"]), ["01ff", "02"]),
    ],
)
def test_types_of_ids(values, expected):
    assert clean_ids(table(values.to_frame("id")), "id").to_list() == expected


@pytest.mark.parametrize("values", [[1.5], [True], [[1]], [{"a": 1}]])
def test_types_that_are_no_ids(values):
    with pytest.raises(InputError, match="t, column 'id': ids"):
        clean_ids(table(pl.DataFrame({"id": values})), "id")


def test_an_id_map_checks_itself():
    for wrong in (["a", "a"], ["a", None], [[1]]):
        with pytest.raises(InputError):
            IdMap(pl.Series(wrong))


@pytest.mark.parametrize(
    ("values", "wanted", "expected"),
    [
        (["a", "7"], [7, 8, None], [1, -1, -1]),
        ([1, 7], ["7", "07", "+7", "x", None], [1, -1, -1, -1, -1]),
        (pl.Series([1, 7], dtype=pl.UInt16), [7, 2, 70_000, -1], [1, -1, -1, -1]),
        ([2**63 + 5, 1], [1, 2**63 + 5], [1, 0]),
        ([date(2026, 1, 1), date(2026, 1, 2)], ["2026-01-02"], [1]),
        ([b"a", b"\xff"], [b"\xff"], [1]),
        ([1.5, 2.0], [2.0, 1.5], [1, 0]),
        ([1, 2], [], []),
    ],
)
def test_ids_of_any_type_are_found(values, wanted, expected):
    assert IdMap(pl.Series(values)).positions(pl.Series(wanted)).tolist() == expected


def test_texts_of_typed_tables_stay_texts():
    texts = pl.DataFrame({"id": ["10", "7"]})
    assert clean_ids(table(texts), "id").to_list() == ["10", "7"]
    assert clean_ids(table(texts, "csv"), "id").to_list() == [10, 7]


KEYS = st.integers(0, 2**64 - 1) | st.integers(0, 40).map(lambda key: key << 50)


@quick
@given(st.lists(KEYS, unique=True), st.lists(KEYS))
def test_keys_are_found(keys, asked):
    index = KeyIndex(np.array(keys, dtype=np.uint64))
    expected = [keys.index(one) if one in keys else -1 for one in keys + asked]
    assert index.find(np.array(keys + asked, dtype=np.uint64)).tolist() == expected


@pytest.mark.parametrize("step", [1, 8, 2**20, 2**43])
def test_more_keys_than_are_looked_up_at_once(step):
    keys = np.arange(300_000, dtype=np.uint64) * np.uint64(step)
    asked = np.concatenate([keys[::-1], keys + np.uint64(1)])
    found = KeyIndex(keys).find(asked)
    assert (found[: len(keys)] == np.arange(len(keys))[::-1]).all()
    if step > 1:
        assert (found[len(keys) :] == -1).all()


@quick
@given(st.lists(st.text(max_size=3), unique=True, max_size=6), st.lists(st.text(max_size=2)))
def test_texts_whose_hashes_collide_stay_apart(ids, asked):
    """First hashes of 4 bits: most sets of texts have a collision, so that another seed is used."""
    strong, few = ids_module._hashes, np.uint64(15)

    def weak(texts, seed):
        keys, checks = strong(texts, seed)
        return keys & few, checks & ~few

    expected = [ids.index(one) if one in ids else -1 for one in ids + asked]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ids_module, "_hashes", weak)
        known = IdMap(pl.Series(ids, dtype=pl.String))
        assert known.positions(pl.Series(ids + asked, dtype=pl.String)).tolist() == expected
        once = distinct_ids(pl.Series(ids * 3, dtype=pl.String))
    assert sorted(once) == sorted(ids)


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([2**64 - 1, 1], dtype=pl.UInt64),
        pl.Series([7, 200], dtype=pl.UInt8),
        pl.Series([1.5, -2.0]),
        pl.Series(["2024-05-31", "2024-06-01"]).str.to_date(),
        pl.Series(["b", "a"], dtype=pl.Categorical),
    ],
)
def test_ids_of_any_single_type(values):
    known = IdMap(values)
    assert known.positions(values.reverse()).tolist() == [1, 0]
    assert known.positions(pl.Series(["nobody", None])).tolist() == [-1, -1]
