"""Floors of node classification, fitted on the labels that the trained model learns from.

==================  ==========================================================================
majority            the commonest class of the training nodes
neighbour-vote      the commonest class of a node's neighbours that are training nodes; equals,
                    and nodes without such a neighbour, by the classes of all training nodes
features-logistic   logistic regression on the node's own features
features-boosted    gradient-boosted trees on the node's own features
two-hop-logistic    logistic regression on features, their means over one and two hops, and degree
==================  ==========================================================================

Validation nodes choose the penalty and the number of trees.  Labels of other nodes are never read
but to score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tuneup.data import Graph
from tuneup.graph import take_features
from tuneup.graph.csr import rows_of
from tuneup.metrics import correct
from tuneup.metrics.scores import NodeScores
from tuneup.tasks import NodeClassification

from .base import Floor
from .classifiers import Labelled, TwoHop, fit_boosted, fit_logistic, why_no_trees

if TYPE_CHECKING:
    from tuneup.evaluation.settings import Setting

Predict = Callable[[Graph, Tensor], Tensor]
"""Probabilities of the classes of some nodes of a graph ``[n, C]``."""


@dataclass(frozen=True, eq=False)
class _Fitted:
    """What a fitted floor predicts, if it was not skipped, and a note about it."""

    predict: Predict | None
    note: str = ""


@dataclass(frozen=True, eq=False)
class _Kind:
    """A floor before it is fitted on a task with a seed."""

    name: str
    title: str
    fit: Callable[[NodeClassification, int], _Fitted]
    reads_features: bool


def node_floors(
    task: NodeClassification,
    settings: Sequence[Setting],
    *,
    seed: int = 0,
    has_features: bool = True,
) -> list[Floor]:
    """All floors of node classification, fitted once and scored in every setting.

    Args:
        task: its training and validation nodes are what floors are fitted on.
        settings: of :func:`tuneup.evaluation.node_settings`; their nodes have the global ids of
            the task's.
        seed: of samples and projections.
        has_features: whether ``x`` holds features of nodes; without any, the floors that read them
            are skipped.
    """
    task = replace(task, data=_single(task.data))
    settings = [replace(each, data=_single(each.data)) for each in settings]
    has_features = has_features and task.data.num_features > 0
    return [_floor(kind, task, settings, seed, has_features) for kind in _KINDS]


def _single(data: Graph) -> Graph:
    """The graph with dense features in single precision."""
    return replace(data, x=data.x.float()) if isinstance(data.x, Tensor) else data


def _floor(
    kind: _Kind,
    task: NodeClassification,
    settings: Sequence[Setting],
    seed: int,
    has_features: bool,
) -> Floor:
    if kind.reads_features and not has_features:
        return Floor(kind.name, kind.title, {}, note="skipped: the nodes have no features")
    with torch.no_grad():
        fitted = kind.fit(task, seed)
        if fitted.predict is None:
            return Floor(kind.name, kind.title, {}, note=fitted.note)
        found = {each.name: fitted.predict(each.data, each.nodes) for each in settings}
    scores = {each.name: _scored(each, found[each.name]) for each in settings}
    return Floor(kind.name, kind.title, scores, found, fitted.note)


def _scored(setting: Setting, probabilities: Tensor) -> NodeScores:
    assert setting.data.y is not None
    hits = correct(probabilities, setting.data.y[setting.nodes])
    degree = setting.data.adjacency.degree[setting.nodes]
    return NodeScores(setting.name, "accuracy", setting.ids, degree, hits)


def _train_y(task: NodeClassification) -> Tensor:
    assert task.data.y is not None
    return task.data.y[task.train]


def _shares(task: NodeClassification) -> Tensor:
    """The share of each class among the training nodes ``[C]``."""
    count = torch.bincount(_train_y(task), minlength=task.data.num_classes)
    return count / count.sum()


def _majority(task: NodeClassification, seed: int) -> _Fitted:
    shares = _shares(task)
    return _Fitted(lambda data, nodes: shares.expand(nodes.numel(), -1))


def _neighbour_vote(task: NodeClassification, seed: int) -> _Fitted:
    """``p(c) = (votes for c + share of c) / (votes + 1)``: shares only decide between equals."""
    shares, y = _shares(task), _train_y(task)
    trained = task.graph.global_ids[task.train]

    def predict(data: Graph, nodes: Tensor) -> Tensor:
        label = _spread(trained, y, data.adjacency.global_ids)
        heard = data.adjacency.neighbours.take(nodes)
        cast = label[heard.col]
        key = rows_of(heard.rowptr, cast.numel()) * len(shares) + cast
        votes = torch.bincount(key[cast >= 0], minlength=nodes.numel() * len(shares))
        votes = votes.view(nodes.numel(), len(shares))
        return (votes + shares) / (votes.sum(1, keepdim=True) + 1)

    return _Fitted(predict)


def _spread(ids: Tensor, y: Tensor, places: Tensor) -> Tensor:
    """The class of each place ``[N]``, by its global id; -1 where the id is not among ``ids``."""
    order = ids.argsort()
    at = torch.searchsorted(ids[order], places).clamp(max=ids.numel() - 1)
    return torch.where(ids[order][at] == places, y[order][at], -1)


def _labelled(task: NodeClassification) -> tuple[Labelled, Labelled]:
    """Features and classes of the training and of the validation nodes."""
    assert task.data.y is not None
    x, y = task.data.x, task.data.y
    train, validation = (
        Labelled(take_features(x, nodes), y[nodes]) for nodes in (task.train, task.validation)
    )
    return train, validation


def _features_logistic(task: NodeClassification, seed: int) -> _Fitted:
    model, strength = fit_logistic(*_labelled(task), task.data.num_classes)
    return _Fitted(
        lambda data, nodes: model(take_features(data.x, nodes)).softmax(1), _note(strength)
    )


def _features_boosted(task: NodeClassification, seed: int) -> _Fitted:
    train, validation = _labelled(task)
    reason = why_no_trees(train)
    if reason:
        return _Fitted(None, reason)
    model = fit_boosted(train, validation, task.data.num_classes, seed)
    note = f"{model.trees.n_iter_} rounds"
    if model.rows < len(train.y):
        note += f", on a sample of {model.rows:,} of {len(train.y):,} training nodes"
    return _Fitted(lambda data, nodes: model(data.x, nodes), note)


def _two_hop_logistic(task: NodeClassification, seed: int) -> _Fitted:
    train, validation = _labelled(task)
    inputs = TwoHop.on(task.data.x, seed)
    rows = inputs.rows(task.data, torch.cat([task.train, task.validation]))
    first, second = rows.split([len(train.y), len(validation.y)])
    model, strength = fit_logistic(
        Labelled(first, train.y), Labelled(second, validation.y), task.data.num_classes
    )
    return _Fitted(
        lambda data, nodes: inputs.logits(model, data, nodes).softmax(1), _note(strength)
    )


def _note(strength: float) -> str:
    return f"C = {strength:g}, chosen on validation nodes"


_KINDS = (
    _Kind("majority", "commonest class", _majority, False),
    _Kind("neighbour-vote", "vote of labelled neighbours", _neighbour_vote, False),
    _Kind("features-logistic", "logistic regression on features", _features_logistic, True),
    _Kind("features-boosted", "gradient boosting on features", _features_boosted, True),
    _Kind("two-hop-logistic", "logistic regression on two-hop means", _two_hop_logistic, True),
)
