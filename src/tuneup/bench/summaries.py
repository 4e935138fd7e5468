"""Blocks and runs of a store as pages of ``tuneup report``, and what a path given to it means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuneup.curriculum import CURRICULA, Schedule, View
from tuneup.data import DATASETS, GraphSize
from tuneup.errors import InputError
from tuneup.methods import title_of
from tuneup.metrics import NodeScores
from tuneup.report.summary import (
    MethodSummary,
    RunSummary,
    SeedRun,
    StageSummary,
    TrialSummary,
)
from tuneup.workflow.outcome import machine_words, stage_words, unit_of
from tuneup.workflow.run_folders import METRICS_FILE, read_run_folder

from .store import Run, Store
from .tables import Block, find_blocks


def read_run(path: Path) -> RunSummary:
    """The run that a path names.

    A run folder, as ``tuneup demo`` writes it; or ``STORE/TASK/dblp-gcn``, a table of a store of
    results, whose task may be left out where one task alone has it.
    """
    if (path / METRICS_FILE).is_file():
        return read_run_folder(path)
    stores = [folder for folder in (path, *path.parents[:2]) if (folder / "runs.parquet").is_file()]
    if not stores:
        raise InputError(
            f"{path}: not the folder of a run, and no table of results: expected {METRICS_FILE} in "
            "it, or STORE/dblp-gcn with a folder that tuneup bench run wrote as STORE."
        )
    asked = path.relative_to(stores[0]).parts
    blocks = {(b.task, f"{b.dataset}-{b.architecture}"): b for b in find_blocks(Store(stores[0]))}
    found = [key for key in blocks if key[2 - len(asked) :] == asked]
    if len(found) != 1:
        names = ", ".join(str(stores[0].joinpath(*key)) for key in found or blocks)
        raise InputError(f"{path} names {len(found)} tables; name one of: {names}")
    return summary_of(blocks[found[0]])


def summary_of(block: Block) -> RunSummary:
    """A block with all of its methods and seeds."""
    first = next(iter(block.runs.values()))[0]
    return RunSummary(
        title=f"{block.dataset}, {block.architecture}, {block.task.replace('-', ' ')}",
        task=block.task,
        architecture=block.architecture,
        metric=block.metric,
        methods=[_method(block, method) for method in block.methods if method in block.runs],
        unit=unit_of(block.task),
        data=_data(block.dataset),
        configuration={
            key: _flat(value)
            for key, value in {**first.shared, **first.config}.items()
            if value is not None
        },
        command=block.command,
        versions=first.versions,
        machine=machine_words(first.machine),
    )


def _method(block: Block, method: str) -> MethodSummary:
    runs, base = block.runs[method], method == "base"
    point = runs[0].shared if base else runs[0].point
    trials = [
        TrialSummary(tried, run.seed, run.validation, tried == point)
        for run in block.trials(method)
        for tried in [run.shared if base else run.point]
    ]
    scores = block.scores.get(method, {})
    return MethodSummary(
        title_of(method),
        [
            _seed_run(
                block, run, {name: own[run.seed] for name, own in scores.items() if run.seed in own}
            )
            for run in runs
        ],
        {} if base else {str(key): str(value) for key, value in point.items()},
        trials,
    )


def _seed_run(block: Block, run: Run, scores: Mapping[str, NodeScores]) -> SeedRun:
    curve = block.store.curve(run)
    stages = [
        StageSummary(
            stage_words(_views(run, k), int(stage.get("pseudo_labels", 0))),
            sum(point[0] == k for point in curve),
            int(stage["best_epoch"]),
            float(stage["best_score"]) if stage["best_epoch"] else None,
            str(stage.get("stopped", "")),
        )
        for k, stage in enumerate(run.stages)
    ]
    return SeedRun(run.seed, scores, curve, stages, run.winner, run.seconds)


def _views(run: Run, stage: int) -> tuple[View, ...]:
    """What a stage of a method that is a curriculum saw; of other methods none."""
    if run.method not in CURRICULA:
        return ()
    stages = CURRICULA[run.method](run.point.get("alpha", 0.0), Schedule(), Schedule())
    return stages[stage].views if stage < len(stages) else ()


def _data(dataset: str) -> dict[str, str]:
    facts = {"graph": dataset}
    if dataset in DATASETS:
        size = DATASETS[dataset].size
        facts |= {key: f"{value:,}" for key, value in vars(size).items()}
        if isinstance(size, GraphSize):
            facts["edges"] += " (each counted once)"
        facts["licence of the data"] = DATASETS[dataset].licence
    return facts


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_flat(each)}" for key, each in value.items() if each not in ([],))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_flat, value))
    return str(value)
