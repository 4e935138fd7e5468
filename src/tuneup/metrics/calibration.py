"""Whether probabilities are frequencies, and the temperature that makes them so.

Nodes are sorted by the probability of their predicted class, their *confidence*, and cut into bins
of equal count.  The expected calibration error is (Guo et al., ICML 2017)::

    ECE = sum_b  n_b / n  |accuracy_b - confidence_b|

with the share of correct predictions and the mean confidence of the ``n_b`` nodes of bin b.
Temperature scaling divides logits by one number T, fitted on validation nodes::

    T = argmin_T  mean_v  -log softmax(logits_v / T)[y_v]

It changes no prediction and no ranking of the classes of a node.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .accuracy import correct
from .classification import log_loss

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

    It is 1 if there are fewer than 20 labels, or if a temperature fitted on one half of the rows
    (every second one) gives the other half a larger log loss than no temperature, over both ways.

    Args:
        logits: of validation nodes ``[n, C]``.
        y: their labels, int64 ``[n]``.
    """
    correct(logits, y)  # checks the arguments
    if y.numel() < _FEWEST:
        return 1.0
    halves = [slice(0, None, 2), slice(1, None, 2)]
    before, after = 0.0, 0.0
    for own, other in (halves, halves[::-1]):
        unseen, labels = logits[other], y[other]
        before += labels.numel() * log_loss(unseen, labels)
        after += labels.numel() * log_loss(unseen / _best(logits[own], y[own]), labels)
    return _best(logits, y) if after < before else 1.0


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
