"""Files of a table into one polars frame that remembers which row came from where."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import polars as pl

from tuneup.errors import InputError

from . import diagnose
from .columns import Notes
from .delimited import FAILURES, note_encoding, read_csv, unreadable
from .options import ReadOptions
from .places import Place, find_places
from .table import Part, Table
from .text import Dialect, look_at


@dataclass(frozen=True, eq=False)
class TableFiles:
    """The files of one table, looked at but not read: the names of the columns are known."""

    places: tuple[Place, ...]
    columns: tuple[str, ...]
    options: ReadOptions
    dialects: tuple[Dialect | None, ...]
    notes: Notes = field(default_factory=Notes)

    @property
    def name(self) -> str:
        """What was given, for messages."""
        path = str(self.places[0].path)
        return path if len(self.places) == 1 else f"{path} and {len(self.places) - 1} more"

    @property
    def num_bytes(self) -> int:
        """Bytes of all files."""
        return sum(place.path.stat().st_size for place in self.places)

    def read(self, text: Collection[str] = (), keep: Collection[str] | None = None) -> Table:
        """All rows.

        Args:
            text: columns that CSV keeps as texts, whatever they look like: ids, so that 007 stays
                007, and labels.
            keep: columns of the result; by default all that have a name.
        """
        frames = []
        for place, dialect in zip(self.places, self.dialects, strict=True):
            frame = _read_file(place, dialect, self.options, text, self.notes)
            chosen = [name for name in self.columns if name and (keep is None or name in keep)]
            frame = frame.select(chosen)
            if self.options.missing and dialect is None:
                absent = pl.selectors.string().is_in([*self.options.missing])
                frame = frame.with_columns(pl.when(~absent).then(pl.selectors.string()))
            if self.options.nan_is_missing:
                frame = frame.with_columns(pl.selectors.float().fill_nan(None))
            frames.append(frame)
        _check_types(self.places, frames)
        parts = tuple(
            Part(place, frame.height) for place, frame in zip(self.places, frames, strict=True)
        )
        whole = frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical_relaxed")
        table = Table(whole, parts)
        if not whole.height:
            raise table.error("has a header but no rows.")
        return table


def open_table(
    given: Sequence[str], options: ReadOptions | None = None, notes: Notes | None = None
) -> TableFiles:
    """Find the files and the names of their columns; nothing else is read yet.

    ``notes`` get a line about each file that is not read in the usual way.
    """
    options, notes = options or ReadOptions(), Notes() if notes is None else notes
    places = find_places(given, options.format)
    dialects: list[Dialect | None] = []
    columns: tuple[str, ...] | None = None
    for place in places:
        dialect = None
        if place.format in ("csv", "tsv"):
            dialect = look_at(place, options.delimiter, options.encoding)
            if options.encoding is None and not dialect.is_utf8:
                note_encoding(place, dialect, notes)
        names = dialect.header if dialect else _names(place)
        if columns is not None and set(names) != set(columns):
            odd = sorted(set(names) ^ set(columns))[0]
            missing = "lacks" if odd in columns else "has a further"
            raise InputError(
                f"{place.path}: {missing} column {odd!r}, unlike {places[0].path}; files of one "
                "table have the same columns."
            )
        columns = columns or names
        dialects.append(dialect)
    return TableFiles(places, columns or (), options, tuple(dialects), notes)


def _names(place: Place) -> tuple[str, ...]:
    """Columns of a file that is not delimited text."""
    try:
        if place.format == "parquet":
            return tuple(pl.read_parquet_schema(place.path))
        if place.format == "arrow":
            return tuple(_read_arrow(place).columns)
        return tuple(pl.scan_ndjson(place.path, infer_schema_length=None).collect_schema().names())
    except FAILURES as error:
        raise unreadable(place, error) from error


def _read_file(
    place: Place,
    dialect: Dialect | None,
    options: ReadOptions,
    text: Collection[str],
    notes: Notes,
) -> pl.DataFrame:
    if dialect is not None:
        return read_csv(place, dialect, options, text, notes)
    try:
        if place.format == "parquet":
            return pl.read_parquet(place.path, glob=False)
        if place.format == "arrow":
            return _read_arrow(place)
        frame = pl.read_ndjson(place.path, infer_schema_length=None)
    except FAILURES as error:
        raise unreadable(place, error) from error
    doubtful = [
        name
        for name in text
        if name in frame.columns
        and frame.schema[name] == pl.String
        and frame[name].str.contains(r"^-?\d+$").any()
    ]
    if doubtful:  # polars writes numbers as texts where both occur
        diagnose.check_json_kinds(place, doubtful)
    return frame


def _read_arrow(place: Place) -> pl.DataFrame:
    """The file layout of Arrow, or its stream layout."""
    with place.path.open("rb") as file:
        is_file = file.read(6) == b"ARROW1"
    if is_file:
        return pl.read_ipc(place.path)
    return pl.read_ipc_stream(place.path)


def _check_types(places: Sequence[Place], frames: Sequence[pl.DataFrame]) -> None:
    """Numbers in one file and texts in another would silently become texts in both."""
    for place, frame in zip(places[1:], frames[1:], strict=True):
        for name, kind in frame.schema.items():
            before = frames[0].schema[name]
            if (kind == pl.String) != (before == pl.String) and pl.Null not in (kind, before):
                raise InputError(
                    f"{place.path}, column {name!r}: {_kind(kind)} where {places[0].path} has "
                    f"{_kind(before)}; make them alike."
                )


def _kind(kind: pl.DataType) -> str:
    return "text" if kind == pl.String else str(kind)
