"""A fitted model as a folder: the artefact, with its report and the scores behind it."""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tuneup.evaluation import head_tail
from tuneup.metrics import NodeScores
from tuneup.report.page import write_page
from tuneup.serve import save_artefact
from tuneup.tables import TablePairs
from tuneup.train.logs import LOG_FILE

from .fit import Loaded
from .options import FitOptions
from .outcome import Outcome
from .refit import Refit
from .run_folders import METRICS_FILE, read_run_folder, write_all_scores
from .split_facts import split_facts


def save(
    loaded: Loaded,
    options: FitOptions,
    fitted: Outcome,
    folder: Path,
    *,
    command: list[str],
    log: Path | None = None,
    refitted: Refit | None = None,
    overwrite: bool = False,
) -> Path:
    """The model that was selected, with all edges that are known and its report, as a folder.

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
    found = fitted.metrics(shlex.join(command), None if refitted is None else refitted.to_json())
    del found["alpha"]  # it is no score, and among the options
    classes = fitted.classes
    metrics = {
        **found,
        "data": {**found["data"], **split_facts(loaded.split)},
        "options": {
            **asdict(options),
            "alpha": fitted.alpha,
            "architecture": fitted.problem.setup.encoder.architecture,
            "dropout": fitted.problem.setup.encoder.dropout,
            "metric": fitted.problem.task.metric,
        },
        **_shown(fitted.tuneup),
    }
    with tempfile.TemporaryDirectory() as scratch:
        extras = _about(fitted, metrics, Path(scratch))
        if log is not None:
            extras.append(Path(shutil.copyfile(log, Path(scratch) / LOG_FILE)))
        if isinstance(tables, TablePairs):
            model.inputs.fill_untrained(task.graph)
            return save_artefact(
                folder,
                model,
                tables.interactions,
                ids=tables.users.values,
                items=tables.items.values,
                metrics=metrics,
                columns=tables.columns,
                extras=extras,
                overwrite=overwrite,
            )
        return save_artefact(
            folder,
            model,
            tables.graph,
            ids=tables.ids.values,
            labels=[name if type(name) is int else str(name) for name in tables.classes],
            metrics=metrics,
            plan=tables.plan,
            columns=tables.columns,
            extras=extras,
            temperature=None if classes is None else classes.temperature,
            overwrite=overwrite,
        )


def _about(fitted: Outcome, metrics: Mapping[str, Any], scratch: Path) -> list[Path]:
    """The page about the run and the scores behind it, in a folder for the moment."""
    made = write_all_scores(fitted, scratch)
    (scratch / METRICS_FILE).write_text(json.dumps(metrics, allow_nan=False), encoding="utf-8")
    write_page(scratch / "report.html", [read_run_folder(scratch)])
    return [scratch / "report.html", *made]


def _shown(scores: Mapping[str, NodeScores]) -> dict[str, float]:
    """Overall, tail and head of the first setting, for the model card."""
    first = next(iter(scores.values()))
    found = head_tail(first)
    return {name: found[name].mean for name in ("overall", "tail", "head") if found[name].count}
