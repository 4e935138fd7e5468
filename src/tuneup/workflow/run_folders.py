"""A finished run on disk as a :class:`~tuneup.report.summary.RunSummary`, for ``tuneup report``.

A run folder (of ``tuneup demo``, or of anything else that trains once) holds

=========================  =======================================================================
``floor-NAME.parquet``     the same of a simple model to compare with
``scores-METHOD.parquet``  per-node scores, as :func:`~tuneup.metrics.write_scores` writes them
``metrics.json``           ``task``, ``architecture``, ``metric``, and ``training``, a
                           :class:`~tuneup.train.TrainingRecord`; where they are known also
                           ``title``, ``unit``, ``command``, ``versions``, ``machine``, ``data`` and
                           ``configuration`` (facts by name), ``verdict`` (sentences), ``simple``
                           (titles of simple models by name), ``classes`` (a
                           :class:`~tuneup.report.classes.ClassSummary`), and ``selection`` in the
                           shape of a
                           :class:`~tuneup.bench.selection.Selection`
=========================  =======================================================================

Whoever writes these two gets the page.  ``base`` is the state after stage 1 of the training, every
other method the whole of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuneup.errors import InputError
from tuneup.methods.titles import in_order, title_of
from tuneup.metrics import NodeScores, read_scores, write_scores
from tuneup.report.classes import ClassSummary
from tuneup.report.standings import NAMES
from tuneup.report.summary import (
    MethodSummary,
    RunSummary,
    SeedRun,
    StageSummary,
    TrialSummary,
)
from tuneup.train.record import StageRecord, TrainingRecord

if TYPE_CHECKING:
    from .outcome import Outcome

METRICS_FILE = "metrics.json"
_SCORES = re.compile(r"scores-(.+)\.parquet")
_FLOORS = re.compile(r"floor-(.+)\.parquet")
_DERIVED = ("stage-2", "control")
"""Models whose stages and curves are shown with others."""
_MALFORMED = (ValueError, TypeError, KeyError, AttributeError)


def read_run_folder(folder: Path) -> RunSummary:
    """The run in a folder; what is wrong with it is said by file."""
    path = folder / METRICS_FILE
    try:
        found = json.loads(path.read_text())
        training = TrainingRecord.from_json(found["training"])
        selection = trials_of(found["selection"]) if found.get("selection") else ()
        tried = (found.get("selection") or {}).get("seconds")
        facts = {
            name: {str(key): str(value) for key, value in found.get(name, {}).items()}
            for name in ("data", "configuration", "versions")
        }
        shown = {name: str(found[name]) for name in ("task", "architecture", "metric")}
        simple = {str(name): str(title) for name, title in found.get("simple", {}).items()}
        said = [str(line) for line in found.get("verdict", [])]
        machine = machine_words(found.get("machine", {}))
        classes = ClassSummary.from_json(found["classes"]) if "classes" in found else None
    except _MALFORMED as error:
        raise InputError(f"{path} does not describe a run: {error!r}") from error
    scores = _scores(folder, _SCORES)
    if not scores:
        raise InputError(
            f"{folder} has no scores-METHOD.parquet, whose scores the report would show"
        )
    return RunSummary(
        title=str(found.get("title") or f"{facts['data'].get('graph', 'run')}, {_tag(shown)}"),
        methods=[
            MethodSummary(
                NAMES.get(name) or title_of(name),
                [_seed_run(training, own, name, tried)],
                trials=() if name in ("base", *_DERIVED) else selection,
            )
            for name, own in scores.items()
        ],
        unit=str(found.get("unit") or unit_of(shown["task"])),
        data=facts["data"] or ({"graph": str(found["graph"])} if "graph" in found else {}),
        configuration=facts["configuration"],
        command=str(found.get("command") or ""),
        versions=facts["versions"],
        machine=machine,
        task=shown["task"],
        architecture=shown["architecture"],
        metric=shown["metric"],
        floors={simple[name]: own for name, own in _scores(folder, _FLOORS).items()},
        verdict=said,
        dial=training.dial,
        classes=classes,
    )


def unit_of(task: str) -> str:
    """What a task scores, in the plural."""
    return "users" if task == "recommendation" else "nodes"


def stage_words(description: str, guesses: int = 0) -> str:
    """What a stage does, from what its record calls it, for readers who know no GNN."""
    hidden = re.search(r"SyntheticTails\(alpha=([\d.]+)", description)
    if "SyntheticTails(alpha=graded" in description.replace("'", ""):
        words = "practice with another share of each node's links hidden in every round"
    elif hidden:
        share = 100 * float(hidden[1])
        words = f"practice with {share:g} % of all links hidden at random in every round"
    elif "views=(Full())" in description:
        words = "ordinary training on the whole graph"
    else:
        view = re.search(r"views=\((\w+)", description)
        words = f"training on changed graphs ({view[1]})" if view else "training"
    if guesses:  # a stage may ask for them and its task have none
        words += f", with {guesses:,} of the model's own best guesses as extra examples"
    return words


def machine_words(machine: Mapping[str, Any]) -> dict[str, str]:
    """What a record says of its machine, with units."""
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


def _tag(shown: Mapping[str, str]) -> str:
    return f"{shown['architecture']}, {shown['task'].replace('-', ' ')}"


def write_all_scores(outcome: Outcome, folder: Path) -> list[Path]:
    """The scores of every model and every simple one, a file each."""
    parts = {f"scores-{name}.parquet": own for name, own in outcome.models.items()}
    parts |= {f"floor-{each.name}.parquet": each.scores for each in outcome.floors if each.scores}
    for name, scores in parts.items():
        write_scores(folder / name, [*scores.values()])
    return [folder / name for name in parts]


def _scores(folder: Path, pattern: re.Pattern[str]) -> dict[str, dict[str, NodeScores]]:
    found = {}
    for path in folder.iterdir():
        name = pattern.fullmatch(path.name)
        if name:
            found[name[1]] = {scores.setting: scores for scores in read_scores(path)}
    order = [name for name in NAMES if name in found]
    return {name: found[name] for name in (*order, *in_order(found.keys() - NAMES.keys()))}


def _seed_run(
    training: TrainingRecord, scores: Mapping[str, NodeScores], name: str, tried: float | None
) -> SeedRun:
    """With the seconds of all that was ``tried`` in the same run, if that is more."""
    if name in _DERIVED:
        return SeedRun(training.seed, scores)
    only_first = name == "base"
    stages = training.stages[:1] if only_first else training.stages
    return SeedRun(
        training.seed,
        scores,
        [point for point in training.curves() if point[0] < len(stages)],
        [_stage(stage) for stage in stages],
        0 if only_first else training.winner,
        sum(stage.seconds for stage in stages) if only_first or tried is None else tried,
    )


def _stage(stage: StageRecord) -> StageSummary:
    best = stage.best_score if stage.best_epoch else None
    return StageSummary(
        stage_words(stage.description, stage.pseudo_labels),
        len(stage.epochs),
        stage.best_epoch,
        best,
        stage.stopped,
    )
