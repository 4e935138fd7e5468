"""The files of a table, found by paths, patterns and folders."""

from __future__ import annotations

import codecs
import difflib
import glob
import gzip
import io
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from tuneup.errors import InputError

from .request import UTF_8, Format

SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_ADVICE = {
    ".json": "write one object per line (.jsonl), or pass --format jsonl if it is so already",
    **dict.fromkeys((".xlsx", ".xls"), "save the sheet as CSV"),
    ".zip": "unpack it",
    **dict.fromkeys((".zst", ".bz2", ".xz"), "unpack it, or pack it with gzip"),
    **dict.fromkeys((".pkl", ".pickle"), "pickles are never loaded; write it as Parquet"),
}
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
    (b"PK\x03\x04", "zip"),
    (b"\x1f\x8b", "gzip"),
)
_OBJECT_A_LINE = 'write one object per line, as in {"source": 1, "target": 2}.'
WINDOWS = "cp1252"
_CHUNK = 1 << 24


@dataclass(frozen=True)
class DataFile:
    """One file and its format."""

    path: Path
    format: Format
    gzipped: bool = False

    @property
    def is_delimited(self) -> bool:
        """Whether it is CSV or TSV, which do not tell numbers from texts."""
        return self.format in ("csv", "tsv")

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Its bytes, unpacked."""
        with gzip.open(self.path) if self.gzipped else self.path.open("rb") as file:
            yield cast(BinaryIO, file)

    def lines(self, encoding: str = UTF_8) -> Iterator[str]:
        """Its lines as text; bytes that are no text are refused with the line they are on."""
        with self.open() as file:
            if codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):
                text_file = io.TextIOWrapper(file, encoding=encoding, newline="")
                yield from text_file
                return
            for number, line in enumerate(file, start=1):
                try:
                    text = line.decode(encoding)
                except UnicodeDecodeError as error:
                    raise not_in_encoding(self.path, number, encoding) from error
                yield text.removeprefix("\ufeff") if number == 1 else text

    def is_in(self, encoding: str) -> bool:
        """Whether the whole file is text of an encoding."""
        with self.open() as file:
            return decodes(iter(lambda: file.read(_CHUNK), b""), encoding)

    def guess_encoding(self) -> str:
        """UTF-8, or Windows-1252 if the whole file is that and not UTF-8."""
        return WINDOWS if not self.is_in(UTF_8) and self.is_in(WINDOWS) else UTF_8


def not_in_encoding(path: Path, line: int, encoding: str) -> InputError:
    """The error about bytes that are not text in an encoding."""
    problem = f"{path}, line {line}: not valid {encoding.upper()}"
    if codecs.lookup(encoding).name != UTF_8:
        return InputError(f"{problem}.")
    return InputError(
        f"{problem}; save it as UTF-8, or pass --encoding latin-1 if that is what it is in.",
        fix=("--encoding", "latin-1"),
    )


def find_files(given: Sequence[str], format: Format | None = None) -> tuple[DataFile, ...]:
    """The files behind paths, patterns and folders, in the order of their names.

    Args:
        given: files, patterns such as ``part-*.csv``, or folders, of which every table is taken.
        format: overrules the files' suffixes.
    """
    found = [_data_file(path, format) for one in given for path in _paths(one, format)]
    formats = sorted({file.format for file in found})
    if len(formats) > 1:
        raise InputError(
            f"{', '.join(given)}: holds tables of several formats ({', '.join(formats)}); name "
            f"those of one, as in {Path(given[0]) / ('*.' + formats[0])}, or pass --format."
        )
    paths = [file.path for file in found]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise InputError(f"{path}: named twice, so each row would count twice.")
    return tuple(found)


def _paths(given: str, format: Format | None) -> list[Path]:
    path = Path(given)
    if path.is_dir():
        files = sorted(each for each in path.iterdir() if each.is_file())
        found = [
            each
            for each in files
            if each.name[0] not in "._" and (format is not None or _suffix(each)[0] in SUFFIXES)
        ]
        problem = (
            f"a folder without a table; put files in it that end in {', '.join(SUFFIXES)}, or "
            "name a file"
        )
    elif path.exists() or not glob.has_magic(given):
        found, problem = [path], ""
    else:
        matches = sorted(Path(name) for name in glob.glob(given, recursive=True))
        found = [match for match in matches if match.is_file()]
        problem = "no file matches this pattern"
    if not found:
        raise InputError(f"{given}: {problem}.")
    return found


def _nearest(path: Path) -> str:
    """A hint at a name that was perhaps meant."""
    try:
        names = [each.name for each in path.parent.iterdir()]
    except OSError:
        return f" There is no folder {path.parent} either."
    close = difflib.get_close_matches(path.name, names, n=1)
    return f" Did you mean {path.with_name(close[0])}?" if close else ""


def _suffix(path: Path) -> tuple[str, bool]:
    """What the name says of the format, and whether it says gzip."""
    gzipped = path.suffix.lower() == ".gz"
    return (Path(path.stem) if gzipped else path).suffix.lower(), gzipped


def _data_file(path: Path, format: Format | None) -> DataFile:
    """A file whose first bytes are those of its format."""
    if not path.exists():
        raise InputError(f"{path}: no such file.{_nearest(path)}")
    if not path.is_file():
        raise InputError(f"{path}: not a regular file; write the table to a file first.")
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}).") from error
    suffix, gzipped = _suffix(path)
    kind = format or SUFFIXES.get(suffix)
    if kind is None:
        advice = _ADVICE.get(suffix, "pass --format if it is one of these under another name")
        raise InputError(
            f"{path}: tables end in {', '.join(SUFFIXES)}, or .gz after one of text; {advice}."
        )
    if not head:
        raise InputError(f"{path}: the file is empty; a table has a header and rows.")
    actual = next((name for magic, name in _MAGIC if head.startswith(magic)), "")
    if gzipped and kind in ("parquet", "arrow"):
        raise InputError(f"{path}: {kind} files are packed inside already; unpack it with gunzip.")
    if gzipped and actual != "gzip":
        raise InputError(f"{path}: named .gz but not packed with gzip; take the .gz off its name.")
    if gzipped or actual in ("", kind):
        return DataFile(path, kind, gzipped)
    if actual == "zip":
        raise InputError(f"{path}: a zip archive or a spreadsheet, not {kind}; save it as CSV.")
    if actual == "gzip":
        raise InputError(f"{path}: packed with gzip; end its name in .gz.")
    raise InputError(
        f"{path}: named {kind}, but its bytes are {actual}; pass --format {actual}.",
        fix=("--format", actual),
    )


def decodes(chunks: Iterable[bytes], encoding: str) -> bool:
    """Whether bytes are text; a character that is cut at the end is no fault."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in chunks:
            decoder.decode(chunk)
    except UnicodeDecodeError:
        return False
    return True


