"""Measures of a classifier over a set of nodes, for tables whose classes are not equally frequent.

Every measure maps ``logits [n, C]`` and ``y [n]`` to one number.  Logarithms of probabilities are
logits too.  With the confusion counts ``M[t, p]`` (true class t, predicted class p)::

    accuracy           sum_c M[c, c] / n
    balanced-accuracy  mean over classes c in y of  M[c, c] / sum_p M[c, p]
    macro-f1           mean over classes c in y or predicted of
                       2 M[c, c] / (sum_p M[c, p] + sum_t M[t, c])
    average-precision  sum_k (R_k - R_{k-1}) P_k, over the thresholds k of the score of a class
    auroc              share of pairs (node of the class, other node) that the score orders
                       correctly; a tie counts one half

The last two are of the positive class where there are two, and otherwise the mean over the classes
in y, each against the rest.  A node's score for class c is ``log p_c - log (1 - p_c)``.  A measure
that ``y`` leaves undefined, as AUROC of one class alone, is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from tuneup.errors import InputError

Measure = Callable[[Tensor, Tensor], float]


def correct(logits: Tensor, y: Tensor) -> Tensor:
    """Whether each node's most likely class is its label.

        correct_v = 1 if argmax_c logits_{v,c} = y_v else 0

    The mean of the result is the accuracy. Of tied classes the first is the prediction.

    Args:
        logits: float ``[n, num_classes]``; any increasing function of the class probabilities.
        y: int64 ``[n]``, labels in ``0 .. num_classes - 1``.

    Returns:
        float32 ``[n]``, 0 or 1 per node.
    """
    if logits.dim() != 2 or y.shape != logits.shape[:1]:
        raise InputError(
            f"logits must be [n, num_classes] and y [n], "
            f"got {list(logits.shape)} and {list(y.shape)}"
        )
    if y.is_floating_point() or y.dtype == torch.bool:
        raise InputError(f"y must hold integer class ids, got {y.dtype}")
    if y.numel() == 0:
        return torch.zeros(0, dtype=torch.float32, device=logits.device)
    num_classes = logits.shape[1]
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= num_classes:
        # An unlabelled node (often -1) would otherwise count as a wrong prediction.
        raise InputError(
            f"y must lie in 0..{num_classes - 1}, got values from {low} to {high}; "
            "pass labelled nodes only"
        )
    if bool(torch.isnan(logits).any()):
        raise InputError("logits hold NaN: the model has diverged or its input features hold NaN")
    return (logits.argmax(dim=1) == y).to(torch.float32)


def confusion(predicted: Tensor, y: Tensor, num_classes: int) -> Tensor:
    """Counts of nodes by true class (row) and predicted class (column), int64 ``[C, C]``."""
    cells = torch.bincount(y * num_classes + predicted, minlength=num_classes**2)
    return cells.view(num_classes, num_classes)


def accuracy(logits: Tensor, y: Tensor) -> float:
    """The share of nodes whose most likely class is their label."""
    return float(correct(logits, y).mean())


def balanced_accuracy(logits: Tensor, y: Tensor) -> float:
    """The mean recall of the classes in ``y``."""
    found = _checked_confusion(logits, y).double()
    count = found.sum(1)
    return float((found.diagonal() / count)[count > 0].mean())


def macro_f1(logits: Tensor, y: Tensor) -> float:
    """The mean F1 of the classes that are in ``y`` or predicted."""
    found = _checked_confusion(logits, y).double()
    count = found.sum(0) + found.sum(1)
    return float((2 * found.diagonal() / count)[count > 0].mean())


def average_precision(logits: Tensor, y: Tensor, positive: int | None = None) -> float:
    """The area under precision over recall, as a sum of steps.

    Args:
        logits: float ``[n, C]``.
        y: int64 ``[n]``.
        positive: of two classes the one to find; by default the rarer one in ``y``, of equals 1.
    """
    return _mean_over_classes(binary_average_precision, logits, y, positive)


def auroc(logits: Tensor, y: Tensor, positive: int | None = None) -> float:
    """The area under the receiver operating characteristic; arguments as above."""
    return _mean_over_classes(binary_auroc, logits, y, positive)


def log_loss(logits: Tensor, y: Tensor) -> float:
    """The mean of ``-log p_y``, in nats."""
    correct(logits, y)  # checks the arguments
    log_p = logits.double().log_softmax(1)
    return float(-log_p.gather(1, y[:, None]).mean())


CLASS_METRICS: Mapping[str, Measure] = {
    "accuracy": accuracy,
    "macro-f1": macro_f1,
    "average-precision": average_precision,
    "balanced-accuracy": balanced_accuracy,
    "auroc": auroc,
}
"""Validation scores of node classification by name; more is better."""

_OF_ONE_CLASS = {"average-precision": average_precision, "auroc": auroc}


def class_metric(name: str, positive: int | None = None) -> Measure:
    """The measure of a name, about ``positive`` where there are two classes.

    Raises:
        InputError: There is no such measure.
    """
    if name not in CLASS_METRICS:
        raise InputError(f"metric: got {name!r}; expected one of {', '.join(CLASS_METRICS)}.")
    if name in _OF_ONE_CLASS:
        return partial(_OF_ONE_CLASS[name], positive=positive)
    return CLASS_METRICS[name]


def rarer_class(y: Tensor) -> int:
    """The class with fewer nodes of the two classes 0 and 1; 1 if they are equally frequent."""
    count = torch.bincount(y, minlength=2)
    return int(count[1] <= count[0])


_EVEN = 0.72
"""The entropy of 20 % and 80 %, as a share of ``log 2``: classes below it are imbalanced."""


def metric_for(y: Tensor) -> tuple[str, str]:
    """The validation score that suits training labels ``y [n]``, and the reason in words.

    Accuracy hardly counts the rare classes.  Classes are imbalanced if their entropy relative to
    equal frequencies, ``-sum_c p_c log p_c / log C``, is below that of two classes with 20 % and
    80 %.  The score is then average precision for two classes, and macro-F1 for more.
    """
    count = torch.bincount(y).double()
    share = count[count > 0] / count.sum()
    low, high = (f"{100 * float(end):.3g} %" for end in (share.min(), share.max()))
    why = f"the rarest class has {low} of the training labels and the most frequent one {high}"
    if len(share) < 2 or float(-(share * share.log()).sum()) >= _EVEN * math.log(len(share)):
        return "accuracy", why
    return ("average-precision" if len(share) == 2 else "macro-f1"), why


def _checked_confusion(logits: Tensor, y: Tensor) -> Tensor:
    correct(logits, y)  # checks the arguments
    return confusion(logits.argmax(1), y, logits.shape[1])


def _mean_over_classes(measure: Measure, logits: Tensor, y: Tensor, positive: int | None) -> float:
    correct(logits, y)  # checks the arguments
    if not y.numel():
        return float("nan")
    if logits.shape[1] == 2:
        wanted = [rarer_class(y) if positive is None else positive]
    else:
        wanted = y.unique().tolist()
    log_p = logits.double().log_softmax(1)
    found = [measure(_margin(log_p, one), y == one) for one in wanted]
    return sum(found) / len(found)


def _margin(log_p: Tensor, one: int) -> Tensor:
    """The score of a class: its log-odds, which keep their order where probabilities round to 1.

    In float32, so that equal distributions stay tied whatever the order of their classes.
    """
    rest = torch.cat([log_p[:, :one], log_p[:, one + 1 :]], 1).logsumexp(1)
    return (log_p[:, one] - rest).float()


def _steps(score: Tensor, hit: Tensor) -> tuple[Tensor, Tensor]:
    """Of each distinct score, highest first: nodes of the class and other nodes that have it."""
    level = score.unique(return_inverse=True)[1]
    count = int(level.max()) + 1
    own, other = (torch.bincount(level[part], minlength=count) for part in (hit, ~hit))
    return own.flip(0).double(), other.flip(0).double()


def binary_average_precision(score: Tensor, hit: Tensor) -> float:
    """Average precision of scores ``[n]`` for finding the nodes that ``hit [n]`` marks."""
    own, other = _steps(score, hit)
    precision = own.cumsum(0) / (own + other).cumsum(0)
    return float((precision * own).sum() / own.sum())


def binary_auroc(score: Tensor, hit: Tensor) -> float:
    """AUROC of scores ``[n]`` for finding the nodes that ``hit [n]`` marks."""
    own, other = _steps(score, hit)
    below = other.sum() - other.cumsum(0)
    return float((own * (below + other / 2)).sum() / (own.sum() * other.sum()))
