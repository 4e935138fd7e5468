"""Class by class: measures, confusion table and calibration of one classifier in one setting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.metrics.calibration import CalibrationBin, calibration_bins, calibration_error
from tuneup.metrics.classification import (
    CLASS_METRICS,
    class_metric,
    confusion,
    log_loss,
    rarer_class,
)
from tuneup.names import TAIL_DEGREE

MEASURES = (*CLASS_METRICS, "log-loss", "calibration-error")
"""Names of what is measured; of the last two, less is better."""
_SUM = 1e-3
"""How far probabilities may be from adding up to 1: they may be rounded."""


@dataclass(frozen=True)
class ClassGroup:
    """How many nodes there are, and each of :data:`MEASURES` of them.

    A measure is ``None`` where the labels leave it undefined, or where it is infinite.
    """

    nodes: int
    measures: Mapping[str, float | None]


@dataclass(frozen=True)
class ClassRow:
    """One class: how many nodes have it, and how well they are found.

    Precision is ``None`` if the class is never predicted, recall if no node has it.
    """

    nodes: int
    precision: float | None
    recall: float | None


@dataclass(frozen=True)
class ClassReport:
    """A classifier in one setting.

    Args:
        groups: "overall", and by degree "isolated" (0), "tail" (0 to 5) and "head" (above).
        confusion: counts of nodes, ``confusion[true class][predicted class]``.
        calibration: bins of nodes by the probability of their predicted class.
        positive: of two classes the one that average precision and AUROC are about.
    """

    groups: Mapping[str, ClassGroup]
    confusion: tuple[tuple[int, ...], ...]
    calibration: tuple[CalibrationBin, ...]
    positive: int | None = None

    @classmethod
    def of(
        cls,
        probabilities: Tensor,
        y: Tensor,
        degree: Tensor | None = None,
        *,
        positive: int | None = None,
    ) -> ClassReport:
        """The report of predictions for nodes whose classes are known.

        Args:
            probabilities: of every class ``[n, C]``.
            y: int64 ``[n]``.
            degree: of the nodes ``[n]``, for the groups.
            positive: of two classes the one to find; by default the rarer one in ``y``.
        """
        _check(probabilities, y)
        if probabilities.shape[1] != 2:
            positive = None
        elif positive is None:
            positive = rarer_class(y)
        groups = {"overall": torch.ones_like(y, dtype=torch.bool)}
        if degree is not None:
            tail = degree <= TAIL_DEGREE
            groups |= {"isolated": degree == 0, "tail": tail, "head": ~tail}
        table = confusion(probabilities.argmax(1), y, probabilities.shape[1])
        return cls(
            {
                name: _measured(probabilities[rows], y[rows], positive)
                for name, rows in groups.items()
            },
            tuple(map(tuple, table.tolist())),
            tuple(calibration_bins(probabilities, y)),
            positive,
        )

    @property
    def measures(self) -> Mapping[str, float | None]:
        """Of all nodes."""
        return self.groups["overall"].measures

    @property
    def classes(self) -> tuple[ClassRow, ...]:
        """A row for each class."""
        rows = []
        for number, counts in enumerate(self.confusion):
            true, predicted = sum(counts), sum(row[number] for row in self.confusion)
            precision, recall = (
                counts[number] / total if total else None for total in (predicted, true)
            )
            rows.append(ClassRow(true, precision, recall))
        return tuple(rows)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> ClassReport:
        """The inverse of :meth:`to_json`, also after JSON made lists of tuples."""
        return cls(
            {name: ClassGroup(**group) for name, group in plain["groups"].items()},
            tuple(map(tuple, plain["confusion"])),
            tuple(CalibrationBin(**each) for each in plain["calibration"]),
            plain["positive"],
        )


def _check(probabilities: Tensor, y: Tensor) -> None:
    if y.numel() == 0:
        raise InputError("ClassReport: got no node; expected one or more with a label.")
    off = (probabilities.double().sum(1) - 1).abs() > _SUM
    wrong = (off | (probabilities < 0).any(1)).nonzero()
    if wrong.numel():
        raise InputError(
            f"ClassReport: got {probabilities[int(wrong[0])].tolist()} in row {int(wrong[0])}; "
            "expected probabilities that add up to 1: pass logits.softmax(1)."
        )


def _measured(probabilities: Tensor, y: Tensor, positive: int | None) -> ClassGroup:
    logits = probabilities.double().log()
    found = {name: class_metric(name, positive)(logits, y) for name in CLASS_METRICS}
    found["log-loss"] = log_loss(logits, y)
    found["calibration-error"] = calibration_error(probabilities, y)
    return ClassGroup(
        y.numel(), {name: value if math.isfinite(value) else None for name, value in found.items()}
    )
