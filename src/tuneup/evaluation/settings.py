"""The paper's settings: one trained model, scored on graphs it was and was not trained on.

Where classes are predicted:

==============  ===============================================================  ===============
setting         input graph                                                      scored nodes
==============  ===============================================================  ===============
transductive    G, the induced subgraph on the known nodes V                     the test nodes
inductive       the whole graph, edges among new nodes included                  V_new
cold-r          the same, r % of the edges that touch a new node removed         V_new
==============  ===============================================================  ===============

A node whose own label is unknown (-1) is in the graphs, but is never scored.

Where edges are predicted:

==============  ==========================================  =============  =======================
setting         input graph                                 sources        never ranked
==============  ==========================================  =============  =======================
transductive    the training edges                          known nodes,   training and validation
                                                            users          edges
inductive       training edges and the new nodes' inputs    new nodes      their inputs
cold-r          the same, r % of the inputs removed         new nodes      all inputs of r = 0
==============  ==========================================  =============  =======================

New users of a recommender are new nodes.  The paper has none; a split holds them out on request.
Every candidate is ranked; averages run over sources that have a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from tuneup.data import (
    COLD_RATIOS,
    EdgeSplit,
    Graph,
    Interactions,
    InteractionSplit,
    NodeSplit,
    cold_start,
    merge,
)
from tuneup.errors import InputError
from tuneup.graph import Adjacency, Rows, adjacency_from
from tuneup.metrics import correct
from tuneup.metrics.calibration import UNIT, Temperature
from tuneup.metrics.multilabel import node_f1
from tuneup.metrics.ranking import is_hit, most_of, ranking_scores
from tuneup.metrics.scores import NodeScores
from tuneup.nn import Forward
from tuneup.tasks import Recommendation, evaluating
from tuneup.tasks.link_prediction import (
    expect_link_model,
    neighbour_lists,
    rank_links,
    training_graph,
)

from .classes import ClassReport
from .floors.items import by_popularity, question


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
            settings.append(Setting(_cold_name(ratio), cold, new, new))
    return tuple(settings)


def _with_label(data: Graph, nodes: Tensor) -> Tensor:
    return nodes if data.y is None else nodes[data.has_label[nodes]]


def evaluate(model: nn.Module, settings: Sequence[Setting]) -> dict[str, NodeScores]:
    """The model's per-node scores in every setting, by name."""
    if not all(isinstance(setting, Setting) for setting in settings):
        raise InputError("evaluate(model, settings) takes what node_settings(graph, split) makes.")
    return {setting.name: setting.score(model) for setting in settings}


@dataclass(frozen=True, eq=False)
class LinkSetting:
    """A graph to predict links on, and what the sources should find.

    ``sources [n]`` count within ``data``; ``ids [n]`` are their global ids; ``targets`` and
    ``known`` list nodes of ``data`` for each source.
    """

    name: str
    data: Graph
    sources: Tensor
    ids: Tensor
    targets: Rows
    known: Rows
    metric: str = "recall@50"

    @cached_property
    def forward(self) -> Forward:
        """The pass over this graph, shared by every model that is evaluated on it."""
        return Forward(self.data.x, self.data.adjacency)

    def score(self, model: nn.Module) -> NodeScores:
        """The metric of every source, against all candidates."""
        (found,) = self.scores(model, [self.metric])
        return found

    def scores(self, model: nn.Module, metrics: Sequence[str]) -> list[NodeScores]:
        """Several metrics of every source, like "recall@20" and "ndcg@50", from one ranking."""
        links = expect_link_model(model)
        with evaluating(links):
            z = self.forward(links, self.data.adjacency)
            best = rank_links(links, z, self.sources, self.known, most_of(metrics))
        hits = is_hit(best, self.targets, z.shape[0])
        degree = self.data.adjacency.degree[self.sources]
        return [
            NodeScores(
                self.name, metric, self.ids, degree, ranking_scores(hits, self.targets, metric)
            )
            for metric in metrics
        ]

    def sample(self, count: int, seed: int = 0) -> LinkSetting:
        """A seeded sample of the sources, for graphs too big to rank from every node.

        Its scores say so by their name, "cold-30 (sample of 2,000)", and their mean is an estimate:
        :func:`tuneup.evaluation.bootstrap_mean` gives its interval.
        """
        if count < 1:
            raise InputError(f"a sample needs 1 source or more; got {count}.")
        if count >= self.sources.numel():
            return self
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.randperm(self.sources.numel(), generator=generator)[:count].sort().values
        chosen = chosen.to(self.sources.device)
        return replace(
            self,
            name=f"{self.name} (sample of {count:,})",
            sources=self.sources[chosen],
            ids=self.ids[chosen],
            targets=self.targets.take(chosen),
            known=self.known.take(chosen),
        )


