"""Which columns of nodes are features and of which kind, and the plan that is fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from torch import Tensor

from tuneup.errors import InputError

from .columns import Notes
from .features import (
    Boolean,
    Categorical,
    Column,
    Feature,
    FeaturePlan,
    NumberList,
    Numeric,
    mean_and_std,
)
from .reading import Table
from .request import TableRequest
from .values import as_booleans, as_levels, as_lists, as_numbers, has_decimal_commas, typed

_MOSTLY = 0.5
"""Share of a column's texts that are numbers from which the others are taken for mistakes."""
_ENOUGH = 20
"""Rows from which a different value in each row is no accident."""
_HARDLY_ONE_TWICE, _LONG = 0.95, 1_000_000
"""Share of distinct numbers, and the smallest number, of a column of phone numbers or similar."""
_HEAD = 1000
"""Rows by which lists are recognised."""
_DATE = (
    r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
    r"([T ,]+\d{1,2}:\d{2}\S*( ?[AaPp][Mm])?)?\s*$"
)

_ID = "a different whole number in each row, probably an id"
_LONG_ID = "whole numbers of 7 digits or more, hardly one twice, probably ids"
_TEXT = "free text or an id, as hardly a value comes twice"
_DATES = "dates; write them as numbers, such as days, to use them"
_TEXT_LISTS = "lists that do not hold numbers"
_EMPTY = "no values at all"
_FORCED_BY = {_ID: "--numeric", _LONG_ID: "--numeric", _TEXT: "--categorical"}


@dataclass(frozen=True, eq=False)
class RawFeatures:
    """Columns that are features, typed and checked: what a plan is fitted and applied to.

    Args:
        table: rows of nodes 0, 1, 2, ...; nodes that only edges name have none.
        columns: name and kind of each.
    """

    table: Table
    columns: tuple[Column, ...]

    def fit(self, training: Tensor | None, notes: Notes) -> FeaturePlan:
        """A plan by some of the rows.

        Args:
            training: which nodes training knows, bool ``[N]``; by default all.
            notes: gets a line for everything that is filled in, merged or left out.
        """
        frame = self.table.frame
        if training is not None:
            frame = frame.filter(pl.Series(training[: frame.height].numpy()))
        features = []
        for column in self.columns:
            values, name = frame[column.name], column.name
            if values.null_count() == len(values):
                notes.append(f"{self.table.name}: left out {name!r}: no values in training rows.")
                continue
            feature = column.kind.fit(column, values)
            if feature is None:
                notes.append(
                    f"{self.table.name}: left out {name!r}: the same number in all training rows."
                )
                continue
            features.append(feature)
            if isinstance(feature, Categorical):
                self._note_other_levels(feature, values.drop_nulls(), notes)
        self._note_gaps(features, notes)
        return FeaturePlan(tuple(features))

    def _note_other_levels(self, feature: Categorical, values: pl.Series, notes: Notes) -> None:
        other = int(feature.unseen(values).sum())
        if other:
            notes.append(
                f"{self.table.where(column=feature.name)}: {values.n_unique():,} categories, of "
                f"which the {len(feature.levels)} commonest ({100 - 100 * other / len(values):.0f} "
                "% of rows) are used and others count as one (--max-levels)."
            )

    def _note_gaps(self, features: Sequence[Feature], notes: Notes) -> None:
        """Note how many values are missing, in lines by what they are taken as."""
        gaps: dict[str, dict[str, int]] = {}
        for feature in features:
            count = self.table.frame[feature.name].null_count()
            if count:
                says_so = ", and a further feature says so" if feature.has_indicator else ""
                gaps.setdefault(feature.gap + says_so, {})[feature.name] = count
        for filled_in, counts in gaps.items():
            worst = sorted(counts, key=lambda name: -counts[name])[:3]
            some = ", ".join(f"{name!r} {counts[name]:,}" for name in worst)
            total, where = sum(counts.values()), len(counts)
            notes.append(
                f"{self.table.name}: {total:,} missing value{'s' if total > 1 else ''} in {where} "
                f"column{'s' if where > 1 else ''} ({some}) "
                f"{'are' if total > 1 else 'is'} taken as {filled_in}."
            )


