"""Which columns of nodes are features, and of which kind; what is left out, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from tuneup.errors import InputError

from .columns import Notes
from .table import Table
from .values import as_lists, as_numbers, has_decimal_commas

Kind = Literal["numeric", "boolean", "categorical", "list"]

_MOSTLY = 0.5
"""Share of a column's texts that are numbers from which the others are taken for mistakes."""
_ENOUGH = 20
"""Rows from which a different value in each row is no accident."""
_HARDLY_ONE_TWICE, _LONG = 0.95, 1_000_000
"""Share of distinct numbers, and the smallest number, of a column of phone numbers or the like."""
_DATE = (
    r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
    r"([T ,]+\d{1,2}:\d{2}\S*( ?[AaPp][Mm])?)?\s*$"
)

ID = "a different whole number in each row, probably an id"
LONG_ID = "whole numbers of 7 digits or more, hardly one twice, probably ids"
TEXT = "free text or an id, as hardly a value comes twice"
DATES = "dates; write them as numbers, such as days, to use them"
TEXT_LISTS = "lists that do not hold numbers"
EMPTY = "no values at all"
_FORCED_BY = {ID: "--numeric", LONG_ID: "--numeric", TEXT: "--categorical"}


@dataclass(frozen=True)
class FeatureOptions:
    """Which columns are features, where not all that are left are.

    Args:
        only: these columns and no others.
        exclude: all but these.
        categorical: columns of numbers or long texts to encode as categories all the same.
        numeric: columns to take as numbers, though they look like ids.
        max_levels: most categories of one column; the rarer ones share the column "other".
    """

    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    max_levels: int = 50

    def __post_init__(self) -> None:
        if self.max_levels < 1:
            raise InputError(f"--max-levels must be 1 or more; got {self.max_levels}.")
        both = sorted({*self.categorical} & {*self.numeric})
        if both:
            raise InputError(f"{both[0]!r} is in --categorical and in --numeric; name it in one.")

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """Every column that was named, with the option it was named by."""
        return (
            *((name, "--features") for name in self.only),
            *((name, "--exclude") for name in self.exclude),
            *((name, "--categorical") for name in self.categorical),
            *((name, "--numeric") for name in self.numeric),
        )


@dataclass(frozen=True)
class Column:
    """A column that is a feature."""

    name: str
    kind: Kind
    decimal_comma: bool = False


def choose_kinds(
    table: Table, columns: Sequence[str], options: FeatureOptions, notes: Notes
) -> tuple[Column, ...]:
    """The kind of each column that can be a feature, by all of its rows.

    Every value is checked here.  Notes say what is left out, and how to use it all the same.

    Raises:
        InputError: About a value that does not fit the others of its column, or a column that
            ``--features`` asks for and that cannot be a feature.
    """
    chosen: list[Column] = []
    left_out: dict[str, list[str]] = {}
    for name in columns:
        try:
            found = _kind(table, name, options)
        except InputError as error:
            if error.fix:
                raise
            problem = f"{str(error).removesuffix('.')}; or pass --exclude {name}."
            raise InputError(problem, fix=("--exclude", name)) from error
        if isinstance(found, Column):
            chosen.append(found)
        elif name in options.only:
            other = f", or pass {_FORCED_BY[found]} {name}" if found in _FORCED_BY else ""
            raise table.error(f"{found}; leave it out of --features{other}.", column=name)
        else:
            left_out.setdefault(found, []).append(name)
    for reason, names in left_out.items():
        some = ", ".join(map(repr, names[:6])) + (
            f" and {len(names) - 6} more" if len(names) > 6 else ""
        )
        forced = f" ({_FORCED_BY[reason]} {names[0]} to use it)" if reason in _FORCED_BY else ""
        notes.append(f"{table.name}: left out {some}: {reason}{forced}.")
    commas = [repr(each.name) for each in chosen if each.decimal_comma]
    if commas:
        notes.append(f"{table.name}: decimal commas in {', '.join(commas)}.")
    return tuple(chosen)


