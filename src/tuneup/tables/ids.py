"""External ids (texts, whole numbers, UUIDs) and the nodes 0 .. n-1 that stand for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneup.errors import InputError

from .lookup import Finder, distinct_texts, number_finder, text_finder
from .table import Table

_SPARSE = 8
"""A table from id to node is used while whole numbers span at most this often their count."""

_HEAD = 1000
"""Rows that are looked at before all are."""

_USUAL = r"^(0|-?[1-9]\d*)$"
"""How whole numbers are usually written: ``7``, not ``007`` or ``+7``."""

_ROUNDED = r"^[+-]?(\d+\.\d+[eE]\+?\d+|\d+[eE]\+\d+)$"
"""How spreadsheets and data frames write whole numbers that they have rounded."""


@dataclass(frozen=True, eq=False)
class IdMap:
    """Distinct ids of the things 0 .. n-1, and the way back, without an object an id.

    Whole numbers are found by their value and all other ids by their text: ``7`` is also found as
    the text "7", and never as "007".

    Args:
        values: ids ``[n]`` of any type of single values.
        kind: what they name: "node", "user" or "item".
    """

    values: pl.Series
    kind: str = "node"

    def __post_init__(self) -> None:
        if self.values.dtype.is_nested() or self.values.dtype == pl.Object:
            raise InputError(f"{self.kind} ids must be single values; got {self.values.dtype}.")
        if self.values.null_count():
            row = int(self.values.is_null().arg_max() or 0)
            raise InputError(f"The {self.kind} id in row {row} is missing.")
        if not all_distinct(self.values):
            twice = self.values.filter(self.values.is_duplicated())[0]
            raise InputError(f"{self.kind} ids must be distinct; {twice!r} comes twice.")

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, node: int) -> int | str:
        found: int | str = self.values[node]
        return found

    def positions(self, ids: pl.Series) -> Tensor:
        """The node of each id ``[m]``, int64; -1 where there is none."""
        if not len(self.values) or not len(ids):
            return torch.full((len(ids),), -1)
        return torch.from_numpy(self.finder(ids))

    @cached_property
    def finder(self) -> Finder:
        """Finds ids as :meth:`positions` does; made once, in time linear in the ids known."""
        known = _whole_or_text(self.values)
        if known.dtype == pl.String:
            find = text_finder(known)
            return lambda ids: find(_texts(ids))
        find_number = _finder_of_numbers(known)

        def find_whole(ids: pl.Series) -> NDArray[np.int64]:
            whole = _usual_numbers(ids)
            if not whole.null_count():
                return find_number(whole)
            return np.where(whole.is_null().to_numpy(), -1, find_number(whole.fill_null(0)))

        return find_whole


def _finder_of_numbers(values: pl.Series) -> Finder:
    """A table of all numbers between the smallest and the largest id, where they are dense."""
    low, high = values.min(), values.max()
    assert isinstance(low, int)
    assert isinstance(high, int)
    if high - low >= max(1024, _SPARSE * len(values)):
        return number_finder(values)
    node_of = np.full(high - low + 1, -1, dtype=np.int64)
    node_of[values.to_numpy() - low] = np.arange(len(values))
    return partial(_look_up, node_of, low, high)


def _whole_or_text(ids: pl.Series) -> pl.Series:
    """Ids as Int64, or as String where they are no whole numbers or exceed 64 bits."""
    if ids.dtype.is_integer():
        whole = ids.cast(pl.Int64, strict=False)
        if whole.null_count() == ids.null_count():
            return whole
    return _texts(ids)


def _texts(ids: pl.Series) -> pl.Series:
    return ids.bin.encode("hex") if ids.dtype == pl.Binary else ids.cast(pl.String)


def _look_up(node_of: NDArray[np.int64], low: int, high: int, ids: pl.Series) -> NDArray[np.int64]:
    wanted = ids.to_numpy()  # a few ids are found much faster by numpy than by polars
    inside = (wanted >= low) & (wanted <= high)
    if inside.all():
        found: NDArray[np.int64] = node_of[wanted - low]
        return found
    return np.where(inside, node_of[np.where(inside, wanted, low) - low], -1)


def as_whole_numbers(texts: pl.Series) -> pl.Series:
    """Texts as Int64 if each is a whole number in its usual form; otherwise as they are."""
    if texts.dtype != pl.String or not len(texts):
        return texts
    if _usual_numbers(texts.head(_HEAD)).null_count():
        return texts
    whole = _usual_numbers(texts)
    return texts if whole.null_count() else whole


def _usual_numbers(ids: pl.Series) -> pl.Series:
    """Int64, null where a text is not a whole number as it is usually written."""
    if ids.dtype.is_integer():
        return ids.cast(pl.Int64, strict=False)
    texts = _texts(ids)
    usual = texts.str.contains(_USUAL)
    if not usual.all():
        texts = texts.set(~usual, None)
    return texts.cast(pl.Int64, strict=False)


def clean_ids(table: Table, column: str) -> pl.Series:
    """A column as ids, Int64 or String; refuses missing ones and types that cannot be ids.

    CSV cannot tell texts from numbers: there, ids are numbers if all of them could be.
    """
    ids = table.frame[column]
    kind = ids.dtype
    if kind.is_float() or kind.is_decimal():
        raise table.error(
            f"ids are decimal numbers ({kind}), which are not exact from 2^53 on; write them as "
            "whole numbers or texts.",
            column=column,
        )
    if kind == pl.Binary:
        ids = ids.bin.encode("hex")
    elif kind.is_integer():
        fits = ids.cast(pl.Int64, strict=False)
        ids = fits if fits.null_count() == ids.null_count() else ids.cast(pl.String)
    elif kind in (pl.Categorical, pl.Enum) or kind.is_temporal():
        ids = ids.cast(pl.String)
    elif kind not in (pl.String, pl.Null):
        raise table.error(
            f"ids cannot be of type {kind}; use texts or whole numbers.", None, column
        )
    if ids.null_count():
        row = int(ids.is_null().arg_max() or 0)
        raise table.error("no id here; fill it in or remove the row.", row, column)
    if not table.untyped:
        return ids
    if bool((ids == column).any()):
        raise table.error(
            f"line 1 should name the columns, but {column!r} is an id in other rows, so that line "
            "seems to be data and would be lost; add a line above it, such as source,target.",
            int((ids == column).arg_max() or 0),
            column,
        )
    return as_whole_numbers(ids)


def check_written(table: Table, column: str, ids: pl.Series) -> None:
    """Refuse ids that were numbers once and are rounded now, as in ``1.2e+19``."""
    if ids.dtype != pl.String:
        return
    rounded = ids.str.contains(_ROUNDED)
    if rounded.any():
        row = int(rounded.arg_max() or 0)
        raise table.error(
            f"id {ids[row]} is a number that was rounded on the way here, so different ids may "
            "have become one; write ids as texts or whole numbers.",
            row,
            column,
        )


def same_kind(first: tuple[Table, str, pl.Series], second: tuple[Table, str, pl.Series]) -> None:
    """Refuse texts here and numbers there, unless one came from CSV, which cannot tell."""
    (one, column, ids), (other, named, others) = first, second
    if one.untyped or other.untyped or (ids.dtype == pl.String) == (others.dtype == pl.String):
        return
    raise one.error(
        f"ids are {_kind(ids)}, but in {other.where(column=named)} they are {_kind(others)}; write "
        "both alike.",
        column=column,
    )


def _kind(ids: pl.Series) -> str:
    return "texts" if ids.dtype == pl.String else "whole numbers"


def distinct_ids(*columns: pl.Series) -> pl.Series:
    """The ids of all columns, each once, ascending: numbers by size, texts by letters."""
    if len({column.dtype for column in columns}) > 1:
        columns = tuple(column.cast(pl.String) for column in columns)
    once = distinct_texts if columns[0].dtype == pl.String else pl.Series.unique
    return once(pl.concat([once(column).alias("id") for column in columns])).sort()


def all_distinct(values: pl.Series) -> bool:
    """Whether no value comes twice; distinct hashes, which are quick to count, say so."""
    return values.hash().n_unique() == len(values) or values.n_unique() == len(values)


def refuse_duplicates(table: Table, column: str, ids: pl.Series) -> None:
    """Each node has one row."""
    if all_distinct(ids):
        return
    repeated = ids.is_duplicated()
    first = int(repeated.arg_max() or 0)
    second = int((ids == ids[first]).arg_true()[1])
    count = len(ids) - ids.n_unique()
    raise table.error(
        f"id {ids[first]!r} again, after row {first + 1}; {count:,} rows repeat an id: keep one "
        "row per node.",
        second,
        column,
    )
