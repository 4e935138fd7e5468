"""What a request of the command line means: suites to run, blocks to show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast, get_args

from tuneup.errors import InputError
from tuneup.files import write_atomic
from tuneup.methods import method_named
from tuneup.names import Architecture, TaskName

from .paper import PaperTable, paper_table
from .presets import (
    DATASETS,
    SMALL,
    TRIALS,
    USUAL,
    PresetName,
    applicable,
    check_name,
    seeds_of,
)
from .problems import is_tables, tasks_of
from .render import (
    LEGEND,
    PAIRED_LEGEND,
    Table,
    block_table,
    grid_tables,
    latex,
    paired_table,
    render,
)
from .runner import Suite, Work, check_numbers
from .store import Run, Store
from .studies import Study
from .studies import study as study_named
from .tables import Block, PaperBlock, find_blocks, long_table, paper_blocks

FORMS = ("terminal", "markdown", "latex", "csv")


def plan(
    store: Store,
    table: str | None,
    datasets: Sequence[str],
    task: str | None,
    architectures: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int] | None,
    *,
    preset: str,
    study: str = "paper",
    trials: int | None = None,
    tensorboard: Path | None = None,
) -> tuple[list[Work], str]:
    """What a request would run, and a note on what it leaves out.

    What is not named is everything that there is, but of datasets those for small machines; a
    table names its task, architectures and rows.
    """
    check_numbers(seeds, trials)
    if study != "paper":
        return _of_study(study_named(study, store), task, datasets, architectures, seeds), ""
    datasets = _checked(datasets, task, architectures, preset)
    for name in methods:
        method_named(name)
    shown = paper_table(table) if table else None
    found, refusals = list[Work](), dict[str, list[str]]()
    for kind, architecture in _kinds(shown, task, architectures):
        wanted = [d for d in datasets if kind in tasks_of(d)] if datasets else SMALL[kind]
        rows = methods or (shown.methods if shown else applicable(kind, architecture))
        why_not = {
            name: method_named(name).refusal(kind, architecture, kind != "recommendation")
            for name in rows
        }
        for dataset in wanted:
            refusals[dataset] = [reason for reason in why_not.values() if reason]
            if able := [name for name, reason in why_not.items() if reason is None]:
                usual = seeds_of(kind, preset)
                suite = Suite(
                    kind,
                    dataset,
                    architecture,
                    able,
                    list(dict.fromkeys(usual if seeds is None else seeds)),
                    TRIALS[kind] if trials is None else trials,
                    cast("PresetName", preset),
                    tensorboard=tensorboard,
                )
                found.append(suite)
    if not found:
        reasons = [reason for each in refusals.values() for reason in each]
        kinds = dict.fromkeys(kind for kind, _ in _kinds(shown, task, architectures))
        names = "; ".join(f"{kind} has {', '.join(DATASETS[kind])}" for kind in kinds)
        wanted_names = ", ".join(datasets)
        raise InputError(reasons[0] if reasons else f"nothing to run on {wanted_names}: {names}.")
    small = {name for names in SMALL.values() for name in names}
    others = [name for name in (shown.datasets if shown else ()) if name not in small]
    named = " ".join(f"--dataset {name}" for name in others)
    skipped = f"Large graphs of {table} are run only by name: {named}."
    return found, skipped if others and not datasets else ""


def _of_study(
    works: Sequence[Suite | Study],
    task: str | None,
    datasets: Sequence[str],
    architectures: Sequence[str],
    seeds: Sequence[int] | None,
) -> list[Work]:
    """Those cells of a study that are asked for."""

    def wanted(cell: Suite | Run) -> bool:
        return (
            task in (None, cell.task)
            and cell.dataset in (datasets or [cell.dataset])
            and cell.architecture in (architectures or [cell.architecture])
        )

    kept: list[Work] = []
    for each in works:
        if isinstance(each, Study):
            cells = [
                spec for spec in each.specs if wanted(spec) and spec.seed in (seeds or [spec.seed])
            ]
            kept += [replace(each, specs=cells)] if cells else []
        elif wanted(each):
            kept.append(replace(each, seeds=list(seeds or each.seeds)))
    if not kept:
        raise InputError(
            "the study has no such cell: leave out --task, --dataset, --architecture or --seed."
        )
    return kept


def _kinds(
    table: PaperTable | None, task: str | None, architectures: Sequence[str]
) -> list[tuple[TaskName, Architecture]]:
    """Tasks with architectures."""
    if table is None:
        tasks = [task] if task else list(get_args(TaskName))
        every: Any = list(product(tasks, architectures or USUAL))
        return list(every)
    found: Any = [
        kind
        for kind in table.blocks
        if task in (None, kind[0]) and (not architectures or kind[1] in architectures)
    ]
    if not found:
        has = ", ".join(f"{kind} with {name}" for kind, name in table.blocks)
        raise InputError(f"table {table.name} has {has}; nothing else.")
    return list(found)


def _checked(
    datasets: Sequence[str], task: str | None, architectures: Sequence[str], preset: str
) -> list[str]:
    """The datasets as they are spelt here; names that nothing has are refused."""
    every = {name.lower(): name for names in DATASETS.values() for name in names}
    if task is not None:
        check_name("--task", task, get_args(TaskName))
    for name in architectures:
        check_name("--architecture", name, get_args(Architecture))
    check_name("--preset", preset, get_args(PresetName))
    for name in datasets:
        if not is_tables(name) and name.lower() not in every:
            check_name("--dataset", name, list(every.values()), ", or a folder of tables")
    return [every.get(name.lower(), name) for name in datasets]


def chosen_blocks(
    results: Path,
    table: str | None = None,
    datasets: Sequence[str] = (),
    task: str | None = None,
    architectures: Sequence[str] = (),
    preset: str = "short",
    study: str = "paper",
) -> list[Block]:
    """The blocks that are asked for; what is not named is everything."""
    if study == "paper":
        datasets = _checked(datasets, task, architectures, preset)
    store, shown = Store(results), paper_table(table) if table else None
    where: dict[str, Any] = {"datasets": datasets, "task": task, "architectures": architectures}
    found = find_blocks(store, shown, **where, preset=preset, study=study)
    if not found and shown is None:
        there = dict.fromkeys(f"{b.dataset} ({b.task})" for b in find_blocks(store, preset=None))
        has = f"it has {', '.join(there)}" if there else "it has none at all"
        raise InputError(
            f"{results.absolute()} has no results of that with preset {preset}; {has}. Name "
            "another folder with --results, or make them with tuneup bench run."
        )
    return found


def shown(
    results: Path,
    table: str | None,
    datasets: Sequence[str],
    task: str | None,
    architectures: Sequence[str],
    preset: str,
    study: str,
    form: str,
    paired: bool,
) -> str:
    """What ``tuneup bench show`` prints."""
    check_name("--format", form, FORMS)
    blocks = chosen_blocks(results, table, datasets, task, architectures, preset, study)
    if table:
        kinds = _kinds(paper_table(table), task, architectures)
        theirs = paper_blocks(kinds, paper_table(table), datasets)
    else:
        kinds = [cast("Any", (b.task, b.architecture)) for b in blocks] if study == "paper" else []
        theirs = paper_blocks(kinds, None, datasets, blocks)
    every: list[Block | PaperBlock] = [*blocks, *theirs]
    if form == "csv":
        return long_table(every, tested=paired).write_csv()
    wide = form != "terminal"
    tables: list[Table] = [*grid_tables(blocks, theirs)] if table else []
    tables += [block_table(b, wide) for b in (blocks if table else every)]
    tables += [paired_table(block) for block in blocks if paired]
    legend = f"{LEGEND} {PAIRED_LEGEND}" if paired else LEGEND
    return render(tables, form, legend).rstrip("\n") + "\n"


def write_export(results: Path, out: Path, tested: bool = False) -> Iterator[Path]:
    """All results as CSV, and every block as LaTeX; each path when it is there."""
    blocks = chosen_blocks(results)
    theirs = paper_blocks((block.task, block.architecture) for block in blocks)
    write_atomic(out / "results.csv", long_table([*blocks, *theirs], tested).write_csv())
    yield out / "results.csv"
    for block in blocks:
        path = out / f"{block.task}-{Path(block.dataset).name}-{block.architecture}.tex"
        write_atomic(path, latex(block_table(block)) + "\n")
        yield path
