"""Link prediction: rank all nodes as neighbours of each node, from features and training edges."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.data import EdgeSplit, Graph, cold_start
from tuneup.errors import InputError
from tuneup.graph import Adjacency, Rows, adjacency_from, feature_tensors, take_features
from tuneup.graph.csr import distinct, rowptr_of
from tuneup.graph.hashing import fold_key, uniform
from tuneup.metrics.ranking import is_hit, most_of, ranking_metric, ranking_scores
from tuneup.metrics.topk import TopK, top_k
from tuneup.names import Selection
from tuneup.nn import Forward, HadamardMLP, HadamardScorer, Model, Sample
from tuneup.nn.forward import draw_sample

from .base import (
    COLD_SEED,
    WHOLE,
    GraphView,
    Moment,
    SliceMoment,
    Task,
    Unvalidated,
    batch_indices,
    check_batch_size,
    check_neighbors,
    check_selection,
    digest_tensors,
    evaluating,
    expect_model,
    has_diverged,
    numbers,
    sample_key,
    slice_of,
)
from .pseudo_labelling import PseudoLabels
from .ranking import L2, NegativeSampler

LINK_MODEL = "Model(NodeFeatures(), encoder, HadamardMLP(width))"

VALIDATION_SOURCES = 500
"""Sources that validation ranks: the same for every method, drawn from the task's sample seed."""


def expect_link_model(model: nn.Module) -> Model:
    """The model, known to score links."""
    links = expect_model(model, LINK_MODEL)
    if not isinstance(links.head, HadamardMLP):
        raise InputError(f"head: got {type(links.head).__name__}; expected {LINK_MODEL}.")
    return links


def neighbour_lists(edges: Tensor, num_nodes: int) -> Rows:
    """The other ends of each node's edges ``[2, E]``, listed one way, both ways or repeatedly."""
    keys = torch.unique(
        torch.cat([edges[0] * num_nodes + edges[1], edges[1] * num_nodes + edges[0]])
    )
    row = keys // num_nodes
    return Rows(rowptr_of(row, num_nodes), keys - row * num_nodes)


def training_graph(data: Graph, split: EdgeSplit) -> Graph:
    """The known nodes, renumbered, with the training edges only."""
    whole = data.with_adjacency(adjacency_from(split.train, data.num_nodes, undirected=True))
    return whole.induce(split.known)


