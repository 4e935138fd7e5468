"""Which suites a request of the command line means, and how long they should take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import cast, get_args

from tuneup.errors import InputError
from tuneup.methods import METHODS, method_named
from tuneup.names import Architecture, TaskName
from tuneup.tables.inspection import duration

from .experiments import experiment
from .paper import paper_table
from .presets import DATASETS, SMALL, USUAL, PresetName, applicable, check_request
from .suite import Suite
from .timing import Place, Timings, read_timings


def suites(
    table: str | None,
    datasets: Sequence[str],
    task: str | None,
    architectures: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int] | None,
    *,
    preset: str,
    trials: int | None,
    results: Path,
    runs: Path,
) -> list[Suite]:
    """One suite per dataset, task and architecture, node classification before links.

    What is not named is everything that there is, but of datasets those for small machines; a
    table names its task, architectures and rows.
    """
    datasets = check_request(datasets, task, architectures, preset)
    _check_numbers(seeds, trials)
    for name in methods:
        method_named(name)
    blocks, methods = _blocks(table, task, architectures, methods)
    found, refusals, refused = [], list[str](), set[str]()
    for kind, architecture in cast("list[tuple[TaskName, Architecture]]", blocks):
        wanted = [name for name in DATASETS[kind] if name in datasets] if datasets else SMALL[kind]
        if not wanted:
            continue
        why_not = {
            name: METHODS[name].refusal(kind, architecture, kind != "recommendation")
            for name in methods or applicable(kind, architecture)
        }
        rows = [name for name, reason in why_not.items() if reason is None]
        refusals += [reason for reason in why_not.values() if reason is not None]
        refused |= set() if rows else set(wanted)
        found += [
            experiment(
                dataset,
                kind,
                architecture,
                results=results,
                runs=runs,
                preset=cast("PresetName", preset),
                methods=rows,
                seeds=seeds and list(dict.fromkeys(seeds)),
                budget=trials,
            )
            for dataset in wanted
            if rows
        ]
    if not found and refusals:
        raise InputError(refusals[0])
    known = {suite.dataset for suite in found} | refused  # by some methods' tasks, not by others'
    without = [name for name in datasets if name not in known]
    if without:
        kinds = dict.fromkeys(kind for kind, _ in blocks)
        names = (f"{kind} has {', '.join(DATASETS[cast('TaskName', kind)])}" for kind in kinds)
        raise InputError(f"Nothing to run on {', '.join(without)}: {'; '.join(names)}.")
    return sorted(found, key=lambda suite: get_args(TaskName).index(suite.task))


def _blocks(
    table: str | None, task: str | None, architectures: Sequence[str], methods: Sequence[str]
) -> tuple[list[tuple[str, str]], Sequence[str]]:
    """Tasks with architectures, and the rows that are asked for; no rows are all that apply."""
    if table is None:
        tasks = [task] if task else list(get_args(TaskName))
        return list(product(tasks, architectures or USUAL)), methods
    shown = paper_table(table)
    blocks = [
        block
        for block in shown.blocks
        if task in (None, block[0]) and (not architectures or block[1] in architectures)
    ]
    if not blocks:
        has = ", ".join(f"{kind} with {name}" for kind, name in shown.blocks)
        raise InputError(f"Table {table} has {has}; nothing else.")
    return blocks, methods or shown.methods


def describe_plan(found: Sequence[Suite], fresh: bool = False) -> Iterator[str]:
    """What would run, with hours guessed from all records beside the suites' own."""
    total, unknown = 0.0, 0
    timings = read_timings(found[0].results.parent) if found else Timings(())
    for suite in found:
        plan = suite.plan(fresh)
        trainings, place = plan.trainings, (suite.dataset, suite.architecture)
        each = {name: timings.of(Place(suite.results.name, *place, name)) for name in trainings}
        seconds = sum(count * (each[method] or 0.0) for method, count in trainings.items())
        total += seconds
        untimed = [
            f"{count} of {method}" for method, count in trainings.items() if each[method] is None
        ]
        unknown += sum(count for method, count in trainings.items() if each[method] is None)
        rows = Counter(method for method, _ in plan.runs)
        parts = [_about(seconds)] if seconds or not untimed else []
        parts += [f"trainings never timed: {', '.join(untimed)}"] * bool(untimed)
        yield (
            f"{suite.title}: {len(plan.runs)} run{'s' * (len(plan.runs) != 1)} without a record, "
            f"{len(plan.trials)} trials to choose by; {' and '.join(parts)}"
        )
        if fresh and suite.kept:
            yield (
                f"  {len(suite.kept)} record{'s' * (len(suite.kept) != 1)} would be removed first"
            )
        elif plan.replaced:
            yield (
                f"  {len(plan.replaced)} of them have one of other settings, or of a choice that "
                "was not kept, which would be replaced"
            )
        for method, count in rows.items():
            yield f"  {method}: {count} seed{'s' * (count > 1)}"
    known = (
        f"{_about(total)} on one core, as far as the records tell, without "
        "evaluation and without Base where rows go on from it and its checkpoints are gone"
    )
    untold = f"{unknown} trainings that were never timed"
    yield f"in all {', and '.join([known] * bool(total or not unknown) + [untold] * bool(unknown))}"


def _about(seconds: float) -> str:
    """``about 1.5 hours``; of nothing, which is left where all is recorded, 0 seconds."""
    return f"about {duration(seconds)}" if seconds else "about 0 seconds"


def unasked(table: str | None, datasets: Sequence[str]) -> str:
    """Which graphs of a table are not run, as they were not named; empty if all are."""
    if table is None or datasets:
        return ""
    small = {name for names in SMALL.values() for name in names}
    others = [name for name in paper_table(table).datasets if name not in small]
    named = " ".join(f"--dataset {name}" for name in others)
    return f"Large graphs of {table} are run only by name: {named}." if others else ""


def _check_numbers(seeds: Sequence[int] | None, trials: int | None) -> None:
    if trials is not None and trials < 1:
        raise InputError("--trials must be 1 or more: a method's settings are chosen by them.")
    for seed in seeds or ():
        if seed < 0:
            raise InputError(f"--seed must be 0 or more; got {seed}.")