def _json_lines(file: DataFile) -> Iterator[tuple[str, str]]:
    """The lines of a file that are not blank, each with its place."""
    for number, line in enumerate(file.lines(), start=1):
        if line.strip():
            yield f"row {number} (line {number})", line.rstrip()


def check_json_lines(file: DataFile) -> None:
    """Refuse the first line that is not a JSON object."""
    for place, line in _json_lines(file):
        try:
            found = json.loads(line)
        except json.JSONDecodeError as error:
            problem = f"not valid JSON ({error.msg} at character {error.colno}); {_OBJECT_A_LINE}"
            if error.pos >= len(line) or error.msg.startswith("Unterminated"):
                problem = (
                    f"the line ends too early, after {len(line):,} characters; write it again."
                )
            raise InputError(f"{file.path}, {place}: {problem}") from error
        if not isinstance(found, dict):
            problem = f"holds a {_json_type(found)}; {_OBJECT_A_LINE}"
            raise InputError(f"{file.path}, {place}: {problem}")


def check_json_types(file: DataFile, columns: Collection[str]) -> None:
    """Refuse ids that are numbers in one line and texts in another: 1 and "1" would be one id."""
    first: dict[str, tuple[str, str]] = {}
    for place, line in _json_lines(file) if columns else ():
        row = json.loads(line)
        for column in columns:
            if row.get(column) is None:
                continue
            kind = _json_type(row[column])
            before, there = first.setdefault(column, (kind, place))
            if kind != before:
                raise InputError(
                    f"{file.path}, {place}, column {column!r}: a {kind} where "
                    f"{there.split(' (')[0]} has a {before}; write all ids as texts or all as "
                    "numbers."
                )


def _json_type(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    types = {str: "text", int: "number", float: "number", list: "list", dict: "object"}
    return types.get(type(value), "null")
