"""``tuneup fit``: from tables to a saved model."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from rich.console import Console

from tuneup.errors import InputError
from tuneup.names import Alpha, Architecture
from tuneup.runtime import refuse_distributed, tune_malloc
from tuneup.tables import TableRequest

from .claim import Claim, claimed
from .options import SEED, listed, number_between, whole_number_to
from .progress import TensorBoardOption, followed, print_scores
from .table_options import reads_tables, silent_stderr

if TYPE_CHECKING:
    from tuneup.workflow.outcome import Outcome
    from tuneup.workflow.problems import FitOptions
    from tuneup.workflow.search import Budget


def _option(
    metavar: str,
    help: str,
    parser: Callable[[str], object] | None = None,
    default: str | None = None,
) -> Any:
    """An option; ``default`` are words for what happens without it."""
    return typer.Option(
        metavar=metavar, help=help, parser=parser, show_default=True if default is None else default
    )


def _flag(names: str, help: str) -> Any:
    return typer.Option(names, help=help)


_COUNT = whole_number_to(1_000_000)
_ARCHITECTURES = listed(get_args(Architecture))


@reads_tables(without=["ids_from"], required="edges")
def command(
    tables: TableRequest,
    out: Annotated[Path, _option("FOLDER", "Where the model is saved.")],
    architecture: Annotated[
        str | None,
        _option(
            "NAME|auto",
            f"Which graph neural network: {_ARCHITECTURES}; auto tries some, and shares of "
            "dropout, on validation.",
            default="sage; gcn for recommendation",
        ),
    ] = None,
    budget: Annotated[
        str,
        _option(
            "COUNT|TIME",
            "Of --architecture auto: so many trainings of Base, or so long: 8, 30m or 2h.",
        ),
    ] = "6",
    width: Annotated[
        int,
        _option(
            "COUNT",
            "Of the hidden states, and of what is learned for nodes without features.",
            _COUNT,
        ),
    ] = 128,
    dropout: Annotated[
        float | None,
        _option(
            "SHARE",
            "Of hidden states.",
            number_between(0, 1),
            default="0.5 for node classification, else 0",
        ),
    ] = None,
    lr: Annotated[
        float | None,
        _option(
            "RATE",
            "Learning rate of both stages.",
            number_between(0, 10),
            default="the task's own",
        ),
    ] = None,
    epochs: Annotated[
        int, _option("COUNT", "At most so many a stage; patience ends it before.", _COUNT)
    ] = 2000,
    patience: Annotated[
        int, _option("COUNT", "Epochs without a better score that end a stage.", _COUNT)
    ] = 60,
    alpha: Annotated[
        str,
        _option(
            "SHARE|graded|auto",
            "Share of edges that stage 2 drops; graded: a share of its own for each node; "
            "auto tries 0.25, 0.5, 0.75 and graded on validation.",
        ),
    ] = "graded",
    whole: Annotated[
        bool,
        _flag(
            "--whole/--no-whole",
            "Train stage 2 on the graph itself too, not on synthetic tails alone.",
        ),
    ] = True,
    select: Annotated[
        str,
        _option(
            "NAME",
            "What the model is selected by: validation nodes as they are (transductive), "
            "without 30, 60 and 90 % of their edges (cold), or the mean of all four (balanced).",
        ),
    ] = "balanced",
    interpolate: Annotated[
        bool,
        _flag(
            "--interpolate/--no-interpolate",
            "Try averages of the weights of Base and stage 2, or these two alone.",
        ),
    ] = True,
    metric: Annotated[
        str | None,
        _option(
            "NAME",
            "Validation score of classes: accuracy, macro-f1, average-precision, "
            "balanced-accuracy or auroc.",
            default="accuracy; if classes are imbalanced, average-precision of two and macro-f1 "
            "of more",
        ),
    ] = None,
    class_weights: Annotated[
        str | None, _option("balanced", "Let all classes weigh the same in the loss.")
    ] = None,
    control: Annotated[
        bool, _flag("--control", "Also train Base on for as long as stage 2, to compare.")
    ] = False,
    refit: Annotated[
        bool,
        _flag(
            "--refit",
            "Save a model that is trained again on all labels, edges or pairs; the scores are "
            "those of the model before.",
        ),
    ] = False,
    seed: Annotated[int, _option("SEED", "Seed of the training.", SEED)] = 0,
    checkpoints: Annotated[
        Path | None,
        _option(
            "FOLDER",
            "Where the training is saved on the way; a killed fit resumes from there.",
            default="beside --out, removed at the end",
        ),
    ] = None,
    tensorboard: TensorBoardOption = None,
    overwrite: Annotated[
        bool, _flag("--overwrite", "Replace a saved model that is there.")
    ] = False,
) -> None:
    """Train a model on your own tables and save it.

    Reads the tables, trains Base and fine-tunes it on synthetic tails (stage 2), selects between
    the two on validation nodes with and without their edges, and saves the result with its graph,
    your ids, its scores and a model card in one folder. Every model is shown beside simple ones.
    `tuneup predict` answers from that folder, `tuneup inspect` looks at the tables first.

    A fit that was killed resumes if the same command is run again. Every epoch is a line of
    log.jsonl, in the saved folder, and while it trains beside the checkpoints. Unless --new 0, a
    twentieth of the nodes or users is held out: the model never learns from them, and the report
    shows how good it is for those that arrive later.
    """
    # Imported here: --help and a wrong argument should not wait for torch and polars.
    from tuneup.workflow.problems import FitOptions
    from tuneup.workflow.search import Budget

    refuse_distributed()
    options = FitOptions(
        architecture=None if architecture == "auto" else architecture,  # type: ignore[arg-type]
        width=width,
        dropout=dropout,
        lr=lr,
        epochs=epochs,
        patience=patience,
        alpha=_share(alpha),
        whole=whole,
        seed=seed,
        select=select,  # type: ignore[arg-type]
        interpolate=interpolate,
        control=control,
        metric=metric,
        class_weights=class_weights,  # type: ignore[arg-type]
    )
    tried = Budget.parse(budget) if architecture == "auto" else None
    with claimed(out, overwrite=overwrite, checkpoints=checkpoints) as claim:
        _fit(tables, options, claim, tensorboard, tried, refit, overwrite)


def _fit(
    tables: TableRequest,
    options: FitOptions,
    claim: Claim,
    tensorboard: Path | None,
    budget: Budget | None,
    refit: bool,
    overwrite: bool,
) -> None:
    """Read, train and save at a place that is claimed."""
    from tuneup.report.verdict import result_name
    from tuneup.tables import free_memory, read_tables
    from tuneup.tables.inspection import memory_warning
    from tuneup.train import Checkpoints, JsonLines
    from tuneup.train.logs import LOG_FILE
    from tuneup.workflow import fit as fitting
    from tuneup.workflow.run_folders import ensure_fit_room, save
    from tuneup.workflow.search import CANDIDATES

    console, start = Console(), time.perf_counter()
    with silent_stderr():
        read = read_tables(tables)
    shares = tables.shares(has_split=read.given is not None)
    loaded = fitting.Loaded.of(read, shares, tables.split_seed, tables.by_time)
    for note in (*loaded.tables.notes, *loaded.metric_notes(options)):
        console.print(note, highlight=False, markup=False)
    warning = memory_warning(loaded.cost(options), free_memory())
    if warning:
        console.print(warning, highlight=False, markup=False)
    tune_malloc()
    problem = loaded.problem(options)
    console.print(problem.description, highlight=False, markup=False)
    trainings = (1 if options.alpha is not None else 1 + len(CANDIDATES)) + int(options.control)
    ensure_fit_room(problem, claim.out, claim.checkpoints, trainings)
    stages = ["TuneUp"] if options.alpha is not None else [f"alpha {each}" for each in CANDIDATES]
    names = ("Stage 1, Base", *(f"Stage 2, {each}" for each in stages))
    log, store = JsonLines(claim.checkpoints / LOG_FILE), Checkpoints(claim.checkpoints)
    if budget is not None:
        options, found = fitting.search_settings(loaded, options, budget, checkpoints=store)
        problem = loaded.problem(options)
        for note in found.notes:
            console.print(note, highlight=False, markup=False)
    with followed(console, names, log, tensorboard) as callback:
        fitted = fitting.fit(problem, options, checkpoints=store, callback=callback)
    log.complete(fitted.trained.record)
    _show(console, fitted)
    again = None
    if refit:
        console.print("Training again on everything.")
        again = fitting.refit(loaded, options, fitted.result, fitted.alpha)
    save(
        loaded,
        options,
        fitted,
        claim.out,
        command=["tuneup", *sys.argv[1:]],
        log=log.path,
        refitted=again,
        overwrite=overwrite,
    )
    seconds, kept = time.perf_counter() - start, result_name(fitted.result.record)
    for line in (
        f"saved {claim.out} after {seconds:.0f} s: the model in it is {kept}",
        f"Open {claim.out / 'report.html'} in a browser to see how good it is, and where.",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _show(console: Console, fitted: Outcome) -> None:
    """Print how good the models are, and which alphas were tried."""
    print_scores(console, fitted)
    if fitted.trained.candidates:
        tried = {str(each.point["alpha"]): each.score for each in fitted.trained.candidates}
        finished = [alpha for alpha, score in tried.items() if score is not None]
        console.print(f"alpha {fitted.alpha} validated best of {', '.join(finished)}.")
        for alpha in tried.keys() - finished:
            console.print(f"alpha {alpha} diverged and was left out.")


def _share(alpha: str) -> Alpha | None:
    """``None`` for auto."""
    if alpha == "graded":
        return "graded"
    try:
        return None if alpha == "auto" else float(alpha)
    except ValueError as error:
        raise InputError(f"--alpha is a share from 0 to 1, graded or auto; got {alpha}.") from error
