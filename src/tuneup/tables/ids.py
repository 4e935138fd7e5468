"""External ids (texts, whole numbers, UUIDs) and the nodes 0 .. n-1 that stand for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneup.errors import InputError

from .table import Table

_SPARSE = 8
"""A table from id to node is used while whole numbers span at most this often their count."""

_SLICE = 1 << 17
"""Rows that are worked on at once, so that what is computed on the way stays small."""

_ROUNDED = r"^[+-]?(\d+\.\d+[eE]\+?\d+|\d+[eE]\+\d+)$"
"""How spreadsheets and data frames write whole numbers that they have rounded."""


@dataclass(frozen=True, eq=False)
class IdMap:
    """The ids of nodes 0 .. n-1, and the way back.

    Args:
        values: ids ``[n]``, distinct, Int64 if each is a whole number as it is usually written,
            otherwise String.
    """

    values: pl.Series

    def __post_init__(self) -> None:
        if self.values.dtype not in (pl.Int64, pl.String):
            raise InputError(f"IdMap holds Int64 or String ids; got {self.values.dtype}.")
        if self.values.null_count() or self.values.n_unique() != len(self.values):
            raise InputError("IdMap: ids must be distinct, and none may be missing.")

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, node: int) -> int | str:
        found: int | str = self.values[node]
        return found

    def positions(self, ids: pl.Series) -> Tensor:
        """The node of each id ``[m]``, int64; -1 where there is none.

        Ids that came as texts are compared as texts: ``7`` is not ``007``.
        """
        find = self._finder()
        out = np.empty(len(ids), dtype=np.int64)
        for start in range(0, len(ids), _SLICE):
            part = ids.slice(start, _SLICE)
            if self.values.dtype == pl.Int64 and part.dtype != pl.Int64:
                whole = part.cast(pl.Int64, strict=False)
                usual = (whole.cast(pl.String) == part.cast(pl.String)).fill_null(False)
                found = np.where(usual.to_numpy(), find(whole), -1)
            else:
                found = find(part)
            out[start : start + _SLICE] = found
        return torch.from_numpy(out)

    def _finder(self) -> Callable[[pl.Series], NDArray[np.int64]]:
        """The way from ids to nodes that is quickest for these."""
        count = len(self.values)
        low, high = self.values.min(), self.values.max()
        if not count:
            return lambda ids: np.full(len(ids), -1, dtype=np.int64)
        if isinstance(low, int) and isinstance(high, int):
            if high - low < max(1024, _SPARSE * count):
                return partial(_look_up, self._table(low, high), low, high)
            nodes = pl.DataFrame({"id": self.values, "node": pl.int_range(count, eager=True)})
            return partial(_join, nodes)
        return partial(_encode, pl.Enum(self.values))

    def _table(self, low: int, high: int) -> NDArray[np.int64]:
        """The node of each number from ``low`` to ``high``, -1 where there is none."""
        node_of = np.full(high - low + 1, -1, dtype=np.int64)
        node_of[self.values.to_numpy() - low] = np.arange(len(self.values))
        return node_of


def _look_up(node_of: NDArray[np.int64], low: int, high: int, ids: pl.Series) -> NDArray[np.int64]:
    found: NDArray[np.int64] = node_of[(ids.fill_null(low).clip(low, high) - low).to_numpy()]
    inside = ids.is_between(low, high).fill_null(False)
    return found if inside.all() else np.where(inside.to_numpy(), found, -1)


def _join(nodes: pl.DataFrame, ids: pl.Series) -> NDArray[np.int64]:
    joined = pl.DataFrame({"id": ids}).join(nodes, on="id", how="left", maintain_order="left")
    return joined["node"].fill_null(-1).to_numpy()


def _encode(known: pl.Enum, ids: pl.Series) -> NDArray[np.int64]:
    codes = ids.cast(pl.String).cast(known, strict=False).to_physical()
    return codes.cast(pl.Int64).fill_null(-1).to_numpy()


def as_whole_numbers(texts: pl.Series) -> pl.Series:
    """Texts as Int64 if each is a whole number in its usual form; otherwise as they are."""
    if texts.dtype != pl.String or not len(texts):
        return texts
    out = np.empty(len(texts), dtype=np.int64)
    for start in range(0, len(texts), _SLICE):
        part = texts.slice(start, _SLICE)
        whole = part.cast(pl.Int64, strict=False)
        if whole.null_count() or not bool((whole.cast(pl.String) == part).all()):
            return texts
        out[start : start + _SLICE] = whole.to_numpy()
    return pl.Series(texts.name, out)


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
    whole = pl.concat([column.unique().alias("id") for column in columns]).unique()
    return whole.sort()


def refuse_duplicates(table: Table, column: str, ids: pl.Series) -> None:
    """Each node has one row."""
    if ids.n_unique() == len(ids):
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
