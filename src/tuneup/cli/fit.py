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

from .options import silent_stderr, takes_options, writable
from .progress import TensorBoardOption, followed, print_scores

if TYPE_CHECKING:
    from tuneup.train.ranks import Ranks
    from tuneup.workflow.outcome import Outcome
    from tuneup.workflow.run_folders import Claim
    from tuneup.workflow.search import Budget


def _option(metavar: str, help: str, default: bool | str = True) -> Any:
    return typer.Option(metavar=metavar, help=help, show_default=default)


@takes_options(TableRequest, without=["ids_from", "users", "items"], required="edges")
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
    prints and writes; add --max-restarts 3 to resume after one was killed.
    """
    # Imported here: --help and a wrong argument should not wait for torch and polars.
    from tuneup.train.ranks import join
    from tuneup.workflow.run_folders import Claim, claimed
    from tuneup.workflow.search import Budget

    ranks = join()
    limit = Budget.parse(budget) if options.architecture == "auto" else None
    say = partial(typer.echo, err=True)
    with ExitStack() as stack:
        with ranks.together():
            if limit is not None and limit.minutes is not None and ranks.several:
                raise InputError(f"--budget: got {budget}; expected a count in several processes.")
            claim = Claim(out.resolve(), Path())  # rank 0 alone writes
            if ranks.is_main:
                stack.enter_context(writable(out.resolve().parent))
                place = claimed(out, overwrite=overwrite, checkpoints=checkpoints, say=say)
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
        for note in loaded.tables.notes:
            say(note)
        cost = fit_cost(loaded.tables, loaded.split, options.width, options.epochs)
        warning = cost.warning(free_memory())
        if warning:
            say(warning)
        tune_malloc()
        problem = loaded.problem(options)
    if problem.reason:
        say(f"validation score: {problem.task.metric}, as {problem.reason} (--metric).")
    say(problem.description)
    alphas = fitting.CANDIDATES if options.alpha == "auto" else [options.alpha]
    with ranks.together():
        if ranks.is_main:
            trainings = len(alphas) + int(options.control)
            ensure_fit_room(problem, claim.out, claim.checkpoints, trainings)
    several = len(alphas) > 1
    names = ["Base", *(f"Stage 2, alpha {alpha}" if several else "Stage 2" for alpha in alphas)]
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
    print_scores(console, fitted.summary)
    for line in _alphas(fitted):
        say(line)
    again = None
    if refit:
        say("Training again on everything.")
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


def _alphas(fitted: Outcome) -> list[str]:
    """Which were tried, if several were."""
    tried = {str(each.point["alpha"]): each.score for each in fitted.candidates}
    finished = [alpha for alpha, score in tried.items() if score is not None]
    diverged = [alpha for alpha, score in tried.items() if score is None]
    lines = [f"alpha {fitted.alpha} validated best of {', '.join(finished)}."] if tried else []
    return [*lines, *(f"alpha {alpha} diverged and was left out." for alpha in diverged)]
