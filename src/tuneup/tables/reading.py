"""Tables from files of any format, whose rows remember the file and line they came from."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from torch import Tensor

from tuneup.errors import InputError

from .columns import Notes
from .delimited import FAILURES, Dialect, detect_dialect, read_delimited, unreadable
from .files import DataFile, find_files
from .request import TableRequest

_OBJECT_A_LINE = 'write one object per line, as in {"source": 1, "target": 2}.'


def first_true(mask: pl.Series) -> int | None:
    """The first row of a mask that is true, if there is one; missing values are not."""
    return int(mask.fill_null(False).arg_max() or 0) if mask.any() else None


def frame_of(given: Any) -> pl.DataFrame:
    """A frame of polars or pandas as one of polars; the index of pandas is left out."""
    if isinstance(given, pl.DataFrame):
        return given
    if type(given).__module__.split(".")[0] != "pandas":  # not imported: few have it
        raise InputError(f"got {type(given).__name__}; expected a frame of polars or pandas.")
    columns = []
    for name, column in given.items():
        present = column.notna()
        if column.dtype.kind in "iufb" and present.all():
            values = column.to_numpy()
        else:  # objects, categories, dates and missing values, which pandas has several of
            values = column.astype(object).where(present, None).tolist()
        try:
            columns.append(pl.Series(str(name), values))
        except (TypeError, pl.exceptions.PolarsError) as error:
            raise InputError(f"column {name!r}: values must be of one type ({error}).") from error
    return pl.DataFrame(columns)


@dataclass(frozen=True)
class Part:
    """The rows of a table that came from one file."""

    file: DataFile
    rows: int


@dataclass(frozen=True, eq=False)
class Table:
    """A frame and the files of its rows, so that errors can name the file, row and column."""

    frame: pl.DataFrame
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, frame: Any, name: str = "the rows given") -> Table:
        """A frame of polars or pandas that came from no file."""
        frame = frame_of(frame)
        return cls(frame, (Part(DataFile(Path(name), "arrow"), frame.height),))

    @property
    def untyped(self) -> bool:
        """Whether all columns were read as text, because the format does not tell types."""
        return self.parts[0].file.is_delimited

    @property
    def name(self) -> str:
        """The file, or the first of several."""
        return _name_of([part.file for part in self.parts])

    def select(self, *columns: str) -> Table:
        """Some of the columns."""
        return Table(self.frame.select(columns), self.parts)

    def where(self, row: int | None = None, column: str | None = None) -> str:
        """``file, row 3 (line 4), column 'x'``; rows count from 0 here and from 1 in a file."""
        place, number = self.name, ""
        if row is not None:
            for part in self.parts:
                if row < part.rows:
                    line = {"csv": row + 2, "tsv": row + 2, "jsonl": row + 1}.get(part.file.format)
                    place = str(part.file.path)
                    number = f", row {row + 1}" + (f" (line {line})" if line else "")
                    break
                row -= part.rows
        return place + number + (f", column {column!r}" if column is not None else "")

    def error(
        self,
        problem: str,
        row: int | None = None,
        column: str | None = None,
        *,
        fix: tuple[str, ...] = (),
    ) -> InputError:
        """An error about a place in the table; ``fix`` is the option that would solve it."""
        return InputError(f"{self.where(row, column)}: {problem}", fix=fix)

    def refuse(
        self, mask: pl.Series | Tensor, column: str, problem: str | Callable[[int], str]
    ) -> None:
        """Raise an error about the first row that is true in a mask, if there is one.

        Args:
            mask: of the rows; missing values are not true.
            column: that the error names.
            problem: what is wrong, or a function of the row that says it.
        """
        row = first_true(mask if isinstance(mask, pl.Series) else pl.Series(mask.numpy()))
        if row is not None:
            raise self.error(problem if isinstance(problem, str) else problem(row), row, column)


@dataclass(frozen=True, eq=False)
class TableFiles:
    """The files of one table before their rows are read: the names of the columns are known."""

    files: tuple[DataFile, ...]
    columns: tuple[str, ...]
    request: TableRequest
    dialects: tuple[Dialect | None, ...]
    notes: Notes = field(default_factory=Notes)

    @property
    def name(self) -> str:
        """What was given, for messages."""
        return _name_of(self.files)

    @property
    def num_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.path.stat().st_size for file in self.files)

    def read(self, keep: Collection[str | None] | None = None, ids: Collection[str] = ()) -> Table:
        """All rows; the columns of delimited files are text, whatever they look like.

        Args:
            keep: columns of the result; by default all that have a name.
            ids: columns in which numbers and texts must not be mixed.
        """
        frames = []
        chosen = [name for name in self.columns if name and (keep is None or name in keep)]
        for file, dialect in zip(self.files, self.dialects, strict=True):
            if dialect is not None:
                frame = read_delimited(file, dialect, self.request, self.notes).select(chosen)
            else:
                frame = self._typed(_read_typed(file, ids).select(chosen))
            frames.append(frame)
        check_same_types(self.files, frames)
        parts = tuple(map(Part, self.files, (frame.height for frame in frames)))
        whole = frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical_relaxed")
        table = Table(whole, parts)
        if not whole.height:
            raise table.error("has a header but no rows.")
        return table

    def _typed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """With null where the request says "no value"."""
        if self.request.missing:
            absent = pl.selectors.string().is_in([*self.request.missing])
            frame = frame.with_columns(pl.when(~absent).then(pl.selectors.string()))
        if self.request.nan_is_missing:
            frame = frame.with_columns(pl.selectors.float().fill_nan(None))
        return frame


def open_table(
    given: Sequence[str], request: TableRequest | None = None, notes: Notes | None = None
) -> TableFiles:
    """Find the files of a table and the names of its columns; no row is read yet.

    Args:
        given: files, patterns or folders.
        request: how to read them.
        notes: get a line about each file that is not read in the usual way.
    """
    request, notes = request or TableRequest(), Notes() if notes is None else notes
    files = find_files(given, request.format)
    dialects = tuple(
        detect_dialect(file, request, notes) if file.is_delimited else None for file in files
    )
    columns: tuple[str, ...] | None = None
    for file, dialect in zip(files, dialects, strict=True):
        names = dialect.header if dialect else _typed_columns(file)
        if columns is not None and set(names) != set(columns):
            odd = sorted(set(names) ^ set(columns))[0]
            missing = "lacks" if odd in columns else "has a further"
            raise InputError(
                f"{file.path}: {missing} column {odd!r}, unlike {files[0].path}; files of one "
                "table have the same columns."
            )
        columns = columns or names
    return TableFiles(files, columns or (), request, dialects, notes)


def _name_of(files: Sequence[DataFile]) -> str:
    path = str(files[0].path)
    return path if len(files) == 1 else f"{path} and {len(files) - 1} more"


def _typed_columns(file: DataFile) -> tuple[str, ...]:
    """Columns of a file that is not delimited text."""
    try:
        if file.format == "parquet":
            return tuple(pl.read_parquet_schema(file.path))
        if file.format == "arrow":
            return tuple(_read_arrow(file).columns)
        return tuple(pl.scan_ndjson(file.path, infer_schema_length=None).collect_schema().names())
    except FAILURES as error:
        raise _unreadable(file, error) from error


def _read_typed(file: DataFile, ids: Collection[str]) -> pl.DataFrame:
    """Rows of a file that is not delimited text."""
    try:
        if file.format == "parquet":
            return pl.read_parquet(file.path, glob=False)
        if file.format == "arrow":
            return _read_arrow(file)
        frame = pl.read_ndjson(file.path, infer_schema_length=None)
    except FAILURES as error:
        raise _unreadable(file, error) from error
    doubtful = [
        name
        for name in ids
        if name in frame.columns
        and frame.schema[name] == pl.String
        and frame[name].str.contains(r"^-?\d+$").any()
    ]
    if doubtful:  # polars reads numbers as texts where both occur
        _check_json_types(file, doubtful)
    return frame


def _read_arrow(file: DataFile) -> pl.DataFrame:
    """The file layout of Arrow, or its stream layout."""
    with file.open() as opened:
        is_file = opened.read(6) == b"ARROW1"
    return pl.read_ipc(file.path) if is_file else pl.read_ipc_stream(file.path)


def check_same_types(files: Sequence[DataFile], frames: Sequence[pl.DataFrame]) -> None:
    """Refuse numbers in one file and texts in another: they would become texts in both."""
    for file, frame in zip(files[1:], frames[1:], strict=True):
        for name, kind in frame.schema.items():
            before = frames[0].schema[name]
            if (kind == pl.String) != (before == pl.String) and pl.Null not in (kind, before):
                here, there = ("text" if k == pl.String else str(k) for k in (kind, before))
                raise InputError(
                    f"{file.path}, column {name!r}: {here} where {files[0].path} has {there}; "
                    "make them alike."
                )


def _unreadable(file: DataFile, error: BaseException) -> InputError:
    """The error about a file that polars cannot read, with the line if JSON is at fault."""
    if file.format == "jsonl":
        _check_json_lines(file)
    return unreadable(file, error)


def _check_json_lines(file: DataFile) -> None:
    """Refuse the first line that is not a JSON object."""
    for number, line in enumerate(file.lines(), start=1):
        if not line.strip():
            continue
        where = f"{file.path}, row {number} (line {number})"
        try:
            found = json.loads(line)
        except json.JSONDecodeError as error:
            whole = line.rstrip()
            if error.pos >= len(whole) or error.msg.startswith("Unterminated"):
                raise InputError(
                    f"{where}: the line ends too early, after {len(whole):,} characters; the file "
                    "may be cut short: write it again, one whole object per line."
                ) from error
            raise InputError(
                f"{where}: not valid JSON ({error.msg} at character {error.colno}); "
                + _OBJECT_A_LINE
            ) from error
        if not isinstance(found, dict):
            raise InputError(f"{where}: holds a {_json_type(found)}; {_OBJECT_A_LINE}")


def _check_json_types(file: DataFile, columns: Collection[str]) -> None:
    """Refuse ids that are numbers in one line and texts in another: 1 and "1" would be one id."""
    first: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(file.lines(), start=1):
        row: dict[str, Any] = json.loads(line) if line.strip() else {}
        for column in columns:
            value = row.get(column)
            if value is None:
                continue
            kind = _json_type(value)
            before, at = first.setdefault(column, (kind, number))
            if kind != before:
                raise InputError(
                    f"{file.path}, row {number} (line {number}), column {column!r}: a {kind} "
                    f"where row {at} has a {before}; write all ids as texts or all as numbers."
                )


def _json_type(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    types = {str: "text", int: "number", float: "number", list: "list", dict: "object"}
    return types.get(type(value), "null")
