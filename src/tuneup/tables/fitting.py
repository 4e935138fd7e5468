"""The numbers of a feature plan, fitted to the rows that training knows."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from torch import Tensor

from .columns import Notes
from .features import Boolean, Categorical, Feature, FeaturePlan, NumberList, Numeric
from .kinds import Column
from .table import Table
from .values import as_levels, as_lists, as_numbers


@dataclass(frozen=True, eq=False)
class RawFeatures:
    """Columns that are features, as they were read: what a plan is fitted and applied to.

    Args:
        table: rows of nodes 0, 1, 2, ...; nodes that only edges name have none.
        columns: name and kind of each.
        max_levels: most categories of one column.
    """

    table: Table
    columns: tuple[Column, ...]
    max_levels: int = 50

    def fit(self, training: Tensor | None, notes: Notes) -> FeaturePlan:
        """A plan by some of the rows; notes say what is filled in, merged or left out.

        Args:
            training: which nodes training knows, bool ``[N]``; by default all.
            notes: gets a line for everything that is not used as it is.
        """
        features = [
            feature
            for column in self.columns
            if (feature := self._fit(column, training, notes)) is not None
        ]
        _note_gaps(self.table, features, notes)
        return FeaturePlan(tuple(features))

    def _fit(self, column: Column, training: Tensor | None, notes: Notes) -> Feature | None:
        frame, name = self.table.frame.select(column.name), column.name
        if training is not None:
            frame = frame.filter(pl.Series(training[: frame.height].numpy()))
        rows = Table(frame, self.table.parts)
        missing = frame[name].null_count() > 0
        if frame[name].null_count() == frame.height:
            notes.append(f"{self.table.name}: left out {name!r}: no values in training rows.")
            return None
        if column.kind == "boolean":
            return Boolean(name, missing)
        if column.kind == "list":
            return _number_list(rows, name, missing)
        if column.kind == "categorical":
            return self._categorical(rows, name, notes)
        feature = _numeric(rows, column, missing)
        if feature is None:
            notes.append(
                f"{self.table.name}: left out {name!r}: the same number in all training rows."
            )
        return feature

    def _categorical(self, rows: Table, name: str, notes: Notes) -> Categorical:
        values = as_levels(rows, name).drop_nulls()
        counts = values.value_counts(name="rows").sort(["rows", name], descending=[True, False])
        if counts.height > self.max_levels:
            kept = counts["rows"].head(self.max_levels).sum()
            notes.append(
                f"{self.table.where(column=name)}: {counts.height:,} categories, of which the "
                f"{self.max_levels} commonest ({100 * kept / len(values):.0f} % of rows) are kept "
                "and others count as one (--max-levels)."
            )
        return Categorical(name, tuple(counts[name].head(self.max_levels).to_list()))


def _numeric(rows: Table, column: Column, missing: bool) -> Numeric | None:
    """``None`` if all numbers are the same and none is missing."""
    values = as_numbers(rows, column.name, column.decimal_comma)
    mean, std = values.mean(), values.std(ddof=0)
    assert isinstance(mean, float)
    assert isinstance(std, float)
    if std <= 1e-12 * max(1.0, abs(mean)):
        if not missing:
            return None
        std = 1.0
    return Numeric(column.name, mean, std, missing, column.decimal_comma)


def _number_list(rows: Table, name: str, missing: bool) -> NumberList:
    values = as_lists(rows, name)
    width = values.dtype.shape[0] if isinstance(values.dtype, pl.Array) else 0
    means, stds = [], []
    for at in range(width):
        part = values.arr.get(at)
        mean, std = part.mean(), part.std(ddof=0)
        means.append(float(mean) if isinstance(mean, float) else 0.0)
        stds.append(std if isinstance(std, float) and std > 0 else 1.0)
    return NumberList(name, tuple(means), tuple(stds), missing)


def _note_gaps(table: Table, features: list[Feature], notes: Notes) -> None:
    """Say how many values are missing, in lines by what becomes of them."""
    gaps: dict[str, dict[str, int]] = {}
    for feature in features:
        count = table.frame[feature.name].null_count()
        if count:
            gaps.setdefault(_filled_in(feature), {})[feature.name] = count
    for become, absent in gaps.items():
        worst = sorted(absent, key=lambda name: -absent[name])[:3]
        some = ", ".join(f"{name!r} {absent[name]:,}" for name in worst)
        total, where = sum(absent.values()), len(absent)
        notes.append(
            f"{table.name}: {total:,} missing value{'s' if total > 1 else ''} in {where} "
            f"column{'s' if where > 1 else ''} ({some}) "
            f"{'are' if total > 1 else 'is'} taken as {become}."
        )


def _filled_in(feature: Feature) -> str:
    """What missing values of a feature become."""
    if isinstance(feature, Categorical):
        return "no category"
    middle = "false" if isinstance(feature, Boolean) else "the mean"
    return f"{middle}, and a further feature says so" if feature.indicator else middle
