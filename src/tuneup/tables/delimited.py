"""CSV and TSV through polars, strictly: what polars would read as something else is refused."""

from __future__ import annotations

import gzip
from collections.abc import Collection
from dataclasses import replace

import polars as pl

from tuneup.errors import InputError

from . import diagnose
from .columns import Notes
from .options import ReadOptions
from .places import Place
from .text import WINDOWS, Dialect, guess_encoding, not_in_encoding

_LOOK_AHEAD = 1000
"""Rows of a CSV file by which the types of its columns are first guessed."""

FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, EOFError)
"""What polars may raise about a file."""


def read_csv(
    place: Place, dialect: Dialect, options: ReadOptions, text: Collection[str], notes: Notes
) -> pl.DataFrame:
    """All rows of one file; ``text`` columns stay texts, the others get the type that fits."""
    frame = None
    for look_ahead in (_LOOK_AHEAD, None):
        try:
            frame = _polars_csv(place, dialect, options, text, look_ahead)
            break
        except FAILURES as error:
            if options.encoding is None and dialect.is_utf8 and guess_encoding(place) == WINDOWS:
                dialect = replace(dialect, encoding=WINDOWS)
                note_encoding(place, dialect, notes)
                return read_csv(place, dialect, options, text, notes)
            if look_ahead is not None:
                diagnose.check_rows(place, dialect)  # then it was only a late change of type
                continue
            raise unreadable(place, error) from error
    assert frame is not None
    if frame.columns != list(dialect.header):
        raise InputError(
            f"{place.path}, line 1: cannot tell the names of the columns; write plain names "
            "without quotes."
        )
    frame = _without_blank_end(frame)
    last = dialect.header[-1]
    if frame[last].null_count() and diagnose.short_rows(place, dialect):
        diagnose.check_rows(place, dialect, whole=False)
    return frame


def _polars_csv(
    place: Place,
    dialect: Dialect,
    options: ReadOptions,
    text: Collection[str],
    look_ahead: int | None,
) -> pl.DataFrame:
    source = place.path if dialect.is_utf8 else _as_utf8(place, dialect)
    return pl.read_csv(
        source,
        separator=dialect.delimiter,
        schema_overrides={name: pl.String for name in dialect.header if name in text},
        null_values=options.no_values or None,
        infer_schema_length=look_ahead,
        glob=False,
    )


def _as_utf8(place: Place, dialect: Dialect) -> bytes:
    data = place.path.read_bytes()
    data = gzip.decompress(data) if place.gzipped else data
    try:
        return data.decode(dialect.encoding).removeprefix("\ufeff").encode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise not_in_encoding(place.path, line, dialect.encoding) from error


def note_encoding(place: Place, dialect: Dialect, notes: Notes) -> None:
    """Say what a file was taken for that is not in UTF-8."""
    name = "Windows-1252" if dialect.encoding == WINDOWS else dialect.encoding
    notes.append(f"{place.path}: not UTF-8; read as {name} (--encoding).")


def _without_blank_end(frame: pl.DataFrame) -> pl.DataFrame:
    """Without the rows of nothing that blank lines at a file's end are read as."""
    end = frame.height
    while end and frame.width > 1 and all(value is None for value in frame.row(end - 1)):
        end -= 1
    return frame.head(end)


def unreadable(place: Place, error: BaseException) -> InputError:
    """The error about a file that polars gave up on, with the row if a slow look finds it."""
    if place.format == "jsonl":
        diagnose.check_json_lines(place)  # names the line, if that is what is wrong
    reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return InputError(
        f"{place.path}: not a readable {place.format} file ({reason}); it may be cut short or in "
        "another format: write it again, or pass its --format."
    )
