"""Measures of a classifier whose nodes have any number of classes.

Every measure maps ``logits [n, C]``, of one sigmoid a class, and ``y [n, C]``, 0 or 1, to one
number.  A class is predicted where its logit is above 0, its probability above one half.  With the
true positives, false positives and false negatives of class c ``TP_c, FP_c, FN_c``::

    accuracy           share of nodes whose predicted set of classes is the true one
    micro-f1           2 sum_c TP_c / sum_c (2 TP_c + FP_c + FN_c)
    macro-f1           mean over classes c in y or predicted of  2 TP_c / (2 TP_c + FP_c + FN_c)
    average-precision  mean over classes, each against the nodes without it
    auroc              likewise

The last two leave out classes that all nodes have or none has.  A measure that ``y`` leaves
undefined is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tuneup.errors import InputError

from .classification import Measure, binary_auroc, binary_average_precision


def _subset_accuracy(logits: Tensor, y: Tensor) -> float:
    """The share of nodes of which every class is predicted rightly."""
    return float((_predicted(logits, y) == (y > 0)).all(1).double().mean())


def _micro_f1(logits: Tensor, y: Tensor) -> float:
    """F1 of all pairs of a node and a class together."""
    right, both = _counts(logits, y)
    return float(2 * right.sum() / both.sum())


def _macro_f1(logits: Tensor, y: Tensor) -> float:
    """The mean F1 of the classes that are in ``y`` or predicted."""
    right, both = _counts(logits, y)
    return float((2 * right / both)[both > 0].mean())


def _average_precision(logits: Tensor, y: Tensor) -> float:
    """The mean average precision of the classes."""
    return _mean_over_classes(binary_average_precision, logits, y)


def _auroc(logits: Tensor, y: Tensor) -> float:
    """The mean area under the receiver operating characteristic of the classes."""
    return _mean_over_classes(binary_auroc, logits, y)


def node_f1(logits: Tensor, y: Tensor) -> Tensor:
    """F1 of each node's classes ``[n]``, ``2 |P & Y| / (|P| + |Y|)``; 1 where both are empty."""
    predicted, true = _predicted(logits, y), y > 0
    both = (predicted.sum(1) + true.sum(1)).float()
    return torch.where(both > 0, 2 * (predicted & true).sum(1) / both.clamp(min=1), 1.0)


MULTI_LABEL_METRICS: Mapping[str, Measure] = {
    "micro-f1": _micro_f1,
    "macro-f1": _macro_f1,
    "average-precision": _average_precision,
    "auroc": _auroc,
    "accuracy": _subset_accuracy,
}
"""Validation scores by name where nodes have several classes; more is better."""


def _predicted(logits: Tensor, y: Tensor) -> Tensor:
    """Which classes are predicted ``[n, C]``, boolean."""
    if logits.dim() != 2 or logits.shape != y.shape:
        raise InputError(
            f"logits and y must both be [n, C]; got {list(logits.shape)} and {list(y.shape)}."
        )
    if not ((y == 0) | (y == 1)).all():
        raise InputError("y must hold 0 and 1; pass labelled nodes only.")
    if logits.isnan().any():
        raise InputError("logits hold NaN: the model has diverged or its input features hold NaN.")
    return logits > 0


def _counts(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Of each class ``TP`` and ``2 TP + FP + FN``."""
    predicted, true = _predicted(logits, y), y > 0
    return (predicted & true).sum(0).double(), (predicted.sum(0) + true.sum(0)).double()


def _mean_over_classes(measure: Measure, logits: Tensor, y: Tensor) -> float:
    _predicted(logits, y)  # checks the arguments
    count = (y > 0).sum(0)
    found = [
        measure(logits[:, one].float(), y[:, one] > 0)
        for one in ((count > 0) & (count < len(y))).nonzero().view(-1).tolist()
    ]
    return sum(found) / len(found) if found else float("nan")
