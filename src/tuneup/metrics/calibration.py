"""Whether probabilities are frequencies, and the temperatures that make them so.

Nodes are sorted by the probability of their predicted class, their *confidence*, and cut into bins
of equal count.  The expected calibration error is (Guo et al., ICML 2017)::

    ECE = sum_b  n_b / n  |accuracy_b - confidence_b|

with the share of correct predictions and the mean confidence of the ``n_b`` nodes of bin b.
Temperature scaling divides logits by one number T, fitted on validation nodes::

    T = argmin_T  mean_v  -log softmax(logits_v / T)[y_v]

It changes no prediction and no ranking of the classes of a node.  Nodes without an edge get a
temperature of their own: a GNN's logits for them have another scale, as no message is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tuneup.errors import InputError

from .classification import correct, log_loss

BINS = 15
_COLDEST, _HOTTEST = 0.1, 10.0
_FEWEST = 20
"""Labels below which no temperature is fitted."""
_HALVINGS = 50


@dataclass(frozen=True)
class CalibrationBin:
    """Nodes of about the same confidence: how many, their mean confidence and their accuracy."""

    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Temperature:
    """What logits are divided by: one number for nodes with an edge, and one for nodes without."""

    connected: float = 1.0
    isolated: float = 1.0

    def __post_init__(self) -> None:
        if not all(0 < each < math.inf for each in (self.connected, self.isolated)):
            raise InputError(f"temperature: got {self}; expected numbers above 0.")

    def probabilities(self, logits: Tensor, degree: Tensor) -> Tensor:
        """``softmax(logits / T) [n, C]`` of nodes with these degrees ``[n]``."""
        temperature = torch.where(degree > 0, self.connected, self.isolated)
        return (logits / temperature.to(logits)[:, None]).softmax(1)


UNIT = Temperature()
"""Leaves probabilities as they are."""


def fit_temperatures(logits: Tensor, y: Tensor, degree: Tensor) -> Temperature:
    """A temperature for the nodes with an edge and one for those without, each by its own labels.

    Where one of the two has fewer than 20 labels, it takes the temperature of the other.

    Args:
        logits: of validation nodes ``[n, C]``.
        y: their labels, int64 ``[n]``.
        degree: of the nodes ``[n]``.
    """
    parts = [degree > 0, degree == 0]
    found = [fit_temperature(logits[part], y[part]) for part in parts]
    enough = [int(part.sum()) >= _FEWEST for part in parts]
    if enough[0] != enough[1]:
        found = [found[enough.index(True)]] * 2
    return Temperature(*found)


def calibration_bins(probabilities: Tensor, y: Tensor, bins: int = BINS) -> list[CalibrationBin]:
    """Bins of equal count by confidence, the least confident first; equals share a bin.

    Args:
        probabilities: of every class ``[n, C]``.
        y: int64 ``[n]``.
        bins: how many; empty ones are left out.
    """
    hit = correct(probabilities, y).double()
    confidence = probabilities.double().amax(1) if y.numel() else hit
    rank = torch.searchsorted(confidence.sort().values, confidence)
    place = rank * bins // max(1, y.numel())
    count, sure, right = (
        torch.bincount(place, weight, minlength=bins) for weight in (None, confidence, hit)
    )
    return [
        CalibrationBin(int(count[b]), float(sure[b] / count[b]), float(right[b] / count[b]))
        for b in count.nonzero()[:, 0].tolist()
    ]


def calibration_error(probabilities: Tensor, y: Tensor, bins: int = BINS) -> float:
    """The expected calibration error, 0 to 1; NaN without nodes."""
    found = calibration_bins(probabilities, y, bins)
    gap = sum(each.count * abs(each.accuracy - each.confidence) for each in found)
    return gap / y.numel() if y.numel() else math.nan


def fit_temperature(logits: Tensor, y: Tensor) -> float:
    """The temperature with the least log loss, between 0.1 and 10.

    It is 1 if there are fewer than 20 labels, or if temperatures that are fitted on one half of the
    rows (every second one) and applied to the other half do not reduce both the log loss and the
    calibration error.

    Args:
        logits: of validation nodes ``[n, C]``.
        y: their labels, int64 ``[n]``.
    """
    correct(logits, y)  # checks the arguments
    if y.numel() < _FEWEST:
        return 1.0
    even, odd = slice(0, None, 2), slice(1, None, 2)
    scaled = torch.empty_like(logits, dtype=torch.float64)
    for own, other in ((even, odd), (odd, even)):
        scaled[other] = logits[other].double() / _best(logits[own], y[own])
    before, after = (
        (log_loss(each, y), calibration_error(each.double().softmax(1), y))
        for each in (logits, scaled)
    )
    helps = after[0] < before[0] and after[1] < before[1]
    return _best(logits, y) if helps else 1.0


def _best(logits: Tensor, y: Tensor) -> float:
    """Bisection on ``b = 1 / T``, in which the log loss is convex.

    Its derivative is ``mean_v (sum_c p_c z_vc - z_vy)`` with ``p = softmax(b z_v)``.
    """
    z = logits.double()
    z = z - z.gather(1, y[:, None])  # of the true class 0
    low, high = 1 / _HOTTEST, 1 / _COLDEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        slope = float(((middle * z).softmax(1) * z).sum(1).mean())
        low, high = (middle, high) if slope < 0 else (low, middle)
    return 2 / (low + high)
