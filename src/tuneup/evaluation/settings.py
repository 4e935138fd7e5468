"""The paper's settings: one trained model, asked on graphs it was and was not trained on.

==============  ===============================================================  ===============
setting         input graph                                                      scored nodes
==============  ===============================================================  ===============
transductive    G, the induced subgraph on the known nodes V                     the test nodes
inductive       the whole graph, edges among new nodes included                  V_new
cold-r          the same, r % of the edges that touch a new node removed         V_new
==============  ===============================================================  ===============

A node whose own label is unknown (-1) is in the graphs, but is never scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor, nn

from tuneup.data import COLD_RATIOS, Graph, NodeSplit, cold_start
from tuneup.errors import InputError
from tuneup.metrics.accuracy import correct
from tuneup.metrics.calibration import UNIT, Temperature
from tuneup.metrics.multilabel import node_f1
from tuneup.metrics.scores import NodeScores
from tuneup.nn import Forward
from tuneup.tasks.base import evaluating

from .classes import ClassReport


@dataclass(frozen=True, eq=False)
class Setting:
    """A graph to predict on, and the nodes whose predictions are scored.

    ``nodes [n]`` count within ``data``; ``ids [n]`` are their global ids.
    """

    name: str
    data: Graph
    nodes: Tensor
    ids: Tensor

    @cached_property
    def forward(self) -> Forward:
        """The pass over this graph, shared by every model that is evaluated on it."""
        return Forward(self.data.x, self.data.adjacency)

    def score(self, model: nn.Module) -> NodeScores:
        """1 where the model's most probable class is the true one, else 0; with degrees.

        Of a node with any number of classes it is the F1 of those predicted.
        """
        if self.data.multi_label:
            found = node_f1(self.logits(model)[:, : self.data.num_classes], self.y)
            return NodeScores(self.name, "f1", self.ids, self.degree, found)
        hits = correct(self.logits(model), self.y)
        return NodeScores(self.name, "accuracy", self.ids, self.degree, hits)

    def logits(self, model: nn.Module) -> Tensor:
        """The model's outputs for the scored nodes ``[n, C]``."""
        with evaluating(model):
            return self.forward(model, self.data.adjacency, self.nodes)

    def predict(self, model: nn.Module, temperature: Temperature = UNIT) -> Tensor:
        """Probabilities of the classes of the scored nodes, ``softmax(logits / T) [n, C]``."""
        return temperature.probabilities(self.logits(model), self.degree)

    def report(
        self, model: nn.Module, temperature: Temperature = UNIT, *, positive: int | None = None
    ) -> ClassReport:
        """Measures, confusion table and calibration of the model; see :class:`ClassReport`."""
        found = self.predict(model, temperature)
        return ClassReport.of(found, self.y, self.degree, positive=positive)

    @property
    def y(self) -> Tensor:
        """True classes of the scored nodes ``[n]``."""
        if self.data.y is None:
            raise InputError(f"{self.data.name} has no labels to score {self.name} nodes by.")
        return self.data.y[self.nodes]

    @property
    def degree(self) -> Tensor:
        """Degrees of the scored nodes in this graph ``[n]``."""
        return self.data.adjacency.degree[self.nodes]


def node_settings(
    data: Graph, split: NodeSplit, *, ratios: Sequence[float] = COLD_RATIOS
) -> tuple[Setting, ...]:
    """Transductive, inductive and cold start, for node classification."""
    test, new = _with_label(data, split.test), _with_label(data, split.new)
    known = data.induce(split.known)
    settings = [Setting("transductive", known, split.positions(test), test)]
    if new.numel():
        settings.append(Setting("inductive", data, new, new))
        for ratio in ratios:
            cold = data.with_adjacency(cold_start(data.adjacency, split.new, ratio, split.seed))
            settings.append(Setting(f"cold-{round(100 * ratio)}", cold, new, new))
    return tuple(settings)


def _with_label(data: Graph, nodes: Tensor) -> Tensor:
    return nodes if data.y is None else nodes[data.has_label[nodes]]


def evaluate(model: nn.Module, settings: Sequence[Setting]) -> dict[str, NodeScores]:
    """The model's per-node scores in every setting, by name."""
    if not all(isinstance(setting, Setting) for setting in settings):
        raise InputError("evaluate(model, settings) takes what node_settings(graph, split) makes.")
    return {setting.name: setting.score(model) for setting in settings}
