"""CSV and TSV: encoding, delimiter and header, then fields as text.

Polars reads the file; what it would read as something else, or fill up silently, is refused.
"""

from __future__ import annotations

import codecs
import csv
import re
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tuneup.errors import InputError

from .files import DataFile, decodes, not_in_encoding
from .request import UTF_8, TableRequest

_HEAD = 1 << 16
"""Bytes that are looked at before a file is read."""
_DELIMITERS = {",": "a comma", ";": "';'", "\t": "a tab", "|": "'|'", " ": "a space"}
_WIDE = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_SAMPLE = 100
"""First rows that say which columns hold decimal numbers."""


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


def detect_dialect(file: DataFile, request: TableRequest) -> Dialect:
    """The dialect of a delimited file by its first lines.

    Raises:
        InputError: If the file would be read as something else.
    """
    path, encoding = file.path, request.encoding
    try:
        with file.open() as opened:
            head = opened.read(_HEAD)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: damaged or cut short ({error}); copy it again.") from error
    wide = next((name for mark, name in _WIDE if head.startswith(mark)), None)
    if encoding is None:
        encoding = wide or (UTF_8 if decodes([head], UTF_8) else file.guess_encoding())
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
    return Dialect(delimiter, header, encoding)


def _decoded(path: Path, head: bytes, encoding: str) -> str:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        text = decoder.decode(head)  # a character cut at the end is left for later
    except UnicodeError as error:
        at = error.start if isinstance(error, UnicodeDecodeError) else 0
        raise not_in_encoding(path, head[:at].count(b"\n") + 1, encoding) from error
    return text.removeprefix("\ufeff")


def _check_delimiter(path: Path, lines: list[str], used: str) -> None:
    """Refuse a file of one column that another delimiter would cut into several."""
    if used in lines[0]:
        return
    for other, name in _DELIMITERS.items():
        count = lines[0].count(other)
        if count and all(line.count(other) == count for line in lines[1:3] if line):
            word = {"\t": "tab", " ": "space"}.get(other, repr(other))
            raise InputError(
                f"{path}, line 1: {_DELIMITERS.get(used, repr(used))} is not in it; its columns "
                f"seem to be separated by {name}: pass --delimiter {word}.",
                fix=("--delimiter", word.strip("'")),
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


def read_csv(options: dict[str, Any], numbers: Collection[str]) -> pl.DataFrame:
    """Columns that begin with decimal numbers are parsed at once: quicker than text and a cast."""
    if numbers:
        head = pl.read_csv(**options, n_rows=_SAMPLE).select(numbers)
        decimal = pl.all().str.contains(r"^-?\d+\.\d+$").all() & (pl.all().count() > 0)
        found = [each.name for each in head.select(decimal) if each[0]]
        try:
            return pl.read_csv(**options, schema_overrides=dict.fromkeys(found, pl.Float64))
        except pl.exceptions.PolarsError:
            pass  # some value is no number: an error names it by its text
    return pl.read_csv(**options)


def as_utf8(file: DataFile, dialect: Dialect) -> bytes:
    """A whole file in polars' encoding."""
    with file.open() as opened:
        data = opened.read()
    try:
        return data.decode(dialect.encoding).removeprefix("\ufeff").encode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise not_in_encoding(file.path, line, dialect.encoding) from error


def may_have_short_rows(file: DataFile, dialect: Dialect) -> bool:
    """Whether some row may have too few fields, which polars fills up silently."""
    if not dialect.is_utf8:
        return True
    line = pl.col("line")
    doubtful = line.str.contains('"', literal=True) | (
        line.str.count_matches(dialect.delimiter, literal=True) + 1 < len(dialect.header)
    )
    lines = pl.scan_csv(
        file.path,
        has_header=False,
        separator="\x1f",
        quote_char=None,
        schema={"line": pl.String},
        empty_string_is_null=False,
        glob=False,
    )
    return bool(lines.select(doubtful.any()).collect().item())


def check_rows(file: DataFile, dialect: Dialect, *, whole: bool = True) -> None:
    """Refuse the first wrong row, by Python's slow reader; if ``whole``, open quotes too."""
    width = len(dialect.header)
    reader = csv.reader(file.lines(dialect.encoding), delimiter=dialect.delimiter, strict=whole)
    row, blank = -1, None

    def wrong(row: int, line: int, problem: str) -> InputError:
        return InputError(f"{file.path}, row {row} (line {line}): {problem}.")

    try:
        for row, fields in enumerate(reader):
            if not any(fields) and len(fields) <= 1 and width > 1:
                blank = row if blank is None else blank
                continue
            if blank is not None:
                raise wrong(blank, blank + 1, "blank; remove the line")
            if len(fields) != width:
                count = f"{len(fields)} field{'s' * (len(fields) != 1)}"
                problem = f"{count} where the header has {width}"
                advice = "complete the row"
                if len(fields) > width:
                    advice = "put texts that hold the delimiter in double quotes"
                raise wrong(row, reader.line_num, f"{problem}; {advice}")
    except csv.Error as error:
        problem = f"{error}; close the double quote, and write a quote inside a text twice"
        raise wrong(row + 1, reader.line_num, problem) from error
