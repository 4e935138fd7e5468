"""Which kind of feature each column is, and the numbers of its plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from tuneup.errors import InputError

from .columns import Notes
from .features import Boolean, Categorical, Feature, FeaturePlan, NumberList, Numeric
from .table import Table
from .values import as_booleans, as_levels, as_lists, as_numbers, shown

_MOSTLY = 0.5
"""Share of a column's texts that are numbers from which the others are taken for mistakes."""


@dataclass(frozen=True)
class FeatureOptions:
    """Which columns are features, where not all that are left are.

    Args:
        only: these columns and no others.
        exclude: all but these.
        categorical: columns of numbers or long texts to encode as categories all the same.
        max_levels: most categories of one column; the rarer ones share the column "other".
    """

    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    max_levels: int = 50

    def __post_init__(self) -> None:
        if self.max_levels < 1:
            raise InputError(f"--max-levels must be 1 or more; got {self.max_levels}.")

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """Every column that was named, with the option it was named by."""
        return (
            *((name, "--features") for name in self.only),
            *((name, "--exclude") for name in self.exclude),
            *((name, "--categorical") for name in self.categorical),
        )


def fit_features(
    table: Table, columns: Sequence[str], options: FeatureOptions, notes: Notes
) -> FeaturePlan:
    """A plan for ``columns`` of the table; notes tell what was filled in, merged or left out."""
    features = [
        feature
        for name in columns
        if (feature := _fit_column(table, name, options, notes)) is not None
    ]
    for kinds, become in _GAPS.items():
        _note_gaps(table, [each.name for each in features if each.kind in kinds], become, notes)
    return FeaturePlan(tuple(features))


_GAPS = {
    ("numeric", "list"): "the mean, and a further feature says so",
    ("boolean",): "false, and a further feature says so",
    ("categorical",): "no category",
}
"""What missing values become, by kinds of features."""


def _note_gaps(table: Table, columns: Sequence[str], become: str, notes: Notes) -> None:
    absent = {name: count for name in columns if (count := table.frame[name].null_count())}
    if absent:
        worst = sorted(absent, key=lambda name: -absent[name])[:3]
        some = ", ".join(f"{name!r} {absent[name]:,}" for name in worst)
        total, where = sum(absent.values()), len(absent)
        notes.append(
            f"{table.name}: {total:,} missing value{'s' if total > 1 else ''} in {where} "
            f"column{'s' if where > 1 else ''} ({some}) "
            f"{'are' if total > 1 else 'is'} taken as {become}."
        )


def _fit_column(table: Table, name: str, options: FeatureOptions, notes: Notes) -> Feature | None:
    values = table.frame[name]
    kind = values.dtype
    if values.null_count() == len(values):
        notes.append(f"{table.where(column=name)}: no values at all; left out.")
        return None
    if name in options.categorical:
        return _categorical(table, name, options, notes, asked=True)
    if kind == pl.Boolean or (kind == pl.String and _all_boolean(values)):
        return Boolean(name, as_booleans(table, name).null_count() > 0)
    if kind.is_numeric():
        return _numeric(table, name, notes)
    if isinstance(kind, pl.List | pl.Array) or (kind == pl.String and _listlike(values)):
        return _number_list(table, name)
    if kind == pl.String and _share_of_numbers(values) > _MOSTLY:
        return _numeric(table, name, notes)  # names the row that is no number
    if kind == pl.String and _all_dates(values):
        row = int(values.is_not_null().arg_max() or 0)
        raise table.error(
            f"dates such as {shown(values[row])} are no features; write it as a number (days, say) "
            f"or pass --exclude {name}.",
            row,
            name,
        )
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return _categorical(table, name, options, notes, asked=False)
    advice = "as a number (days, say)" if kind.is_temporal() else "in columns of numbers"
    raise table.error(
        f"values of type {kind} are no features; write it {advice} or pass --exclude {name}.",
        None,
        name,
    )


def _numeric(table: Table, name: str, notes: Notes) -> Numeric | None:
    values = as_numbers(table, name, f", or --categorical {name}")
    mean, std = values.mean(), values.std(ddof=0)
    assert isinstance(mean, float)
    assert isinstance(std, float)
    if not (abs(mean) < float("inf") and std < float("inf")):
        raise table.error("numbers too large to standardise; divide them.", None, name)
    missing = values.null_count() > 0
    if std <= 1e-12 * max(1.0, abs(mean)):
        if not missing:
            notes.append(f"{table.where(column=name)}: the same number in every row; left out.")
            return None
        std = 1.0
    return Numeric(name, mean, std, missing)


def _number_list(table: Table, name: str) -> NumberList:
    values = as_lists(table, name)
    width = values.dtype.shape[0] if isinstance(values.dtype, pl.Array) else 0
    means, stds = [], []
    for at in range(width):
        part = values.arr.get(at)
        mean, std = part.mean(), part.std(ddof=0)
        means.append(float(mean) if isinstance(mean, float) else 0.0)
        stds.append(std if isinstance(std, float) and std > 0 else 1.0)
    return NumberList(name, tuple(means), tuple(stds), values.null_count() > 0)


def _categorical(
    table: Table, name: str, options: FeatureOptions, notes: Notes, *, asked: bool
) -> Categorical:
    values = as_levels(table, name).drop_nulls()
    counts = values.value_counts(name="rows").sort(["rows", name], descending=[True, False])
    many = counts.height > options.max_levels
    if not asked and ((many and counts.height > len(values) / 2) or _is_prose(values)):
        row = int(table.frame[name].is_not_null().arg_max() or 0)
        raise table.error(
            f"{counts.height:,} different texts in {len(values):,} rows, such as "
            f"{shown(table.frame[name][row])}: free text or an id, which is no feature; pass "
            f"--exclude {name}, or --categorical {name} to take its commonest values.",
            row,
            name,
        )
    levels = tuple(counts[name].head(options.max_levels).to_list())
    if many:
        kept = counts["rows"].head(options.max_levels).sum()
        notes.append(
            f"{table.where(column=name)}: {counts.height:,} categories, of which the "
            f"{options.max_levels} commonest ({100 * kept / len(values):.0f} % of rows) are kept "
            "and others count as one (--max-levels)."
        )
    return Categorical(name, levels)


def _is_prose(values: pl.Series) -> bool:
    """Sentences: several words in most rows, and hardly a repetition."""
    if len(values) < 20 or values.n_unique() <= len(values) / 2:
        return False
    words = values.head(1000).str.count_matches(r"\s+").mean()
    return isinstance(words, float) and words >= 2


def _all_boolean(values: pl.Series) -> bool:
    known = ["true", "false", "True", "False", "TRUE", "FALSE"]
    return bool(values.is_in(known).all())  # nulls do not count


def _all_dates(values: pl.Series) -> bool:
    """ISO dates, with or without a time: CSV has no type for them."""
    shape = r"^\s*\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}\S*)?\s*$"
    return bool(values.drop_nulls().str.contains(shape).all())


def _listlike(values: pl.Series) -> bool:
    return bool(values.str.contains(r"^\s*\[[-+0-9.,eE\s]*\]\s*$").head(1000).mean() == 1.0)


def _share_of_numbers(values: pl.Series) -> float:
    present = values.drop_nulls()
    return 1 - present.cast(pl.Float64, strict=False).null_count() / max(1, len(present))
