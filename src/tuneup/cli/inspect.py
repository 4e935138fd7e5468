"""``tuneup inspect``."""

from __future__ import annotations

import json as json_text
import shlex
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console

from tuneup.errors import InputError
from tuneup.tables import TableRequest

from .options import silent_stderr, takes_options, whole_number_to

if TYPE_CHECKING:
    from tuneup.tables import Inspection

T = TypeVar("T")

WIDTH, EPOCHS = 128, 300
"""What `tuneup fit` takes by default too."""

_COUNT = whole_number_to(1_000_000)
_COLUMNS = 60
"""Of a command line to paste."""


@takes_options(TableRequest, without=["ids_from"], required="edges")
def command(
    tables: TableRequest,
    width: Annotated[
        int,
        typer.Option(parser=_COUNT, metavar="COUNT", help="Hidden width that the estimate is for."),
    ] = WIDTH,
    epochs: Annotated[
        int,
        typer.Option(
            parser=_COUNT, metavar="COUNT", help="Epochs a stage that the estimate is for."
        ),
    ] = EPOCHS,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Look at tables before training on them.

    Says what is there: nodes, edges, duplicates, self-loops, ids without a row and rows without an
    edge, degrees and the share of tail nodes, label balance, every feature with its kind, and
    roughly what a fit would cost. Whatever cannot be used is named with its file, row and column,
    and with what to do about it: all problems at once, with the command line that solves those that
    an option solves.

    Takes the same arguments as a fit, writes nothing, and ends with the command of the fit.
    """
    # Imported here: --help and a wrong argument should not wait for torch and polars.
    from tuneup.tables import free_memory

    found = all_problems(tables, lambda request: _look(request, width, epochs))
    warning = found.estimate.warning(free_memory())
    if json:
        if warning:
            typer.echo(warning, err=True)
        typer.echo(json_text.dumps(found.to_dict(), ensure_ascii=False))
        return
    console = Console()
    console.print(found, highlight=False)
    if warning:
        console.print(warning, highlight=False, markup=False)
    if tables.users or tables.items:
        console.print("Models do not read tables of users and items yet. To train on the pairs:")
        tables = replace(tables, users=(), items=(), features=(), exclude=())
        tables = replace(tables, categorical=(), numeric=(), text=())
    else:
        console.print("To train on them:")
    words = ["tuneup", "fit", *tables.words(), *_others(width, epochs), "--out", "model"]
    console.print(continued(words, console.width), highlight=False, markup=False, soft_wrap=True)


def _others(width: int, epochs: int) -> list[str]:
    """The command's own options as words, where they are not the default."""
    words = ["--width", str(width)] if width != WIDTH else []
    return words + (["--epochs", str(epochs)] if epochs != EPOCHS else [])


def _look(request: TableRequest, width: int, epochs: int) -> Inspection:
    from tuneup.tables import TablePairs, inspect_tables, read_tables

    with silent_stderr():
        tables = read_tables(request)
    shares, seed = request.shares(has_split=tables.given is not None), request.split_seed
    if isinstance(tables, TablePairs):
        pairs = tables.split(shares, seed)
        return inspect_tables(tables.with_split(pairs), pairs, width=width, epochs=epochs)
    split = tables.split(shares, seed)
    return inspect_tables(tables.with_split(split), split, width=width, epochs=epochs)


def all_problems(tables: TableRequest, attempt: Callable[[TableRequest], T]) -> T:
    """Call ``attempt``; where an option solves its error, again with it, to find the next problem.

    Raises:
        InputError: About all problems, with the command line that solves those that options solve.
    """
    problems: list[str] = []
    tried: set[tuple[str, ...]] = set()
    while True:
        try:
            found = attempt(tables)
        except InputError as error:
            problems.append(str(error))
            if error.fix and error.fix not in tried:
                tried.add(error.fix)
                tables = tables.with_fix(error.fix)
                continue
            if not tried:
                raise
            raise InputError(_listed(problems, "all but the last", tables)) from error
        if problems:
            raise InputError(_listed(problems, "all of it", tables))
        return found


def _listed(problems: list[str], solved: str, tables: TableRequest) -> str:
    command = continued(["tuneup", "inspect", *tables.words()])
    return "\nError: ".join(problems) + f"\nThis solves {solved}:\n{command}"


def continued(words: Iterable[str], width: int = _COLUMNS) -> str:
    """A command line to paste, in lines of ``width`` characters where its words allow it."""
    lines = [""]
    for word in map(shlex.quote, words):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if len(longer) <= width - 2:
            lines[-1] = longer
        else:
            lines.append(f"  {word}")
    return " \\\n".join(lines)