def _kind(table: Table, name: str, options: FeatureOptions) -> Column | str:
    """The column as a feature, or the reason why it is none."""
    values = table.frame[name]
    kind = values.dtype
    if values.null_count() == len(values):
        return EMPTY
    if name in options.categorical:
        return Column(name, "categorical")
    if name in options.numeric:
        return _number(table, name)
    if kind == pl.Boolean or (kind == pl.String and _all_boolean(values)):
        return Column(name, "boolean")
    if kind.is_numeric() or (kind == pl.String and _mostly_numbers(values)):
        reason = None if name in options.only else _looks_like_id(values)
        return reason or _number(table, name)
    if kind.is_temporal() or (kind == pl.String and _all_dates(values)):
        return DATES
    if isinstance(kind, pl.List | pl.Array) or (kind == pl.String and _all_lists(values)):
        return _list(table, name) if _lists_of_numbers(values) else TEXT_LISTS
    if kind in (pl.String, pl.Categorical, pl.Enum):
        prose = _is_free_text(values.cast(pl.String).drop_nulls())
        return TEXT if prose else Column(name, "categorical")
    return f"values of type {kind}"


def _number(table: Table, name: str) -> Column:
    comma = has_decimal_commas(table, name)
    values = as_numbers(table, name, comma, f", or --categorical {name}")
    mean, std = values.mean(), values.std(ddof=0)
    if not (isinstance(mean, float) and isinstance(std, float)):
        mean = std = 0.0
    if not (abs(mean) < float("inf") and std < float("inf")):
        raise table.error("numbers too large to standardise; divide them.", None, name)
    return Column(name, "numeric", comma)


def _list(table: Table, name: str) -> Column:
    as_lists(table, name)  # refuses what cannot be a feature
    return Column(name, "list")


def _looks_like_id(values: pl.Series) -> str | None:
    """The reason to leave out whole numbers that are different in almost every row."""
    present = values.drop_nulls()
    if present.dtype == pl.String:
        present = present.cast(pl.Float64, strict=False).drop_nulls()
    if len(present) < _ENOUGH:
        return None
    if not present.dtype.is_integer() and not (present == present.round()).all():
        return None
    distinct = present.n_unique()
    if distinct == len(present):
        return ID
    low = present.min()
    long = isinstance(low, int | float) and low >= _LONG
    return LONG_ID if long and distinct >= _HARDLY_ONE_TWICE * len(present) else None


def _is_free_text(texts: pl.Series) -> bool:
    """Whether a category would stand for hardly more than one row, or texts are sentences."""
    distinct, count = texts.n_unique(), len(texts)
    if distinct == count:
        return True
    return count >= _ENOUGH and distinct > count / 2


def _mostly_numbers(values: pl.Series) -> bool:
    present = values.drop_nulls()
    plain = present.str.strip_chars().str.replace(",", ".", literal=True)
    return 1 - plain.cast(pl.Float64, strict=False).null_count() / max(1, len(present)) > _MOSTLY


def _all_boolean(values: pl.Series) -> bool:
    known = ["true", "false", "True", "False", "TRUE", "FALSE"]
    return bool(values.is_in(known).all())  # nulls do not count


def _all_dates(values: pl.Series) -> bool:
    """Dates, with or without a time: CSV has no type for them."""
    return bool(values.drop_nulls().str.contains(_DATE).all())


def _all_lists(values: pl.Series) -> bool:
    return bool(values.drop_nulls().head(1000).str.contains(r"^\s*\[.*\]\s*$").all())


def _lists_of_numbers(values: pl.Series) -> bool:
    """Whether lists hold numbers; of texts, whether most do: the others are then mistakes."""
    kind = values.dtype
    if isinstance(kind, pl.List | pl.Array):
        inner = kind.inner
        return inner.is_numeric() or inner in (pl.Boolean, pl.Null)
    share = values.drop_nulls().head(1000).str.contains(r"^\s*\[[-+0-9.,eE\s]*\]\s*$").mean()
    return isinstance(share, float) and share > _MOSTLY
