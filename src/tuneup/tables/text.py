"""The first lines of a delimited file: encoding, line ends, delimiter and header."""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tuneup.errors import InputError

from .options import UTF_8
from .places import Place

WINDOWS = "cp1252"
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


def look_at(place: Place, delimiter: str | None, encoding: str | None) -> Dialect:
    """The dialect of a file, after refusing what would be read as something else."""
    path = place.path
    head = _head(place)
    wide = next((name for mark, name in _WIDE if head.startswith(mark)), None)
    if encoding is None:
        encoding = wide or (UTF_8 if _decodes([head], UTF_8) else guess_encoding(place))
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
    if not lines or not lines[0].strip():
        raise InputError(f"{path}, line 1: blank; the first line must name the columns.")
    used = "\t" if place.format == "tsv" else ","
    if delimiter is not None and (delimiter in lines[0] or used not in lines[0]):
        used = delimiter  # one option for all tables: a file that is written as usual may differ
    _check_delimiter(path, lines, used)
    try:
        header = tuple(next(csv.reader(lines[:1], delimiter=used, strict=True)))
    except csv.Error as error:
        raise InputError(
            f"{path}, line 1: {error}; the names of columns stand on one line, with every double "
            "quote closed."
        ) from error
    _check_header(path, header)
    return Dialect(used, header, encoding)


def _head(place: Place) -> bytes:
    try:
        if not place.gzipped:
            with place.path.open("rb") as file:
                return file.read(_HEAD)
        with gzip.open(place.path) as packed:
            return packed.read(_HEAD)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{place.path}: damaged or cut short ({error}); copy it again.") from error


def _decoded(path: Path, head: bytes, encoding: str) -> str:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        text = decoder.decode(head)  # a character cut at the end is kept for later
    except UnicodeError as error:
        at = error.start if isinstance(error, UnicodeDecodeError) else 0
        raise not_in_encoding(path, head[:at].count(b"\n") + 1, encoding) from error
    return text.removeprefix("\ufeff")


def not_in_encoding(path: Path, line: int, encoding: str) -> InputError:
    """The error about bytes that are no text."""
    problem = f"{path}, line {line}: not valid {encoding.upper()}"
    if codecs.lookup(encoding).name != UTF_8:
        return InputError(f"{problem}.")
    return InputError(
        f"{problem}; save it as UTF-8, or pass --encoding latin-1 if that is what it is in.",
        fix=("--encoding", "latin-1"),
    )


def guess_encoding(place: Place) -> str:
    """UTF-8, or Windows-1252 if the whole file is that and not UTF-8."""
    wrong = _decodes(_chunks(place), UTF_8) or not _decodes(_chunks(place), WINDOWS)
    return UTF_8 if wrong else WINDOWS


def _chunks(place: Place) -> Iterator[bytes]:
    with gzip.open(place.path) if place.gzipped else place.path.open("rb") as file:
        while chunk := file.read(_CHUNK):
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


def _check_delimiter(path: Path, lines: list[str], used: str) -> None:
    """Refuse a file of one column that another delimiter would cut into several."""
    if used in lines[0]:
        return
    for other, name in _DELIMITERS.items():
        count = lines[0].count(other)
        if count and all(line.count(other) == count for line in lines[1:3] if line):
            raise InputError(
                f"{path}, line 1: {_DELIMITERS.get(used, repr(used))} is not in it; its columns "
                f"seem to be separated by {name}: pass --delimiter {_typed(other)}.",
                fix=("--delimiter", _typed(other).strip("'")),
            )


def _typed(delimiter: str) -> str:
    return {"\t": "tab", " ": "space"}.get(delimiter, f"'{delimiter}'")


def _check_header(path: Path, header: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for name in header:
        if name in seen:
            raise InputError(f"{path}, line 1: two columns are named {name!r}; rename one.")
        seen.add(name)
    if all(_is_number(name) for name in header):
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
