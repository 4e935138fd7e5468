"""The values of one column: which kind of feature they suit, and as that kind, all checked."""

from __future__ import annotations

import math

import polars as pl

from .reading import Table, first_true, same_gaps, shown
from .request import TableRequest

_MOSTLY = 0.5
"""Share of a column's texts that are numbers from which the others are taken for mistakes."""
_ENOUGH = 20
"""Rows from which a different value in each row is no accident."""
_HARDLY_ONE_TWICE, _LONG = 0.95, 1_000_000
"""Share of distinct numbers, and the smallest number, of a column of phone numbers or similar."""
_HEAD = 1000
"""Rows by which lists and free text are recognised."""
_WORD, _WORDY = r"\p{L}{2,}", 2.5
"""A word, and the words that a free text has on average: ids and names have fewer."""
_DATE = (
    r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"
    r"([T ,]+\d{1,2}:\d{2}\S*( ?[AaPp][Mm])?)?\s*$"
)
_DECIMAL_COMMA = r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$"
_THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?\s*$"
"""Numbers whose comma may be a decimal comma; of these, those in which it may be another one."""
_ANY_LIST = r"^\s*\[.*\]\s*$"
_LIST = r"^\s*\[[-+0-9.,eE\s]*\]\s*$"
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "t", "1"), True),
    **dict.fromkeys(("false", "no", "f", "0"), False),
}

ID = "a different whole number in each row, probably an id"
LONG_ID = "whole numbers of 7 digits or more, hardly one twice, probably ids"
TEXT = "free text or an id, as hardly a value comes twice"
DATES = "dates; write them as numbers, such as days, to use them"
TEXT_LISTS = "lists that do not hold numbers"
EMPTY = "no values at all"
"""Why a column is no feature."""


def kind_of(values: pl.Series, name: str, request: TableRequest) -> str:
    """The kind of feature that a column suits, or the reason why it is none."""
    kind, present = values.dtype, values.drop_nulls()
    if not len(present):
        return EMPTY
    if name in request.categorical:
        return "categorical"
    if name in request.numeric:
        return "numeric"
    if name in request.text:
        return "text"
    if kind == pl.Boolean:
        return "boolean"
    if kind.is_numeric():
        return _id_or_number(present, name, request)
    if kind.is_temporal():
        return DATES
    if isinstance(kind, pl.List | pl.Array):
        inner = kind.inner
        return "list" if inner.is_numeric() or inner in (pl.Boolean, pl.Null) else TEXT_LISTS
    if kind not in (pl.String, pl.Categorical, pl.Enum):
        return f"values of type {kind}"
    texts = present.cast(pl.String)
    if kind == pl.String:
        if texts.str.to_lowercase().is_in(["true", "false"]).all():
            return "boolean"
        points = texts.str.strip_chars().str.replace(",", ".", literal=True)
        numbers = points.cast(pl.Float64, strict=False).drop_nulls()
        if len(numbers) > _MOSTLY * len(texts):
            return _id_or_number(numbers, name, request)
        if texts.str.contains(_DATE).all():
            return DATES
        head = texts.head(_HEAD)
        if head.str.contains(_ANY_LIST).all():  # most of numbers: the others are mistakes
            share = head.str.contains(_LIST).sum() / len(head)
            return "list" if share > _MOSTLY else TEXT_LISTS
    distinct, count = texts.n_unique(), len(texts)
    if distinct < count and (count < _ENOUGH or distinct <= count / 2):
        return "categorical"
    words = texts.head(_HEAD).str.count_matches(_WORD).mean()
    wordy = isinstance(words, float) and words >= _WORDY
    return "text" if wordy and request.text_width else TEXT


def _id_or_number(present: pl.Series, name: str, request: TableRequest) -> str:
    """Whole numbers that are different in almost every row are ids."""
    if name in request.features or len(present) < _ENOUGH:
        return "numeric"
    if not present.dtype.is_integer():
        for some in (present.head(_ENOUGH), present):  # few are usually enough
            if not (some == some.round()).all():
                return "numeric"
    distinct, low = present.n_unique(), present.min()
    if distinct == len(present):
        return ID
    long = isinstance(low, int | float) and low >= _LONG
    return LONG_ID if long and distinct >= _HARDLY_ONE_TWICE * len(present) else "numeric"


def has_decimal_commas(table: Table, name: str) -> bool:
    """Whether numbers are written as ``3,14``.

    Raises:
        InputError: If every comma could also separate thousands.
    """
    values = table.frame[name]
    if values.dtype != pl.String:
        return False
    commas = values.filter(values.str.contains(",", literal=True).fill_null(False))
    if len(commas) and commas.str.contains(_THOUSANDS).all():
        raise table.error(
            f"the comma in {shown(commas[0])} may be a decimal comma or separate thousands; write "
            "a decimal point.",
            first_true(values == commas[0]),
            name,
        )
    return bool(len(commas) and commas.str.contains(_DECIMAL_COMMA).all())


