"""Semi-supervised node classification: few nodes have labels, all are in the graph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.data import Graph, NodeSplit, cold_start
from tuneup.errors import InputError
from tuneup.graph import Adjacency, feature_tensors, take_features
from tuneup.metrics.calibration import Temperature, fit_temperatures
from tuneup.metrics.classification import Measure, class_metric, rarer_class
from tuneup.metrics.multilabel import MULTI_LABEL_METRICS
from tuneup.names import Selection
from tuneup.nn import Classes, Forward, Model, Sample
from tuneup.nn.forward import draw_sample

from .base import (
    COLD_SEED,
    EVERY_RATIO,
    WHOLE,
    GraphView,
    Moment,
    Task,
    Unvalidated,
    batch_indices,
    check_batch_size,
    check_neighbors,
    check_selection,
    digest_tensors,
    evaluating,
    sample_key,
    slice_of,
)
from .pseudo_labelling import PseudoLabels, pseudo_labels

ClassWeights = Tensor | Literal["balanced"] | None
"""A weight for each class ``[C]``, weights that balance the training labels, or none."""

_COLD_BUDGET = 1 << 28
"""Bytes that a cold copy may keep of its first aggregation."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Supervised nodes ``[n]`` and their classes ``[n]`` or ``[n, C]``, true labels first.

    Of one class a node, ``[n, C]`` are targets for each class, such as probabilities.
    """

    nodes: Tensor
    y: Tensor
    num_true: int


@dataclass(frozen=True, eq=False)
class NodeClassification(Task[Labels]):
    """Cross-entropy on the training nodes, accuracy or another measure on the validation nodes.

    Where nodes have any number of classes (``data.y`` is ``[N, C]``), every class is decided by
    itself: binary cross-entropy, micro-F1, and pseudo-labels class by class.

    Example::

        task = tuneup.NodeClassification(graph, train, validation, metric="macro-f1")
        result = tuneup.fit(model, task, pretrain=schedule, finetune=schedule)

    Args:
        data: the training graph; labels outside ``train`` and ``validation`` are never read.
        train: nodes whose labels enter the loss.
        validation: nodes whose labels choose the epoch.
        label_validation: whether validation nodes get pseudo-labels too (off: it would pull the
            validation score towards the base).
        prune: whether layers are computed only where the loss reads them.
        batch_size: supervised nodes per update; by default all of them, the paper's full batch.
        metric: validation score, one of :data:`tuneup.metrics.CLASS_METRICS`, by default accuracy;
            with several classes a node one of :data:`tuneup.metrics.MULTI_LABEL_METRICS`, by
            default micro-F1.  Of two classes, "average-precision" and "auroc" are about the rarer
            one of the training labels.
        class_weights: of the loss ``[C]``; "balanced" gives every class of the training labels the
            same total weight.  With several classes a node, of the nodes that have the class
            against a weight of 1 for those that do not; "balanced" makes both sides weigh the same.
        selection: whether validation nodes are scored as they are ("transductive"), without a share
            of their edges ("cold"), or both ("balanced").
        num_neighbors: neighbours that a batch reads of a node, for each layer from the outputs
            back; -1: all of them. By default updates are passes over the whole graph.
    """

    kind = "node-classification"

    data: Graph
    train: Tensor
    validation: Tensor
    label_validation: bool = False
    prune: bool = True
    batch_size: int | None = None
    metric: str = ""
    selection: Selection = "transductive"
    class_weights: ClassWeights = None
    num_neighbors: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if not self.metric:
            default = "micro-f1" if self.data.multi_label else "accuracy"
            object.__setattr__(self, "metric", default)
        check_selection(self.selection)
        if self.data.y is None:
            raise InputError(f"{self.data.name} has no labels y.")
        check_batch_size(self.batch_size)
        check_neighbors(self.num_neighbors, self.graph)
        for name in ("train", "validation"):
            nodes: Tensor = getattr(self, name)
            if name == "validation" and not self.is_validated and not nodes.numel():
                continue
            if nodes.dtype != torch.long or nodes.dim() != 1 or nodes.numel() == 0:
                raise InputError(f"{name} must be a non-empty int64 list of nodes.")
            if int(nodes.min()) < 0 or int(nodes.max()) >= self.data.num_nodes:
                raise InputError(f"{name} names a node outside 0..{self.data.num_nodes - 1}.")
            if nodes.unique().numel() != nodes.numel():
                raise InputError(f"{name} names a node more than once: pass nodes.unique().")
            unlabelled = nodes[~self.data.has_label[nodes]]
            if unlabelled.numel():
                raise InputError(
                    f"{name} holds node {int(unlabelled[0])}, which has no label: leave such nodes "
                    "out, as mask & (y >= 0) does."
                )
        shared = self.train[torch.isin(self.train, self.validation)]
        if shared.numel():
            raise InputError(
                f"train and validation share {shared.numel()} nodes, such as node "
                f"{int(shared[0])}: validation would be contaminated. Take them out of train."
            )
        self.measure, self.weights  # noqa: B018  refuse what they cannot be made of

    @classmethod
    def from_split(
        cls,
        data: Graph,
        split: NodeSplit,
        *,
        label_validation: bool = False,
        prune: bool = True,
        metric: str = "",
        class_weights: ClassWeights = None,
    ) -> NodeClassification:
        """The task on the known nodes V of a split, renumbered: new nodes are not in it."""
        train, validation = map(split.positions, (split.train, split.validation))
        return cls(
            data.induce(split.known),
            train,
            validation,
            label_validation,
            prune,
            metric=metric,
            class_weights=class_weights,
        )

    @cached_property
    def measure(self) -> Measure:
        """The validation score of logits ``[n, C]`` and labels ``[n]``."""
        assert self.data.y is not None
        y, count = self.data.y[self.validation], self.data.num_classes
        if self.data.multi_label:
            return _multi_label_measure(self.metric, y)
        return measure_of(self.metric, self.positive, y, count)

    @property
    def positive(self) -> int | None:
        """Of two classes the rarer one of the training labels; ``None`` if there are more."""
        assert self.data.y is not None
        if self.data.multi_label or self.data.num_classes != 2:
            return None
        return rarer_class(self.data.y[self.train])

    @cached_property
    def weights(self) -> Tensor | None:
        """Weight of each class in the loss ``[C]``, if there are any."""
        assert self.data.y is not None
        return weights_of(self.class_weights, self.data.y[self.train], self.data.num_classes)

    @property
    def graph(self) -> Adjacency:  # type: ignore[override]
        """The training graph G."""
        return self.data.adjacency

    @cached_property
    def forward(self) -> Forward:
        """The pass over G that remembers what does not change."""
        return Forward(self.data.x, self.graph, prune=self.prune, layered=self._layered)

    @property
    def _layered(self) -> bool:
        return self.num_neighbors is not None

    def supervision(self, pseudo: PseudoLabels | None = None) -> Labels:
        """True labels, then pseudo-labels; a true label is never overwritten."""
        assert self.data.y is not None
        nodes, y = self.train, self.data.y[self.train]
        if pseudo is None:
            return Labels(nodes, y, nodes.numel())
        new = ~torch.isin(pseudo.nodes, self.train)
        if pseudo.y.dim() > y.dim():  # a number for each class
            y = F.one_hot(y, self.data.num_classes).to(pseudo.y)
        return Labels(
            torch.cat([nodes, pseudo.nodes[new]]), torch.cat([y, pseudo.y[new]]), nodes.numel()
        )

    def batches(self, supervision: Labels, moment: Moment) -> Iterator[Labels]:
        """Every supervised node once an epoch, in an order of its own for each."""
        if self.batch_size is None:
            yield supervision
            return
        nodes = supervision.nodes
        for part in batch_indices(nodes.numel(), self.batch_size, moment, nodes.device):
            true = int((part < supervision.num_true).sum())
            yield Labels(supervision.nodes[part], supervision.y[part], true)

    def size(self, supervision: Labels) -> int:
        """Number of supervised nodes."""
        return supervision.nodes.numel()

    def slice(
        self, supervision: Labels, moment: Moment, part: int, parts: int
    ) -> tuple[Labels, Moment]:
        """One of several slices of the supervised nodes."""
        first, end = slice_of(supervision.nodes.numel(), part, parts)
        true = min(max(0, supervision.num_true - first), end - first)
        return Labels(supervision.nodes[first:end], supervision.y[first:end], true), moment

    def weight(self, supervision: Labels) -> float:
        """Total weight of the classes of the supervised nodes: their number without weights."""
        if self.weights is None or self.data.multi_label or supervision.y.dim() == 2:
            return float(self.size(supervision))
        return float(self.weights[supervision.y].sum())

    def loss(
        self, model: nn.Module, view: GraphView, supervision: Labels, moment: Moment
    ) -> Tensor:
        """Mean cross-entropy over every supervised node of the view, pseudo-labels included.

        With class weights it is ``sum_v w_{y_v} CE_v / sum_v w_{y_v}``; with several classes a node
        the mean over nodes and classes of the binary cross-entropy.

        ``view.extra`` are :class:`Labels` of view nodes that ``supervision`` says nothing about.
        """
        if view.sample is not None:
            logits = self._checked(model, view.sample.outputs(model))
            return self.cross_entropy(logits, supervision.y)
        forward, nodes, y = self.forward, supervision.nodes, supervision.y
        if view.nodes is not None:
            x = take_features(self.data.x, view.nodes)
            forward = Forward(x, view.graph, prune=self.prune)
            place = nodes.new_full((self.data.num_nodes,), -1)
            place[nodes] = torch.arange(nodes.numel(), device=nodes.device)
            place = place[view.nodes]
            nodes = (place >= 0).nonzero().view(-1)
            y = y[place[nodes]]
        if view.extra is not None:
            nodes, y = torch.cat([nodes, view.extra.nodes]), torch.cat([y, view.extra.y])
        return self.cross_entropy(self._logits(forward, model, view.graph, nodes), y)

    def draw_sample(self, graph: Adjacency, supervision: Labels, moment: Moment) -> Sample:
        """The neighbourhoods of the supervised nodes."""
        assert self.num_neighbors is not None
        key = sample_key(moment)
        return draw_sample(graph, supervision.nodes, self.num_neighbors, key, self.data.x)

    def cross_entropy(self, logits: Tensor, y: Tensor) -> Tensor:
        """The mean cross-entropy of logits ``[n, C]``, with the class weights if there are any.

        ``y`` are classes ``[n]``, or a number for each class ``[n, C]`` that its ``-log p`` is
        multiplied with: a probability, say.
        """
        weights = self.weights
        if self.data.multi_label:
            logits = logits[:, : self.data.num_classes]  # a model may answer more numbers
            weights = None if weights is None else weights.to(logits)
            return F.binary_cross_entropy_with_logits(logits, y.to(logits), pos_weight=weights)
        if y.dim() == 2:
            y = F.pad(y, (0, logits.shape[1] - y.shape[1]))  # a model may answer more numbers
        if weights is None:
            return F.cross_entropy(logits, y)
        width = logits.shape[1] - weights.numel()  # a model may answer more numbers
        return F.cross_entropy(logits, y, F.pad(weights, (0, width), value=1.0).to(logits))

    @cached_property
    def _copies(self) -> dict[float, Forward]:
        """The pass over G, and over copies of G whose validation nodes lost edges, by ratio."""
        return {WHOLE: self.forward}

    def _copy(self, ratio: float) -> Forward:
        if ratio not in self._copies:
            ids = self.graph.global_ids[self.validation]
            cold = cold_start(self.graph, ids, ratio, COLD_SEED)
            self._copies[ratio] = Forward(
                self.data.x, cold, _COLD_BUDGET, self.prune, layered=self._layered
            )
        return self._copies[ratio]

    def validation_scores(
        self, model: nn.Module, ratios: Sequence[float] = (WHOLE,)
    ) -> dict[float, float]:
        """The metric on the validation nodes by share of removed edges; NaN if a logit is."""
        return {ratio: self._score(self.validation_logits(model, ratio)) for ratio in ratios}

    def validation_logits(self, model: nn.Module, ratio: float = WHOLE) -> Tensor:
        """Logits of the validation nodes ``[n, C]`` without a share of their edges."""
        forward = self._copy(ratio)
        with evaluating(model):
            return self._logits(forward, model, forward.graph, self.validation)

    def temperature(self, model: nn.Module) -> Temperature:
        """The temperatures that calibrate the model's probabilities of the validation nodes.

        These are taken as they are and without 30, 60 and 90 % of their edges, so that the
        probabilities of nodes with few edges or none are calibrated too.
        """
        if self.data.multi_label:
            raise InputError("temperature: calibrates one class a node, not several.")
        assert self.data.y is not None
        logits = [self.validation_logits(model, ratio) for ratio in EVERY_RATIO]
        degree = [self._copy(ratio).graph.degree[self.validation] for ratio in EVERY_RATIO]
        y = self.data.y[self.validation].repeat(len(EVERY_RATIO))
        return fit_temperatures(torch.cat(logits), y, torch.cat(degree))

    def _score(self, logits: Tensor) -> float:
        assert self.data.y is not None
        if logits.isnan().any():
            return float("nan")
        if self.data.multi_label:
            logits = logits[:, : self.data.num_classes]
        return self.measure(logits, self.data.y[self.validation])

    def outputs(self, model: nn.Module) -> Tensor:
        """Logits of all nodes of G ``[N, C]``."""
        return self._logits(self.forward, model, self.graph)

    def pseudo_labels(self, model: nn.Module) -> PseudoLabels:
        """Best guesses on V without V_labelled, where a node has an edge."""
        known = torch.zeros(self.data.num_nodes, dtype=torch.bool, device=self.train.device)
        known[self.train] = True
        if not self.label_validation:
            known[self.validation] = True
        with evaluating(model):
            logits = self.outputs(model)
        if self.data.multi_label:
            logits = logits[:, : self.data.num_classes]
        return pseudo_labels(logits, self.graph, known, multi_label=self.data.multi_label)

    def _logits(
        self, forward: Forward, model: nn.Module, graph: Adjacency, rows: Tensor | None = None
    ) -> Tensor:
        return self._checked(model, forward(model, graph, rows))

    def _checked(self, model: nn.Module, logits: Tensor) -> Tensor:
        """Logits of a model that classifies, with as many columns as there are classes or more."""
        if isinstance(model, Model) and not isinstance(model.head, Classes):
            raise InputError(
                f"head: got {type(model.head).__name__}; expected Classes() to classify nodes. If "
                "links are to be predicted, give the data in two parts, as RandomLinkSplit does."
            )
        if logits.dim() != 2 or logits.shape[1] < self.data.num_classes:
            raise InputError(
                f"{type(model).__name__} must answer {self.data.num_classes} numbers per node, one "
                f"per class of {self.data.name}; got shape {list(logits.shape[1:])} per node."
            )
        return logits

    def digest(self) -> str:
        """Features, edges, the labels that training may read, and the options that change it."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        y, x = self.data.y, self.data.x
        assert y is not None
        parts = feature_tensors(x)
        edges: tuple[Tensor, ...] = (self.graph.rowptr, self.graph.col, self.graph.global_ids)
        if self.graph.weight is not None:
            edges = (*edges, self.graph.weight)
        seen = (self.train, self.validation, y[self.train], y[self.validation])
        weights = () if self.weights is None else (self.weights,)
        plain = (self.label_validation, self.prune, self.batch_size, self.graph.undirected)
        options: tuple[object, ...] = plain
        if self.selection != "transductive":
            options = (*options, self.selection)
        if self.num_neighbors is not None:
            options = (*options, tuple(self.num_neighbors))
        return f"{digest_tensors(*parts, *edges, *seen, *weights)} {options}"


