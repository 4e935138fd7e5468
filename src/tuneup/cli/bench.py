"""``tuneup bench``: run the paper's experiments, cell by cell or table by table, and show them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from tuneup.errors import InputError
from tuneup.names import Architecture, TaskName
from tuneup.runtime import refuse_distributed, tune_malloc

from .options import SEED, flowing, whole_number_to, writable
from .progress import TensorBoardOption

app = typer.Typer(help="Run the paper's experiments and show its tables.", no_args_is_help=True)

FORMS = ("terminal", "markdown", "latex", "csv")
RESULTS = Path("benchmarks") / "results"
RUNS = Path("runs") / "bench"
DISCUSSION = Path("benchmarks") / "discussion.md"

Results = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the records.")]
OnlyDatasets = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Only these graphs; repeatable.")
]
OnlyTask = Annotated[str | None, typer.Option(metavar="TASK", help="Only this task.")]
Preset = Annotated[str, typer.Option(metavar="NAME", help="Whose records: short or paper.")]
OnlyArchitectures = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Only these; repeatable.")
]


def run(
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A table of the paper: its task, rows, architectures."),
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Which graph; may be repeated.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="TASK", help=f"One of {', '.join(get_args(TaskName))}.")
    ] = None,
    architecture: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Of {', '.join(get_args(Architecture))}; repeatable."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Rows (tuneup methods lists them); repeatable."),
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(parser=SEED, metavar="SEED", help="Training seeds; repeatable."),
    ] = None,
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="Schedules: short (two cores) or paper.")
    ] = "short",
    trials: Annotated[
        int | None,
        typer.Option(
            parser=whole_number_to(1000, 1),
            metavar="COUNT",
            help="Trainings to choose a method's settings by.",
            show_default="6; 3 where ranking takes its time",
        ),
    ] = None,
    threads: Annotated[
        int,
        typer.Option(
            parser=whole_number_to(1024, 1),
            metavar="COUNT",
            help="Of torch. Several processes with one each use a small machine best.",
        ),
    ] = 1,
    results: Results = RESULTS,
    runs: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of checkpoints, logs and studies.")
    ] = RUNS,
    tensorboard: TensorBoardOption = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Remove what is recorded of these first.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run and how long it should take.")
    ] = False,
) -> None:
    """Run what has no record yet.

    A cell is a dataset, task, architecture, method and seed. Name one of each for a single cell,
    leave some out for all that apply, or name a table of the paper. What all rows share is chosen
    on Base, a method's own settings by a fixed number of trials, both on validation. Stop it
    whenever you like: it goes on where it was, and several processes may work at once.
    """
    from tuneup.bench.cells import describe_plan, suites, unasked

    refuse_distributed()
    found = suites(
        table,
        dataset or (),
        task,
        architecture or (),
        method or (),
        seed,
        preset=preset,
        trials=trials,
        results=results,
        runs=runs,
    )
    if note := unasked(table, dataset or ()):
        typer.echo(note, err=True)
    if dry_run:
        for line in describe_plan(found, fresh):
            typer.echo(line)
        return
    import torch

    torch.set_num_threads(threads)
    tune_malloc()
    for suite in found:
        suite.tensorboard = tensorboard
        if fresh:
            suite.forget()
        suite.run_all()


app.command("run", help=flowing(run.__doc__))(run)


def show(
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what a table of the paper shows.")
    ] = None,
    dataset: OnlyDatasets = None,
    task: OnlyTask = None,
    architecture: OnlyArchitectures = None,
    preset: Preset = "short",
    form: Annotated[
        str,
        typer.Option("--format", metavar="FORM", help="terminal, markdown, latex or csv."),
    ] = "terminal",
    results: Results = RESULTS,
) -> None:
    """Show what is recorded in the paper's layout, the paper's numbers beside ours.

    Nothing is trained. A row without a record says so.
    """
    from rich.console import Console

    from tuneup.bench.blocks import chosen_blocks
    from tuneup.bench.frames import csv
    from tuneup.bench.grids import grids_latex, grids_markdown, print_grids
    from tuneup.bench.published import paper_alone
    from tuneup.bench.rendering import latex, page
    from tuneup.bench.terminal import print_blocks

    if form not in FORMS:
        raise InputError(f"--format is {', '.join(FORMS[:-1])} or {FORMS[-1]}; got {form!r}.")
    found = chosen_blocks(results, table, dataset or (), task, architecture or (), preset)
    # The grid of a table has the paper's own columns.
    theirs = [] if table and form != "csv" else paper_alone(found, dataset or ())
    if form == "terminal":
        print_grids(found, Console(), dataset or ())
        print_blocks(found, theirs, Console())
    elif form == "csv":
        typer.echo(csv(found, theirs), nl=False)
    elif form == "markdown":
        typer.echo("\n\n".join([*grids_markdown(found, dataset or ()), page(found, theirs)]))
    else:
        grid = grids_latex(found, dataset or ())
        typer.echo("\n\n".join([*grid, *map(latex, found), *map(latex, theirs)]))


app.command("show", help=flowing(show.__doc__))(show)


def figures(
    dataset: OnlyDatasets = None,
    task: OnlyTask = None,
    architecture: OnlyArchitectures = None,
    preset: Preset = "short",
    results: Results = RESULTS,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to draw.")] = Path("runs")
    / "figures",
) -> None:
    """Draw scores by degree, over training and over the cold-start ratio, as PNG and PDF.

    From the records alone: nothing is trained.
    """
    from tuneup.bench.blocks import chosen_blocks
    from tuneup.bench.figures import write_figures

    found = chosen_blocks(results, None, dataset or (), task, architecture or (), preset)
    with writable(out):
        for path in write_figures(found, out):
            typer.echo(f"wrote {path}")


app.command("figures", help=flowing(figures.__doc__))(figures)


def results_command(
    results: Results = RESULTS,
    discussion: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What is thought of the results, in Markdown.",
            show_default="benchmarks/discussion.md; none with --results",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page.")] = Path("RESULTS.md"),
    figures: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where to draw what the page shows.")
    ] = Path("benchmarks") / "figures",
) -> None:
    """Write RESULTS.md from the records: what was run, which claims hold, all tables, figures."""
    from tuneup.bench.results_page import write_results

    if discussion is None and results == RESULTS:
        discussion = DISCUSSION
    with writable(figures):
        write_results(results, discussion, out, figures)
    typer.echo(f"wrote {out}")


app.command("results", help=flowing(results_command.__doc__))(results_command)
