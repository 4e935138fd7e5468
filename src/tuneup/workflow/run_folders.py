"""The folder of a finished run: written by ``tuneup fit`` and ``demo``, read by ``tuneup report``.

A run folder (of ``tuneup demo``, or of anything else that trains once) holds

=========================  =======================================================================
``scores-METHOD.parquet``  per-node scores, as :func:`~tuneup.metrics.write_scores` writes them
``floor-NAME.parquet``     the same of a simple model to compare with
``metrics.json``           ``task``, ``architecture``, ``metric``, and ``training``, a
                           :class:`~tuneup.train.TrainingRecord`; where they are known also
                           ``title``, ``unit``, ``command``, ``alpha``, ``versions``, ``machine``,
                           ``data`` and ``configuration`` (facts by name), ``verdict`` (sentences),
                           ``simple`` (titles of simple models by name), ``classes`` (a
                           :class:`~tuneup.report.ClassSummary`), and ``selection`` in the
                           form of chosen point and trials (point, seed, score)
=========================  =======================================================================

Whoever writes these gets the page.  ``base`` is the state after stage 1 of the training, every
other method the whole of it.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tuneup.curriculum import SyntheticTails, View, full, tails
from tuneup.data import Interactions
from tuneup.errors import InputError
from tuneup.evaluation import head_tail
from tuneup.files import ensure_room
from tuneup.graph import SparseMatrix
from tuneup.methods import in_order, title_of
from tuneup.metrics import NodeScores, read_scores, write_scores
from tuneup.report.page import write_page
from tuneup.report.summary import (
    MODEL_TITLES,
    ClassSummary,
    MethodSummary,
    RunSummary,
    SeedRun,
    StageSummary,
    TrialSummary,
)
from tuneup.serve import Predictor
from tuneup.tables import TablePairs
from tuneup.train import TrainingRecord
from tuneup.train.logs import LOG_FILE
from tuneup.train.result import StageRecord

from .fit import Loaded, Refit
from .options import FitOptions
from .outcome import Outcome
from .problems import Problem

METRICS_FILE = "metrics.json"
_DERIVED = ("stage-2", "control")
"""Models whose stages and curves are shown with others."""

ROOM_MARGIN = 1.2
"""Times the estimate of a size, for ids, the report and what files have besides their numbers."""
ROOM_FIXED = 16 << 20
"""Bytes of what does not grow: report, log, card and configuration."""
NODE_BYTES = 200
"""Of a node's id and of its scores in every setting."""
WEIGHT_COPIES = 6
"""In a checkpoint: now, best, after each stage, and twice in the optimiser."""

Scores = Mapping[str, Mapping[str, NodeScores]]
"""Scores by model and setting."""


def save(
    loaded: Loaded,
    options: FitOptions,
    fitted: Outcome,
    folder: Path,
    *,
    command: Sequence[str],
    log: Path | None = None,
    refitted: Refit | None = None,
    overwrite: bool = False,
) -> Path:
    """Save the selected model, with all edges that are known, its scores and its report.

    Args:
        loaded: what was trained on.
        options: of the training.
        fitted: the training; its scores are the report's.
        folder: to be written.
        command: what was typed.
        log: of the epochs.
        refitted: a model to save in the place of the selected one, trained again on everything.
        overwrite: whether a saved model in the folder is replaced.
    """
    tables = loaded.tables if refitted is None else refitted.loaded.tables
    model: Any = fitted.result.best() if refitted is None else refitted.model
    task: Any = fitted.problem.task if refitted is None else refitted.task
    encoder = fitted.problem.setup.encoder
    found = fitted.metrics(shlex.join(command), None if refitted is None else refitted.to_json())
    del found["alpha"]  # it is no score, and among the options
    metrics = {
        **found,
        "data": {**found["data"], **loaded.facts},
        "options": {
            **asdict(options),
            "alpha": fitted.alpha,
            "architecture": encoder.architecture,
            "dropout": encoder.dropout,
            "metric": fitted.problem.task.metric,
        },
        **_card_scores(fitted),
    }
    predictor = partial(Predictor, model, metrics=metrics, columns=tables.columns)
    if isinstance(tables, TablePairs):
        model.inputs.fill_untrained(task.graph)
        ids, items = tables.users.values, tables.items.values
        made = predictor(tables.interactions, ids=ids, items=items)
    else:
        made = predictor(
            tables.graph,
            ids=tables.ids.values,
            labels=[name if type(name) is int else str(name) for name in tables.classes],
            plan=tables.plan,
            temperature=None if fitted.classes is None else fitted.classes.temperature,
        )
    write_extras = partial(write_run_files, fitted, metrics, log=log)
    return made.save(folder, write_extras=write_extras, overwrite=overwrite)


