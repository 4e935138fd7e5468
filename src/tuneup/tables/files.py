"""The files of a table: from paths, patterns and folders to files of one format."""

from __future__ import annotations

import codecs
import difflib
import glob
import gzip
import io
from collections.abc import Iterator, Sequence
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
    ".xlsx": "save the sheet as CSV",
    ".xls": "save the sheet as CSV",
    ".zip": "unpack it",
    ".zst": "unpack it, or pack it with gzip",
    ".bz2": "unpack it, or pack it with gzip",
    ".xz": "unpack it, or pack it with gzip",
    ".pkl": "pickles are never loaded; write it as Parquet",
    ".pickle": "pickles are never loaded; write it as Parquet",
}

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
    (b"PK\x03\x04", "zip"),
    (b"\x1f\x8b", "gzip"),
)


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
    found = [file for one in given for file in _files_of(one, format)]
    formats = sorted({file.format for file in found})
    if len(formats) > 1:
        raise InputError(
            f"{', '.join(given)}: holds tables of several formats ({', '.join(formats)}); name "
            f"those of one, as in {Path(given[0]) / ('*.' + formats[0])}, or pass --format."
        )
    seen: set[Path] = set()
    for file in found:
        if file.path in seen:
            raise InputError(f"{file.path}: named twice, so each row would count twice.")
        seen.add(file.path)
    return tuple(found)


def _files_of(given: str, format: Format | None) -> list[DataFile]:
    path = Path(given)
    if path.is_dir():
        return _in_folder(path, format)
    if path.exists():
        return [_data_file(path, format)]
    if glob.has_magic(given):
        matches = sorted(Path(name) for name in glob.glob(given, recursive=True))
        files = [match for match in matches if match.is_file()]
        if not files:
            raise InputError(f"{given}: no file matches this pattern.")
        return [_data_file(match, format) for match in files]
    raise InputError(f"{given}: no such file.{_nearest(path)}")


def _nearest(path: Path) -> str:
    """A hint at a name that was perhaps meant."""
    try:
        names = [each.name for each in path.parent.iterdir()]
    except OSError:
        return f" There is no folder {path.parent} either."
    close = difflib.get_close_matches(path.name, names, n=1)
    return f" Did you mean {path.with_name(close[0])}?" if close else ""


def _in_folder(folder: Path, format: Format | None) -> list[DataFile]:
    files = sorted(
        each for each in folder.iterdir() if each.is_file() and not each.name.startswith((".", "_"))
    )
    if format is None:
        files = [each for each in files if _suffix(each)[0] in SUFFIXES]
    if not files:
        raise InputError(
            f"{folder}: a folder without a table; put files in it that end in "
            f"{', '.join(SUFFIXES)}, or name a file."
        )
    return [_data_file(each, format) for each in files]


def _suffix(path: Path) -> tuple[str, bool]:
    """What the name says of the format, and whether it says gzip."""
    gzipped = path.suffix.lower() == ".gz"
    return (Path(path.stem) if gzipped else path).suffix.lower(), gzipped


def _data_file(path: Path, format: Format | None) -> DataFile:
    suffix, gzipped = _suffix(path)
    if not path.is_file():
        raise InputError(f"{path}: not a regular file; write the table to a file first.")
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}).") from error
    kind = format or SUFFIXES.get(suffix)
    if kind is None:
        advice = _ADVICE.get(suffix, "pass --format if it is one of these under another name")
        raise InputError(
            f"{path}: tables end in {', '.join(SUFFIXES)}, or .gz after one of text; {advice}."
        )
    if not head:
        raise InputError(f"{path}: the file is empty; a table has a header and rows.")
    _check_magic(path, kind, gzipped, head)
    if gzipped and kind in ("parquet", "arrow"):
        raise InputError(f"{path}: {kind} files are packed inside already; unpack it with gunzip.")
    return DataFile(path, kind, gzipped)


def _check_magic(path: Path, kind: Format, gzipped: bool, head: bytes) -> None:
    """Refuse a file whose first bytes say that it is something else than its name."""
    actual = next((name for magic, name in _MAGIC if head.startswith(magic)), "")
    if gzipped and actual != "gzip":
        raise InputError(f"{path}: named .gz but not packed with gzip; take the .gz off its name.")
    if gzipped or actual in ("", kind):
        return
    if actual == "zip":
        raise InputError(f"{path}: a zip archive or a spreadsheet, not {kind}; save it as CSV.")
    if actual == "gzip":
        raise InputError(f"{path}: packed with gzip; end its name in .gz.")
    raise InputError(
        f"{path}: named {kind}, but its bytes are {actual}; pass --format {actual}.",
        fix=("--format", actual),
    )
