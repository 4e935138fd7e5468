"""``tuneup fit``: from tables to a saved model."""

from __future__ import annotations

import sys
import time
import warnings
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from tuneup.errors import InputError
from tuneup.runtime import tune_malloc
from tuneup.tables import TableRequest
from tuneup.workflow.options import FitOptions

from .claim import Claim, claimed
from .options import silent_stderr, takes_options
from .progress import TensorBoardOption, followed, print_scores

if TYPE_CHECKING:
    from tuneup.train.ranks import Ranks
    from tuneup.workflow.outcome import Outcome
    from tuneup.workflow.search import Budget


def _option(metavar: str, help: str, default: bool | str = True) -> Any:
    return typer.Option(metavar=metavar, help=help, show_default=default)


@takes_options(TableRequest, without=["ids_from"], required="edges")
@takes_options(FitOptions)
def command(
    tables: TableRequest,
    options: FitOptions,
    out: Annotated[Path, _option("FOLDER", "Where the model is saved.")],
    budget: Annotated[
        str,
        _option(
            "COUNT|TIME",
            "Of --architecture auto: so many trainings of Base, or so long: 8, 30m or 2h.",
        ),
    ] = "6",
    refit: Annotated[
        bool,
        typer.Option(
            "--refit",
            help="Save a model that is trained again on all labels, edges or pairs; the scores are "
            "those of the model before.",
        ),
    ] = False,
    checkpoints: Annotated[
        Path | None,
        _option(
            "FOLDER",
            "Where the training is saved on the way; a killed fit resumes from there.",
            "beside --out, removed at the end",
        ),
    ] = None,
    tensorboard: TensorBoardOption = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a saved model that is there.")
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

    `torchrun --nproc-per-node 2 -m tuneup fit ...` trains in several processes, of which the first
    prints and writes; add --max-restarts 3 to go on after one was killed.
    """
    from tuneup.train.ranks import join  # here: --help should not wait for torch and polars
    from tuneup.workflow.search import Budget

    ranks = join()
    limit = Budget.parse(budget) if options.architecture == "auto" else None
    with ExitStack() as stack:
        with ranks.together():
            if limit is not None and limit.minutes is not None and ranks.several:
                raise InputError(f"--budget: got {budget}; expected a count in several processes.")
            claim = Claim(out.resolve(), Path())  # rank 0 alone writes
            if ranks.is_main:
                place = claimed(out, overwrite=overwrite, checkpoints=checkpoints)
                claim = stack.enter_context(place)
            else:
                warnings.simplefilter("ignore")
        _fit(tables, options, claim, tensorboard, limit, refit, overwrite, ranks)


def _fit(
    tables: TableRequest,
    options: FitOptions,
    claim: Claim,
    tensorboard: Path | None,
    budget: Budget | None,
    refit: bool,
    overwrite: bool,
    ranks: Ranks,
) -> None:
    """Read, train and save at a place that is claimed."""
    from tuneup.report.verdict import result_name
    from tuneup.tables import fit_cost, free_memory, read_tables
    from tuneup.tables.inspection import memory_warning
    from tuneup.train import Checkpoints, JsonLines
    from tuneup.train.logs import LOG_FILE
    from tuneup.workflow import fit as fitting
    from tuneup.workflow.run_folders import ensure_fit_room, save
    from tuneup.workflow.search import Budget

    console, start = Console(quiet=not ranks.is_main), time.perf_counter()
    say = partial(console.print, highlight=False, markup=False)
    with ranks.together():
        with silent_stderr():
            read = read_tables(tables)
        shares = tables.shares(has_split=read.given is not None)
        loaded = fitting.Loaded.of(read, shares, tables.split_seed)
        for note in (*loaded.tables.notes, *loaded.metric_notes(options)):
            say(note)
        cost = fit_cost(loaded.tables, loaded.split, options.width, options.epochs)
        warning = memory_warning(cost, free_memory())
        if warning:
            say(warning)
        tune_malloc()
        problem = loaded.problem(options)
    say(problem.description)
    auto = options.alpha == "auto"
    models = [f"alpha {each}" for each in fitting.CANDIDATES] if auto else ["TuneUp"]
    trainings = len(models) + int(options.control)
    with ranks.together():
        if ranks.is_main:
            ensure_fit_room(problem, claim.out, claim.checkpoints, trainings)
    names = ("Stage 1, Base", *(f"Stage 2, {each}" for each in models))
    log, store = JsonLines(claim.checkpoints / LOG_FILE), Checkpoints(claim.checkpoints)
    if budget is None and loaded.task == "recommendation" and options.architecture is None:
        budget = Budget()  # which architecture is better differs from table to table
    with ranks.one_voice():
        if budget is not None:
            axes = fitting.SEARCHED[loaded.task]
            say(f"Trying {' and '.join(axes)} on validation (--architecture) ...")
            options, found = fitting.search_settings(loaded, options, budget, checkpoints=store)
            problem = loaded.problem(options)
            for note in found.notes:
                say(note)
        with ExitStack() as stack:
            callback = None
            if ranks.is_main:
                callback = stack.enter_context(followed(console, names, log, tensorboard))
            fitted = fitting.fit(problem, options, checkpoints=store, callback=callback)
        if not ranks.is_main:
            if refit:
                fitting.refit(loaded, options, fitted)
            return
    log.complete(fitted.record)
    _show(console, fitted)
    again = None
    if refit:
        console.print("Training again on everything.")
        again = fitting.refit(loaded, options, fitted)
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
    seconds, name = time.perf_counter() - start, result_name(fitted.result.record)
    say(f"saved {claim.out} after {seconds:.0f} s: the model in it is {name}", soft_wrap=True)
    page = claim.out / "report.html"
    say(f"Open {page} in a browser to see how good it is, and where.", soft_wrap=True)


def _show(console: Console, fitted: Outcome) -> None:
    """Print how good the models are, and which alphas were tried."""
    print_scores(console, fitted)
    if fitted.candidates:
        tried = {str(each.point["alpha"]): each.score for each in fitted.candidates}
        finished = [alpha for alpha, score in tried.items() if score is not None]
        console.print(f"alpha {fitted.alpha} validated best of {', '.join(finished)}.")
        for alpha in tried.keys() - finished:
            console.print(f"alpha {alpha} diverged and was left out.")
