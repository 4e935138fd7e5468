"""``tuneup inspect``."""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from .mending import all_problems, continued, words_of
from .options import whole_number_to
from .table_options import TableOptions
from .table_panels import reads_tables

if TYPE_CHECKING:
    from tuneup.tables import Inspection

WIDTH, EPOCHS = 128, 300
"""What `tuneup fit` takes by default too."""

_COUNT = whole_number_to(1_000_000)


def command(
    tables: TableOptions,
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
    from tuneup.tables.free_memory import free_memory
    from tuneup.tables.view import memory_warning, view

    found = all_problems(tables, lambda options: _look(options, width, epochs))
    warning = memory_warning(found.estimate, free_memory())
    if json:
        if warning:
            typer.echo(warning, err=True)
        typer.echo(json_text.dumps(found.to_dict(), ensure_ascii=False))
        return
    console = Console()
    for part in view(found):
        console.print(part, highlight=False)
    if warning:
        console.print(warning, highlight=False, markup=False)
    console.print("To train on them:")
    words = ["tuneup", "fit", *words_of(tables), *_others(width, epochs), "--out", "model"]
    console.print(continued(words, console.width), highlight=False, markup=False, soft_wrap=True)


def _others(width: int, epochs: int) -> list[str]:
    """The command's own options as words, where they are not the default."""
    words = ["--width", str(width)] if width != WIDTH else []
    return words + (["--epochs", str(epochs)] if epochs != EPOCHS else [])


def _look(tables: TableOptions, width: int, epochs: int) -> Inspection:
    from tuneup.tables import TablePairs, inspect_graph, inspect_pairs

    loaded = tables.load()
    shares = tables.shares(loaded)
    if isinstance(loaded, TablePairs):
        pairs = loaded.split(shares, tables.split_seed, by_time=tables.by_time)
        return inspect_pairs(loaded, split=pairs, width=width, epochs=epochs)
    cut = loaded.edge_split if loaded.bare.y is None else loaded.node_split
    split = cut(shares, tables.split_seed)  # refuses what cannot be
    return inspect_graph(loaded.with_split(split), split=split, width=width, epochs=epochs)


command = reads_tables(command, TableOptions)
