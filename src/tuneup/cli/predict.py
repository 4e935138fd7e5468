"""``tuneup predict``: ask a saved model about nodes that it knows, or about new ones."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuneup.errors import InputError
from tuneup.tables import TableRequest

from .options import silent_stderr, takes_options, whole_number_to, writable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from tuneup.serve import OnUnknown, Predictor

_SHOWN = 20
"""Rows that a terminal is shown."""
_TOP = 10
"""Candidates that are ranked where no number is given."""
_NOT_ASKED = (
    *("labels", "task", "label", "split", "time", "weight", "ignore_weights", "features"),
    *("users", "items", "text", "text_width"),
    *("exclude", "categorical", "numeric", "max_levels", "directed", "unknown_ids"),
    *("train", "validation", "new", "by_time", "split_seed"),
)
"""Fields of a request that are about training."""
_HELP = {
    "nodes": "New nodes: ids and features. A file, a quoted pattern or a folder; CSV, TSV, "
    "Parquet, JSON lines or Arrow. May be repeated.",
    "edges": "Edges of new nodes, or pairs (user, item) of new users.",
}


@takes_options(TableRequest, _NOT_ASKED, help=_HELP)
def command(
    tables: TableRequest,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of the saved model.")],
    ids: Annotated[
        str | None,
        typer.Option(metavar="ID,ID,...", help="Known nodes or users.", show_default="all"),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            parser=whole_number_to(1_000_000),
            metavar="COUNT",
            help="Candidates to rank for each.",
            show_default=str(_TOP),
        ),
    ] = None,
    probabilities: Annotated[
        bool,
        typer.Option("--probabilities", help="A column for every class, not only the best one's."),
    ] = False,
    skip_unknown: Annotated[
        bool,
        typer.Option(
            "--skip-unknown",
            help="Leave out ids that the model does not know, and edges to them; report how many.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the answers: .parquet or .csv.")
    ] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the embeddings of all nodes instead: .parquet or .npy."
        ),
    ] = None,
    verify_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of the key that the model must be signed with.",
        ),
    ] = None,
) -> None:
    """Ask a saved model: classes, links or recommendations, in your own ids.

    Tables are read as `tuneup fit` reads them. New nodes are rows of features with an id, and may
    have edges to known nodes and to each other, or none; new users need only the items that they
    have, and new nodes of a model without features only their edges. Every answer carries the
    degree of its node: how much was known about it.
    """
    asked = sum([ids is not None, bool(tables.ids_from), bool(tables.nodes or tables.edges)])
    if embeddings is not None and asked:
        raise InputError(
            "--embeddings writes those of all nodes; leave out --ids and tables of nodes or edges."
        )
    if asked > 1:
        raise InputError(
            "Ask about known nodes (--ids or --ids-from) or new ones (--nodes, --edges), not both."
        )
    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise InputError(f"--out must end in .parquet or .csv; got {out.name}.")
    place = out or embeddings
    with nullcontext() if place is None else writable(place.parent):
        # Imported here: --help and a wrong argument should not wait for torch and polars.
        from tuneup.serve import Predictor
        from tuneup.tables import FeaturePlan

        key = None if verify_key is None else _read_key(verify_key)
        predictor = Predictor.load(model, read_plan=FeaturePlan.from_json, verify_key=key)
        if embeddings is not None:
            for path in predictor.export_embeddings(embeddings):
                typer.echo(f"Wrote {path}.")
            return
        classifies = predictor.task == "node-classification"
        if top is not None and classifies:
            raise InputError("--top is for models that rank; this one gives each node its class.")
        if probabilities and not classifies:
            raise InputError("--probabilities is for models that classify nodes; this one ranks.")
        count = _TOP if top is None else top
        _deliver(_ask(predictor, tables, ids, count, probabilities, skip_unknown), out)


def _read_key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"--verify-key: {path} cannot be read: {error.strerror}.") from error


def _ask(
    predictor: Predictor,
    tables: TableRequest,
    ids: str | None,
    top: int,
    probabilities: bool,
    skip_unknown: bool,
) -> pl.DataFrame:
    """Ask about new nodes if there are tables of them, else about known ones."""
    from tuneup.serve import ClassAnswers, ask, ask_new
    from tuneup.tables import FeaturePlan, read_new

    wanted = None if ids is None else [word.strip() for word in ids.split(",") if word.strip()]
    if wanted == []:
        raise InputError("--ids names no id; leave it out to ask about all, or write a,b,c.")
    plan = predictor.plan if isinstance(predictor.plan, FeaturePlan) else None
    columns = predictor.model.artefact.config.columns
    with silent_stderr():
        new = read_new(replace(tables, task=predictor.task), plan, columns)
    rule: OnUnknown = "skip" if skip_unknown else "error"
    if new.nodes or new.edges:
        answers = ask_new(predictor, new.nodes, new.edges, top, on_unknown=rule)
    else:
        answers = ask(predictor, new.known or wanted, top, on_unknown=rule)
    frame = (
        answers.to_frame(all_classes=probabilities)
        if isinstance(answers, ClassAnswers)
        else answers.to_frame()
    )
    if new.nodes or new.edges:
        rows = set() if new.nodes is None else set(new.nodes.texts())
        # Only its edges say that such an id is new: it may be a known one that is misspelt.
        answered = frame["id"].unique(maintain_order=True).to_list()
        _note([each for each in answered if str(each) not in rows], "taken as new")
    _note(answers.skipped, "skipped")
    for note in new.notes:  # not among the answers, which may go to a program
        typer.echo(note, err=True)
    return frame


def _note(ids: Sequence[Any], fate: str) -> None:
    """Say on standard error what was done about ids that the model does not know."""
    if ids:
        some = ", ".join(map(repr, ids[:3])) + (", ..." if len(ids) > 3 else "")
        what = "1 id is" if len(ids) == 1 else f"{len(ids):,} ids are"
        typer.echo(f"{what} unknown to the model and {fate}: {some}", err=True)


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
    elif not sys.stdout.isatty():
        typer.echo(frame.write_csv(), nl=False)
    else:
        from rich.console import Console
        from rich.table import Table

        grid, console = Table(*frame.columns), Console()
        for row in frame.head(_SHOWN).iter_rows():
            grid.add_row(*(f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row))
        console.print(grid)
        if len(frame) > _SHOWN:
            console.print(f"and {len(frame) - _SHOWN:,} more: --out FILE has all of them.")
