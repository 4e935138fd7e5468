"""The user's own ids beside the numbers that tensors are indexed by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from torch import Tensor

from tuneup.errors import ArtefactError, InputError

from .arrivals import Ints

OnUnknown = Literal["error", "skip"]
"""What to do about ids that a model does not know: refuse the question, or answer the others."""

IdList = Sequence[Any] | pl.Series | Tensor | np.ndarray[Any, Any]
"""Ids as users have them: a list, a column, an array."""

_SHOWN = 3
"""Wrong ids that a message names."""


@dataclass(frozen=True, eq=False)
class Ids:
    """Distinct ids of any scalar type; the number of an id is its place.

    Args:
        values: the ids ``[n]``.
        kind: what they name: "node", "user" or "item".
    """

    values: pl.Series
    kind: str = "node"

    def __post_init__(self) -> None:
        if self.values.dtype.is_nested() or self.values.dtype == pl.Object:
            raise InputError(f"{self.kind} ids must be single values; got {self.values.dtype}.")
        if self.values.null_count():
            row = int(self.values.is_null().arg_true()[0])
            raise InputError(f"The {self.kind} id in row {row} is missing.")
        if self.values.n_unique() != len(self.values):
            twice = self.values.filter(self.values.is_duplicated())[0]
            raise InputError(f"{self.kind} ids must be distinct; {twice!r} comes twice.")

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {value: number for number, value in enumerate(self.values.to_list())}

    def prepare(self) -> Ids:
        """Make what look-ups need now, not at the first one."""
        _ = self._numbers
        return self

    def __contains__(self, value: object) -> bool:
        return value in self._numbers

    def numbers(self, wanted: IdList) -> Ints:
        """The number of each id; refuses those that are not known, by name."""
        listed = _as_list(wanted)
        try:
            found = [self._numbers.get(value, -1) for value in listed]
        except TypeError as error:
            raise InputError(f"A {self.kind} id must be a single value ({error}).") from error
        unknown = [value for value, number in zip(listed, found, strict=True) if number < 0]
        if unknown:
            names = ", ".join(map(repr, unknown[:_SHOWN]))
            more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
            raise InputError(
                f"The model knows no {self.kind} {names}{more}; it knows {len(self):,}, like "
                f"{self.values[0]!r} ({self.values.dtype})."
            )
        return np.asarray(found, dtype=np.int64)

    def split(self, wanted: IdList) -> tuple[list[Any], tuple[Any, ...]]:
        """The ids that are known, as they come, and the distinct ones that are not."""
        listed = _as_list(wanted)
        try:
            known = [value for value in listed if value in self]
            unknown = dict.fromkeys(value for value in listed if value not in self)
        except TypeError as error:
            raise InputError(f"A {self.kind} id must be a single value ({error}).") from error
        return known, tuple(unknown)

    def take(self, numbers: Ints) -> pl.Series:
        """The ids behind some numbers."""
        return self.values.gather(numbers)

    def parse(self, words: Iterable[str]) -> list[Any]:
        """Ids written as text, in the type that these have; what is no such id stays text.

        A whole number is one as it is usually written: 007 is a text, and not 7.
        """
        given = pl.Series(list(words), dtype=pl.String)
        cast = given.cast(self.values.dtype, strict=False)
        if cast.dtype.is_integer():
            cast = cast.set(cast.cast(pl.String) != given, None)
        pairs = zip(given.to_list(), cast.to_list(), strict=True)
        return [word if value is None else value for word, value in pairs]

    def write(self, path: Path) -> None:
        """A Parquet file with the columns ``id`` and ``number``."""
        frame = pl.DataFrame({"id": self.values, "number": np.arange(len(self))})
        frame.write_parquet(path)


def ids_of(values: IdList | None, count: int, kind: str) -> Ids:
    """Ids for ``count`` things; without any, these are called 0, 1, 2, ..."""
    if values is None:
        return Ids(pl.Series("id", np.arange(count)), kind)
    try:
        found = values if isinstance(values, pl.Series) else pl.Series("id", _as_list(values))
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{kind} ids must all have one type ({error}).") from error
    if len(found) != count:
        raise InputError(f"{len(found)} {kind} ids for {count} {kind}s.")
    return Ids(found.alias("id"), kind)


def read_ids(path: Path, kind: str) -> Ids:
    """What :meth:`Ids.write` wrote."""
    try:
        frame = pl.read_parquet(path)
        if frame.columns != ["id", "number"]:
            raise ArtefactError(f"{path.name} has columns {frame.columns}, not id and number")
        if frame["number"].to_list() != list(range(len(frame))):
            raise ArtefactError(f"{path.name} does not number its ids 0, 1, 2, ...")
        return Ids(frame["id"], kind)
    except pl.exceptions.PolarsError as error:
        raise ArtefactError(f"{path.name} is not a Parquet file") from error


def _as_list(values: IdList) -> list[Any]:
    if isinstance(values, str | bytes):
        raise InputError(f"Ids come as a list; got the single text {values!r}.")
    if isinstance(values, pl.Series):
        return values.to_list()
    if isinstance(values, Tensor | np.ndarray):
        return values.tolist()
    return list(values)
