"""``tuneup fit``: from tables to a saved model."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tuneup.errors import InputError
from tuneup.runtime import tune_malloc

from .demo import SEED, ArchitectureOption
from .options import listed, number_between, whole_number_to
from .progress import TensorBoardOption, followed
from .table_options import TableOptions
from .table_panels import reads_tables

_COUNT = whole_number_to(1_000_000)


def command(
    tables: TableOptions,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the model is saved.")],
    architecture: ArchitectureOption = None,
    width: Annotated[
        int,
        typer.Option(
            parser=_COUNT,
            metavar="COUNT",
            help="Of the hidden states, and of what is learned for nodes without features.",
        ),
    ] = 128,
    dropout: Annotated[
        float | None,
        typer.Option(
            parser=number_between(0, 1),
            metavar="SHARE",
            help="Of hidden states.",
            show_default="0.5 for node classification, else 0",
        ),
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option(
            parser=number_between(0, 10),
            metavar="RATE",
            help="Learning rate of both stages.",
            show_default="the task's own",
        ),
    ] = None,
    epochs: Annotated[
        int, typer.Option(parser=_COUNT, metavar="COUNT", help="At most so many a stage.")
    ] = 300,
    patience: Annotated[
        int,
        typer.Option(
            parser=_COUNT, metavar="COUNT", help="Epochs without a better score that end a stage."
        ),
    ] = 60,
    alpha: Annotated[
        str,
        typer.Option(
            metavar="SHARE|auto",
            help="Share of edges stage 2 drops; auto tries 0.25, 0.5 and 0.75 on validation.",
        ),
    ] = "0.5",
    seed: Annotated[
        int, typer.Option(parser=SEED, metavar="SEED", help="Seed of the training.")
    ] = 0,
    checkpoints: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Save on the way; a killed fit goes on from there."),
    ] = None,
    tensorboard: TensorBoardOption = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a saved model that is there.")
    ] = False,
) -> None:
    """Train a model on your own tables and save it.

    Reads the tables, trains Base and then TuneUp, keeps the one that validates better, and saves
    it with its graph, your ids, its scores and a model card in one folder. `tuneup predict` answers
    from that folder, `tuneup inspect` looks at the tables first.

    Every epoch is a line of log.jsonl: in the folder of --checkpoints, or else beside --out while
    it trains, and then in the saved folder.
    """
    # Imported here: --help and a wrong argument should not wait for torch and polars.
    from tuneup.bench.choosing import ALPHAS
    from tuneup.bench.fit import FitOptions, Loaded, fit, save
    from tuneup.files import ensure_writable
    from tuneup.inference.seals import is_artefact
    from tuneup.report import comparison_table
    from tuneup.tables import TablePairs
    from tuneup.training import Checkpoints, JsonLines
    from tuneup.training.logs import LOG_FILE

    if out.exists() and (not overwrite or not is_artefact(out)) and any(out.iterdir()):
        raise InputError(
            f"{out} is not empty: choose another --out"
            + (", or pass --overwrite to replace the model in it." if is_artefact(out) else ".")
        )
    console, start = Console(), time.perf_counter()
    options = FitOptions(
        architecture=str(architecture or "sage"),  # type: ignore[arg-type]
        width=width,
        dropout=dropout or 0.0,
        lr=lr,
        epochs=epochs,
        patience=patience,
        alpha=_share(alpha),
        seed=seed,
    )
    read = tables.load()
    loaded = Loaded.of(read, tables.shares(read), tables.split_seed, tables.by_time)
    if dropout is None and loaded.task == "node-classification":
        options = replace(options, dropout=0.5)
    if architecture is None and isinstance(loaded.tables, TablePairs):
        options = replace(options, architecture="gcn")  # SAGE's mean forgets what is popular
    ensure_writable(out.absolute().parent)
    for note in loaded.tables.notes:
        console.print(note, highlight=False, markup=False)
    tune_malloc()
    console.print(loaded.problem(options).description, highlight=False, markup=False)
    log = JsonLines(out.with_name(f"{out.name}.{LOG_FILE}"), append=False)
    if checkpoints is not None:
        first = Checkpoints(checkpoints if options.alpha is not None else checkpoints / "base")
        log = JsonLines(checkpoints / LOG_FILE, append=first.manifest.exists())
    stages = ["TuneUp"] if options.alpha is not None else [f"alpha {each}" for each in ALPHAS]
    names = ("Stage 1, Base", *(f"Stage 2, {each}" for each in stages))
    with followed(console, names, log, tensorboard) as callback:
        try:
            fitted = fit(loaded, options, checkpoints=checkpoints, callback=callback)
        except BaseException:
            if checkpoints is None:  # nothing to go on from, and so nothing to go on telling
                log.path.unlink(missing_ok=True)
            raise
    unit = fitted.problem.unit
    console.print(comparison_table(fitted.base, {"TuneUp": fitted.tuneup}, unit=unit))
    if fitted.result.record.winner == 0:
        console.print("Stage 2 validated worse than stage 1, so the base model was kept.")
    words = ["tuneup", *sys.argv[1:]]
    if options.alpha is not None:
        log.complete(fitted.result.record)  # of several, each has a stage of its own in the log
    else:
        console.print(f"alpha {fitted.alpha} validated best of {listed(tuple(map(str, ALPHAS)))}.")
    written = log.path if log.path.exists() else None
    save(loaded, options, fitted, out, command=words, log=written, overwrite=overwrite)
    if checkpoints is None:
        log.path.unlink()
    seconds = time.perf_counter() - start
    console.print(f"saved {out} after {seconds:.0f} s", highlight=False, markup=False)


def _share(alpha: str) -> float | None:
    """``None`` for auto."""
    try:
        return None if alpha == "auto" else float(alpha)
    except ValueError as error:
        raise InputError(f"--alpha is a share from 0 to 1, or auto; got {alpha}.") from error


command = reads_tables(command, TableOptions)
