"""One column of a table as numbers, booleans, levels or lists, or an error about a row of it."""

from __future__ import annotations

import polars as pl

from .table import Table

_TRUTH = {"true": True, "yes": True, "t": True, "1": True}
_FALSEHOOD = {"false": False, "no": False, "f": False, "0": False}
_DECIMAL_COMMA = r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$"
_THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?\s*$"
"""Numbers whose comma may be a decimal comma; of these, those in which it may be another one."""


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
        row = int((values == commas[0]).arg_max() or 0)
        raise table.error(
            f"the comma in {shown(commas[0])} may be a decimal comma or separate thousands; write "
            "numbers with a decimal point.",
            row,
            name,
        )
    return bool(len(commas)) and bool(commas.str.contains(_DECIMAL_COMMA).all())


def as_numbers(table: Table, name: str, decimal_comma: bool = False, advice: str = "") -> pl.Series:
    """Float64, null where missing; NaN and infinity are refused, ``advice`` is what else to do."""
    values = table.frame[name]
    kind = values.dtype
    if kind == pl.String:
        texts = values.str.strip_chars()
        if decimal_comma:
            texts = texts.str.replace(",", ".", literal=True)
        numbers = texts.cast(pl.Float64, strict=False)
        wrong = numbers.is_null() & values.is_not_null()
        if wrong.any():
            row = int(wrong.arg_max() or 0)
            raise table.error(
                f"{shown(values[row])} is not a number, unlike others in this column; leave it "
                f"empty, or pass --missing {values[row]!r} if that means no value{advice}.",
                row,
                name,
                fix=("--missing", values[row]),
            )
        values = numbers
    elif not (kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
        raise table.error(f"holds {kind}, where numbers are needed.", None, name)
    values = values.cast(pl.Float64)
    return _finite(table, name, values)


def _finite(table: Table, name: str, values: pl.Series) -> pl.Series:
    if values.is_finite().all():  # nulls do not count
        return values
    wrong = ~values.is_finite().fill_null(True)
    row = int(wrong.arg_max() or 0)
    if values.is_nan()[row]:
        raise table.error(
            "NaN; leave the value empty if it is unknown, or pass --nan-is-missing.",
            row,
            name,
            fix=("--nan-is-missing",),
        )
    raise table.error("an infinite number; give a finite one or leave it empty.", row, name)


def as_booleans(table: Table, name: str) -> pl.Series:
    """Boolean, null where missing."""
    values = table.frame[name]
    if values.dtype in (pl.Boolean, pl.Null):
        return values.cast(pl.Boolean)
    known = {**_TRUTH, **_FALSEHOOD}
    texts = values.cast(pl.String).str.to_lowercase()
    truth = texts.replace_strict(known, default=None, return_dtype=pl.Boolean)
    wrong = truth.is_null() & texts.is_not_null()
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise table.error(f"{shown(values[row])} is neither true nor false.", row, name)
    return truth


def as_levels(table: Table, name: str) -> pl.Series:
    """String, null where missing; a whole number is the text of itself, also after a detour."""
    values = table.frame[name]
    kind = values.dtype
    if kind.is_nested() or kind == pl.Binary:
        raise table.error(f"holds {kind}, where categories are needed.", None, name)
    texts = values.cast(pl.String)
    if kind.is_float():
        whole = values.cast(pl.Int64, strict=False).cast(pl.String)
        texts = whole.zip_with((values == values.round()).fill_null(False), texts)
    return texts


def as_lists(table: Table, name: str, length: int | None = None) -> pl.Series:
    """Array of Float64 of one length, null where missing; CSV writes a list as ``[1, 2.5]``."""
    values = table.frame[name]
    if values.dtype == pl.String:
        values = _parsed(table, name, values)
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    if not isinstance(values.dtype, pl.List):
        raise table.error(f"holds {values.dtype}, where lists are needed.", None, name)
    inner = values.dtype.inner
    if not (inner.is_numeric() or inner in (pl.Boolean, pl.Null)):
        raise table.error(f"lists of {inner}; only lists of numbers can be features.", None, name)
    lengths = values.list.len()
    wanted = length if length is not None else next((n for n in lengths if n is not None), 0)
    wrong = (lengths != wanted).fill_null(False)
    if wrong.any() or not wanted:
        row = int(wrong.arg_max() or 0)
        raise table.error(
            f"a list of {lengths[row]} where {wanted or 'one or more'} are needed: lists of one "
            "column have one length.",
            row,
            name,
        )
    values = values.cast(pl.List(pl.Float64))
    flawed = values.list.eval(pl.element().is_finite().fill_null(False)).list.all()
    if not flawed.fill_null(True).all():
        row = int((~flawed.fill_null(True)).arg_max() or 0)
        raise table.error("a number of the list is missing, NaN or infinite.", row, name)
    return values.list.to_array(wanted)


def _parsed(table: Table, name: str, values: pl.Series) -> pl.Series:
    shape = values.str.contains(r"^\s*\[[-+0-9.,eE\s]*\]\s*$").fill_null(True)
    if not shape.all():
        row = int((~shape).arg_max() or 0)
        raise table.error(f"{shown(values[row])} is not a list such as [1, 2.5].", row, name)
    try:
        return values.str.json_decode(pl.List(pl.Float64))
    except pl.exceptions.PolarsError:
        for row, text in enumerate(values):
            try:
                pl.Series([text]).str.json_decode(pl.List(pl.Float64))
            except pl.exceptions.PolarsError as error:
                problem = f"{shown(text)} is not a list such as [1, 2.5]."
                raise table.error(problem, row, name) from error
        raise


def shown(value: object) -> str:
    """A value in a message: short, and on one line."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
