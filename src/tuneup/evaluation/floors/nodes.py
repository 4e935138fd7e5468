"""Floors of node classification, fitted on the labels that the trained model learns from.

==================  ==========================================================================
majority            the commonest class of the training nodes
neighbour-vote      the commonest class of a node's neighbours that are training nodes; equals,
                    and nodes without such a neighbour, by the classes of all training nodes
features-logistic   logistic regression on the node's own features
features-boosted    gradient-boosted trees on the node's own features
two-hop-logistic    logistic regression on features, their means over one and two hops, and degree
two-hop-boosted     gradient-boosted trees on the same, fitted on the training nodes as they are and
                    without 30, 60 and 90 % of their edges, so that cold nodes are no surprise
==================  ==========================================================================

Validation nodes choose the penalty and the number of trees.  Labels of other nodes are never read
but to score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tuneup.data import COLD_RATIOS, Graph, cold_start
from tuneup.graph import take_features
from tuneup.graph.csr import rows_of
from tuneup.metrics import correct
from tuneup.metrics.scores import NodeScores
from tuneup.tasks import NodeClassification

from .base import Floor
from .classifiers import (
    TREE_COLUMNS,
    Labelled,
    TwoHop,
    fit_boosted,
    fit_logistic,
    why_no_trees,
)

if TYPE_CHECKING:
    from tuneup.evaluation.settings import Setting

Predict = Callable[[Graph, Tensor], Tensor]
"""Probabilities of the classes of some nodes of a graph ``[n, C]``."""
Fitted = tuple[Predict | None, str]
"""What a floor predicts and how it was fitted, or None and why it was skipped."""


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
    floors = []
    for name, title, fit, reads_features in _KINDS:
        predict, note = None, "skipped: the nodes have no features"
        found: dict[str, Tensor] = {}
        with torch.no_grad():
            if has_features or not reads_features:
                predict, note = fit(task, seed)
            if predict is not None:
                found = {each.name: predict(each.data, each.nodes) for each in settings}
        scores = {
            each.name: NodeScores(
                each.name, "accuracy", each.ids, each.degree, correct(found[each.name], each.y)
            )
            for each in settings
            if found
        }
        floors.append(Floor(name, title, scores, found, note))
    return floors


def _single(data: Graph) -> Graph:
    """The graph with dense features in single precision."""
    return replace(data, x=data.x.float()) if isinstance(data.x, Tensor) else data


def _train_y(task: NodeClassification) -> Tensor:
    assert task.data.y is not None
    return task.data.y[task.train]


def _shares(task: NodeClassification) -> Tensor:
    """The share of each class among the training nodes ``[C]``."""
    count = torch.bincount(_train_y(task), minlength=task.data.num_classes)
    return count / count.sum()


def _majority(task: NodeClassification, seed: int) -> Fitted:
    shares = _shares(task)
    return lambda data, nodes: shares.expand(nodes.numel(), -1), ""


def _neighbour_vote(task: NodeClassification, seed: int) -> Fitted:
    """``p(c) = (votes for c + share of c) / (votes + 1)``: shares only decide between equals."""
    shares, y = _shares(task), _train_y(task)
    trained = task.graph.global_ids[task.train]

    def predict(data: Graph, nodes: Tensor) -> Tensor:
        label = _spread(trained, y, data.adjacency.global_ids)
        near = data.adjacency.neighbours.take(nodes)
        cast = label[near.col]
        key = rows_of(near.rowptr, cast.numel()) * len(shares) + cast
        votes = torch.bincount(key[cast >= 0], minlength=nodes.numel() * len(shares))
        votes = votes.view(nodes.numel(), len(shares))
        return (votes + shares) / (votes.sum(1, keepdim=True) + 1)

    return predict, ""


def _spread(ids: Tensor, y: Tensor, places: Tensor) -> Tensor:
    """The class of each place ``[N]``, by its global id; -1 where the id is not among ``ids``."""
    order = ids.argsort()
    at = torch.searchsorted(ids[order], places).clamp(max=ids.numel() - 1)
    return torch.where(ids[order][at] == places, y[order][at], -1)


def _labelled(task: NodeClassification) -> tuple[Labelled, Labelled]:
    """Features and classes of the training and of the validation nodes."""
    assert task.data.y is not None
    known = Labelled(task.data.x, task.data.y)
    return known.take(task.train), known.take(task.validation)


def _features_logistic(task: NodeClassification, seed: int) -> Fitted:
    model, strength = fit_logistic(*_labelled(task), task.data.num_classes)
    note = f"C = {strength:g}, chosen on validation nodes"
    return lambda data, nodes: model(take_features(data.x, nodes)).softmax(1), note


def _features_boosted(task: NodeClassification, seed: int) -> Fitted:
    train, validation = _labelled(task)
    reason = why_no_trees(train)
    if reason:
        return None, reason
    model = fit_boosted(train, validation, task.data.num_classes, seed)
    note = f"{model.trees.n_iter_} rounds"
    if model.rows < len(train.y):
        note += f", on a sample of {model.rows:,} of {len(train.y):,} training nodes"
    return lambda data, nodes: model(data.x, nodes), note


def _two_hop_logistic(task: NodeClassification, seed: int) -> Fitted:
    train, validation = _labelled(task)
    inputs = TwoHop.on(task.data.x, seed)
    rows = inputs.rows(task.data, torch.cat([task.train, task.validation]))
    first, second = rows.split([len(train.y), len(validation.y)])
    model, strength = fit_logistic(
        Labelled(first, train.y), Labelled(second, validation.y), task.data.num_classes
    )
    note = f"C = {strength:g}, chosen on validation nodes"
    return lambda data, nodes: inputs.logits(model, data, nodes).softmax(1), note


def _two_hop_boosted(task: NodeClassification, seed: int) -> Fitted:
    count = task.data.num_classes
    inputs = TwoHop.on(task.data.x, seed, TREE_COLUMNS)
    parts = [_with_copies(task, nodes, inputs, seed) for nodes in (task.train, task.validation)]
    reason = why_no_trees(parts[0])
    if reason:
        return None, reason
    model = fit_boosted(parts[0], parts[1], count, seed)
    note = (
        f"{model.trees.n_iter_} rounds, on {model.rows:,} rows of nodes with fewer and fewer edges"
    )

    def predict(data: Graph, nodes: Tensor) -> Tensor:
        return model(inputs.rows(data, nodes), torch.arange(nodes.numel(), device=nodes.device))

    return predict, note


def _with_copies(task: NodeClassification, nodes: Tensor, inputs: TwoHop, seed: int) -> Labelled:
    """Rows of nodes as they are, then without a share of their own edges."""
    assert task.data.y is not None
    ids = task.graph.global_ids[nodes]
    graphs = [cold_start(task.graph, ids, ratio, seed) for ratio in COLD_RATIOS]
    rows = [inputs.rows(task.data.with_adjacency(graph), nodes) for graph in (task.graph, *graphs)]
    return Labelled(torch.cat(rows), task.data.y[nodes].repeat(len(rows)))


_Kind = tuple[str, str, Callable[[NodeClassification, int], Fitted], bool]
_KINDS: tuple[_Kind, ...] = (  # name, title, how it is fitted, whether it reads features
    ("majority", "commonest class", _majority, False),
    ("neighbour-vote", "vote of labelled neighbours", _neighbour_vote, False),
    ("features-logistic", "logistic regression on features", _features_logistic, True),
    ("features-boosted", "gradient boosting on features", _features_boosted, True),
    ("two-hop-logistic", "logistic regression on two-hop means", _two_hop_logistic, True),
    ("two-hop-boosted", "gradient boosting on two-hop means", _two_hop_boosted, True),
)