def write_run_files(
    outcome: Outcome, metrics: Mapping[str, Any], folder: Path, *, log: Path | None = None
) -> None:
    """Write the report, the scores of every model and the log; all but ``metrics.json``."""
    floors = {floor.name: floor.scores for floor in outcome.floors if floor.scores}
    for kind, models in (("scores", outcome.models), ("floor", floors)):
        for name, scores in models.items():
            write_scores(folder / f"{kind}-{name}.parquet", [*scores.values()])
    write_page(folder / "report.html", [run_summary(metrics, outcome.models, floors)])
    if log is not None:
        shutil.copyfile(log, folder / LOG_FILE)


def read_run_folder(folder: Path) -> RunSummary:
    """The run in a folder.

    Raises:
        InputError: If a file is missing or malformed; it is named.
    """
    path, models = folder / METRICS_FILE, _read_all(folder, "scores")
    try:
        metrics = json.loads(path.read_text())
        if models:
            return run_summary(metrics, models, _read_all(folder, "floor"))
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} does not describe a run: {error!r}") from error
    raise InputError(f"{folder} has no scores-METHOD.parquet, whose scores the report would show")


def run_summary(metrics: Mapping[str, Any], models: Scores, floors: Scores) -> RunSummary:
    """A run as its page shows it.

    Args:
        metrics: the contents of ``metrics.json``.
        models: scores of every model.
        floors: scores of simple models.
    """
    training = TrainingRecord.from_json(metrics["training"])
    task, architecture = str(metrics["task"]), str(metrics["architecture"])
    selection = metrics.get("selection") or {}
    trials = trials_of(selection) if selection else []
    options = metrics.get("options", {})
    alpha, whole = options.get("alpha", metrics.get("alpha")), options.get("whole", False)
    views: dict[int, tuple[View, ...]] = {}
    if alpha is not None:
        views = {0: (full,), 1: (full, tails(alpha)) if whole else (tails(alpha),)}
    stages = [_stage(stage, views.get(stage.stage, ())) for stage in training.stages]
    data, configuration, known_versions = (
        {str(key): str(value) for key, value in metrics.get(name, {}).items()}
        for name in ("data", "configuration", "versions")
    )
    if not data and "graph" in metrics:
        data = {"graph": str(metrics["graph"])}
    title = f"{data.get('graph', 'run')}, {architecture}, {task.replace('-', ' ')}"
    return RunSummary(
        title=str(metrics.get("title") or title),
        methods=[
            MethodSummary(
                MODEL_TITLES.get(name) or title_of(name),
                [_seed_run(name, training, stages, models[name], selection.get("seconds"))],
                trials=() if name in ("base", *_DERIVED) else trials,
            )
            for name in _ordered(models)
        ],
        unit=str(metrics.get("unit") or unit_of(task)),
        data=data,
        configuration=configuration,
        command=str(metrics.get("command") or ""),
        versions=known_versions,
        machine=machine_words(metrics.get("machine", {})),
        task=task,
        architecture=architecture,
        metric=str(metrics["metric"]),
        floors={str(metrics["simple"][name]): floors[name] for name in _ordered(floors)},
        verdict=[str(line) for line in metrics.get("verdict", [])],
        dial=training.dial,
        classes=ClassSummary.from_json(metrics["classes"]) if "classes" in metrics else None,
    )


def unit_of(task: str) -> str:
    """What a task scores, in the plural."""
    return "users" if task == "recommendation" else "nodes"


