"""Multinomial logistic regression on dense or sparse features, chosen on validation nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tuneup.graph import Features

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Inverse penalties to choose from, ascending."""
_PATIENCE = 2
"""Strengths in a row without a better validation score after which the others are not tried."""
_UPDATES = 30
"""Of L-BFGS, for each strength; it starts from the weights of the one before."""


@dataclass(frozen=True, eq=False)
class Linear:
    """Logits ``x W + b [n, C]``: ``weight [d, C]`` and ``bias [C]``."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Features) -> Tensor:
        """Logits of rows of features ``[n, d]``."""
        return x @ self.weight + self.bias


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows of features ``[n, d]`` and their classes ``[n]``."""

    x: Features
    y: Tensor


def fit_logistic(train: Labelled, validation: Labelled, num_classes: int) -> tuple[Linear, float]:
    """The model that validates best, and its strength ``C``.

    For rows whose mean squared norm has been scaled to 1::

        loss = mean cross-entropy + |W|^2 / (2 C n)

    Models are compared by accuracy on the validation rows, then by cross-entropy.
    """
    norm = _norm(train.x)
    model = Linear(
        torch.zeros(train.x.shape[1], num_classes, device=train.y.device),
        torch.zeros(num_classes, device=train.y.device),
    )
    best, chosen, found, since = (-1.0, 0.0), model, STRENGTHS[0], 0
    for strength in STRENGTHS:
        model = _descend(train, model, norm, 1 / (strength * len(train.y)))
        logits = model(validation.x)
        hits = (logits.argmax(1) == validation.y).double().mean()
        score = (float(hits), -float(F.cross_entropy(logits, validation.y)))
        if score > best:
            best, chosen, found, since = score, model, strength, 0
        else:
            since += 1
        if since == _PATIENCE:
            break
    return chosen, found


def _norm(x: Features) -> float:
    """Root of the mean squared norm of the rows."""
    value = x if isinstance(x, Tensor) else x.value
    return max(math.sqrt(float(value.square().sum()) / x.shape[0]), 1e-12)


def _descend(train: Labelled, start: Linear, norm: float, penalty: float) -> Linear:
    """Some updates of L-BFGS on the penalised loss; the penalty is on ``norm * W``."""
    weight, bias = (start.weight * norm).requires_grad_(), start.bias.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weight, bias],
        max_iter=_UPDATES,
        history_size=10,
        tolerance_grad=1e-5,
        tolerance_change=1e-7,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        logits = train.x @ weight / norm + bias
        loss = F.cross_entropy(logits, train.y) + penalty / 2 * weight.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    return Linear(weight.detach() / norm, bias.detach())
