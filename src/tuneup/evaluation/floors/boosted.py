"""Gradient-boosted trees on a node's own features, in bounded time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuneup.graph import Features, take_features
from tuneup.graph.features import dense

from .logistic import Labelled

_WIDEST = 500
"""Columns of features above which no trees are grown."""
_WORK, _OVERHEAD = 3e9, 5_000
"""Of all trees, (rows + overhead) times columns: some 15 seconds of one core."""
_TREES = 2_000
"""Trees at most, since each has to be asked about every scored node."""
_ROUNDS = (20, 200)
"""Rounds of boosting to make room for, and to stop at."""
_ROWS = (1_000, 20_000)
"""Training rows below which a sample of more says too little, and the most that are used."""
_VALIDATION = 5_000
"""Validation rows at most."""


@dataclass(frozen=True)
class Budget:
    """How many training rows are used, and how many rounds of boosting at most."""

    rows: int
    rounds: int

    @classmethod
    def of(cls, rows: int, columns: int, classes: int) -> Budget | None:
        """Within the bounds of work and trees; ``None`` if too little could be done.

        A round grows a tree for each class, or a single one for two classes.
        """
        trees = classes if classes > 2 else 1
        cost = columns * trees
        used = min(rows, _ROWS[1], int(_WORK / (_ROUNDS[0] * cost)) - _OVERHEAD)
        if used < min(rows, _ROWS[0]) or _TREES // trees < _ROUNDS[0]:
            return None
        affordable = int(_WORK / ((used + _OVERHEAD) * cost))
        return cls(used, min(_ROUNDS[1], _TREES // trees, affordable))


def why_no_trees(train: Labelled) -> str:
    """Why no trees are grown on these rows, or an empty text."""
    columns, classes = train.x.shape[1], len(train.y.unique())
    if columns > _WIDEST:
        return f"skipped: {columns:,} columns of features, more than {_WIDEST:,}"
    if classes < 2:
        return "skipped: the training nodes have a single class"
    if Budget.of(len(train.y), columns, classes) is None:
        return f"skipped: {classes:,} classes and {columns:,} columns need too many large trees"
    return ""


@dataclass(eq=False)
class Boosted:
    """Fitted trees; they remember their last answer, as settings share nodes and features."""

    trees: Any
    classes: Tensor
    num_classes: int
    rows: int
    _last: tuple[Features, Tensor, Tensor] | None = field(default=None, repr=False)

    def __call__(self, x: Features, nodes: Tensor) -> Tensor:
        """Probabilities of the classes of some nodes ``[n, C]``; 0 for one that never trains."""
        if self._last is None or self._last[0] is not x or not torch.equal(self._last[1], nodes):
            rows = _array(take_features(x, nodes))
            found = torch.from_numpy(self.trees.predict_proba(rows)).float()
            whole = torch.zeros(len(found), self.num_classes).index_copy_(1, self.classes, found)
            self._last = (x, nodes, whole.to(nodes.device))
        return self._last[2]


def fit_boosted(train: Labelled, validation: Labelled, num_classes: int, seed: int) -> Boosted:
    """Trees on the training rows, or on a seeded sample of them.

    Boosting stops when the cross-entropy on the validation rows has not improved for 10 rounds.
    Call :func:`why_no_trees` first.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import

    budget = Budget.of(len(train.y), train.x.shape[1], len(train.y.unique()))
    assert budget is not None
    train = _sample(train, budget.rows, seed)
    classes = train.y.unique()
    seen = torch.isin(validation.y, classes).nonzero().view(-1)
    validation = _sample(_take(validation, seen), _VALIDATION, seed)
    stops = len(validation.y) > 0
    trees = HistGradientBoostingClassifier(
        max_iter=budget.rounds,
        max_leaf_nodes=16,
        min_samples_leaf=min(20, max(2, len(train.y) // 100)),
        l2_regularization=1.0,
        early_stopping=stops,
        n_iter_no_change=10,
        random_state=seed,
    )
    shown = {"X_val": _array(validation.x), "y_val": validation.y.cpu().numpy()} if stops else {}
    trees.fit(_array(train.x), train.y.cpu().numpy(), **shown)
    return Boosted(trees, classes.cpu(), num_classes, len(train.y))


def _take(labelled: Labelled, rows: Tensor) -> Labelled:
    return Labelled(take_features(labelled.x, rows), labelled.y[rows])


def _sample(labelled: Labelled, count: int, seed: int) -> Labelled:
    """A seeded sample of so many rows, or all."""
    if len(labelled.y) <= count:
        return labelled
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(labelled.y), generator=generator)[:count]
    return _take(labelled, chosen.sort().values.to(labelled.y.device))


def _array(x: Features) -> np.ndarray[Any, Any]:
    return dense(x).cpu().numpy()
