"""What a floor is, and ranking candidates by scores that need no training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tuneup.graph import Rows
from tuneup.metrics.ranking import is_hit, parse_metric, ranking_scores
from tuneup.metrics.scores import NodeScores
from tuneup.metrics.topk import TopK, top_k, top_k_dense

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, eq=False)
class Floor:
    """A simple model and its scores, to compare a trained model with.

    Args:
        name: a short key, like "two-hop-logistic".
        title: what a table shows.
        scores: by setting, of the same nodes with the same degrees and metric as a trained model's;
            empty if the floor was skipped.
        probabilities: of the classes of the scored nodes ``[n, C]``, by setting; empty where
            candidates are ranked.
        note: how the floor was fitted, or why it was skipped.
    """

    name: str
    title: str
    scores: Mapping[str, NodeScores]
    probabilities: Mapping[str, Tensor] = field(default_factory=dict)
    note: str = ""

    @property
    def skipped(self) -> bool:
        """Whether there are no scores; ``note`` has the reason."""
        return not self.scores


Ranker = Callable[[Rows, Rows, int], TopK]
"""Ranks ``k`` candidates for each source, from its neighbours among the candidates and from the
candidates that are known and must not be ranked."""

_BUDGET = 1 << 21
"""Scores that are computed at a time: few enough for the cache."""


@dataclass(frozen=True, eq=False)
class Question:
    """Sources of one setting, what is shown of each, and what each should find.

    ``ids [n]`` are global ids.  ``inputs`` lists the candidates that a source is linked to in the
    input graph, ``known`` those that are never ranked, ``targets`` those to find.
    """

    setting: str
    metric: str
    ids: Tensor
    inputs: Rows
    known: Rows
    targets: Rows
    num_candidates: int

    def score(self, rank: Ranker) -> NodeScores:
        """The metric of every source."""
        best = rank(self.inputs, self.known, parse_metric(self.metric)[1])
        hits = is_hit(best, self.targets, self.num_candidates)
        found = ranking_scores(hits, self.targets, self.metric)
        return NodeScores(self.setting, self.metric, self.ids, self.inputs.count, found)


def by_count(count: Tensor) -> Ranker:
    """The same order for every source: candidates by ``count [m]``, then by id."""

    def rank(inputs: Rows, known: Rows, k: int) -> TopK:
        ones = torch.ones(len(known.count), 1, device=count.device)
        return top_k(ones, count.float()[:, None], k, known=known)

    return rank


@dataclass(frozen=True, eq=False)
class ByNeighbours:
    """Candidates by the sum of ``weight[j, c]`` over the source's neighbours ``j``; on the CPU.

    Equals come in a given order; sums that differ by less than the rounding of single precision
    are equal.

    Args:
        factors: matrices, sparse or dense, whose product is ``weight [m, m]`` with the columns in
            ``order``.  Some sources at a time are multiplied with one after the other.
        order: all candidates ``[m]``, first those to prefer among equals.
    """

    factors: Sequence[Any]
    order: Tensor

    def __call__(self, inputs: Rows, known: Rows, k: int) -> TopK:
        """Rank for all sources."""
        device = known.col.device
        parts = list(self._parts(_to_cpu(inputs), _to_cpu(known), k))
        ids, scores = (torch.cat(each).to(device) for each in zip(*parts, strict=True))
        return TopK(ids, scores)

    def _parts(self, inputs: Rows, known: Rows, k: int) -> Iterator[tuple[Tensor, Tensor]]:
        candidates, place = len(self.order), self.order.argsort()
        step = max(1, _BUDGET // candidates)
        for start in range(0, len(inputs.count), step):
            chunk = torch.arange(start, min(start + step, len(inputs.count)))
            product = matrix_of(inputs.take(chunk), candidates).astype(self.factors[-1].dtype)
            for factor in self.factors:
                product = product @ factor
            scores = product if isinstance(product, np.ndarray) else product.toarray()
            masked = known.take(chunk)
            masked = Rows(masked.rowptr, place[masked.col])
            best = top_k_dense(torch.from_numpy(scores).float(), k, known=masked)
            yield self.order[best.ids.clamp(min=0)].masked_fill(best.ids < 0, -1), best.scores


def descending(count: Tensor) -> Tensor:
    """Candidates by ``count [m]``, then by id; on the CPU."""
    return count.cpu().argsort(descending=True, stable=True)


def matrix_of(rows: Rows, num_columns: int) -> sparse.csr_matrix:
    """Ones where the rows list a column."""
    from scipy import sparse  # slow to import, and only floors need it

    ones = np.ones(rows.col.numel())
    parts = (ones, rows.col.numpy(), rows.rowptr.numpy())
    return sparse.csr_matrix(parts, shape=(len(rows.count), num_columns))


def _to_cpu(rows: Rows) -> Rows:
    return Rows(rows.rowptr.cpu(), rows.col.cpu())
