"""Columns of a table as a matrix of numbers, by a plan that is fitted once and kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tuneup.errors import InputError

from .table import Table
from .values import as_booleans, as_levels, as_lists, as_numbers

_VERSION = 1


@dataclass(frozen=True)
class Numeric:
    """``(value - mean) / std``, 0 where missing; then 1 where missing, if any was in training."""

    kind: ClassVar[str] = "numeric"
    name: str
    mean: float
    std: float
    indicator: bool = False
    decimal_comma: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """What each number of the result means."""
        return (self.name, f"{self.name} is missing") if self.indicator else (self.name,)

    @property
    def blank(self) -> tuple[float, ...]:
        """What a row without a value becomes."""
        return (0.0, 1.0) if self.indicator else (0.0,)

    def encode(self, table: Table) -> list[pl.Series]:
        """The columns of the result."""
        values = as_numbers(table, self.name, self.decimal_comma)
        scaled = ((values - self.mean) / self.std).fill_null(0.0).cast(pl.Float32)
        return [scaled, values.is_null().cast(pl.Float32)] if self.indicator else [scaled]


@dataclass(frozen=True)
class Boolean:
    """1 for true, 0 for false or missing; then 1 where missing, if any was in training."""

    kind: ClassVar[str] = "boolean"
    name: str
    indicator: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """What each number of the result means."""
        return (self.name, f"{self.name} is missing") if self.indicator else (self.name,)

    @property
    def blank(self) -> tuple[float, ...]:
        """What a row without a value becomes."""
        return (0.0, 1.0) if self.indicator else (0.0,)

    def encode(self, table: Table) -> list[pl.Series]:
        """The columns of the result."""
        values = as_booleans(table, self.name)
        truth = values.fill_null(False).cast(pl.Float32)
        return [truth, values.is_null().cast(pl.Float32)] if self.indicator else [truth]


@dataclass(frozen=True)
class Categorical:
    """One column per level, and one for every other value; all 0 where missing."""

    kind: ClassVar[str] = "categorical"
    name: str
    levels: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """What each number of the result means."""
        return (*(f"{self.name} = {level}" for level in self.levels), f"{self.name}: other")

    @property
    def blank(self) -> tuple[float, ...]:
        """What a row without a value becomes."""
        return (0.0,) * (len(self.levels) + 1)

    def encode(self, table: Table) -> list[pl.Series]:
        """The columns of the result."""
        values = as_levels(table, self.name)
        hot = [(values == level).fill_null(False).cast(pl.Float32) for level in self.levels]
        other = values.is_not_null() & ~values.is_in(list(self.levels))
        return [*hot, other.fill_null(False).cast(pl.Float32)]


@dataclass(frozen=True)
class NumberList:
    """A list of numbers of one length, each position standardised; all 0 where missing."""

    kind: ClassVar[str] = "list"
    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    indicator: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """What each number of the result means."""
        names = tuple(f"{self.name}[{position}]" for position in range(len(self.mean)))
        return (*names, f"{self.name} is missing") if self.indicator else names

    @property
    def blank(self) -> tuple[float, ...]:
        """What a row without a value becomes."""
        zeros = (0.0,) * len(self.mean)
        return (*zeros, 1.0) if self.indicator else zeros

    def encode(self, table: Table) -> list[pl.Series]:
        """The columns of the result."""
        values = as_lists(table, self.name, len(self.mean))
        parts = [
            ((values.arr.get(at) - mean) / std).fill_null(0.0).cast(pl.Float32)
            for at, (mean, std) in enumerate(zip(self.mean, self.std, strict=True))
        ]
        return [*parts, values.is_null().cast(pl.Float32)] if self.indicator else parts


Feature = Numeric | Boolean | Categorical | NumberList
_KINDS: dict[str, type[Feature]] = {
    each.kind: each for each in (Numeric, Boolean, Categorical, NumberList)
}


@dataclass(frozen=True)
class FeaturePlan:
    """How each column becomes numbers: fitted on one table, applied to any with its columns.

    Without features the width is 0, and a model learns what nodes enter with.
    """

    features: tuple[Feature, ...] = ()

    @property
    def width(self) -> int:
        """Numbers per node."""
        return len(self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """What each of them means."""
        return tuple(name for feature in self.features for name in feature.columns)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return tuple(feature.name for feature in self.features)

    def apply(self, table: Table | pl.DataFrame) -> Tensor:
        """Features ``[rows, width]``, float32, of a table or frame that has the plan's columns.

        Values that are missing here but never were in training get the mean.  Levels that are new
        count as "other".
        """
        if isinstance(table, pl.DataFrame):
            table = Table.of(table)
        missing = [name for name in self.inputs if name not in table.frame.columns]
        if missing:
            raise table.error(
                f"lacks column {missing[0]!r}, a feature that the model was trained with"
                + (f" (and {len(missing) - 1} more)." if len(missing) > 1 else "."),
            )
        out = np.empty((table.frame.height, self.width), dtype=np.float32)
        at = 0
        for feature in self.features:
            for column in feature.encode(table):
                out[:, at] = column.to_numpy()
                at += 1
        return torch.from_numpy(out)

    def blanks(self, count: int) -> Tensor:
        """Features ``[count, width]`` of nodes about which nothing is known."""
        one = [value for feature in self.features for value in feature.blank]
        return torch.tensor(one, dtype=torch.float32).repeat(count, 1)

    def to_json(self) -> str:
        """The plan as text; :meth:`from_json` reads it back."""
        kept = [{"kind": feature.kind, **asdict(feature)} for feature in self.features]
        return json.dumps({"version": _VERSION, "features": kept}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> FeaturePlan:
        """The plan that :meth:`to_json` wrote."""
        try:
            kept = json.loads(text)
            version, features = kept["version"], kept["features"]
            if version == _VERSION:
                return cls(tuple(_feature(dict(each)) for each in features))
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"Not a plan of features ({error}).") from error
        raise InputError(f"A plan of features of version {version}; this reads {_VERSION}.")


def _feature(kept: dict[str, Any]) -> Feature:
    make: Callable[..., Feature] = _KINDS[kept.pop("kind")]
    return make(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()}
    )
