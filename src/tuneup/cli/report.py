"""``tuneup report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuneup.errors import InputError

from .options import writable


def command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER",
            help="A run's folder, or a table of results: RESULTS/link-prediction/dblp-gcn.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path(
        "report.html"
    ),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing page.")
    ] = False,
) -> None:
    """Make one HTML page of a run, or one that compares several.

    The page is a single file that needs no network: what was trained, how good it is and where,
    training curves, data, and the command to get the same again. Nothing is trained. Runs that
    are compared must be of one task and one metric.
    """
    from tuneup.bench.report import read_run
    from tuneup.files import write_atomic
    from tuneup.report.page import page_html

    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out must end in .html; got {out}")
    if out.exists() and not overwrite:
        raise InputError(
            f"cannot write {out}: the file exists; pass --overwrite to replace it, or choose "
            "another name with --out"
        )
    page = page_html([read_run(folder) for folder in folders], [str(each) for each in folders])
    with writable(out.parent):
        write_atomic(out, page)
    typer.echo(f"wrote {out} ({len(page.encode()) / 1024:.0f} kB); open it in a browser")
