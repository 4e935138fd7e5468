"""Which row of a text file is at fault: a slow, exact look, taken only once something is wrong."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

import polars as pl

from tuneup.errors import InputError

from .places import Place
from .text import Dialect, not_in_encoding


def short_rows(place: Place, dialect: Dialect) -> bool:
    """Whether some row may have too few fields, which polars fills up without a word."""
    if not dialect.is_utf8:
        return True
    fields = pl.col("line").str.count_matches(dialect.delimiter, literal=True) + 1
    quoted = pl.col("line").str.contains('"', literal=True)
    lines = pl.scan_csv(
        place.path,
        has_header=False,
        separator="\x1f",
        quote_char=None,
        schema={"line": pl.String},
        empty_string_is_null=False,
        glob=False,
    )
    doubtful = (quoted | (fields < len(dialect.header))).any()
    return bool(lines.select(doubtful).collect().item())


def check_rows(place: Place, dialect: Dialect, *, whole: bool = True) -> None:
    """Read the file row by row with Python's reader and refuse the first that does not fit.

    Args:
        place: the file.
        dialect: what its first lines said.
        whole: also refuse quotes that are never closed.
    """
    path, width = place.path, len(dialect.header)
    with _opened(place) as file:
        lines = _decoded_lines(file, place, dialect.encoding)
        reader = csv.reader(lines, delimiter=dialect.delimiter, strict=whole)
        row = -1
        blank: int | None = None
        try:
            for row, fields in enumerate(reader):
                if not any(fields) and len(fields) <= 1 and width > 1:
                    blank = row if blank is None else blank
                    continue
                if blank is not None:
                    raise InputError(
                        f"{path}, row {blank} (line {blank + 1}): blank; remove the line."
                    )
                if len(fields) != width:
                    raise InputError(
                        f"{path}, row {row} (line {reader.line_num}): {len(fields)} fields where "
                        f"the header has {width}; put texts that hold the delimiter in double "
                        "quotes, and write every field of the row."
                    )
        except csv.Error as error:
            raise InputError(
                f"{path}, row {row + 1} (line {reader.line_num}): {error}; close the double quote, "
                "and write a quote inside a text twice."
            ) from error


def check_json_lines(place: Place) -> None:
    """Refuse the first line that is no JSON object."""
    with _opened(place) as file:
        for number, line in enumerate(_decoded_lines(file, place, "utf-8"), start=1):
            if not line.strip():
                continue
            where = f"{place.path}, row {number} (line {number})"
            try:
                found = json.loads(line)
            except json.JSONDecodeError as error:
                whole = line.rstrip()
                if error.pos >= len(whole) or error.msg.startswith("Unterminated"):
                    raise InputError(
                        f"{where}: the line ends too early, after {len(whole):,} characters; the "
                        "file may be cut short: write it again, one whole object per line."
                    ) from error
                raise InputError(
                    f"{where}: not valid JSON ({error.msg} at character {error.colno}); write one "
                    "object per line, as in "
                    '{"source": 1, "target": 2}.'
                ) from error
            if not isinstance(found, dict):
                raise InputError(
                    f"{where}: holds a {_json_kind(found)}; write one object per line, as in "
                    '{"source": 1, "target": 2}.'
                )


def check_json_kinds(place: Place, columns: Collection[str]) -> None:
    """Refuse ids that are numbers in one line and texts in another: 1 and "1" would be one id."""
    first: dict[str, tuple[str, int]] = {}
    with _opened(place) as file:
        for number, line in enumerate(_decoded_lines(file, place, "utf-8"), start=1):
            row = json.loads(line) if line.strip() else {}
            for column in columns:
                value = row.get(column)
                if value is None:
                    continue
                kind = _json_kind(value)
                before, at = first.setdefault(column, (kind, number))
                if kind != before:
                    raise InputError(
                        f"{place.path}, row {number} (line {number}), column {column!r}: a {kind} "
                        f"where row {at} has a {before}; write all ids as texts or all as numbers."
                    )


def _json_kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    kinds = {str: "text", int: "number", float: "number", list: "list", dict: "object"}
    return kinds.get(type(value), "null")


@contextmanager
def _opened(place: Place) -> Iterator[BinaryIO]:
    if place.gzipped:
        with gzip.open(place.path) as packed:
            yield cast(BinaryIO, packed)
    else:
        with place.path.open("rb") as file:
            yield file


def _decoded_lines(file: BinaryIO, place: Place, encoding: str) -> Iterator[str]:
    """Lines of text; bytes that are none are refused with the line they are on."""
    if encoding.lower().replace("-", "").replace("_", "")[:5] in ("utf16", "utf32"):
        text_file = io.TextIOWrapper(file, encoding=encoding, newline="")
        try:
            yield from text_file
        finally:
            text_file.detach()  # the file is its opener's to close
        return
    for number, line in enumerate(file, start=1):
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError as error:
            raise not_in_encoding(place.path, number, encoding) from error
        yield text.removeprefix("\ufeff") if number == 1 else text
