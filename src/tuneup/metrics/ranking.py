"""Ranking metrics, one value per source.

With ``hit_j`` whether the j-th best candidate is a target and T the number of targets::

    recall@k     sum_{j<=k} hit_j / T            precision@k   sum_{j<=k} hit_j / k
    hit@k        1 if any hit_j, j <= k          mrr@k         1 / (first j <= k with hit_j), else 0
    ndcg@k       sum_{j<=k} hit_j / log2(j + 1)  divided by the same sum for a perfect ranking
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Rows

from .topk import TopK


def is_hit(ranking: TopK, targets: Rows, num_candidates: int) -> Tensor:
    """Which of the ranked candidates are targets ``[n, k]``."""
    source = torch.arange(ranking.ids.shape[0], device=ranking.ids.device)
    wanted = source.repeat_interleave(targets.count) * num_candidates + targets.col
    found = source[:, None] * num_candidates + ranking.ids
    return torch.isin(found, wanted) & (ranking.ids >= 0)


def _discount(k: int, device: torch.device) -> Tensor:
    return torch.arange(2, k + 2, device=device, dtype=torch.float64).log2().reciprocal()


def _recall(hits: Tensor, count: Tensor) -> Tensor:
    return hits.sum(1) / count


def _precision(hits: Tensor, count: Tensor) -> Tensor:
    return hits.sum(1) / hits.shape[1]


def _hit(hits: Tensor, count: Tensor) -> Tensor:
    return hits.any(1)


def _mrr(hits: Tensor, count: Tensor) -> Tensor:
    place = torch.arange(1, hits.shape[1] + 1, device=hits.device, dtype=torch.float64)
    return (hits / place).amax(1)


def _ndcg(hits: Tensor, count: Tensor) -> Tensor:
    discount = _discount(hits.shape[1], hits.device)
    best = discount.cumsum(0)[count.clamp(max=hits.shape[1]) - 1]
    return (hits * discount).sum(1) / best


DEFAULT_K = 50
"""Places of a ranking that a metric without ``@k`` looks at."""

RANKING_METRICS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "recall": _recall,
    "precision": _precision,
    "ndcg": _ndcg,
    "hit": _hit,
    "mrr": _mrr,
}


def parse_metric(name: str) -> tuple[str, int]:
    """``"recall@20"`` as ``("recall", 20)``; ``"recall"`` looks at :data:`DEFAULT_K` places."""
    kind, at, k = name.partition("@")
    if kind not in RANKING_METRICS or (at and (not k.isdecimal() or int(k) < 1)):
        allowed = ", ".join(RANKING_METRICS)
        raise InputError(
            f"metric: got {name!r}; expected one of {allowed}, perhaps with @k, as in recall@20."
        )
    return kind, int(k) if at else DEFAULT_K


def ranking_metric(name: str) -> str:
    """The full name of a ranking metric: ``"mrr"`` is ``"mrr@50"``, ``"ndcg@20"`` itself."""
    kind, k = parse_metric(name)
    return f"{kind}@{k}"


def most_of(metrics: Iterable[str]) -> int:
    """The largest k of some metrics: one ranking of so many serves them all."""
    return max(parse_metric(name)[1] for name in metrics)


def ranking_scores(hits: Tensor, targets: Rows, name: str) -> Tensor:
    """A metric per source ``[n]``, float32; every source must have a target.

    Args:
        hits: from :func:`is_hit`, at least k columns.
        targets: what each source should have been recommended.
        name: like ``"ndcg@20"``.
    """
    kind, k = parse_metric(name)
    if hits.shape[1] < k:
        raise InputError(f"{name} needs the {k} best candidates; only {hits.shape[1]} were ranked.")
    if (targets.count == 0).any():
        source = int((targets.count == 0).nonzero()[0])
        raise InputError(f"Source {source} has no target: average over sources that have one.")
    return RANKING_METRICS[kind](hits[:, :k], targets.count).float()
