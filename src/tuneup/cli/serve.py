"""``tuneup serve``, ``compact`` and ``refresh``: a model over HTTP, on a graph that grows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuneup.errors import InputError
from tuneup.server import Limits, Settings
from tuneup.tables import TableRequest

from .options import number_between, silent_stderr, takes_options, whole_number_to, writable

if TYPE_CHECKING:
    from tuneup.server.folding import Folded

_TOKEN = "TUNEUP_TOKEN"
_LIMITS = Limits()


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder of the saved model.")],
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="0.0.0.0 lets other machines connect.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(parser=whole_number_to(65_535), metavar="PORT", help="0: any free one.")
    ] = 8000,
    workers: Annotated[
        int,
        typer.Option(parser=whole_number_to(256, 1), metavar="COUNT", help="Processes."),
    ] = 1,
    live: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="SQLite database of nodes and edges that arrive; off by default."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"Holds the token that requests must bring; or set {_TOKEN}."
        ),
    ] = None,
    watch: Annotated[
        float,
        typer.Option(
            parser=number_between(0, 86_400),
            metavar="SECONDS",
            help="Between looks at the folder for a new version; 0: only on SIGHUP.",
        ),
    ] = 2.0,
    wait: Annotated[
        float,
        typer.Option(
            parser=number_between(0, 1000),
            metavar="MS",
            help="Milliseconds that a request waits to be answered together with others.",
        ),
    ] = 2.0,
    drain: Annotated[
        float,
        typer.Option(
            parser=number_between(0, 3600),
            metavar="SECONDS",
            help="For requests under way after SIGTERM.",
        ),
    ] = 30.0,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PACKAGE", help="May be imported for a module that is not tuneup's own."
        ),
    ] = None,
    max_body: Annotated[
        int,
        typer.Option(parser=whole_number_to(1 << 40, 1), metavar="BYTES", rich_help_panel="Limits"),
    ] = _LIMITS.body,
    max_nodes: Annotated[
        int,
        typer.Option(parser=whole_number_to(1 << 30, 1), metavar="COUNT", rich_help_panel="Limits"),
    ] = _LIMITS.nodes,
    max_neighbours: Annotated[
        int,
        typer.Option(parser=whole_number_to(1 << 30, 1), metavar="COUNT", rich_help_panel="Limits"),
    ] = _LIMITS.neighbours,
    max_k: Annotated[
        int,
        typer.Option(parser=whole_number_to(1 << 20, 1), metavar="COUNT", rich_help_panel="Limits"),
    ] = _LIMITS.k,
    queue: Annotated[
        int,
        typer.Option(
            parser=whole_number_to(1 << 20, 1),
            metavar="COUNT",
            help="Requests that may wait.",
            rich_help_panel="Limits",
        ),
    ] = _LIMITS.queue,
) -> None:
    """Serve a saved model over HTTP: JSON in, JSON out, and a page to look at.

    POST /predict, /predict/new, /links, /recommend and /similar answer about known and new nodes;
    GET /openapi.json describes them with examples. With --live, POST /nodes, /edges and
    /interactions add to the graph, and answers are from the grown graph at once. SIGTERM drains;
    SIGHUP looks for a new version of the folder.
    """
    from tuneup.server import serve

    settings = Settings(
        model,
        host,
        port,
        workers,
        _token(token_file),
        live,
        watch,
        wait,
        drain,
        tuple(allow or ()),
        Limits(max_body, max_nodes, max_neighbours, max_k, queue),
    )
    if not settings.is_local and settings.token is None:
        typer.echo(
            f"Anyone who reaches {host} can ask this server: set {_TOKEN} or --token-file.",
            err=True,
        )
    raise typer.Exit(serve(settings, lambda line: typer.echo(line, err=True)))


def _token(path: Path | None) -> str | None:
    given = os.environ.get(_TOKEN)
    if path is None:
        return given.strip() if given else None
    try:
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"--token-file {path}: {error}.") from error
    if not found:
        raise InputError(f"--token-file {path}: got an empty file; expected a token.")
    return found


_MODEL = typer.Argument(metavar="MODEL", help="Folder of the saved model.")
_OUT = typer.Option(metavar="FOLDER", help="For the new model.")
_OVERWRITE = typer.Option("--overwrite", help="Replace a saved model in --out.")


def compact(
    model: Annotated[Path, _MODEL],
    live: Annotated[Path, typer.Option(metavar="FILE", help="Database of tuneup serve --live.")],
    out: Annotated[Path, _OUT],
    overwrite: Annotated[bool, _OVERWRITE] = False,
) -> None:
    """Fold what has arrived at a server into a new model folder.

    The database stays as it is, and a server may keep using it: changes that the new folder has are
    skipped. Replace the old folder with the new one, and the server loads it.
    """
    from tuneup.server import compact

    with writable(out.absolute().parent):
        _report(compact(model, live, out, overwrite=overwrite))


_NOT_ASKED = (
    *("labels", "ids_from", "task", "label", "split", "time", "directed", "features", "exclude"),
    *("categorical", "numeric", "max_levels", "text", "text_width", "weight", "users", "items"),
    *("train", "validation", "new", "by_time", "split_seed"),
)


@takes_options(TableRequest, _NOT_ASKED, required="edges")
def refresh(
    tables: TableRequest,
    model: Annotated[Path, _MODEL],
    out: Annotated[Path, _OUT],
    overwrite: Annotated[bool, _OVERWRITE] = False,
) -> None:
    """Renew the graph of a saved model from tables, without training.

    Weights, classes and the plan of the features stay as they are. Nodes that the model was not
    trained on enter as new ones do; what was measured is of the old graph.
    """
    from tuneup.server import refresh

    with writable(out.absolute().parent), silent_stderr():
        folded = refresh(model, tables, out, overwrite=overwrite)
    _report(folded)


def _report(folded: Folded) -> None:
    for note in folded.notes:
        typer.echo(note, err=True)
    (before, after), edges = folded.nodes, folded.edges
    typer.echo(
        f"Wrote {folded.folder}: {after:,} nodes or users (were {before:,}), {edges[1]:,} edges "
        f"(were {edges[0]:,})."
    )
