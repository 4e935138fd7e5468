"""Benchmark records as run summaries, and what a path given to ``tuneup report`` means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuneup.curriculum import CURRICULA, Schedule, View
from tuneup.data import DATASETS, GraphSize
from tuneup.errors import InputError
from tuneup.methods.titles import in_order, title_of
from tuneup.metrics import NodeScores
from tuneup.report.summary import MethodSummary, RunSummary, SeedRun, StageSummary
from tuneup.workflow.run_folders import (
    METRICS_FILE,
    machine_words,
    read_run_folder,
    stage_words,
    trials_of,
    unit_of,
)

from .records import OWN, RunRecord, read_records
from .selection import Selection
from .tables import METRICS, Block


def read_run(path: Path) -> RunSummary:
    """The run that a path names.

    A run folder, as ``tuneup demo`` writes it; a folder of benchmark records that holds one
    table; or a table of such a folder, by name: ``FOLDER/dblp-gcn``; or one record of it:
    ``FOLDER/dblp-gcn-tuneup-0``.
    """
    if (path / METRICS_FILE).is_file():
        return read_run_folder(path)
    if path.is_dir():
        try:
            tables = _tables(path)
        except InputError as error:
            raise InputError(f"{path} is not the folder of a run: {error}") from error
        if len(tables) == 1:
            return _table(path, tables[0])
        if not tables:
            raise InputError(
                f"{path} holds neither {METRICS_FILE} nor a table of benchmark records; "
                "name a folder that tuneup demo or tuneup bench run wrote, or a single record"
            )
        names = ", ".join(str(path / name) for name in tables)
        raise InputError(f"{path} holds {len(tables)} tables; name one of them: {names}")
    folder, name = path.parent, path.name.removesuffix(".json")
    if folder.is_dir() and (folder / f"{name}.json").is_file():
        return _single(folder, RunRecord.read(folder / f"{name}.json"))
    if folder.is_dir() and name in _tables(folder, name):
        return _table(folder, name)
    raise InputError(f"{path}: no such folder of a run, and no such table of benchmark records")


def _tables(folder: Path, beginning: str = "") -> list[str]:
    """Dataset and architecture of the records in a folder that are of the paper's tables."""
    records = read_records(folder, beginning)
    found = {_name(record): None for record in records if not record.variant}
    return list(found)


def _name(record: RunRecord) -> str:
    return f"{record.dataset}-{record.architecture}"


def _table(folder: Path, name: str) -> RunSummary:
    first = next(
        record
        for record in read_records(folder, f"{name}-")
        if _name(record) == name and not record.variant
    )
    block = Block(
        folder,
        first.dataset,
        first.task,
        first.architecture,  # type: ignore[arg-type]
        preset=_preset(first),
    )
    selections = {row.method: row.selection for row in block.rows}
    methods = [
        _method(folder, block.records[method], selections[method])
        for method in in_order(block.records)
    ]
    seeds = sorted({record.seed for own in block.records.values() for record in own})
    return _summary(first, methods, _command(first, in_order(block.records), seeds))


def _single(folder: Path, record: RunRecord) -> RunSummary:
    """A record alone; nobody knows what was typed for one that is of no table."""
    command = "" if record.variant else _command(record, [record.method], [record.seed])
    return _summary(record, [_method(folder, [record])], command)


def _preset(record: RunRecord) -> str:
    return str(record.config.get("preset", "short"))


def _command(record: RunRecord, methods: Iterable[str], seeds: Iterable[int]) -> str:
    """What runs just these."""
    preset = [f"--preset {_preset(record)}"] * (_preset(record) != "short")
    return " ".join(
        [
            f"tuneup bench run --task {record.task} --dataset {record.dataset}",
            f"--architecture {record.architecture}",
            *(f"--method {method}" for method in methods),
            *preset,
            *(f"--seed {seed}" for seed in seeds),
        ]
    )


def _summary(first: RunRecord, methods: Sequence[MethodSummary], command: str) -> RunSummary:
    if first.task not in METRICS:
        raise InputError(f"{first.name}: a record's task is one of {', '.join(METRICS)}")
    own = {*OWN, "seed", "method", "architecture"}
    shared = {key: value for key, value in first.config.items() if key not in own}
    return RunSummary(
        title=f"{first.dataset}, {first.architecture}, {first.task.replace('-', ' ')}",
        task=first.task,
        architecture=first.architecture,
        metric=METRICS[first.task],
        methods=methods,
        unit=unit_of(first.task),
        data=_data(first.dataset),
        configuration={key: _flat(value) for key, value in shared.items() if value is not None},
        command=command,
        versions=first.versions,
        machine=machine_words(first.machine),
    )


def _method(
    folder: Path, records: Sequence[RunRecord], selection: Selection | None = None
) -> MethodSummary:
    trials = (
        trials_of({"chosen": selection.chosen, "trials": [vars(t) for t in selection.trials]})
        if selection
        else ()
    )
    return MethodSummary(
        title_of(records[0].method),
        [_seed_run(record, record.scores(folder)) for record in records],
        {str(key): str(value) for key, value in records[0].chosen.items()},
        trials,
    )


def _seed_run(record: RunRecord, scores: Mapping[str, NodeScores]) -> SeedRun:
    try:
        lengths = [sum(point[0] == k for point in record.curve) for k in range(len(record.stages))]
        stages = [
            StageSummary(
                stage_words(_views(record, index), int(stage.get("pseudo_labels", 0))),
                epochs,
                int(stage["best_epoch"]),
                float(stage["best_score"]) if stage["best_epoch"] else None,
                str(stage.get("stopped", "")),
            )
            for index, (stage, epochs) in enumerate(zip(record.stages, lengths, strict=True))
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{record.name}: not a record of stages: {error!r}") from error
    return SeedRun(record.seed, scores, record.curve, stages, record.winner, record.seconds)


def _views(record: RunRecord, index: int) -> tuple[View, ...]:
    """What a stage of a method that is a curriculum saw; of other methods none."""
    if record.method not in CURRICULA:
        return ()
    alpha = record.chosen.get("alpha", record.config.get("alpha", 0.0))
    stages = CURRICULA[record.method](alpha, Schedule(), Schedule())
    return stages[index].views if index < len(stages) else ()


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
    if isinstance(value, list | tuple):
        return ", ".join(map(_flat, value))
    return str(value)