def measure_of(metric: str, positive: int | None, validation: Tensor, count: int) -> Measure:
    """The measure of a name, on validation labels ``[m]`` that must define it if there are any."""
    measure = class_metric(metric, positive)
    if metric != "accuracy" and validation.numel():
        y = validation.cpu()
        if math.isnan(measure(torch.zeros(y.numel(), count), y)):
            raise InputError(
                f"validation: got {y.numel()} nodes of class {int(y[0])}; {metric} needs nodes of "
                "the class to find and others. Add some, or choose another metric."
            )
    return measure


def _multi_label_measure(metric: str, validation: Tensor) -> Measure:
    """The measure of a name, on validation labels ``[m, C]`` that must define it."""
    if metric not in MULTI_LABEL_METRICS:
        allowed = ", ".join(MULTI_LABEL_METRICS)
        raise InputError(
            f"metric: got {metric!r}; expected one of {allowed}, as nodes have several classes."
        )
    measure = MULTI_LABEL_METRICS[metric]
    if validation.numel() and math.isnan(measure(validation - 0.5, validation)):
        raise InputError(
            f"validation: got no class that some of the {len(validation)} nodes have and others do "
            f"not; {metric} needs one. Add nodes, or choose another metric."
        )
    return measure


def weights_of(given: ClassWeights, train: Tensor, count: int) -> Tensor | None:
    """A weight for each class ``[C]``: balanced, ``n / (C n_c)`` with the C classes in train.

    With several classes a node, that of the ``n_c`` nodes with the class: ``(n - n_c) / n_c``.
    """
    if given is None:
        return None
    if isinstance(given, str) and given == "balanced":
        if train.dim() == 2:
            positive = train.sum(0)
            return (len(train) - positive).clamp(min=1) / positive.clamp(min=1)
        found = torch.bincount(train, minlength=count).float()
        return torch.where(found > 0, train.numel() / ((found > 0).sum() * found), 1.0)
    shaped = isinstance(given, Tensor) and given.shape == (count,) and given.is_floating_point()
    if not shaped or not ((given > 0) & given.isfinite()).all():
        raise InputError(
            f"class_weights: got {given!r}; expected 'balanced' or {count} numbers above 0, a "
            "weight for each class."
        )
    return given


class AllLabels(Unvalidated, NodeClassification):
    """Node classification that learns from every label and holds none out for validation."""
