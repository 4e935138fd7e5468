"""From what a user types (a file, a pattern, a folder) to files of one format."""

from __future__ import annotations

import difflib
import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tuneup.errors import InputError

Format = Literal["csv", "tsv", "parquet", "jsonl", "arrow"]
"""The formats that are read."""

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
class Place:
    """One file and how to read it."""

    path: Path
    format: Format
    gzipped: bool = False

    @property
    def is_text(self) -> bool:
        """Whether it has lines, of which a header may be the first."""
        return self.format in ("csv", "tsv", "jsonl")


def find_places(given: Sequence[str], format: Format | None = None) -> tuple[Place, ...]:
    """The files behind paths, patterns and folders, in the order of their names.

    Args:
        given: files, patterns such as ``part-*.csv``, or folders, of which every table is taken.
        format: overrules the file's suffix.
    """
    if format is not None and format not in get_args(Format):
        raise InputError(f"--format is one of {', '.join(get_args(Format))}; got {format}.")
    found = [place for one in given for place in _places_of(one, format)]
    kinds = sorted({place.format for place in found})
    if len(kinds) > 1:
        raise InputError(
            f"{', '.join(given)}: holds tables of several formats ({', '.join(kinds)}); name those "
            f"of one, as in {Path(given[0]) / ('*.' + kinds[0])}, or pass --format."
        )
    seen: set[Path] = set()
    for place in found:
        if place.path in seen:
            raise InputError(f"{place.path}: named twice, so each row would count twice.")
        seen.add(place.path)
    return tuple(found)


def _places_of(given: str, format: Format | None) -> list[Place]:
    path = Path(given)
    if path.is_dir():
        return _in_folder(path, format)
    if path.exists():
        return [_place(path, format)]
    if glob.has_magic(given):
        matches = sorted(Path(name) for name in glob.glob(given, recursive=True))
        files = [match for match in matches if match.is_file()]
        if not files:
            raise InputError(f"{given}: no file matches this pattern.")
        return [_place(match, format) for match in files]
    raise InputError(f"{given}: no such file.{_nearest(path)}")


def _nearest(path: Path) -> str:
    """A hint at a name that was perhaps meant."""
    try:
        names = [each.name for each in path.parent.iterdir()]
    except OSError:
        return f" There is no folder {path.parent} either."
    close = difflib.get_close_matches(path.name, names, n=1)
    return f" Did you mean {path.with_name(close[0])}?" if close else ""


def _in_folder(folder: Path, format: Format | None) -> list[Place]:
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
    return [_place(each, format) for each in files]


def _suffix(path: Path) -> tuple[str, bool]:
    """What the name says of the format, and whether it says gzip."""
    gzipped = path.suffix.lower() == ".gz"
    return (Path(path.stem) if gzipped else path).suffix.lower(), gzipped


def _place(path: Path, format: Format | None) -> Place:
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
    return Place(path, kind, gzipped)


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
