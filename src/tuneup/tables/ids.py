"""Users' ids (texts, whole numbers, any single values) and the numbers 0 .. n-1 of nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneup.errors import InputError

from .reading import Table, first_true

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]
Finder = Callable[[pl.Series], Ints]
"""The position of each id ``[m]``, -1 where there is none."""

_SLICE = 1 << 17
"""Keys that are looked up at once, so that temporary arrays stay in the processor's cache."""
_SPARSE = 8
"""Numbers are looked up in a plain array while they span at most this often their count."""
_ROUNDED = r"^[+-]?(\d+\.\d+[eE]\+?\d+|\d+[eE]\+\d+)$"
"""How spreadsheets and data frames write whole numbers that they have rounded."""


@dataclass(frozen=True, eq=False)
class IdMap:
    """The ids of nodes 0 .. n-1, and the way back, without a Python object per node.

    Args:
        values: distinct ids ``[n]`` of any type of single values; none is missing.
        kind: what the ids name, for messages: "node", "user" or "item".

    Example:
        >>> ids = IdMap(pl.Series(["ann", "bob"]))
        >>> ids.positions(pl.Series(["bob", "eve"])).tolist()
        [1, -1]
    """

    values: pl.Series
    kind: str = "node"

    def __post_init__(self) -> None:
        values, kind = self.values, self.kind
        if values.dtype.is_nested() or values.dtype == pl.Object:
            raise InputError(f"{kind} ids must be single values; got {values.dtype}.")
        if values.null_count():
            row = first_true(values.is_null())
            raise InputError(f"The {kind} id in row {row} is missing.")
        if not all_distinct(values):
            twice = values.filter(values.is_duplicated())[0]
            raise InputError(f"{kind} ids must be distinct; {twice!r} comes twice.")

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, node: int) -> int | str:
        found: int | str = self.values[node]
        return found

    def positions(self, ids: pl.Series) -> Tensor:
        """The node of each id ``[m]``, int64; -1 where there is none.

        Whole numbers are found by their value and all other ids by their text: ``7`` is also found
        as the text "7", and never as "007".
        """
        if not len(self.values) or not len(ids):
            return torch.full((len(ids),), -1)
        return torch.from_numpy(self.finder(ids))

    @cached_property
    def finder(self) -> Finder:
        """Finds ids as :meth:`positions` does; made once, in time linear in the ids known."""
        known = self.values
        if not known.dtype.is_integer() or known.cast(pl.Int64, strict=False).null_count():
            find_text = _text_finder(_texts(known))
            return lambda ids: find_text(_texts(ids))
        find_number = _number_finder(known.cast(pl.Int64).to_numpy())

        def find(ids: pl.Series) -> Ints:
            whole = whole_numbers(ids)
            if not whole.null_count():
                return find_number(whole.to_numpy())
            found = find_number(whole.fill_null(0).to_numpy())
            return np.where(whole.is_null().to_numpy(), -1, found)

        return find


def _texts(ids: pl.Series) -> pl.Series:
    return ids.bin.encode("hex") if ids.dtype == pl.Binary else ids.cast(pl.String)


def _number_finder(numbers: Ints) -> Callable[[Ints], Ints]:
    """A plain array of positions where numbers are dense, or else a hash table."""
    low, high = int(numbers.min()), int(numbers.max())
    if high - low >= max(1024, _SPARSE * len(numbers)):
        index = KeyIndex(numbers.view(np.uint64))
        return lambda wanted: index.find(wanted.view(np.uint64))
    node_of = np.full(high - low + 1, -1, dtype=np.int32)
    node_of[numbers - low] = np.arange(len(numbers), dtype=np.int32)

    def find(wanted: Ints) -> Ints:
        inside = (wanted >= low) & (wanted <= high)
        if inside.all():
            return node_of[wanted - low].astype(np.int64)
        return np.where(inside, node_of[np.where(inside, wanted, low) - low], -1)

    return find


class KeyIndex:
    """A hash table of distinct 64-bit keys, with open addressing and linear probing.

    At least half of its slots are empty; each holds a position in 4 bytes.
    """

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        bits = max(1, (2 * len(keys) - 1).bit_length())
        self._shift, self._mask = np.uint64(64 - bits), (1 << bits) - 1
        self._slots = np.full(1 << bits, -1, dtype=np.int32)
        waiting = np.arange(len(keys), dtype=np.int32)
        slot = self._first_slot(keys)
        while len(waiting):
            free = self._slots[slot] < 0
            self._slots[slot[free]] = waiting[free]
            left = self._slots[slot] != waiting  # another key has this slot: try the next one
            waiting, slot = waiting[left], (slot[left] + 1) & self._mask

    def find(self, keys: Keys) -> Ints:
        """The position of each key ``[m]``, -1 where it is not in the index."""
        out = np.full(len(keys), -1, dtype=np.int64)
        for start in range(0, len(keys) if len(self.keys) else 0, _SLICE):
            part = keys[start : start + _SLICE]
            slot = self._first_slot(part)
            found = self._slots[slot]
            waiting = np.flatnonzero((found >= 0) & (self.keys[found] != part))
            while len(waiting):
                slot[waiting] = (slot[waiting] + 1) & self._mask
                other = self._slots[slot[waiting]]
                found[waiting] = other
                waiting = waiting[(other >= 0) & (self.keys[other] != part[waiting])]
            out[start : start + _SLICE] = found
        return out

    def _first_slot(self, keys: Keys) -> Ints:
        """The high bits of splitmix64, which spreads keys that differ in any bits."""
        mixed = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (mixed >> self._shift).astype(np.int64)