@dataclass(frozen=True, eq=False)
class LinkPrediction(Task[Tensor]):
    """BPR on the training edges, recall@k of the validation edges.

    Example::

        from tuneup.data import split_edges

        split = split_edges(graph.adjacency)
        task = tuneup.LinkPrediction.from_split(graph, split, metric="ndcg@20")
        encoder = tuneup.Encoder(graph.num_features, 16, width=16)
        links = tuneup.Model(tuneup.NodeFeatures(), encoder, tuneup.HadamardMLP(16))
        result = tuneup.fit(links, task, pretrain=schedule, finetune=schedule)

    Every training edge is two triples, (s, t, n) and (t, s, n'), with a fresh uniform negative each
    that is neither the source nor one of its training neighbours.  All training edges are
    positives in every epoch, also on a view that dropped them.

    Args:
        data: the training graph G: features, and the training edges that messages flow along.
        validation: undirected validation edges ``[2, E]``.
        l2: penalty on the output embeddings of each triple.
        metric: validation score: recall, precision, ndcg, hit or mrr, with the number of places of
            the ranking, as in "ndcg@20"; "ndcg" is "ndcg@50".
        sample_seed: draws the sources that validation ranks.
        batch_size: training edges per update; by default all of them.
        selection: whether validation sources are scored as they are ("transductive"), without a
            share of their message edges ("cold"), or both ("balanced").
        num_neighbors: neighbours that a batch reads of a node, for each layer from the outputs
            back; -1: all of them. By default updates are passes over the whole graph.
    """

    kind = "link-prediction"

    data: Graph
    validation: Tensor
    l2: L2 = field(default_factory=L2)
    metric: str = "recall@50"
    sample_seed: int = 0
    batch_size: int | None = None
    selection: Selection = "transductive"
    num_neighbors: Sequence[int] | None = None

    def __post_init__(self) -> None:
        check_selection(self.selection)
        object.__setattr__(self, "metric", ranking_metric(self.metric))
        check_batch_size(self.batch_size)
        check_neighbors(self.num_neighbors, self.graph)
        if self.l2.input:
            raise InputError("The inputs of link prediction are features: only L2(output=...).")
        if not self.graph.undirected:
            raise InputError("Link prediction ranks neighbours: the graph must be undirected.")
        if self.graph.num_edges == 0:
            raise InputError(f"{self.data.name}: there is no training edge to learn from.")
        if self.is_validated or self.validation.numel():
            self._check_validation()

    def _check_validation(self) -> None:
        shape = self.validation.shape
        if len(shape) != 2 or shape[0] != 2 or shape[1] == 0:
            raise InputError(f"validation must be edges [2, E], at least one; got {list(shape)}.")
        if int(self.validation.min()) < 0 or int(self.validation.max()) >= self.graph.num_nodes:
            raise InputError(f"validation names a node outside 0..{self.graph.num_nodes - 1}.")
        sent = self.graph.row * self.graph.num_nodes + self.graph.col
        shared = torch.isin(self.validation[0] * self.graph.num_nodes + self.validation[1], sent)
        if shared.any():
            one, other = self.validation[:, int(shared.nonzero()[0])].tolist()
            raise InputError(
                f"Nodes {one} and {other} have a training and a validation edge: training edges "
                "are never ranked. Take the edge out of one."
            )

    @classmethod
    def from_split(
        cls,
        data: Graph,
        split: EdgeSplit,
        l2: L2 | None = None,
        *,
        metric: str = "recall@50",
        batch_size: int | None = None,
    ) -> LinkPrediction:
        """The task on the known nodes of a split, renumbered: new nodes are not in it.

        Raises:
            InputError: if edges have weights, which an :class:`EdgeSplit` does not hold.
        """
        data.adjacency.refuse_weights("a split of edges")
        validation = torch.searchsorted(split.known, split.validation)
        known = training_graph(data, split)
        return cls(known, validation, l2 or L2(), metric, batch_size=batch_size)

    @property
    def graph(self) -> Adjacency:  # type: ignore[override]
        """The training graph G."""
        return self.data.adjacency

    @cached_property
    def forward(self) -> Forward:
        """The pass over G that remembers what does not change."""
        return Forward(self.data.x, self.graph, layered=self.num_neighbors is not None)

    @cached_property
    def _forwards(self) -> WeakKeyDictionary[GraphView, Forward]:
        """Passes over views of other nodes, for as long as the views live."""
        return WeakKeyDictionary()

    @cached_property
    def _sampler(self) -> NegativeSampler:
        return NegativeSampler(self.graph, 0, self.graph.num_nodes)

    def supervision(self, pseudo: PseudoLabels | None = None) -> Tensor:
        """The training edges ``[2, E]``, listed once; edge tasks have no pseudo-labels."""
        once = self.graph.row < self.graph.col
        return torch.stack([self.graph.row[once], self.graph.col[once]])

    def batches(self, supervision: Tensor, moment: Moment) -> Iterator[Tensor]:
        """Every training edge once an epoch, in an order of its own for each."""
        if self.batch_size is None:
            yield supervision
            return
        count, device = supervision.shape[1], supervision.device
        for part in batch_indices(count, self.batch_size, moment, device):
            yield supervision[:, part]

    def size(self, supervision: Tensor) -> int:
        """Number of supervised edges."""
        return supervision.shape[1]

    def slice(
        self, supervision: Tensor, moment: Moment, part: int, parts: int
    ) -> tuple[Tensor, Moment]:
        """One of several slices of the supervised edges, with the negatives of the batch."""
        total = supervision.shape[1]
        first, end = slice_of(total, part, parts)
        return supervision[:, first:end].contiguous(), SliceMoment.of(moment, first, total)

    def loss(
        self, model: nn.Module, view: GraphView, supervision: Tensor, moment: Moment
    ) -> Tensor:
        """BPR over both directions of every supervised edge.

        ``view.extra`` are further positives ``[2, E]`` among the view's own nodes.
        """
        links = expect_link_model(model)
        if view.sample is not None:
            z, seeds = view.sample.outputs(links), view.sample.seeds
            edges = torch.searchsorted(seeds, supervision)
            sources, negatives = edges.flatten(), self._draw(supervision.flatten(), moment)
            negatives = torch.searchsorted(seeds, negatives)
        else:
            forward, edges = self._seen(view, supervision, moment)
            z, sources = forward(links, view.graph), edges.flatten()
            negatives = self._negatives(view, sources, moment)
        first, second = (z.index_select(0, ends) for ends in edges)
        positive = links.head(first, second)  # symmetric: one score serves both directions
        negative = links.head(torch.cat([first, second]), z.index_select(0, negatives))
        loss = F.softplus(negative - positive.repeat(2)).mean()
        if self.l2.output:
            # Of every edge, either end is a source once and a target once.
            count = torch.bincount(torch.cat([sources, sources, negatives]), minlength=z.shape[0])
            penalty = (z.square().sum(1) * count).sum() / (2 * sources.numel())
            loss = loss + self.l2.output * penalty
        return loss

    def draw_sample(self, graph: Adjacency, supervision: Tensor, moment: Moment) -> Sample:
        """The neighbourhoods of the ends of the positives, and of their negatives."""
        assert self.num_neighbors is not None
        sources = supervision.flatten()
        seeds = distinct(torch.cat([sources, self._draw(sources, moment)]))
        return draw_sample(graph, seeds, self.num_neighbors, sample_key(moment), self.data.x)

    def _seen(self, view: GraphView, supervision: Tensor, moment: Moment) -> tuple[Forward, Tensor]:
        """The pass over a view, and the positives by the view's own numbers."""
        forward, edges = self.forward, supervision
        if view.nodes is not None:
            if view not in self._forwards:
                x = take_features(self.data.x, view.nodes)
                self._forwards[view] = Forward(x, view.graph)
            forward = self._forwards[view]
            edges = self._places(view.nodes)[supervision]
        if view.extra is None:
            return forward, edges
        share = supervision.shape[1] / self.graph.num_edges  # of these too
        number = torch.arange(view.extra.shape[1], device=view.extra.device)
        taken = uniform(number, fold_key(*moment)) < share
        return forward, torch.cat([edges, view.extra[:, taken]], 1)

    def _negatives(self, view: GraphView, sources: Tensor, moment: Moment) -> Tensor:
        """A negative for every source; a copy's are those of the node that it is a copy of."""
        if view.nodes is None:
            return self._draw(sources, moment)
        return self._places(view.nodes)[self._sampler.draw(view.nodes[sources], moment)]

    def _draw(self, sources: Tensor, moment: Moment) -> Tensor:
        """A negative for either end of the edges of a batch, or of a slice of one."""
        number = numbers(sources.numel() // 2, moment, 2, sources.device)
        return self._sampler.draw(sources, moment, number)

    def _places(self, nodes: Tensor) -> Tensor:
        """Where each node of G comes first in a view of ``nodes`` ``[N]``."""
        count = nodes.numel()
        number = torch.arange(count, device=nodes.device)
        place = torch.full((self.graph.num_nodes,), count, device=nodes.device)
        place = place.scatter_reduce(0, nodes, number, "amin")
        if int(place.max()) == count:
            lost = int((place == count).nonzero()[0])
            raise InputError(f"A view of link prediction must show every node; {lost} is missing.")
        return place

    def validation_scores(
        self, model: nn.Module, ratios: Sequence[float] = (WHOLE,)
    ) -> dict[float, float]:
        """The metric on a fixed sample of sources, by share of their removed message edges.

        Several ratios share the sample, each with sources of its own: ranking is what validation
        costs, and so it costs as much as for one.
        """
        count = self._sources.numel()
        order = torch.arange(count, device=self._sources.device)
        parts = min(len(ratios), count)
        return {
            ratio: self._score(model, ratio, order[place % parts :: parts])
            for place, ratio in enumerate(ratios)
        }

    def _score(self, model: nn.Module, ratio: float, part: Tensor) -> float:
        """The metric, averaged over a part of the sampled sources; NaN if diverged."""
        links = expect_link_model(model)
        forward = self._copy(ratio)
        with evaluating(links):
            z = forward(links, forward.graph)
        if has_diverged(z, *links.head.parameters()):
            return math.nan
        targets, known = (lists.take(part) for lists in self._validation)
        k = most_of([self.metric])
        best = rank_links(links, z, self._sources[part], known, k)
        hits = is_hit(best, targets, z.shape[0])
        return float(ranking_scores(hits, targets, self.metric).double().mean())

    @cached_property
    def _copies(self) -> dict[float, Forward]:
        """The pass over G, and over copies of G whose sampled sources lost edges, by ratio."""
        return {WHOLE: self.forward}

    def _copy(self, ratio: float) -> Forward:
        if ratio not in self._copies:
            ids = self.graph.global_ids[self._sources]
            cold = cold_start(self.graph, ids, ratio, COLD_SEED)
            layered = self.num_neighbors is not None
            self._copies[ratio] = Forward(self.data.x, cold, layered=layered)
        return self._copies[ratio]

    def outputs(self, model: nn.Module) -> Tensor:
        """Embeddings of all nodes of G ``[N, d]``."""
        return self.forward(expect_link_model(model), self.graph)

    @cached_property
    def _sources(self) -> Tensor:
        count = neighbour_lists(self.validation, self.graph.num_nodes).count
        able = count.nonzero().view(-1)
        generator = torch.Generator().manual_seed(self.sample_seed)
        chosen = torch.randperm(able.numel(), generator=generator)[:VALIDATION_SOURCES]
        return able[chosen].sort().values

    @cached_property
    def _validation(self) -> tuple[Rows, Rows]:
        targets = neighbour_lists(self.validation, self.graph.num_nodes)
        known = Rows(self.graph.rowptr, self.graph.col)
        return targets.take(self._sources), known.take(self._sources)

    def digest(self) -> str:
        """Features, training and validation edges, the penalty and the size of an update."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        parts = feature_tensors(self.data.x)
        edges = [self.graph.rowptr, self.graph.col, self.graph.global_ids, self.validation]
        if self.graph.weight is not None:
            edges.append(self.graph.weight)
        options: tuple[object, ...] = (self.l2, self.sample_seed, self.batch_size)
        if self.selection != "transductive":
            options = (*options, self.selection)
        if self.num_neighbors is not None:
            options = (*options, tuple(self.num_neighbors))
        return digest_tensors(*parts, *edges) + repr(options)


def rank_links(
    model: Model,
    z: Tensor,
    sources: Tensor,
    known: Rows,
    k: int,
) -> TopK:
    """The k best of all nodes for every source, but for itself and those ``known`` lists for it."""
    assert isinstance(model.head, HadamardMLP)
    return top_k(
        z.index_select(0, sources),
        z,
        k,
        known=known.append(sources),
        scorer=HadamardScorer(model.head),
    )


class AllLinks(Unvalidated, LinkPrediction):
    """Link prediction that learns from every edge and holds none out for validation."""
