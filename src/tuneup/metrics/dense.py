"""Exact top-k of scores that are already computed, with equals in an order of one's choice."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tuneup.graph import Rows
from tuneup.graph.csr import rows_of

from .topk import TopK


def top_k_dense(scores: Tensor, k: int, *, known: Rows | None = None) -> TopK:
    """The ``k`` best columns of every row, none of them known; of equals, the first columns.

    Args:
        scores: float ``[n, m]``; overwritten where columns are known.
        k: how many to keep.
        known: columns of each row that must not be ranked.
    """
    if known is not None:
        scores[rows_of(known.rowptr, known.col.numel()), known.col] = -torch.inf
    count = min(k, scores.shape[1])
    least = scores.topk(count, dim=1).values[:, -1:]
    # All that are above the least of the best, and the first of those that equal it.
    above, equal = scores > least, scores == least
    room = count - above.sum(1, keepdim=True)
    chosen = above | (equal & (equal.cumsum(1, dtype=torch.int32) <= room))
    ids = chosen.nonzero()[:, 1].view(-1, count)
    values, place = scores.gather(1, ids).sort(dim=1, descending=True, stable=True)
    ids = ids.gather(1, place).masked_fill(values == -torch.inf, -1)
    missing = (0, k - count)
    return TopK(F.pad(ids, missing, value=-1), F.pad(values, missing, value=-torch.inf))
