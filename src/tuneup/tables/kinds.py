"""The kinds of features: one column of a table as columns of numbers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from .reading import Table
from .values import as_booleans, as_levels, as_lists, as_numbers


@dataclass(frozen=True)
class Column:
    """A column of a table that is to become a feature of some kind."""

    name: str
    kind: str
    decimal_comma: bool = False
    max_levels: int = 50
    width: int = 32


@dataclass(frozen=True)
class Feature:
    """One column of a table as columns of numbers.

    Where values were missing in training, a further column is 1 where the value is missing.

    Args:
        name: of the column.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    gap: ClassVar[str] = "the mean"
    """what a missing value is taken as"""
    reader: ClassVar[Callable[..., pl.Series]]
    """reads a column in the type of this kind of feature"""

    name: str

    @classmethod
    @abstractmethod
    def fit(cls, column: Column, values: pl.Series) -> Feature | None:
        """The feature by the values of training rows; ``None`` if it would be constant."""

    @abstractmethod
    def encode(self, values: pl.Series) -> list[pl.Series]:
        """The values as numbers, one series for each of :attr:`own_columns`."""

    def read(self, table: Table) -> pl.Series:
        """The values of the column."""
        return type(self).reader(table, self.name)

    @property
    def own_columns(self) -> tuple[str, ...]:
        """What each number of the result means, without the indicator of missing values."""
        return (self.name,)

    @property
    def has_indicator(self) -> bool:
        """Whether a further column says where the value is missing."""
        return bool(getattr(self, "indicator", False))

    @property
    def columns(self) -> tuple[str, ...]:
        """What each number of the result means."""
        return (*self.own_columns, *((f"{self.name} is missing",) if self.has_indicator else ()))

    @property
    def described(self) -> str:
        """The name, and how many levels or numbers it has if these are several."""
        many = getattr(self, "levels", None) or getattr(self, "mean", None)
        return f"{self.name} ({len(many)})" if isinstance(many, tuple) else self.name

    def apply(self, table: Table) -> list[pl.Series]:
        """The columns of the result."""
        values = self.read(table)
        return [*self.encode(values), *([values.is_null()] if self.has_indicator else [])]


@dataclass(frozen=True)
class Numeric(Feature):
    """``(value - mean) / std``, 0 where missing."""

    kind, title, reader = "numeric", "numbers", as_numbers

    mean: float
    std: float
    indicator: bool = False
    decimal_comma: bool = False

    def __post_init__(self) -> None:
        _check_scale(self.mean, self.std)

    @classmethod
    def fit(cls, column: Column, values: pl.Series) -> Numeric | None:
        """By mean and standard deviation; ``None`` if all numbers are there and the same."""
        (mean, std), missing = mean_and_std(values), values.null_count() > 0
        constant = std <= 1e-12 * max(1.0, abs(mean))
        if constant and not missing:
            return None
        return cls(column.name, mean, 1.0 if constant else std, missing, column.decimal_comma)

    def read(self, table: Table) -> pl.Series:
        """Numbers, also of booleans."""
        if table.frame.schema[self.name] == pl.String:
            table = table.select(self.name).typed()
        return as_numbers(table, self.name, self.decimal_comma)

    def encode(self, values: pl.Series) -> list[pl.Series]:
        """Standardised numbers."""
        return [((values - self.mean) / self.std).fill_null(0.0)]


@dataclass(frozen=True)
class Boolean(Feature):
    """1 for true, 0 for false or missing."""

    kind, title, gap, reader = "boolean", "yes or no", "false", as_booleans

    indicator: bool = False

    @classmethod
    def fit(cls, column: Column, values: pl.Series) -> Boolean:
        """Whether values are missing in training."""
        return cls(column.name, values.null_count() > 0)

    def encode(self, values: pl.Series) -> list[pl.Series]:
        """True or not."""
        return [values.fill_null(False)]


@dataclass(frozen=True)
class Categorical(Feature):
    """One column per level, and one for every other value; all 0 where missing."""

    kind, title, gap, reader = "categorical", "categories", "no category", as_levels

    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        if not all(isinstance(level, str) for level in self.levels):
            raise TypeError("levels must be texts")

    @classmethod
    def fit(cls, column: Column, values: pl.Series) -> Categorical:
        """The commonest levels."""
        counts = values.drop_nulls().value_counts(name="rows")
        counts = counts.sort(["rows", column.name], descending=[True, False])
        return cls(column.name, tuple(counts[column.name].head(column.max_levels).to_list()))

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The levels, and the others."""
        return (*(f"{self.name} = {level}" for level in self.levels), f"{self.name}: other")

    def read(self, table: Table) -> pl.Series:
        """Texts; where all levels are numbers, ``1.0`` in a delimited file is the level ``1``."""
        if table.untyped and all(map(_is_typed, self.levels)):
            table = table.select(self.name).typed()
        return as_levels(table, self.name)

    def unseen(self, values: pl.Series) -> pl.Series:
        """Which values are present and no level."""
        return (values.is_not_null() & ~values.is_in([*self.levels])).fill_null(False)

    def encode(self, values: pl.Series) -> list[pl.Series]:
        """Each level or not."""
        hot = [(values == level).fill_null(False) for level in self.levels]
        return [*hot, self.unseen(values)]


@dataclass(frozen=True)
class NumberList(Feature):
    """A list of numbers of one length, each position standardised; all 0 where missing."""

    kind, title, reader = "list", "lists of numbers", as_lists

    mean: tuple[float, ...]
    std: tuple[float, ...]
    indicator: bool = False

    def __post_init__(self) -> None:
        for mean, std in zip(self.mean, self.std, strict=True):
            _check_scale(mean, std)

    @classmethod
    def fit(cls, column: Column, values: pl.Series) -> NumberList:
        """Mean and standard deviation of each position."""
        width = values.dtype.shape[0] if isinstance(values.dtype, pl.Array) else 0
        scales = [mean_and_std(values.arr.get(at)) for at in range(width)]
        stds = tuple(std if std > 0 else 1.0 for _, std in scales)
        return cls(column.name, tuple(mean for mean, _ in scales), stds, values.null_count() > 0)

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The positions."""
        return tuple(f"{self.name}[{position}]" for position in range(len(self.mean)))

    def read(self, table: Table) -> pl.Series:
        """Arrays of numbers."""
        return as_lists(table, self.name, len(self.mean))

    def encode(self, values: pl.Series) -> list[pl.Series]:
        """Each position standardised."""
        return [
            ((values.arr.get(at) - mean) / std).fill_null(0.0)
            for at, (mean, std) in enumerate(zip(self.mean, self.std, strict=True))
        ]


def _is_typed(level: str) -> bool:
    """Whether a number or a boolean that was read as such is written like this."""
    if level in ("true", "false"):
        return True
    try:
        return level in (str(float(level)), str(int(float(level))))
    except (ValueError, OverflowError):
        return False


def mean_and_std(values: pl.Series) -> tuple[float, float]:
    """Of the numbers that are present; 0 and 0 if there are none."""
    mean, std = values.mean(), values.std(ddof=0)
    found = isinstance(mean, float) and isinstance(std, float)
    return (mean, std) if found else (0.0, 0.0)  # type: ignore[return-value]


def _check_scale(mean: float, std: float) -> None:
    if not (math.isfinite(mean) and 0 < std < math.inf):
        raise ValueError(f"a mean and standard deviation of {mean} and {std}")
