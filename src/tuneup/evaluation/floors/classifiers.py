"""Simple classifiers of nodes: logistic regression, gradient-boosted trees, and two-hop means."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tuneup.data import Graph
from tuneup.graph import Adjacency, Features, SparseMatrix, take_features
from tuneup.graph.features import dense

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Inverse penalties to choose from, ascending."""
_PATIENCE = 2
"""Strengths in a row without a better validation score after which the others are not tried."""
_UPDATES = 30
"""Of L-BFGS, for each strength; it starts from the weights of the one before."""
_MOST_COLUMNS = 500
"""Columns of features above which no trees are grown."""
_WORK, _OVERHEAD = 3e9, 5_000
"""Of all trees, (rows + overhead) times columns: some 15 seconds of one core."""
_TREES = 2_000
"""Trees at most, since each predicts every scored node."""
_ROUNDS = (20, 200)
"""Rounds of boosting to make room for, and to stop at."""
_ROWS = (1_000, 20_000)
"""Training rows below which a sample of more says too little, and the most that are used."""
_VALIDATION = 5_000
"""Validation rows at most."""
_WIDE = 512
"""Columns of features above which they are projected."""
_PROJECTED = 256
"""Columns that they are projected to."""
TREE_COLUMNS = 64
"""Columns of features that trees read the two-hop means of."""
_ITERATIONS = 3


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

    def take(self, rows: Tensor) -> Labelled:
        """Some of the rows."""
        return Labelled(take_features(self.x, rows), self.y[rows])

    def sample(self, count: int, seed: int) -> Labelled:
        """A seeded sample of so many rows, or all."""
        if len(self.y) <= count:
            return self
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.randperm(len(self.y), generator=generator)[:count]
        return self.take(chosen.sort().values.to(self.y.device))


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
    if columns > _MOST_COLUMNS:
        return f"skipped: {columns:,} columns of features, more than {_MOST_COLUMNS:,}"
    if classes < 2:
        return "skipped: the training nodes have a single class"
    if Budget.of(len(train.y), columns, classes) is None:
        return f"skipped: {classes:,} classes and {columns:,} columns need too many large trees"
    return ""


@dataclass(eq=False)
class Boosted:
    """Fitted trees, with a cache of the last prediction: settings share nodes and features."""

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
    train = train.sample(budget.rows, seed)
    classes = train.y.unique()
    seen = torch.isin(validation.y, classes).nonzero().view(-1)
    validation = validation.take(seen).sample(_VALIDATION, seed)
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


def _array(x: Features) -> np.ndarray[Any, Any]:
    return dense(x).cpu().numpy()


@dataclass(frozen=True, eq=False)
class TwoHop:
    """Inputs ``[x, A x, A A x, log(1 + degree)]`` with ``A`` the mean over neighbours.

    Wide features are projected onto ``basis [d, p]`` first, close to their principal directions on
    the training graph.
    """

    basis: Tensor | None

    @classmethod
    def on(cls, x: Features, seed: int, columns: int | None = None) -> TwoHop:
        """With a basis of the features of the training graph, if they are wide.

        Wide is more than ``columns``, which they are then projected to; by default more than 512,
        projected to 256.
        """
        wide = x.shape[1] > (columns or _WIDE)
        return cls(_principal(x, columns or _PROJECTED, seed) if wide else None)

    def rows(self, data: Graph, nodes: Tensor) -> Tensor:
        """The inputs of some nodes ``[n, 3 d + 1]``."""
        mean = data.adjacency.matrix("mean")
        own = dense(data.x) if self.basis is None else data.x @ self.basis
        one = mean @ own
        parts = [part.index_select(0, nodes) for part in (own, one, mean @ one)]
        return torch.cat([*parts, _log_degree(data.adjacency)[nodes]], 1)

    def logits(self, model: Linear, data: Graph, nodes: Tensor) -> Tensor:
        """Logits of some nodes by a model of such inputs ``[n, C]``.

        Means commute with linear maps: ``x W_0 + A (x W_1 + A (x W_2))`` never widens.
        """
        mean = data.adjacency.matrix("mean")
        *weights, of_degree = model.weight.split([(len(model.weight) - 1) // 3] * 3 + [1])
        if self.basis is not None:
            weights = [self.basis @ weight for weight in weights]
        own, one, two = (data.x @ weight for weight in weights)
        total: Tensor = own + mean @ (one + mean @ two) + _log_degree(data.adjacency) @ of_degree
        return total.index_select(0, nodes) + model.bias


def _log_degree(adjacency: Adjacency) -> Tensor:
    return adjacency.degree.float().log1p()[:, None]


def _principal(x: Features, columns: int, seed: int) -> Tensor:
    """Orthonormal directions ``[d, columns]`` by some rounds of subspace iteration on ``x^T x``."""
    generator = torch.Generator().manual_seed(seed)
    basis = torch.randn(x.shape[1], columns, generator=generator)
    basis = basis.to(x.device if isinstance(x, Tensor) else x.value.device)
    across = x.t() if isinstance(x, Tensor) else _transposed(x)
    for _ in range(_ITERATIONS):
        basis = torch.linalg.qr(across @ (x @ basis)).Q
    return basis


def _transposed(x: SparseMatrix) -> SparseMatrix:
    return SparseMatrix(*x.transpose(), num_cols=x.shape[0])
