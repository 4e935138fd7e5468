"""Tables from files of any format, whose rows remember the file and line they came from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
from torch import Tensor

from tuneup.errors import InputError

from .delimited import Dialect, as_utf8, check_rows, detect_dialect, may_have_short_rows, read_csv
from .files import WINDOWS, DataFile, check_json_lines, check_json_types, find_files
from .request import TableRequest

_FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, EOFError)
"""What polars may raise about a file."""


class Notes(list[str]):
    """What was guessed, dropped or filled in, as lines to print."""


def first_true(mask: pl.Series) -> int | None:
    """The first row of a mask that is true, if there is one; missing values are not."""
    return int(mask.fill_null(False).arg_max() or 0) if mask.any() else None


def shown(value: object) -> str:
    """A value in a message: short, and on one line."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


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
        """Whether columns were read as text, because the format does not tell types."""
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
        place, at = self.name, f", column {column!r}" if column is not None else ""
        if row is None:
            return place + at
        for part in self.parts:
            if row < part.rows:
                line = {"csv": row + 2, "tsv": row + 2, "jsonl": row + 1}.get(part.file.format)
                return f"{part.file.path}, row {row + 1}{f' (line {line})' if line else ''}{at}"
            row -= part.rows
        raise AssertionError

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

    def typed(self) -> Table:
        """The same table; texts of delimited files have the narrowest type that fits a column.

        Raises:
            InputError: About a column that is text in one file and something else in another.
        """
        if not self.untyped:
            return self
        found = {each.name: each for each in self.frame}
        left = [
            name
            for name, values in found.items()
            if values.dtype == pl.String and values.null_count() < len(values)
        ]
        for kind in (pl.Int64(), pl.Int128(), pl.Float64()):
            head = self.frame.select(left).head(1000)
            likely = [each.name for each in _cast(head, kind) if same_gaps(head[each.name], each)]
            for numbers in _cast(self.frame.select(likely), kind):  # all at once: on all cores
                if same_gaps(found[numbers.name], numbers):
                    found[numbers.name] = numbers
                    left.remove(numbers.name)
        for name in left:
            words = found[name].str.to_lowercase()
            if words.is_in(["true", "false"]).all():  # nulls do not count
                found[name] = words == "true"
        frame = pl.DataFrame(list(found.values()))
        if len(self.parts) > 1:
            self._check_parts([name for name in left if frame.schema[name] == pl.String])
        return Table(frame, self.parts)

    def _check_parts(self, names: list[str]) -> None:
        """Refuse columns that are text only because they are in some of the files."""
        frames, start = [], 0
        for part in self.parts:
            rows = self.frame.select(names).slice(start, part.rows)
            frames.append(Table(rows, (part,)).typed().frame)
            start += part.rows
        _check_same_types([part.file for part in self.parts], frames)


def _cast(frame: pl.DataFrame, kind: pl.DataType) -> pl.DataFrame:
    return frame.select(pl.all().cast(kind, strict=False))


