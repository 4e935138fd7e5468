"""Rows that remember which file they came from, for messages that a user can act on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tuneup.errors import InputError

from .places import Place


@dataclass(frozen=True)
class Part:
    """Rows that came from one file."""

    place: Place
    rows: int


@dataclass(frozen=True, eq=False)
class Table:
    """A frame and where its rows are in files, for messages that a user can act on."""

    frame: pl.DataFrame
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, frame: pl.DataFrame) -> Table:
        """A frame that came from no file."""
        return cls(frame, (Part(Place(Path("the rows given"), "arrow"), frame.height),))

    @property
    def untyped(self) -> bool:
        """Whether ids were read as texts because the format does not tell texts from numbers."""
        return self.parts[0].place.format in ("csv", "tsv")

    @property
    def name(self) -> str:
        """The file, or the first of several."""
        path = str(self.parts[0].place.path)
        return path if len(self.parts) == 1 else f"{path} and {len(self.parts) - 1} more"

    def where(self, row: int | None = None, column: str | None = None) -> str:
        """``file, row 3 (line 4), column 'x'``; rows count from 0 here and from 1 in a file."""
        place, number = self.name, ""
        if row is not None:
            for part in self.parts:
                if row < part.rows:
                    line = {"csv": row + 2, "tsv": row + 2, "jsonl": row + 1}
                    at = line.get(part.place.format)
                    place = str(part.place.path)
                    number = f", row {row + 1}" + (f" (line {at})" if at else "")
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
