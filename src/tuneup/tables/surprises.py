"""Values of new rows that training never saw, and what becomes of them."""

from __future__ import annotations

from .columns import Notes
from .features import Categorical, FeaturePlan
from .table import Table
from .values import as_levels, shown


def note_surprises(table: Table, plan: FeaturePlan, notes: Notes) -> None:
    """Tell of categories and gaps that are new, by the first row of each column."""
    for feature in plan.features:
        name = feature.name
        if name not in table.frame.columns:
            continue  # refused when the plan is applied
        if isinstance(feature, Categorical):
            values = as_levels(table, name)
            strange = values.is_not_null() & ~values.is_in(list(feature.levels))
            if strange.any():
                row = int(strange.arg_max() or 0)
                notes.append(
                    f"{table.where(row, name)}: {shown(values[row])} is none of the "
                    f"{len(feature.levels)} categories kept in training and counts as another; "
                    f"so in {int(strange.sum()):,} of {table.frame.height:,} rows."
                )
        elif table.frame[name].null_count() and not feature.indicator:
            gaps = table.frame[name].is_null()
            middle = "false" if feature.kind == "boolean" else "the mean"
            notes.append(
                f"{table.where(int(gaps.arg_max() or 0), name)}: no value, though training had one "
                f"in every row; taken as {middle} in {int(gaps.sum()):,} of "
                f"{table.frame.height:,} rows."
            )
