"""CSV and TSV: encoding, delimiter and header, then all fields as text.

Polars reads the file; what it would read as something else, or fill up silently, is refused.
"""

from __future__ import annotations

import codecs
import csv
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from tuneup.errors import InputError

from .columns import Notes
from .files import DataFile, not_in_encoding
from .request import UTF_8, TableRequest

FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, EOFError)
"""What polars may raise about a file."""

_WINDOWS = "cp1252"
_CHUNK = 1 << 24
_HEAD = 1 << 16
"""Bytes that are looked at before polars reads the file."""
_DELIMITERS = {",": "a comma", ";": "';'", "\t": "a tab", "|": "'|'", " ": "a space"}
_WIDE = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


@dataclass(frozen=True)
class Dialect:
    """How one delimited file is written."""

    delimiter: str
    header: tuple[str, ...]
    encoding: str

    @property
    def is_utf8(self) -> bool:
        """Whether polars can read the file as it is."""
        return codecs.lookup(self.encoding).name == UTF_8


def detect_dialect(file: DataFile, request: TableRequest, notes: Notes) -> Dialect:
    """The dialect of a file by its first lines; a note says if it is not UTF-8.

    Raises:
        InputError: If the file would be read as something else.
    """
    path, encoding = file.path, request.encoding
    head = _head(file)
    wide = next((name for mark, name in _WIDE if head.startswith(mark)), None)
    if encoding is None:
        encoding = wide or (UTF_8 if _decodes([head], UTF_8) else _guess_encoding(file))
    if wide and codecs.lookup(encoding).name == UTF_8:
        raise InputError(f"{path}: written in {wide}, not UTF-8; leave out --encoding.")
    text = _decoded(path, head, encoding)
    if "\0" in text:
        raise InputError(f"{path}: holds zero bytes, so it is no text; pass its --format.")
    if "\n" not in text and "\r" in text:
        raise InputError(
            f"{path}: its lines end in a carriage return alone; save it with ends of Unix (LF) or "
            "Windows (CRLF)."
        )
    lines = re.split(r"\r?\n", text)
    if not lines[0].strip():
        raise InputError(f"{path}, line 1: blank; the first line must name the columns.")
    delimiter = "\t" if file.format == "tsv" else ","
    if request.separator and (request.separator in lines[0] or delimiter not in lines[0]):
        delimiter = request.separator  # one option for all tables: a usual file may differ
    _check_delimiter(path, lines, delimiter)
    try:
        header = tuple(next(csv.reader(lines[:1], delimiter=delimiter, strict=True)))
    except csv.Error as error:
        raise InputError(
            f"{path}, line 1: {error}; the names of columns stand on one line, with every double "
            "quote closed."
        ) from error
    _check_header(path, header)
    dialect = Dialect(delimiter, header, encoding)
    if request.encoding is None and not dialect.is_utf8:
        _note_encoding(file, dialect, notes)
    return dialect


def _head(file: DataFile) -> bytes:
    try:
        with file.open() as opened:
            return opened.read(_HEAD)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file.path}: damaged or cut short ({error}); copy it again.") from error


def _decoded(path: Path, head: bytes, encoding: str) -> str:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        text = decoder.decode(head)  # a character cut at the end is left for later
    except UnicodeError as error:
        at = error.start if isinstance(error, UnicodeDecodeError) else 0
        raise not_in_encoding(path, head[:at].count(b"\n") + 1, encoding) from error
    return text.removeprefix("\ufeff")


def _guess_encoding(file: DataFile) -> str:
    """UTF-8, or Windows-1252 if the whole file is that and not UTF-8."""
    windows = not _decodes(_chunks(file), UTF_8) and _decodes(_chunks(file), _WINDOWS)
    return _WINDOWS if windows else UTF_8


def _chunks(file: DataFile) -> Iterator[bytes]:
    with file.open() as opened:
        while chunk := opened.read(_CHUNK):
            yield chunk