def as_numbers(table: Table, name: str, decimal_comma: bool = False, advice: str = "") -> pl.Series:
    """Float64, null where missing.

    Args:
        table: holds the column.
        name: of the column.
        decimal_comma: whether ``3,14`` is a number.
        advice: what else to do about a text that is none.
    """
    values = table.frame[name]
    kind = values.dtype
    if kind == pl.String:
        texts, values = values, values.cast(pl.Float64, strict=False)
        if not same_gaps(texts, values):
            values = _parsed_numbers(table, name, texts, decimal_comma, advice)
    elif not (kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
        raise table.error(f"holds {kind}, where numbers are needed.", None, name)
    values = values.cast(pl.Float64)
    row = None if math.isfinite(values.sum() or 0.0) else first_true(~values.is_finite())
    if row is None:  # the sum is quick, and usually enough
        return values
    if values.is_nan()[row]:
        problem, fix = "NaN; leave it empty, or pass --nan-is-missing.", ("--nan-is-missing",)
        raise table.error(problem, row, name, fix=fix)
    raise table.error("an infinite number; give a finite one or leave it empty.", row, name)


def _parsed_numbers(
    table: Table, name: str, values: pl.Series, decimal_comma: bool, advice: str
) -> pl.Series:
    texts = values.str.strip_chars()
    if decimal_comma:
        texts = texts.str.replace(",", ".", literal=True)
    numbers = texts.cast(pl.Float64, strict=False)
    empty = values.is_null() | ((values == "") & table.untyped)
    row = first_true(numbers.is_null() & ~empty)
    if row is None:
        return numbers
    raise table.error(
        f"{shown(values[row])} is not a number, unlike others in this column; leave it empty, or "
        f"pass --missing {values[row]!r} if that means no value{advice}.",
        row,
        name,
        fix=("--missing", values[row]),
    )


def as_booleans(table: Table, name: str) -> pl.Series:
    """Boolean, null where missing."""
    values = table.frame[name]
    if values.dtype in (pl.Boolean, pl.Null):
        return values.cast(pl.Boolean)
    texts = values.cast(pl.String).str.to_lowercase()
    if table.untyped:
        texts = texts.set(texts == "", None)
    truth = texts.replace_strict(_BOOLEANS, default=None, return_dtype=pl.Boolean)
    wrong = truth.is_null() & texts.is_not_null()
    table.refuse(wrong, name, lambda row: f"{shown(values[row])} is neither true nor false.")
    return truth


def as_levels(table: Table, name: str) -> pl.Series:
    """String, null where missing, NaN or infinite; ``1`` is the text of 1, also among floats."""
    values = table.frame[name]
    kind = values.dtype
    if kind.is_nested() or kind == pl.Binary:
        raise table.error(f"holds {kind}, where categories are needed.", None, name)
    texts = values.cast(pl.String)
    if kind.is_float():
        whole = values.cast(pl.Int64, strict=False).cast(pl.String)
        texts = whole.zip_with((values == values.round()).fill_null(False), texts)
    return texts


def as_texts(table: Table, name: str) -> pl.Series:
    """String, null where missing or empty."""
    values = table.frame[name]
    if values.dtype not in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        raise table.error(f"holds {values.dtype}, where texts are needed.", None, name)
    texts = values.cast(pl.String)
    return texts.set((texts == "").fill_null(False), None)


def as_lists(table: Table, name: str, length: int | None = None) -> pl.Series:
    """Array of Float64 of one length, null where missing; texts are lists as in ``[1, 2.5]``."""
    values = table.frame[name]
    if values.dtype == pl.String:
        values = _parsed_lists(table, name, values)
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    if not isinstance(values.dtype, pl.List):
        raise table.error(f"holds {values.dtype}, where lists are needed.", None, name)
    inner = values.dtype.inner
    if not (inner.is_numeric() or inner in (pl.Boolean, pl.Null)):
        raise table.error(f"lists of {inner}; only lists of numbers can be features.", None, name)
    lengths = values.list.len()
    wanted = length if length is not None else next((n for n in lengths if n is not None), 0)
    wrong = (lengths != wanted) | (lengths == 0)
    table.refuse(
        wrong, name, lambda row: f"a list of {lengths[row]} where {wanted or 'more'} are needed."
    )
    values = values.cast(pl.List(pl.Float64))
    finite = values.list.eval(pl.element().is_finite().fill_null(False)).list.all()
    table.refuse(~finite, name, "a number of the list is missing, NaN or infinite.")
    return values.list.to_array(wanted)


def _parsed_lists(table: Table, name: str, values: pl.Series) -> pl.Series:
    def problem(row: int) -> str:
        return f"{shown(values[row])} is not a list such as [1, 2.5]."

    table.refuse(~values.str.contains(_LIST), name, problem)
    try:
        return values.str.json_decode(pl.List(pl.Float64))
    except pl.exceptions.PolarsError:
        for row in range(len(values)):
            try:
                values[row : row + 1].str.json_decode(pl.List(pl.Float64))
            except pl.exceptions.PolarsError as error:
                raise table.error(problem(row), row, name) from error
        raise
