"""The values of one column as numbers, booleans, categories or lists, or an error about a row."""

from __future__ import annotations

import math

import polars as pl

from .reading import Table, check_same_types, first_true

_HEAD = 1000
"""Rows that are tried before all rows are."""
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "t", "1"), True),
    **dict.fromkeys(("false", "no", "f", "0"), False),
}
_DECIMAL_COMMA = r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$"
_THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?\s*$"
"""Numbers whose comma may be a decimal comma; of these, those in which it may be another one."""
_LIST = r"^\s*\[[-+0-9.,eE\s]*\]\s*$"


def typed(table: Table) -> Table:
    """A table whose columns have the narrowest type that fits all of their texts.

    Only delimited files are read as text; the columns of other tables stay as they are.

    Raises:
        InputError: About a column that is text in one file and something else in another.
    """
    if not table.untyped:
        return table
    found = {each.name: each for each in table.frame}
    left = [
        name
        for name, values in found.items()
        if values.dtype == pl.String and values.null_count() < len(values)
    ]
    for kind in (pl.Int64(), pl.Int128(), pl.Float64()):
        head = table.frame.select(left).head(_HEAD)
        tried = head.select(pl.all().cast(kind, strict=False))
        likely = [each.name for each in tried if _same_gaps(head[each.name], each)]
        casts = (pl.col(name).cast(kind, strict=False) for name in likely)
        for numbers in table.frame.select(casts):  # all at once: on all cores
            if _same_gaps(found[numbers.name], numbers):
                found[numbers.name] = numbers
                left.remove(numbers.name)
    for name in left:
        words = found[name].str.to_lowercase()
        if words.is_in(["true", "false"]).all():  # nulls do not count
            found[name] = words == "true"
    frame = pl.DataFrame(list(found.values()))
    if len(table.parts) > 1:
        _check_parts(table, [name for name in left if frame.schema[name] == pl.String])
    return Table(frame, table.parts)


def _check_parts(table: Table, names: list[str]) -> None:
    """Refuse columns that are text only because they are in some of the files."""
    frames, start = [], 0
    for part in table.parts:
        rows = table.frame.select(names).slice(start, part.rows)
        frames.append(typed(Table(rows, (part,))).frame)
        start += part.rows
    check_same_types([part.file for part in table.parts], frames)


def _numbers(texts: pl.Series, kind: pl.DataType) -> pl.Series | None:
    """Texts as numbers, null where one is missing or empty; ``None`` if one is no number."""
    numbers = texts.cast(kind, strict=False)
    return numbers if _same_gaps(texts, numbers) else None


def _same_gaps(texts: pl.Series, numbers: pl.Series) -> bool:
    if numbers.null_count() == texts.null_count():
        return True
    return bool((texts.is_null() | (texts == "")).fill_null(True).equals(numbers.is_null()))


def has_decimal_commas(table: Table, name: str) -> bool:
    """Whether numbers are written as ``3,14``.

    Raises:
        InputError: If every comma could also separate thousands.
    """
    values = table.frame[name]
    if values.dtype != pl.String:
        return False
    commas = values.filter(values.str.contains(",", literal=True).fill_null(False))
    if not len(commas):
        return False
    if commas.str.contains(_THOUSANDS).all():
        raise table.error(
            f"the comma in {shown(commas[0])} may be a decimal comma or separate thousands; write "
            "numbers with a decimal point.",
            first_true(values == commas[0]),
            name,
        )
    return bool(commas.str.contains(_DECIMAL_COMMA).all())


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
        values = _parsed_numbers(table, name, values, decimal_comma, advice)
    elif not (kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
        raise table.error(f"holds {kind}, where numbers are needed.", None, name)
    values = values.cast(pl.Float64)
    if math.isfinite(values.sum() or 0.0):  # quick, and usually enough
        return values
    row = first_true(~values.is_finite())
    if row is None:
        return values
    if values.is_nan()[row]:
        raise table.error(
            "NaN; leave the value empty if it is unknown, or pass --nan-is-missing.",
            row,
            name,
            fix=("--nan-is-missing",),
        )
    raise table.error("an infinite number; give a finite one or leave it empty.", row, name)


def _parsed_numbers(
    table: Table, name: str, values: pl.Series, decimal_comma: bool, advice: str
) -> pl.Series:
    quick = _numbers(values, pl.Float64())
    if quick is not None:
        return quick
    texts = values.str.strip_chars()
    if decimal_comma:
        texts = texts.str.replace(",", ".", literal=True)
    numbers = texts.cast(pl.Float64, strict=False)
    empty = values.is_null() | ((values == "") & table.untyped)
    row = first_true(numbers.is_null() & ~empty)
    if row is None:
        return numbers
    raise table.error(
        f"{shown(values[row])} is not a number, unlike others in this column; leave it "
        f"empty, or pass --missing {values[row]!r} if that means no value{advice}.",
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
    table.refuse(
        (lengths != wanted) | (lengths == 0),
        name,
        lambda row: (
            f"a list of {lengths[row]} where {wanted or 'one or more'} are needed: lists "
            "of one column have one length."
        ),
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


def shown(value: object) -> str:
    """A value in a message: short, and on one line."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
