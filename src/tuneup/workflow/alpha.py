"""The share of edges that stage 2 drops, given or chosen on validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tuneup.errors import DivergenceError
from tuneup.methods import METHODS, run
from tuneup.methods.curricula import ALPHAS, FromCurriculum
from tuneup.names import Alpha
from tuneup.train import Checkpoints, Final, Result, TrainingRecord
from tuneup.train.result import Callback, Progress

from .problems import Problem

CANDIDATES: Sequence[Alpha] = (*ALPHAS, "graded")
"""What ``--alpha auto`` tries: the paper's shares, and one for each node."""

EVERY = 20
"""Epochs between two checkpoints."""


@dataclass(frozen=True)
class Candidate:
    """An alpha that was tried, and the validation score of its result."""

    alpha: Alpha
    score: float


@dataclass(frozen=True, eq=False)
class Trained:
    """Base and TuneUp in one run, and what its alpha was chosen from; none if it was given.

    ``told`` is all that was trained, with the candidates as stages 2, 3, ...
    """

    result: Result
    alpha: Alpha
    told: TrainingRecord
    candidates: Sequence[Candidate] = ()


def train_tuneup(
    problem: Problem,
    alpha: Alpha | None,
    *,
    seed: int = 0,
    whole: bool = False,
    final: Final = "dial",
    base: Result | None = None,
    checkpoints: Path | None = None,
    callback: Callback | None = None,
) -> Trained:
    """Both stages; without an alpha, stage 1 once and stage 2 for each of :data:`CANDIDATES`.

    The alpha whose result validates best is selected, the first of equals; one that diverges is
    left out.  The callback gets the candidates as stages 2, 3, ...  With ``whole``, stage 2 is
    trained on the graph itself too.  A finished run of Base is taken over if it is given.
    """
    if alpha is not None:
        settings = FromCurriculum("tuneup", alpha, whole)
        only = _tuneup(problem, settings, seed, base, checkpoints, callback, final)
        return Trained(only, alpha, only.record)
    stages = 1 + len(CANDIDATES)
    base = base or run(
        METHODS["base"],
        problem.setup,
        seed=seed,
        checkpoints=_in(checkpoints, "base"),
        callback=_as_stage(callback, 1, stages),
    )
    found: dict[Alpha, Result] = {}
    told = TrainingRecord(seed, base.record.metric, list(base.record.stages))
    for number, each in enumerate(CANDIDATES, 2):
        place = None if checkpoints is None else checkpoints / f"alpha-{each}"
        try:
            told_as = _as_stage(callback, number, stages)
            settings = FromCurriculum("tuneup", each, whole)
            result = _tuneup(problem, settings, seed, base, place, told_as, final)
        except DivergenceError:
            if each == CANDIDATES[-1] and not found:
                raise
            continue
        found[each] = result
        told.stages.append(replace(result.record.stages[1], stage=number - 1))
    candidates = [Candidate(each, r.record.validation or 0.0) for each, r in found.items()]
    best = max(candidates, key=lambda each: each.score).alpha
    return Trained(found[best], best, told, candidates)


def _tuneup(
    problem: Problem,
    settings: FromCurriculum,
    seed: int,
    base: Result | None,
    checkpoints: Path | None,
    callback: Callback | None,
    final: Final,
) -> Result:
    return run(
        METHODS["tuneup"],
        problem.setup,
        settings=settings,
        seed=seed,
        base=base,
        checkpoints=None if checkpoints is None else Checkpoints(checkpoints, EVERY),
        callback=callback,
        final=final,
    )


def _in(folder: Path | None, name: str) -> Checkpoints | None:
    return None if folder is None else Checkpoints(folder / name, EVERY)


def _as_stage(callback: Callback | None, stage: int, stages: int) -> Callback | None:
    """Told as one stage of all that are trained, so that logs keep them apart."""
    if callback is None:
        return None

    def tell(told: Progress) -> None:
        callback(replace(told, stage=stage, stages=stages))

    return tell
