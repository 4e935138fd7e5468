"""What the options of commands that read tables have in common, and how a command gets them."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from tuneup.tables import ReadOptions

FormatChoice = StrEnum("FormatChoice", ["csv", "tsv", "parquet", "jsonl", "arrow"])

FILES, COLUMNS, READING = "Tables", "Columns", "Reading"
"""Panels of a command's help."""


def table(help: str) -> Any:
    """An option that names files."""
    return typer.Option(metavar="PATH", help=help, rich_help_panel=FILES)


def column(help: str) -> Any:
    """An option that names a column."""
    return typer.Option(metavar="NAME", help=help, rich_help_panel=COLUMNS)


def reading_panel(help: str, metavar: str | None = None) -> Any:
    """An option that says how files are read."""
    return typer.Option(metavar=metavar, help=help, rich_help_panel=READING)


def flag(name: str, help: str, panel: str) -> Any:
    """An option that is on or off."""
    return typer.Option(name, help=help, rich_help_panel=panel)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How files are read; each field is an option of the command line."""

    format: Annotated[
        FormatChoice | None,
        reading_panel("csv, tsv, parquet, jsonl or arrow, whatever the suffix.", "FORMAT"),
    ] = None
    delimiter: Annotated[
        str | None, reading_panel("Of CSV: one character, tab or space.", "TEXT")
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of CSV.",
            show_default="UTF-8, or else Windows-1252",
            rich_help_panel=READING,
        ),
    ] = None
    missing: Annotated[
        list[str] | None, reading_panel("A text that means no value; repeatable.", "TEXT")
    ] = None
    nan_is_missing: Annotated[bool, flag("--nan-is-missing", "Read NaN as no value.", READING)] = (
        False
    )

    def reading(self) -> ReadOptions:
        """The same for the readers."""
        from tuneup.tables import ReadOptions

        return ReadOptions(
            self.format.value if self.format else None,  # type: ignore[arg-type]
            self.delimiter,
            self.encoding,
            tuple(self.missing or ()),
            self.nan_is_missing,
        )


@contextmanager
def silent_stderr() -> Iterator[None]:
    """Damaged Parquet and Arrow files can make polars' threads write of panics before they fail."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def reads_tables(
    command: Callable[..., None], options: type[ReadingOptions]
) -> Callable[..., None]:
    """Give a command, whose first parameter is ``tables: options``, all options of these."""
    hints = get_type_hints(options, include_extras=True)
    own_names = inspect.get_annotations(options)
    shared = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        # Its own come first, and with them their panels.
        for each in sorted(fields(options), key=lambda one: one.name not in own_names)
    ]
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]

    @wraps(command)
    def wrapped(**given: Any) -> None:
        tables = options(**{each.name: given.pop(each.name) for each in shared})
        command(tables, **given)

    wrapped.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {each.name: each.annotation for each in (*shared, *own)}
    del wrapped.__wrapped__
    return wrapped
