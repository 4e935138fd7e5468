"""``tuneup predict``: ask a saved model about nodes that it knows, or about new ones."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuneup.errors import InputError

from .options import whole_number_to

if TYPE_CHECKING:
    import polars as pl

_SHOWN = 20
"""Rows that a terminal is shown."""


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of the saved model.")],
    ids: Annotated[
        str | None,
        typer.Option(metavar="ID,ID,...", help="Known nodes or users.", show_default="all"),
    ] = None,
    ids_from: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The same, from a table's first column.")
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="New nodes: ids and features, if any.")
    ] = None,
    edges: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Edges of new nodes, or items of new users."),
    ] = None,
    top: Annotated[
        int,
        typer.Option(
            parser=whole_number_to(1_000_000), metavar="COUNT", help="Candidates to rank for each."
        ),
    ] = 10,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write: .parquet or .csv.")
    ] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Only write all embeddings: .parquet or .npy."),
    ] = None,
) -> None:
    """Ask a saved model: classes, links or recommendations, in your own ids.

    Tables are CSV or Parquet. New nodes are rows of features with an id, and may have edges to
    known nodes and to each other, or none; new users need only the items that they have, and new
    nodes of a model without features only their edges. Every answer carries the degree of its node:
    how much was known about it.
    """
    _check(ids, ids_from, nodes, edges, out)
    from tuneup.inference import Predictor, ask, ask_new

    predictor = Predictor.load(model, read_plan=_plan_reader())
    if embeddings is not None:
        for path in predictor.export_embeddings(embeddings):
            typer.echo(f"Wrote {path}.")
        return
    if nodes is not None or edges is not None:
        answers = ask_new(predictor, _read(nodes, numbers=True), _read(edges), top)
    else:
        answers = ask(predictor, _wanted(ids, ids_from), top)
    _deliver(answers.to_frame(), out)


def _check(
    ids: str | None, ids_from: Path | None, nodes: Path | None, edges: Path | None, out: Path | None
) -> None:
    asked = [ids is not None, ids_from is not None, nodes is not None or edges is not None]
    if sum(asked) > 1:
        raise InputError("Ask about known nodes (--ids or --ids-from) or new ones, not both.")
    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise InputError(f"--out must end in .parquet or .csv; got {out.name}.")


def _plan_reader() -> Any:
    """Who reads the feature plans of artefacts: the room of tables, where there is one.

    That room offers ``FeaturePlan.from_json(plain)``; without it, features are columns of numbers.
    """
    if find_spec("tuneup.tables") is None:
        return None
    return import_module("tuneup.tables").FeaturePlan.from_json


def _wanted(ids: str | None, ids_from: Path | None) -> list[str] | None:
    if ids is not None:
        return [word.strip() for word in ids.split(",") if word.strip()]
    table = _read(ids_from)
    if table is None:
        return None
    ids_there: list[str] = table.to_series(0).cast(str).to_list()
    return ids_there


def _read(path: Path | None, *, numbers: bool = False) -> pl.DataFrame | None:
    """A table by its suffix; ids stay as they are written, 007 too."""
    import polars as pl

    if path is None:
        return None
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path)
        if not numbers:
            return pl.read_csv(path, infer_schema=False)
        names = pl.read_csv(path, n_rows=0).columns
        texts = {"id" if "id" in names else names[0]: pl.String}
        return pl.read_csv(path, schema_overrides=texts, infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path} cannot be read: {str(error).splitlines()[0]}.") from error


def _deliver(frame: pl.DataFrame, out: Path | None) -> None:
    """Into a file; else as a table to people, and as CSV to programs."""
    from tuneup.files import atomic_path

    if out is not None:
        with atomic_path(out) as partial:
            if out.suffix == ".parquet":
                frame.write_parquet(partial)
            else:
                frame.write_csv(partial)
        typer.echo(f"Wrote {len(frame):,} answers to {out}.")
    elif sys.stdout.isatty():
        _show(frame)
    else:
        typer.echo(frame.write_csv(), nl=False)


def _show(frame: pl.DataFrame) -> None:
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(*frame.columns)
    for row in frame.head(_SHOWN).iter_rows():
        grid.add_row(*(f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row))
    console = Console()
    console.print(grid)
    if len(frame) > _SHOWN:
        console.print(f"and {len(frame) - _SHOWN:,} more: --out FILE has all of them.")
