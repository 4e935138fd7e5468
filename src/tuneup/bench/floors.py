"""What needs no training reaches on a dataset of pairs, kept beside its records.

A trained recommender below these is broken or has not converged, and one that only beats a Base
below them has not been shown to work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tuneup.evaluation import RecommendationSetting, co_occurrence, popularity
from tuneup.files import write_atomic
from tuneup.workflow.problems import Problem

Floors = Mapping[str, Mapping[str, float]]
"""Means by name, over ``all`` users and over those ``without an edge`` where there are any."""


def floors_file(results: Path, dataset: str) -> Path:
    """In the folder of a task's records."""
    return results / "floors" / f"{dataset}.json"


def keep_floors(results: Path, dataset: str, problem: Problem) -> None:
    """Write them once, if answers are ranked for users."""
    setting, path = problem.settings[0], floors_file(results, dataset)
    if not isinstance(setting, RecommendationSetting) or path.exists():
        return
    floors: dict[str, dict[str, float]] = {}
    for name, rank in (("popularity", popularity), ("item co-occurrence", co_occurrence)):
        scores = rank(setting.split, setting.task.metric)
        unknown = scores.score[scores.degree == 0].double()
        floors[name] = {"all": scores.mean()}
        floors[name] |= {"without an edge": float(unknown.mean())} if unknown.numel() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(floors, indent=1) + "\n")


def floor_words(results: Path, dataset: str) -> str:
    """``Without training: popularity 4.89 (5.37 for users without an edge), ...``, in %."""
    parts = []
    for name, means in _kept(results, dataset).items():
        cold = means.get("without an edge")
        more = "" if cold is None else f" ({100 * cold:.2f} for users without an edge)"
        parts.append(f"{name} {100 * means['all']:.2f}{more}")
    return f"Without training: {', '.join(parts)}." if parts else ""


def floors_above(results: Path, dataset: str, score: float) -> list[str]:
    """Names of those that a trained model of that score stays below."""
    return [name for name, means in _kept(results, dataset).items() if means["all"] > score]


def _kept(results: Path, dataset: str) -> Floors:
    path = floors_file(results, dataset)
    floors: Floors = json.loads(path.read_text()) if path.exists() else {}
    return floors