def link_settings(
    data: Graph,
    split: EdgeSplit,
    *,
    ratios: Sequence[float] = COLD_RATIOS,
    metric: str = "recall@50",
) -> tuple[LinkSetting, ...]:
    """Transductive, inductive and cold start, for link prediction."""
    settings = [_transductive(data, split, metric)]
    if split.new_target.shape[1]:
        edges = torch.cat([split.train, split.new_input], 1)
        whole = adjacency_from(edges, data.num_nodes, undirected=True)
        targets, known = (
            neighbour_lists(part, data.num_nodes) for part in (split.new_target, split.new_input)
        )
        sources = split.new[targets.count[split.new] > 0]
        lists = (targets.take(sources), known.take(sources))
        for ratio in (0.0, *ratios):
            seen = data.with_adjacency(cold_start(whole, split.new, ratio, split.seed))
            settings.append(LinkSetting(_cold_name(ratio), seen, sources, sources, *lists, metric))
    return tuple(settings)


def _transductive(data: Graph, split: EdgeSplit, metric: str) -> LinkSetting:
    known = training_graph(data, split)
    count = split.known.numel()
    test, seen = (
        neighbour_lists(torch.searchsorted(split.known, part), count)
        for part in (split.test, torch.cat([split.train, split.validation], 1))
    )
    sources = (test.count > 0).nonzero().view(-1)
    lists = (test.take(sources), seen.take(sources))
    return LinkSetting("transductive", known, sources, split.known[sources], *lists, metric)


@dataclass(frozen=True, eq=False)
class RecommendationSetting:
    """Users with a pair to find, and the pairs that are shown with them.

    Without a ``ratio`` these are all users with a test pair; training and validation pairs are
    never ranked.  With one they are the new users, who enter with
    the mean vector and not with their own; that share of their input pairs is removed from the
    graph, and none of their input pairs is ranked.

    ``popularity_fallback`` ranks the most popular items for users without an edge, of whom no
    model knows anything.  It is not in the paper, and off by default.
    """

    task: Recommendation
    split: InteractionSplit
    ratio: float | None = None
    popularity_fallback: bool = False

    @property
    def name(self) -> str:
        """Like "cold-30"."""
        return "transductive" if self.ratio is None else _cold_name(self.ratio)

    @property
    def targets(self) -> Interactions:
        """The pairs to find."""
        return self.split.test if self.ratio is None else self.split.new_target

    @cached_property
    def known(self) -> Interactions:
        """The pairs that are never ranked."""
        if self.ratio is None:
            return merge(self.split.train, self.split.validation)
        return self.split.new_input

    @cached_property
    def graph(self) -> Adjacency:
        """What messages flow along: the training pairs, and inputs of the new users."""
        if self.ratio is None:
            return self.task.graph
        whole = merge(self.split.train, self.split.new_input).adjacency()
        return cold_start(whole, self.split.new, self.ratio, self.split.seed)

    @cached_property
    def arriving(self) -> Tensor | None:
        """Marks the new users ``[num_users]`` in their own settings."""
        if self.ratio is None:
            return None
        users = self.split.train.num_users
        return torch.isin(torch.arange(users, device=self.split.new.device), self.split.new)

    def score(self, model: nn.Module) -> NodeScores:
        """The metric of every user, with the number of its edges."""
        (found,) = self.scores(model, [self.task.metric])
        return found

    def scores(self, model: nn.Module, metrics: Sequence[str]) -> list[NodeScores]:
        """Several metrics of every user, like "recall@20" and "ndcg@50", from one ranking."""
        users, found = self.task.rank(
            model, self.targets, self.known, metrics, graph=self.graph, arriving=self.arriving
        )
        degree = self.graph.degree[users]
        if self.popularity_fallback:
            pairs = zip(map(self._popular, metrics), found, strict=True)  # same users
            found = [torch.where(degree == 0, common, own) for common, own in pairs]
        return [
            NodeScores(self.name, metric, users, degree, scores)
            for metric, scores in zip(metrics, found, strict=True)
        ]

    def _popular(self, metric: str) -> Tensor:
        return question(self, metric).score(by_popularity(self.split.train)).score


def recommendation_settings(
    task: Recommendation, split: InteractionSplit, *, ratios: Sequence[float] = COLD_RATIOS
) -> tuple[RecommendationSetting, ...]:
    """Transductive and, where a split has new users, inductive and cold start."""
    new = (0.0, *ratios) if split.new.numel() else ()
    return tuple(RecommendationSetting(task, split, ratio) for ratio in (None, *new))


def _cold_name(ratio: float) -> str:
    """Like "cold-30"; "inductive" where nothing is removed."""
    return f"cold-{round(100 * ratio)}" if ratio else "inductive"