def choose_features(
    table: Table, columns: Sequence[str], request: TableRequest, notes: Notes
) -> RawFeatures:
    """The columns that can be features, each with its kind by all of its rows.

    Every value is checked.  Notes say what is left out, and how to use it all the same.

    Raises:
        InputError: About a value that does not fit the others of its column, or a column that
            ``--features`` asks for and that cannot be a feature.
    """
    chosen: list[Column] = []
    values: list[pl.Series] = []
    left_out: dict[str, list[str]] = {}
    known = typed(table.select(*columns))
    for name in columns:
        try:
            single = known.select(name)
            kind = _kind(single, name, request)
            if not isinstance(kind, str):
                comma = kind is Numeric and has_decimal_commas(single, name)
                chosen.append(Column(name, kind, comma, request.max_levels))
                values.append(_read(single, chosen[-1]).alias(name))
                continue
        except InputError as error:
            if error.fix:
                raise
            problem = f"{str(error).removesuffix('.')}; or pass --exclude {name}."
            raise InputError(problem, fix=("--exclude", name)) from error
        if name in request.features:
            other = f", or pass {_FORCED_BY[kind]} {name}" if kind in _FORCED_BY else ""
            raise table.error(f"{kind}; leave it out of --features{other}.", column=name)
        left_out.setdefault(kind, []).append(name)
    for reason, names in left_out.items():
        some = ", ".join(map(repr, names[:6])) + (
            f" and {len(names) - 6} more" if len(names) > 6 else ""
        )
        forced = f" ({_FORCED_BY[reason]} {names[0]} to use it)" if reason in _FORCED_BY else ""
        notes.append(f"{table.name}: left out {some}: {reason}{forced}.")
    commas = [repr(each.name) for each in chosen if each.decimal_comma]
    if commas:
        notes.append(f"{table.name}: decimal commas in {', '.join(commas)}.")
    return RawFeatures(Table(pl.DataFrame(values), table.parts), tuple(chosen))


def _kind(table: Table, name: str, request: TableRequest) -> type[Feature] | str:
    """The kind of a column, or the reason why it is no feature."""
    values = table.frame[name]
    kind = values.dtype
    if values.null_count() == len(values):
        return _EMPTY
    if name in request.categorical:
        return Categorical
    if name in request.numeric:
        return Numeric
    if kind == pl.Boolean or (kind == pl.String and _all_boolean(values)):
        return Boolean
    if kind.is_numeric() or (kind == pl.String and _mostly_numbers(values)):
        reason = None if name in request.features else _looks_like_id(values)
        return reason or Numeric
    if kind.is_temporal() or (kind == pl.String and _all_dates(values)):
        return _DATES
    if isinstance(kind, pl.List | pl.Array) or (kind == pl.String and _all_lists(values)):
        return NumberList if _lists_of_numbers(values) else _TEXT_LISTS
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return _TEXT if _is_free_text(values.cast(pl.String).drop_nulls()) else Categorical
    return f"values of type {kind}"


def _read(table: Table, column: Column) -> pl.Series:
    """The values of a column in the type of its kind, all of them checked."""
    name = column.name
    if column.kind is not Numeric:
        read = {Boolean: as_booleans, Categorical: as_levels, NumberList: as_lists}[column.kind]
        return read(table, name)
    values = as_numbers(table, name, column.decimal_comma, f", or --categorical {name}")
    if not all(math.isfinite(each) for each in mean_and_std(values)):
        raise table.error("numbers too large to standardise; divide them.", None, name)
    return values


def _looks_like_id(values: pl.Series) -> str | None:
    """The reason to leave out whole numbers that are different in almost every row."""
    head = values.head(_ENOUGH)
    if head.dtype.is_float() and not (head == head.round()).all():
        return None
    present = values.drop_nulls()
    if present.dtype == pl.String:
        present = present.cast(pl.Float64, strict=False).drop_nulls()
    if len(present) < _ENOUGH:
        return None
    if not present.dtype.is_integer() and not (present == present.round()).all():
        return None
    distinct = present.n_unique()
    if distinct == len(present):
        return _ID
    low = present.min()
    long = isinstance(low, int | float) and low >= _LONG
    return _LONG_ID if long and distinct >= _HARDLY_ONE_TWICE * len(present) else None


def _is_free_text(texts: pl.Series) -> bool:
    """Whether a category would stand for hardly more than one row, or texts are sentences."""
    distinct, count = texts.n_unique(), len(texts)
    return distinct == count or (count >= _ENOUGH and distinct > count / 2)


def _mostly_numbers(values: pl.Series) -> bool:
    present = values.drop_nulls()
    points = present.str.strip_chars().str.replace(",", ".", literal=True)
    return 1 - points.cast(pl.Float64, strict=False).null_count() / max(1, len(present)) > _MOSTLY


def _all_boolean(values: pl.Series) -> bool:
    known = ["true", "false", "True", "False", "TRUE", "FALSE"]
    return bool(values.is_in(known).all())  # nulls do not count


def _all_dates(values: pl.Series) -> bool:
    """Dates, with or without a time, as texts."""
    return bool(values.drop_nulls().str.contains(_DATE).all())


def _all_lists(values: pl.Series) -> bool:
    return bool(values.drop_nulls().head(_HEAD).str.contains(r"^\s*\[.*\]\s*$").all())


def _lists_of_numbers(values: pl.Series) -> bool:
    """Whether lists hold numbers; of texts, whether most do: the others are then mistakes."""
    kind = values.dtype
    if isinstance(kind, pl.List | pl.Array):
        inner = kind.inner
        return inner.is_numeric() or inner in (pl.Boolean, pl.Null)
    share = values.drop_nulls().head(_HEAD).str.contains(r"^\s*\[[-+0-9.,eE\s]*\]\s*$").mean()
    return isinstance(share, float) and share > _MOSTLY
