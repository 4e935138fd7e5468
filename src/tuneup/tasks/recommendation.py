"""Recommendation: rank all items for each user, from the edges between them alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.data import Interactions, cold_start
from tuneup.errors import InputError
from tuneup.graph import Adjacency
from tuneup.graph.csr import distinct, rowptr_of, rows_of
from tuneup.graph.kernels import Pairs, pairs
from tuneup.metrics.ranking import is_hit, most_of, ranking_metric, ranking_scores
from tuneup.metrics.topk import top_k
from tuneup.names import Selection
from tuneup.nn import Model, Sample, UserItemVectors
from tuneup.nn.forward import draw_sample, layer_by_layer

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
    sample_key,
    slice_of,
)
from .pseudo_labelling import PseudoLabels
from .ranking import L2, NegativeSampler

RECOMMENDER = "Model(UserItemVectors(users, items), encoder, InnerProduct())"

COLD_USERS, COLD_SHARE = 500, 0.1
"""Limits on the users who lose pairs in cold copies: their number, and their share of all.

Most of the graph must stay unchanged: items' embeddings are made of the other users' pairs.
"""


@dataclass(frozen=True, eq=False)
class Recommendation(Task[Pairs]):
    """BPR on the training pairs, recall@k of the validation pairs.

    Example::

        from tuneup.data import split_interactions

        split = split_interactions(pairs)
        task = tuneup.Recommendation(split.train, split.validation, metric="recall@20")
        inputs = tuneup.UserItemVectors(pairs.num_users, pairs.num_items, 16)
        encoder = tuneup.Encoder(16, 16, width=16)
        model = tuneup.Model(inputs, encoder, tuneup.InnerProduct())
        result = tuneup.fit(model, task, pretrain=schedule, finetune=schedule)

    For every training pair (u, i) and one uniform item n that u has no training pair with::

        loss = mean softplus(z_u . z_n - z_u . z_i) + L2

    Several such items are contrasted together, by the logarithm of the sum of ``exp(z_u . z_n)`` in
    the place of ``z_u . z_n``: a softmax over the pair's item and them.

    All training pairs are positives in every epoch, also on a view that dropped their edges.

    Args:
        train: the pairs that messages flow along and that the loss is taken on.
        validation: the pairs that choose the epoch.
        l2: penalties on the embeddings of each triple.
        metric: validation score: recall, precision, ndcg, hit or mrr, with the number of places of
            the ranking, as in "ndcg@20"; "ndcg" is "ndcg@50".
        batch_size: positives per update; by default all of them.
        negatives: items that each pair is contrasted with; one is BPR.
        selection: whether validation users are scored as they are ("transductive"), without a share
            of their training pairs ("cold"), or both ("balanced").
        num_neighbors: neighbours that a batch reads of a node, for each layer from the outputs
            back; -1: all of them. An update then changes only the vectors that it reads. By default
            updates are passes over the whole graph.
    """

    kind = "recommendation"

    train: Interactions
    validation: Interactions
    l2: L2 = field(default_factory=L2)
    metric: str = "recall@50"
    batch_size: int | None = None
    negatives: int = 1
    selection: Selection = "transductive"
    num_neighbors: Sequence[int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", ranking_metric(self.metric))
        check_selection(self.selection)
        if type(self.negatives) is not int or self.negatives < 1:
            raise InputError(f"negatives must be a number from 1 on; got {self.negatives!r}.")
        check_batch_size(self.batch_size)
        check_neighbors(self.num_neighbors)
        for name, part in (("training", self.train), ("validation", self.validation)):
            if len(part) == 0 and (self.is_validated or part is self.train):
                raise InputError(f"{part.name}: there is no {name} pair; give it a larger share.")
        sizes = [(part.num_users, part.num_items) for part in (self.train, self.validation)]
        if sizes[0] != sizes[1]:
            raise InputError(
                "train and validation must count the same users and items; got "
                f"{sizes[0]} and {sizes[1]}."
            )
        keys = [part.user * part.num_items + part.item for part in (self.train, self.validation)]
        shared = torch.isin(keys[1], keys[0])
        if shared.any():
            twice = self.validation.take(shared.nonzero()[0])
            raise InputError(
                f"User {int(twice.user)} and item {int(twice.item)} are a training and a "
                "validation pair: training pairs are never ranked. Take the pair out of one."
            )

    @cached_property
    def graph(self) -> Adjacency:  # type: ignore[override]
        """Users and items, connected by the training pairs."""
        with torch.inference_mode(False):  # else an evaluation would spoil it for training
            return self.train.adjacency()

    @cached_property
    def _sampler(self) -> NegativeSampler:
        return NegativeSampler(self.graph, self.train.num_users, self.train.num_items)

    def supervision(self, pseudo: PseudoLabels | None = None) -> Pairs:
        """The training pairs; edge tasks have no pseudo-labels."""
        rows = self.train.rows()
        return pairs(rows.rowptr, rows.col, self.train.num_items)

    def batches(self, supervision: Pairs, moment: Moment) -> Iterator[Pairs]:
        """Every training pair once an epoch, in an order of its own for each."""
        if self.batch_size is None:
            yield supervision
            return
        row = rows_of(supervision.rowptr, supervision.col.numel())
        for part in batch_indices(row.numel(), self.batch_size, moment, row.device):
            chosen = part.sort().values
            rowptr = rowptr_of(row[chosen], self.train.num_users)
            yield pairs(rowptr, supervision.col[chosen], self.train.num_items)

    def size(self, supervision: Pairs) -> int:
        """Number of supervised pairs."""
        return supervision.col.numel()

    def slice(
        self, supervision: Pairs, moment: Moment, part: int, parts: int
    ) -> tuple[Pairs, Moment]:
        """One of several slices of the supervised pairs, with the negatives of the batch."""
        total = supervision.col.numel()
        first, end = slice_of(total, part, parts)
        rowptr = supervision.rowptr.clamp(first, end) - first
        chosen = pairs(rowptr, supervision.col[first:end], self.train.num_items)
        return chosen, SliceMoment.of(moment, first, total)

    def loss(self, model: nn.Module, view: GraphView, supervision: Pairs, moment: Moment) -> Tensor:
        """BPR over the supervised pairs, with fresh negatives for each."""
        recommender = self._expect(model)
        if view.nodes is not None or view.extra is not None:
            raise InputError("A view of recommendation must show the users and items as they are.")
        drawn = self._negatives(supervision, moment)
        if view.sample is not None:
            found = view.sample.inputs(recommender)
            assert isinstance(found, Tensor)
            seeds, z = view.sample.seeds, view.sample.outputs(recommender, found)
            x, users, items = found[: seeds.numel()], z, z
            supervision, negatives = self._among(seeds, supervision, drawn)
        else:
            drawn = drawn - self.train.num_users
            negatives = pairs(supervision.rowptr * self.negatives, drawn, self.train.num_items)
            x, z = recommender.inputs(None, view.graph), recommender(None, view.graph)
            users, items = self._sides(z)
        contrast = negatives.dots(users, items).view(-1, self.negatives).logsumexp(1)
        loss = F.softplus(contrast - supervision.dots(users, items)).mean()
        for weight, embedding in ((self.l2.input, x), (self.l2.output, z)):
            if weight:
                loss = loss + weight * self._penalty(embedding, supervision, negatives)
        return loss

    def _negatives(self, supervision: Pairs, moment: Moment) -> Tensor:
        """Nodes of the items that each pair is contrasted with ``[pairs * negatives]``."""
        sources = rows_of(supervision.rowptr, supervision.col.numel())
        repeated = sources.repeat_interleave(self.negatives)
        first = moment.first * self.negatives if isinstance(moment, SliceMoment) else 0
        number = torch.arange(first, first + repeated.numel(), device=repeated.device)
        return self._sampler.draw(repeated, moment, number)

    def draw_sample(self, graph: Adjacency, supervision: Pairs, moment: Moment) -> Sample:
        """The neighbourhoods of the users and items of the pairs, and of the negatives."""
        assert self.num_neighbors is not None
        users = rows_of(supervision.rowptr, supervision.col.numel())
        items = supervision.col + self.train.num_users
        seeds = distinct(torch.cat([users, items, self._negatives(supervision, moment)]))
        return draw_sample(graph, seeds, self.num_neighbors, sample_key(moment), None)

    def _among(self, seeds: Tensor, supervision: Pairs, drawn: Tensor) -> tuple[Pairs, Pairs]:
        """Positives and negatives as numbers of the seeds, which list users before items."""
        count = seeds.numel()
        sources = rows_of(supervision.rowptr, supervision.col.numel())
        rowptr = rowptr_of(torch.searchsorted(seeds, sources), count)
        items = torch.searchsorted(seeds, supervision.col + self.train.num_users)
        negatives = torch.searchsorted(seeds, drawn)
        return pairs(rowptr, items, count), pairs(rowptr * self.negatives, negatives, count)

    def _expect(self, model: nn.Module) -> Model:
        recommender = expect_model(model, RECOMMENDER)
        inputs = recommender.inputs
        if not isinstance(inputs, UserItemVectors):
            raise InputError(f"inputs: got {type(inputs).__name__}; expected {RECOMMENDER}.")
        made, known = (
            (inputs.num_users, inputs.num_items),
            (self.train.num_users, self.train.num_items),
        )
        if made != known:
            raise InputError(
                f"UserItemVectors: got {made[0]} users and {made[1]} items; expected {known[0]} "
                f"and {known[1]}, as in the task."
            )
        return recommender

    def _penalty(self, embedding: Tensor, positives: Pairs, negatives: Pairs) -> Tensor:
        """The triples' mean, added up node by node: how often a node occurs is all it needs.

        Several negatives of a pair share the weight of one.
        """
        of_items = positives.t_rowptr.diff() + negatives.t_rowptr.diff() / self.negatives
        of_users = positives.rowptr.diff()
        if embedding.shape[0] == of_users.numel():  # of a sample, whose nodes are in one list
            count = of_users + of_items
        else:
            count = torch.cat([of_users, of_items])
        return (embedding.square().sum(1) * count).sum() / (2 * positives.col.numel())

    def validation_scores(
        self, model: nn.Module, ratios: Sequence[float] = (WHOLE,)
    ) -> dict[float, float]:
        """The metric by share of removed training pairs; NaN if the model has diverged.

        The whole graph is scored for all users with a validation pair.  At other ratios a fixed
        sample of them loses training pairs and enters as new users do: the vectors that were
        learned for them hold what was removed.  No training pair of theirs is ranked.
        """
        return {ratio: self._score(model, ratio) for ratio in ratios}

    def _score(self, model: nn.Module, ratio: float) -> float:
        targets, arriving = self.validation, None
        if ratio != WHOLE:
            targets, arriving = self._cold_targets, self._arriving
        with evaluating(model):
            z = self._embed(model, self._copy(ratio), arriving)
        if has_diverged(z):
            return math.nan
        _, (scores,) = self._rank(z, targets, self.train, [self.metric])
        return float(scores.double().mean())

    def _embed(self, model: nn.Module, graph: Adjacency, arriving: Tensor | None = None) -> Tensor:
        """Embeddings of all users and items ``[N, d]``, layer by layer where training samples."""
        if self.num_neighbors is not None and type(model) is Model and not torch.is_grad_enabled():
            x = self._expect(model).inputs(None, graph, arriving)
            found = layer_by_layer(model.encoder, x, graph)
            if found is not None:
                return found
        z: Tensor = model(None, graph, arriving)
        return z

    @cached_property
    def _copies(self) -> dict[float, Adjacency]:
        """G, and copies of G whose sampled users lost edges, by ratio."""
        return {WHOLE: self.graph}

    def _copy(self, ratio: float) -> Adjacency:
        if ratio not in self._copies:
            users = self._arriving.nonzero().view(-1)
            with torch.inference_mode(False):
                self._copies[ratio] = cold_start(self.graph, users, ratio, COLD_SEED)
        return self._copies[ratio]

    @cached_property
    def _arriving(self) -> Tensor:
        """Marks the users who enter as new ones in cold copies ``[num_users]``."""
        asked, shown = self.validation.rows().count > 0, self.train.rows().count > 0
        able = asked & shown if bool((asked & shown).any()) else asked
        users = able.nonzero().view(-1)
        count = min(COLD_USERS, math.ceil(COLD_SHARE * users.numel()))
        generator = torch.Generator().manual_seed(COLD_SEED)
        chosen = torch.randperm(users.numel(), generator=generator)[:count].to(users.device)
        return torch.zeros_like(able).index_fill_(0, users[chosen], True)

    @cached_property
    def _cold_targets(self) -> Interactions:
        """The validation pairs of the sampled users."""
        return self.validation.take(self._arriving[self.validation.user].nonzero().view(-1))

    def outputs(self, model: nn.Module) -> Tensor:
        """Embeddings of all users and items ``[N, d]``."""
        return self._embed(model, self.graph)

    def rank(
        self,
        model: nn.Module,
        targets: Interactions,
        known: Interactions,
        metrics: Sequence[str] | None = None,
        *,
        graph: Adjacency | None = None,
        arriving: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Users with a target ``[n]`` and each metric's score of them ``[n]``, from one ranking.

        Args:
            model: a :class:`~tuneup.nn.Model` of users and items.
            targets: the pairs to find.
            known: pairs that are never ranked.
            metrics: like "recall@20"; the task's own by default.
            graph: that messages flow along; by default of the training pairs.
            arriving: marks users who enter as new ones (:meth:`UserItemVectors.forward`).
        """
        with evaluating(model):
            z = self._embed(model, self.graph if graph is None else graph, arriving)
            return self._rank(z, targets, known, metrics or [self.metric])

    def _rank(
        self, z: Tensor, targets: Interactions, known: Interactions, metrics: Sequence[str]
    ) -> tuple[Tensor, list[Tensor]]:
        users = targets.rows().count.nonzero().view(-1)
        wanted, masked = (part.rows().take(users) for part in (targets, known))
        _, items = self._sides(z)
        best = top_k(z[users], items, most_of(metrics), known=masked)
        hits = is_hit(best, wanted, self.train.num_items)
        return users, [ranking_scores(hits, wanted, metric) for metric in metrics]

    def _sides(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of users and of items."""
        users, items = z.split([self.train.num_users, self.train.num_items])
        return users, items

    def digest(self) -> str:
        """Training and validation pairs, the penalties, the size of an update and its negatives."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        parts = (self.train.user, self.train.item, self.validation.user, self.validation.item)
        # One negative goes without saying, as in checkpoints from before there was a choice.
        several = (self.negatives,) if self.negatives > 1 else ()
        selected = (self.selection,) if self.selection != "transductive" else ()
        sampled = () if self.num_neighbors is None else (tuple(self.num_neighbors),)
        decisive = (self.l2, self.batch_size, *several, *selected, *sampled)
        return digest_tensors(*parts) + repr(decisive)


class AllPairs(Unvalidated, Recommendation):
    """Recommendation that learns from every pair and holds none out for validation."""