def same_gaps(texts: pl.Series, numbers: pl.Series) -> bool:
    """Whether texts that were cast are all numbers, except where they are missing or empty."""
    if numbers.null_count() == texts.null_count():
        return True
    return bool((texts.is_null() | (texts == "")).fill_null(True).equals(numbers.is_null()))


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
    def stem(self) -> str:
        """What data read from them is called."""
        return self.files[0].path.stem

    @property
    def num_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.path.stat().st_size for file in self.files)

    def read(
        self,
        keep: Collection[str | None] | None = None,
        ids: Collection[str] = (),
        numbers: Collection[str] = (),
    ) -> Table:
        """All rows; the columns of delimited files are text, whatever they look like.

        Args:
            keep: columns of the result; by default all that have a name.
            ids: columns in which numbers and texts must not be mixed.
            numbers: columns that are read as Float64 if they hold decimal numbers alone.
        """
        chosen = [name for name in self.columns if name and (keep is None or name in keep)]
        decimals = [name for name in numbers if len(self.files) == 1]
        frames = [
            (
                self._without_missing(_read_typed(file, chosen, ids))
                if dialect is None
                else self._read_delimited(file, dialect, decimals).select(chosen)
            )
            for file, dialect in zip(self.files, self.dialects, strict=True)
        ]
        _check_same_types(self.files, frames)
        parts = tuple(map(Part, self.files, (frame.height for frame in frames)))
        whole = frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical_relaxed")
        table = Table(whole, parts)
        if not whole.height:
            raise table.error("has a header but no rows.")
        return table

    def _without_missing(self, frame: pl.DataFrame) -> pl.DataFrame:
        """With null where the request says "no value"."""
        if self.request.missing:
            absent = pl.selectors.string().is_in([*self.request.missing])
            frame = frame.with_columns(pl.when(~absent).then(pl.selectors.string()))
        if self.request.nan_is_missing:
            frame = frame.with_columns(pl.selectors.float().fill_nan(None))
        return frame

    def _read_delimited(
        self, file: DataFile, dialect: Dialect, numbers: Collection[str] = ()
    ) -> pl.DataFrame:
        """All rows of one file; columns are text, null where a field is empty."""
        options: dict[str, Any] = {
            "source": file.path if dialect.is_utf8 else as_utf8(file, dialect),
            "separator": dialect.delimiter,
            "infer_schema": False,
            "null_values": self.request.no_value or None,
            "glob": False,
        }
        try:
            frame = read_csv(options, numbers if dialect.is_utf8 and not file.gzipped else ())
        except _FAILURES as error:
            guess = self.request.encoding is None and dialect.is_utf8
            if guess and file.guess_encoding() == WINDOWS:
                dialect = replace(dialect, encoding=WINDOWS)
                _note_encoding(file, dialect, self.notes)
                return self._read_delimited(file, dialect)
            check_rows(file, dialect)
            raise _not_readable(file, error) from error
        if frame.columns != list(dialect.header):
            raise InputError(f"{file.path}, line 1: write the names of columns without quotes.")
        end = frame.height  # blank lines at the end of a file are read as rows of nothing
        while end and frame.width > 1 and all(value is None for value in frame.row(end - 1)):
            end -= 1
        frame = frame.head(end)
        if frame[dialect.header[-1]].null_count() and may_have_short_rows(file, dialect):
            check_rows(file, dialect, whole=False)
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
    dialects = tuple(detect_dialect(file, request) if file.is_delimited else None for file in files)
    columns: tuple[str, ...] = ()
    for file, dialect in zip(files, dialects, strict=True):
        if dialect and request.encoding is None and not dialect.is_utf8:
            _note_encoding(file, dialect, notes)
        names = dialect.header if dialect else tuple(_scan(file).collect_schema().names())
        columns = columns or names
        if set(names) != set(columns):
            odd = sorted(set(names) ^ set(columns))[0]
            missing = "lacks" if odd in columns else "has a further"
            raise InputError(f"{file.path}: {missing} column {odd!r}, unlike {files[0].path}.")
    return TableFiles(files, columns, request, dialects, notes)


def _name_of(files: Sequence[DataFile]) -> str:
    path = str(files[0].path)
    return path if len(files) == 1 else f"{path} and {len(files) - 1} more"


def _note_encoding(file: DataFile, dialect: Dialect, notes: Notes) -> None:
    name = "Windows-1252" if dialect.encoding == WINDOWS else dialect.encoding
    notes.append(f"{file.path}: not UTF-8; read as {name} (--encoding).")


def _scan(file: DataFile) -> pl.LazyFrame:
    """A file that is not delimited text; its schema is known to be readable."""
    try:
        if file.format == "parquet":
            found = pl.scan_parquet(file.path, glob=False)
        elif file.format == "jsonl":
            found = pl.scan_ndjson(file.path, infer_schema_length=None)
        else:
            with file.open() as opened:
                is_file = opened.read(6) == b"ARROW1"
            found = (pl.read_ipc if is_file else pl.read_ipc_stream)(file.path).lazy()
        found.collect_schema()
    except _FAILURES as error:
        raise _not_readable(file, error) from error
    return found


def _read_typed(file: DataFile, columns: Sequence[str], ids: Collection[str]) -> pl.DataFrame:
    """Rows of a file that is not delimited text."""
    try:
        frame = _scan(file).select(columns).collect()
    except _FAILURES as error:
        raise _not_readable(file, error) from error
    if file.format == "jsonl":  # polars reads numbers as texts where both occur
        texts = [name for name in ids if frame.schema.get(name) == pl.String]
        check_json_types(file, [n for n in texts if frame[n].str.contains(r"^-?\d+$").any()])
    return frame


def _check_same_types(files: Sequence[DataFile], frames: Sequence[pl.DataFrame]) -> None:
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


def _not_readable(file: DataFile, error: BaseException) -> InputError:
    """The error about a file that polars cannot read, with the line if JSON is at fault."""
    if file.format == "jsonl":
        check_json_lines(file)
    reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return InputError(
        f"{file.path}: not a readable {file.format} file ({reason}); it may be cut short or in "
        "another format: write it again, or pass its --format."
    )
