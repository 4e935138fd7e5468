"""Blocks and runs as figures, and as pages of ``tuneup report``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from tuneup.curriculum import CURRICULA, Schedule, View
from tuneup.data import DATASETS, GraphSize
from tuneup.errors import InputError
from tuneup.evaluation import MeanStd
from tuneup.methods import title_of
from tuneup.metrics import NodeScores
from tuneup.names import Architecture
from tuneup.report import degree_figure, degree_grid
from tuneup.report.figures import cold_start_figure, save_figure, training_figure
from tuneup.report.summary import MethodSummary, RunSummary, SeedRun, StageSummary, TrialSummary
from tuneup.workflow.outcome import machine_words, stage_words, unit_of
from tuneup.workflow.run_folders import METRICS_FILE, read_run_folder

from .store import Run, Store
from .tables import RunBlock, find_blocks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf")
PAIR = ("base", "tuneup")


def write_figures(blocks: Sequence[RunBlock], folder: Path) -> Iterator[Path]:
    """Draw all figures of the blocks as PNG and PDF; each path when it is there."""
    yield from write_overviews(blocks, folder)
    for block in blocks:
        drawn = {
            "degrees": degree_figures(block),
            "training": validation_figure(block),
            "cold-start": cold_figure(block),
        }
        for kind, figure in drawn.items():
            yield from _save(figure, folder / f"{block.file_name}-{kind}", FORMATS)


def write_overviews(
    blocks: Sequence[RunBlock], folder: Path, suffixes: Sequence[str] = FORMATS
) -> Iterator[Path]:
    """Draw :func:`degree_overview` of every task; each path when it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for task in dict.fromkeys(block.task for block in blocks):
        own = [block for block in blocks if block.task == task]
        yield from _save(degree_overview(own), folder / f"{task}-by-degree", suffixes)


def degree_figures(block: RunBlock) -> Figure:
    """Figure 1 with all settings: Base and TuneUp by degree, a panel a setting."""
    title = f"{block.short_name}: {block.metric} by degree"
    return degree_figure(_pair(block, block.settings), title=title, unit=unit_of(block.task))


def degree_overview(blocks: Sequence[RunBlock]) -> Figure | None:
    """Figure 1 in full, of one task: known nodes by degree, a panel a dataset and architecture."""
    order, task = get_args(Architecture), blocks[0].task
    panels: dict[tuple[str, str], Mapping[str, Sequence[NodeScores]]] = {}
    for block in sorted(blocks, key=lambda block: order.index(block.architecture)):
        found = _pair(block, ["transductive"])
        if len(found) == len(PAIR):
            panels[block.architecture, block.dataset] = found
    title = f"{task}, known {unit_of(task)}: Base and TuneUp by degree"
    if not panels:
        return None
    return degree_grid(panels, title=title, metric_label=blocks[0].metric, unit=unit_of(task))


def _pair(block: RunBlock, settings: Sequence[str]) -> dict[str, list[NodeScores]]:
    """Scores of Base and TuneUp in some settings, all seeds."""
    return {
        title_of(method): [s for name in settings for s in block.scores[method][name].values()]
        for method in PAIR
        if block.scores.get(method)
    }


def validation_figure(block: RunBlock) -> Figure:
    """How Base and TuneUp were trained, every seed."""
    curves = {
        title_of(method): [block.store.curve(run) for run in block.runs[method]]
        for method in PAIR
        if method in block.runs
    }
    return training_figure(curves, block.metric, f"{block.short_name}: validation during training")


def cold_figure(block: RunBlock) -> Figure | None:
    """Every method's score of new nodes by the share of edges removed, if there are new nodes."""
    found = [re.fullmatch(r"cold-(\d+)", setting) for setting in block.settings]
    shares = {"inductive": 0} | {match[0]: int(match[1]) for match in found if match}
    scores: dict[str, dict[int, MeanStd]] = {}
    for method in block.runs:
        for setting, share in shares.items():
            if score := block.score(method, setting):
                scores.setdefault(block.label(method), {})[share] = score
    title = f"{block.short_name}: new nodes that lose their edges"
    return cold_start_figure(scores, block.metric, title) if scores else None


def _save(figure: Figure | None, path: Path, suffixes: Sequence[str]) -> Iterator[Path]:
    if figure is not None:
        for suffix in suffixes:
            whole = path.with_name(path.name + suffix)
            save_figure(figure, whole)
            yield whole


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


def summary_of(block: RunBlock) -> RunSummary:
    """A block with all of its methods and seeds."""
    first = next(iter(block.runs.values()))[0]
    facts = {**first.shared, **first.config}
    return RunSummary(
        title=f"{block.dataset}, {block.architecture}, {block.task.replace('-', ' ')}",
        task=block.task,
        architecture=block.architecture,
        metric=block.metric,
        methods=[_method(block, method) for method in block.methods if method in block.runs],
        unit=unit_of(block.task),
        data=_data(block.dataset),
        configuration={key: _flat(value) for key, value in facts.items() if value is not None},
        command=block.command,
        versions=first.versions,
        machine=machine_words(first.machine),
    )


def _method(block: RunBlock, method: str) -> MethodSummary:
    def settings(run: Run) -> Mapping[str, Any]:
        return run.shared if method == "base" else run.point

    runs, scores = block.runs[method], block.scores.get(method, {})
    chosen = settings(runs[0])
    trials = [
        TrialSummary(settings(run), run.seed, run.validation, settings(run) == chosen)
        for run in block.trials(method)
    ]
    made = [
        _seed_run(
            block, run, {name: own[run.seed] for name, own in scores.items() if run.seed in own}
        )
        for run in runs
    ]
    shown = {} if method == "base" else {str(key): str(value) for key, value in chosen.items()}
    return MethodSummary(title_of(method), made, shown, trials)


def _seed_run(block: RunBlock, run: Run, scores: Mapping[str, NodeScores]) -> SeedRun:
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
    if dataset not in DATASETS:
        return {"graph": dataset}
    size = DATASETS[dataset].size
    facts = {"graph": dataset} | {key: f"{value:,}" for key, value in vars(size).items()}
    if isinstance(size, GraphSize):
        facts["edges"] += " (each counted once)"
    return facts | {"licence of the data": DATASETS[dataset].licence}


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_flat(each)}" for key, each in value.items() if each not in ([],))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_flat, value))
    return str(value)
