"""A column of classes as numbers 0 .. C-1."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import polars as pl
import torch
from torch import Tensor

from .columns import Notes
from .ids import as_whole_numbers
from .table import Table

ClassName = str | int | bool
_MANY = 20
"""Up to this many classes are taken for classes, however few rows there are."""
_NO_LABEL = (
    *("n/a", "na", "#n/a", "nan", "none", "null", "nil", "-", "--", "?", ".", "unknown"),
    *("missing", "undefined", "unlabeled", "unlabelled", "not available", "tbd"),
)
"""Texts, in small letters, that often mean that there is no label."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Classes of the rows of a table.

    Args:
        y: class of each row ``[rows]``, int64, -1 where there is none.
        classes: the value that each number stands for, ascending.
    """

    y: Tensor
    classes: tuple[ClassName, ...]


def read_labels(table: Table, column: str, notes: Notes, missing: Collection[str] = ()) -> Labels:
    """The classes of a column of texts, whole numbers or booleans.

    Spaces around texts are cut off; ``missing`` are further values that mean "no label".
    """
    values = _trimmed(table, column, notes)
    if missing:
        values = values.set(values.cast(pl.String).is_in([*missing]).fill_null(False), None)
    distinct = as_whole_numbers(values.drop_nulls().unique()).sort()
    count, labelled = len(distinct), len(values) - values.null_count()
    if not count:
        raise table.error("no row has a label.", None, column)
    if count == 1:
        raise table.error(
            f"every label is {distinct[0]!r}; there must be two classes or more to tell apart.",
            None,
            column,
        )
    if count > 2 and (count == labelled or (count > _MANY and count > labelled / 2)):
        raise table.error(
            f"{count:,} different labels in {labelled:,} rows: this looks like an id or a quantity "
            "to predict, not like classes; pass another --label, or write few classes.",
            None,
            column,
        )
    _question_words(table, column, values, distinct, notes)
    known = pl.Enum(distinct.cast(pl.String))
    y = values.cast(pl.String).cast(known).to_physical().cast(pl.Int64).fill_null(-1)
    rare = int((values.drop_nulls().value_counts(name="rows")["rows"] == 1).sum())
    if rare:
        notes.append(
            f"{table.where(column=column)}: {rare} of {count} classes have a single labelled row, "
            "so they are trained on or scored, not both."
        )
    if len(values) > labelled:
        notes.append(
            f"{table.where(column=column)}: {len(values) - labelled:,} of {len(values):,} rows "
            "have no label; they take part in the graph only."
        )
    return Labels(torch.from_numpy(y.to_numpy(writable=True)), tuple(distinct.to_list()))


def _trimmed(table: Table, column: str, notes: Notes) -> pl.Series:
    """Labels without spaces around them; what is empty then is no label."""
    values = _plain(table, column)
    if values.dtype != pl.String:
        return values
    short = values.str.strip_chars()
    changed = int((short != values).sum())
    if changed:
        notes.append(
            f"{table.where(column=column)}: spaces around {changed:,} "
            f"label{'s are' if changed > 1 else ' is'} cut off."
        )
    return short.set((short == "").fill_null(False), None)


def _question_words(
    table: Table, column: str, values: pl.Series, distinct: pl.Series, notes: Notes
) -> None:
    """Say which classes look like words for "no label"."""
    texts = distinct.cast(pl.String)
    odd = texts.filter(texts.str.to_lowercase().is_in(_NO_LABEL)).to_list()
    if distinct.dtype == pl.Int64 and len(distinct) > 2 and distinct[0] == -1:
        odd.append("-1")
    for word in odd:
        count = int((values.cast(pl.String) == word).sum())
        notes.append(
            f"{table.where(column=column)}: {word!r} ({count:,} row{'s' if count > 1 else ''}) "
            f"counts as a class; if it means no label, pass --missing {word!r}."
        )


def _plain(table: Table, column: str) -> pl.Series:
    """Labels as String, Int64 or Boolean."""
    values = table.frame[column]
    kind = values.dtype
    if kind.is_float():
        values = values.fill_nan(None)
        broken = ((values != values.round()) | values.is_infinite()).fill_null(False)
        if broken.any():
            row = int(broken.arg_max() or 0)
            raise table.error(
                f"{values[row]} is not a class; quantities cannot be predicted, write whole "
                "numbers or texts.",
                row,
                column,
            )
        return values.cast(pl.Int64)
    if kind.is_integer():
        return values.cast(pl.Int64, strict=False)
    if kind in (pl.Categorical, pl.Enum):
        return values.cast(pl.String)
    if kind in (pl.String, pl.Boolean, pl.Null):
        return values.cast(pl.String) if kind == pl.Null else values
    raise table.error(f"labels cannot be of type {kind}; use texts or whole numbers.", None, column)
