"""What a task of imbalanced classes is validated by, and weights of classes in its loss."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.metrics.classification import Measure, class_metric, rarer_class

ClassWeights = Tensor | Literal["balanced"] | None
"""A weight for each class ``[C]``, weights that balance the training labels, or none."""


def measure_of(metric: str, train: Tensor, validation: Tensor, count: int) -> Measure:
    """The measure of a name; of two classes, the rarer one in the training labels is positive.

    Args:
        metric: one of :data:`tuneup.metrics.CLASS_METRICS`.
        train: training labels ``[n]``.
        validation: validation labels ``[m]``, which must define the measure if there are any.
        count: of classes.
    """
    measure = class_metric(metric, rarer_class(train) if count == 2 else None)
    if metric != "accuracy" and validation.numel():
        y = validation.cpu()
        if math.isnan(measure(torch.zeros(y.numel(), count), y)):
            raise InputError(
                f"validation: got {y.numel()} nodes of class {int(y[0])}; {metric} needs nodes of "
                "the class to find and others. Add some, or choose another metric."
            )
    return measure


def weights_of(given: ClassWeights, train: Tensor, count: int) -> Tensor | None:
    """A weight for each class ``[C]``: balanced, ``n / (C n_c)`` with the C classes in train."""
    if given is None:
        return None
    if isinstance(given, str) and given == "balanced":
        found = torch.bincount(train, minlength=count).float()
        return torch.where(found > 0, train.numel() / ((found > 0).sum() * found), 1.0)
    shaped = isinstance(given, Tensor) and given.shape == (count,) and given.is_floating_point()
    if not shaped or not ((given > 0) & given.isfinite()).all():
        raise InputError(
            f"class_weights: got {given!r}; expected 'balanced' or {count} numbers above 0, a "
            "weight for each class."
        )
    return given