def stage_words(views: Sequence[View], pseudo_labels: int = 0) -> str:
    """What a stage does, for readers who know no GNN.

    Args:
        views: of its graph; none if they are not known.
        pseudo_labels: how many nodes it has pseudo-labels of.
    """
    dropping = next((view for view in views if isinstance(view, SyntheticTails)), None)
    if dropping is not None and dropping.alpha == "graded":
        words = "practice with another share of each node's links hidden in every round"
    elif dropping is not None:
        share = 100 * float(dropping.alpha)
        words = f"practice with {share:g} % of all links hidden at random in every round"
    elif views and all(view == full for view in views):
        words = "ordinary training on the whole graph"
    else:
        words = "training on changed graphs" if views else "training"
    if pseudo_labels:  # a stage may ask for them and its task have none
        words += f", with {pseudo_labels:,} of the model's own best guesses as extra examples"
    return words


def machine_words(machine: Mapping[str, Any]) -> dict[str, str]:
    """Facts about the machine of a record, with units."""
    words = {str(key): str(value) for key, value in machine.items() if key != "peak_rss"}
    if machine.get("peak_rss"):
        words["peak memory"] = f"{machine['peak_rss'] / 2**30:.1f} GiB"
    return words


def trials_of(selection: Mapping[str, Any]) -> list[TrialSummary]:
    """The trials of a selection, as its JSON has them."""
    return [
        TrialSummary(
            dict(trial["point"]),
            int(trial["seed"]),
            float(trial["score"]),
            trial["point"] == selection["chosen"],
        )
        for trial in selection["trials"]
    ]


def ensure_fit_room(problem: Problem, out: Path, checkpoints: Path, trainings: int) -> None:
    """Refuse a fit for whose checkpoints or model a disk has too little space.

    Args:
        problem: what will be trained.
        out: folder of the model.
        checkpoints: folder of the checkpoints; those of an earlier attempt are replaced.
        trainings: how many runs leave checkpoints; one more is written while the old one is read.
    """
    data = problem.data
    adjacency = data.adjacency() if isinstance(data, Interactions) else data.adjacency
    size = _bytes(adjacency.rowptr, adjacency.col) + NODE_BYTES * adjacency.num_nodes
    if not isinstance(data, Interactions):
        x = data.x
        size += _bytes(*((x.rowptr, x.col, x.value) if isinstance(x, SparseMatrix) else (x,)))
    with torch.device("meta"):  # shapes alone: no memory, and no random numbers
        weights = _bytes(*problem.setup.base_model().state_dict().values())
    saved = sum(file.stat().st_size for file in checkpoints.rglob("*") if file.is_file())
    ensure_room(
        (out, round(ROOM_MARGIN * (size + weights)) + ROOM_FIXED),
        (checkpoints, round(ROOM_MARGIN * WEIGHT_COPIES * (trainings + 1) * weights) - saved),
    )


def _bytes(*tensors: Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _read_all(folder: Path, kind: str) -> dict[str, dict[str, NodeScores]]:
    return {
        path.stem.removeprefix(f"{kind}-"): {part.setting: part for part in read_scores(path)}
        for path in folder.glob(f"{kind}-?*.parquet")
    }


def _ordered(names: Collection[str]) -> list[str]:
    """Models of a fit first, then methods as tables show them."""
    ours = [name for name in MODEL_TITLES if name in names]
    return [*ours, *in_order({*names} - MODEL_TITLES.keys())]


def _seed_run(
    name: str,
    training: TrainingRecord,
    stages: Sequence[StageSummary],
    scores: Mapping[str, NodeScores],
    seconds: float | None,
) -> SeedRun:
    """One model's part of a training; ``seconds`` are those of its selection, if there was one."""
    if name in _DERIVED:
        return SeedRun(training.seed, scores)
    count = 1 if name == "base" else len(stages)
    own = sum(stage.seconds for stage in training.stages[:count])
    return SeedRun(
        training.seed,
        scores,
        [point for point in training.curves() if point[0] < count],
        stages[:count],
        0 if name == "base" else training.winner,
        own if name == "base" or seconds is None else seconds,
    )


def _stage(stage: StageRecord, views: Sequence[View]) -> StageSummary:
    return StageSummary(
        stage_words(views, stage.pseudo_labels),
        len(stage.epochs),
        stage.best_epoch,
        stage.best_score if stage.best_epoch else None,
        stage.stopped,
    )


def _card_scores(fitted: Outcome) -> dict[str, float]:
    """Overall, tail and head of the first setting, for the model card."""
    found = head_tail(next(iter(fitted.tuneup.values())))
    return {name: found[name].mean for name in ("overall", "tail", "head") if found[name].count}