def _hashes(values: pl.Series, seed: int) -> tuple[Keys, Keys]:
    """Two independent ones, computed in one query: most of the time of a short look-up."""
    column = pl.col(values.name)
    found = values.to_frame().select_seq(column.hash(seed), column.hash(seed + 1).alias("check"))
    return found[values.name].to_numpy(), found["check"].to_numpy()


def _text_finder(values: pl.Series) -> Finder:
    """Finds texts among distinct ones by two independent hashes of 64 bits.

    Among 10^9 texts the chance of taking any for another is below 10^-20.
    """
    for seed in count(0, 2):
        keys, checks = _hashes(values, seed)
        if pl.Series(keys).n_unique() == len(keys):
            break
    index = KeyIndex(keys)

    def find(ids: pl.Series) -> Ints:
        wanted, check = _hashes(ids, seed)
        found = index.find(wanted)
        found[checks[found] != check] = -1
        return found

    return find


def distinct_ids(*columns: pl.Series) -> pl.Series:
    """The ids of all columns, each once, ascending: numbers by size, texts by letters."""
    if len({column.dtype for column in columns}) > 1:
        columns = tuple(column.cast(pl.String) for column in columns)
    return pl.concat([column.unique().alias("id") for column in columns]).unique().sort()


def all_distinct(values: pl.Series) -> bool:
    """Whether no value comes twice; counting distinct hashes is quick and usually says so."""
    return values.hash().n_unique() == len(values) or values.n_unique() == len(values)


def whole_numbers(ids: pl.Series) -> pl.Series:
    """Int64, null where a text is not a whole number as usually written: ``7``, not ``007``."""
    if ids.dtype.is_integer():
        return ids.cast(pl.Int64, strict=False)
    texts = _texts(ids)
    numbers = texts.cast(pl.Int64, strict=False)
    zero = texts.str.starts_with("0") & (texts.str.len_bytes() > 1)
    unusual = zero | texts.str.starts_with("+") | texts.str.starts_with("-0")
    return numbers.set(unusual, None) if unusual.any() else numbers


def as_whole_numbers(texts: pl.Series) -> pl.Series:
    """Texts as Int64 if each is a whole number as usually written; otherwise as they are."""
    if texts.dtype != pl.String or not len(texts):
        return texts
    if whole_numbers(texts.head(1000)).null_count():
        return texts
    numbers = whole_numbers(texts)
    return texts if numbers.null_count() else numbers


def clean_ids(table: Table, column: str, *, unique: bool = False) -> pl.Series:
    """A column as ids, Int64 or String.

    Delimited files do not tell texts from numbers: there, ids are numbers if all of them can be.

    Args:
        table: holds the column.
        column: its name.
        unique: whether each row must have an id of its own.

    Raises:
        InputError: About a missing, rounded or repeated id, or a type that cannot be an id.
    """
    ids = table.frame[column]
    kind = ids.dtype
    if kind.is_float() or kind.is_decimal():
        raise table.error(
            f"ids are decimal numbers ({kind}), which are not exact from 2^53 on; write whole "
            "numbers or texts.",
            column=column,
        )
    if kind == pl.Binary:
        ids = _texts(ids)
    elif kind.is_integer():
        fits = ids.cast(pl.Int64, strict=False)
        ids = fits if fits.null_count() == ids.null_count() else ids.cast(pl.String)
    elif kind in (pl.Categorical, pl.Enum) or kind.is_temporal():
        ids = ids.cast(pl.String)
    elif kind not in (pl.String, pl.Null):
        raise table.error(
            f"ids cannot be of type {kind}; use texts or whole numbers.", None, column
        )
    table.refuse(ids.is_null(), column, "missing id; fill it in or remove the row.")
    if table.untyped:
        table.refuse(
            ids == column,
            column,
            f"line 1 should name the columns, but {column!r} is an id in other rows; add a line "
            "above it, such as source,target.",
        )
        ids = as_whole_numbers(ids)
    if ids.dtype == pl.String:
        table.refuse(
            ids.str.contains(_ROUNDED),
            column,
            lambda row: f"id {ids[row]} is a rounded number; write ids as texts or whole numbers.",
        )
    if unique and not all_distinct(ids):
        first = first_true(ids.is_duplicated()) or 0
        count = len(ids) - ids.n_unique()
        raise table.error(
            f"id {ids[first]!r} again, after row {first + 1}; {count:,} rows repeat an id: keep "
            "one row per id.",
            int((ids == ids[first]).arg_true()[1]),
            column,
        )
    return ids


def check_same_type(
    first: tuple[Table, str, pl.Series], second: tuple[Table, str, pl.Series]
) -> None:
    """Refuse texts in one column and numbers in the other, unless one is of a delimited file."""
    (one, column, ids), (other, other_column, others) = first, second
    if one.untyped or other.untyped or (ids.dtype == pl.String) == (others.dtype == pl.String):
        return
    kinds = ["texts" if each.dtype == pl.String else "whole numbers" for each in (ids, others)]
    raise one.error(
        f"ids are {kinds[0]}, but in {other.where(column=other_column)} they are {kinds[1]}; write "
        "both alike.",
        column=column,
    )
