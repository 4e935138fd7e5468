"""``tuneup bench``: run the paper's experiments or your own, show tables, draw and export them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from tuneup.names import Architecture, TaskName
from tuneup.runtime import refuse_distributed, require, tune_malloc

from .options import SEED, flowing, whole_number_to, writable
from .progress import TensorBoardOption

app = typer.Typer(help="Run the paper's experiments and show its tables.", no_args_is_help=True)

CLONE = Path("benchmarks") / "results"
RESULTS = CLONE if CLONE.is_dir() else Path("runs") / "bench" / "results"
"""The repository's own results in a clone of it."""
TASKS, ARCHITECTURES = ", ".join(get_args(TaskName)), ", ".join(get_args(Architecture))

Results = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the results.")]
Table = Annotated[str | None, typer.Option(metavar="NAME", help="A table of the paper.")]
Datasets = Annotated[
    list[str] | None,
    typer.Option("--dataset", metavar="NAME", help="A graph, or a folder of tables; repeatable."),
]
Task = Annotated[str | None, typer.Option(metavar="TASK", help=f"One of {TASKS}.")]
Architectures = Annotated[
    list[str] | None,
    typer.Option("--architecture", metavar="NAME", help=f"Of {ARCHITECTURES}; repeatable."),
]
Preset = Annotated[str, typer.Option(metavar="NAME", help="short (two cores) or paper.")]
StudyName = Annotated[
    str, typer.Option(metavar="NAME", help="paper, labels, selection, debian or demo.")
]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write.")]


def run(
    table: Table = None,
    dataset: Datasets = None,
    task: Task = None,
    architecture: Architectures = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Rows: of tuneup methods, or package.module:NAME."),
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(parser=SEED, metavar="SEED", help="Training seeds; repeatable."),
    ] = None,
    preset: Preset = "short",
    study: StudyName = "paper",
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
        Path, typer.Option(metavar="FOLDER", help="Folder of checkpoints and locks.")
    ] = Path("runs") / "bench",
    tensorboard: TensorBoardOption = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Remove what is recorded of these first.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run and how long it should take.")
    ] = False,
) -> None:
    """Run what is not in the results yet.

    A cell is a dataset, task, architecture, method and seed. Name one of each for a single cell,
    leave some out for all that apply, or name a table of the paper. What all rows share is chosen
    on Base, a method's own settings by a fixed number of trials, both on validation. Stop it
    whenever you like: it resumes, and several processes may work at once.
    """
    from tuneup.bench.runner import describe_plan, forget, work
    from tuneup.bench.store import Store
    from tuneup.bench.studies import Request, plan

    refuse_distributed()
    store = Store(results)
    where = (table, dataset or (), task, architecture or ())
    request = Request(*where, method or (), seed or (), preset, study, trials, tensorboard)
    tasks, note = plan(request, store)
    if note:
        typer.echo(note, err=True)
    if dry_run:
        for line in describe_plan(tasks, store):
            typer.echo(line)
        return
    import torch

    torch.set_num_threads(threads)
    tune_malloc()
    if fresh:
        forget(tasks, store, runs, typer.echo)
    work(tasks, store, runs, typer.echo)


def show(
    table: Table = None,
    dataset: Datasets = None,
    task: Task = None,
    architecture: Architectures = None,
    preset: Preset = "short",
    study: StudyName = "paper",
    form: Annotated[
        str, typer.Option("--format", metavar="FORM", help="terminal, markdown, latex or csv.")
    ] = "terminal",
    paired: Annotated[
        bool, typer.Option("--paired", help="Also TuneUp minus each method: interval and p-value.")
    ] = False,
    results: Results = RESULTS,
) -> None:
    """Show results in the paper's layout, the paper's numbers beside ours.

    Nothing is trained. A row without runs says so. csv has one row a cell, with mean, standard
    deviation, interval and paired test.
    """
    from tuneup.bench.render import show as shown
    from tuneup.bench.store import Store
    from tuneup.bench.studies import Request

    where = (table, dataset or (), task, architecture or ())
    request = Request(*where, preset=preset, study=study)
    typer.echo(shown(request, Store(results), form, paired), nl=False)


def figures(
    dataset: Datasets = None,
    task: Task = None,
    architecture: Architectures = None,
    preset: Preset = "short",
    results: Results = RESULTS,
    out: Out = Path("runs") / "figures",
) -> None:
    """Draw scores by degree, over training and over the cold-start ratio, as PNG and PDF."""
    require("matplotlib", "bench")
    from tuneup.bench.report import write_figures
    from tuneup.bench.store import Store
    from tuneup.bench.studies import Request, requested_blocks

    request = Request(None, dataset or (), task, architecture or (), preset=preset)
    found = requested_blocks(request, Store(results))
    with writable(out):
        for path in write_figures(found, out):
            typer.echo(f"wrote {path}")


def export(
    results: Results = RESULTS,
    out: Out = Path("runs") / "export",
    tested: Annotated[
        bool, typer.Option("--tested", help="With p-values, which takes some seconds a cell.")
    ] = False,
) -> None:
    """Write all results as CSV, one row a cell, and every table as LaTeX."""
    from tuneup.bench.render import export as exported
    from tuneup.bench.store import Store

    with writable(out):
        for path in exported(Store(results), out, tested):
            typer.echo(f"wrote {path}")


for _command in (run, show, figures, export):
    app.command(_command.__name__, help=flowing(_command.__doc__))(_command)