def _decodes(chunks: Iterable[bytes], encoding: str) -> bool:
    """Whether bytes are text; a character that is cut at the end is no fault."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in chunks:
            decoder.decode(chunk)
    except UnicodeDecodeError:
        return False
    return True


def _note_encoding(file: DataFile, dialect: Dialect, notes: Notes) -> None:
    name = "Windows-1252" if dialect.encoding == _WINDOWS else dialect.encoding
    notes.append(f"{file.path}: not UTF-8; read as {name} (--encoding).")


def _check_delimiter(path: Path, lines: list[str], used: str) -> None:
    """Refuse a file of one column that another delimiter would cut into several."""
    if used in lines[0]:
        return
    for other, name in _DELIMITERS.items():
        count = lines[0].count(other)
        if count and all(line.count(other) == count for line in lines[1:3] if line):
            word = {"\t": "tab", " ": "space"}.get(other, other)
            raise InputError(
                f"{path}, line 1: {_DELIMITERS.get(used, repr(used))} is not in it; its columns "
                f"seem to be separated by {name}: pass --delimiter "
                f"{repr(word) if word == other else word}.",
                fix=("--delimiter", word),
            )


def _check_header(path: Path, header: tuple[str, ...]) -> None:
    for number, name in enumerate(header):
        if name in header[:number]:
            raise InputError(f"{path}, line 1: two columns are named {name!r}; rename one.")
    if all(map(_is_number, header)):
        raise InputError(
            f"{path}, line 1: {', '.join(header[:3])} look like data; the first line must name the "
            "columns: add one, such as source,target."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_delimited(
    file: DataFile, dialect: Dialect, request: TableRequest, notes: Notes
) -> pl.DataFrame:
    """All rows of one file; every column is text, null where a field is empty."""
    try:
        frame = pl.read_csv(
            file.path if dialect.is_utf8 else _as_utf8(file, dialect),
            separator=dialect.delimiter,
            infer_schema=False,
            null_values=request.no_value or None,
            glob=False,
        )
    except FAILURES as error:
        if request.encoding is None and dialect.is_utf8 and _guess_encoding(file) == _WINDOWS:
            dialect = replace(dialect, encoding=_WINDOWS)
            _note_encoding(file, dialect, notes)
            return read_delimited(file, dialect, request, notes)
        check_rows(file, dialect)
        raise unreadable(file, error) from error
    if frame.columns != list(dialect.header):
        raise InputError(
            f"{file.path}, line 1: cannot tell the names of the columns; write plain names "
            "without quotes."
        )
    end = frame.height  # blank lines at the end of a file are read as rows of nothing
    while end and frame.width > 1 and all(value is None for value in frame.row(end - 1)):
        end -= 1
    frame = frame.head(end)
    if frame[dialect.header[-1]].null_count() and _may_have_short_rows(file, dialect):
        check_rows(file, dialect, whole=False)
    return frame


def _as_utf8(file: DataFile, dialect: Dialect) -> bytes:
    with file.open() as opened:
        data = opened.read()
    try:
        return data.decode(dialect.encoding).removeprefix("\ufeff").encode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise not_in_encoding(file.path, line, dialect.encoding) from error


def unreadable(file: DataFile, error: BaseException) -> InputError:
    """The error about a file that polars cannot read."""
    reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return InputError(
        f"{file.path}: not a readable {file.format} file ({reason}); it may be cut short or in "
        "another format: write it again, or pass its --format."
    )


def _may_have_short_rows(file: DataFile, dialect: Dialect) -> bool:
    """Whether some row may have too few fields, which polars fills up silently."""
    if not dialect.is_utf8:
        return True
    fields = pl.col("line").str.count_matches(dialect.delimiter, literal=True) + 1
    quoted = pl.col("line").str.contains('"', literal=True)
    lines = pl.scan_csv(
        file.path,
        has_header=False,
        separator="\x1f",
        quote_char=None,
        schema={"line": pl.String},
        empty_string_is_null=False,
        glob=False,
    )
    doubtful = (quoted | (fields < len(dialect.header))).any()
    return bool(lines.select(doubtful).collect().item())


def check_rows(file: DataFile, dialect: Dialect, *, whole: bool = True) -> None:
    """Read a file row by row with Python's slow reader and refuse the first row that is wrong.

    Args:
        file: the file.
        dialect: of its first lines.
        whole: also refuse quotes that are never closed.
    """
    path, width = file.path, len(dialect.header)
    reader = csv.reader(file.lines(dialect.encoding), delimiter=dialect.delimiter, strict=whole)
    row, blank = -1, None
    try:
        for row, fields in enumerate(reader):
            if not any(fields) and len(fields) <= 1 and width > 1:
                blank = row if blank is None else blank
                continue
            if blank is not None:
                raise InputError(f"{path}, row {blank} (line {blank + 1}): blank; remove the line.")
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
