"""The paper's settings where the answers are edges: link prediction and recommendation.

==============  ==========================================  =============  =======================
setting         input graph                                 sources        never ranked
==============  ==========================================  =============  =======================
transductive    the training edges                          known nodes,   training and validation
                                                            users          edges
inductive       training edges and the new nodes' inputs    new nodes      their inputs
cold-r          the same, r % of the inputs removed         new nodes      all inputs of r = 0
==============  ==========================================  =============  =======================

Every candidate is ranked; averages run over sources that have a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from tuneup.data import Graph, cold_start
from tuneup.data.edge_split import EdgeSplit
from tuneup.data.interactions import InteractionSplit, merge
from tuneup.graph import adjacency_from
from tuneup.graph.lists import Rows, take_lists
from tuneup.metrics.scores import NodeScores
from tuneup.metrics.topk import DEFAULT_BUDGET
from tuneup.nn import Forward
from tuneup.nn.link_model import LinkModel
from tuneup.tasks.link_prediction import neighbour_lists, rank_links, training_graph
from tuneup.tasks.recommendation import Recommendation

from .settings import COLD_RATIOS


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
    budget: int = DEFAULT_BUDGET

    @cached_property
    def forward(self) -> Forward:
        """The pass over this graph, shared by every model that is evaluated on it."""
        return Forward(self.data.x, self.data.adjacency)

    def score(self, model: nn.Module) -> NodeScores:
        """The metric of every source, against all candidates."""
        assert isinstance(model, LinkModel)
        with torch.no_grad():
            z = self.forward(model.eval().encoder, self.data.adjacency)
            found = rank_links(
                model, z, self.sources, self.targets, self.known, self.metric, self.budget
            )
        degree = self.data.adjacency.degree[self.sources]
        return NodeScores(self.name, self.metric, self.ids, degree, found)

    def sample(self, count: int, seed: int = 0) -> LinkSetting:
        """A seeded sample of the sources, for graphs too big to rank from every node."""
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.randperm(self.sources.numel(), generator=generator)[:count].sort().values
        return LinkSetting(
            self.name,
            self.data,
            self.sources[chosen],
            self.ids[chosen],
            take_lists(self.targets, chosen),
            take_lists(self.known, chosen),
            self.metric,
            self.budget,
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
        lists = (take_lists(targets, sources), take_lists(known, sources))
        for ratio in (0.0, *ratios):
            name = f"cold-{round(100 * ratio)}" if ratio else "inductive"
            seen = data.with_adjacency(cold_start(whole, split.new, ratio, split.seed))
            settings.append(LinkSetting(name, seen, sources, sources, *lists, metric))
    return tuple(settings)


def _transductive(data: Graph, split: EdgeSplit, metric: str) -> LinkSetting:
    known = training_graph(data, split)
    count = split.known.numel()
    test, seen = (
        neighbour_lists(torch.searchsorted(split.known, part), count)
        for part in (split.test, torch.cat([split.train, split.validation], 1))
    )
    sources = (test.count > 0).nonzero().view(-1)
    lists = (take_lists(test, sources), take_lists(seen, sources))
    return LinkSetting("transductive", known, sources, split.known[sources], *lists, metric)


@dataclass(frozen=True, eq=False)
class RecommendationSetting:
    """All users with a test pair; training and validation pairs are never ranked."""

    task: Recommendation
    split: InteractionSplit
    name: str = "transductive"

    def score(self, model: nn.Module) -> NodeScores:
        """The metric of every user, with the number of its training pairs."""
        seen = merge(self.split.train, self.split.validation)
        with torch.no_grad():
            scores, users = self.task.rank(model.eval(), self.split.test, seen)
        degree = self.task.graph.degree[users]
        return NodeScores(self.name, self.task.metric, users, degree, scores)
