"""What needs no training: a recommender below these is broken or has not converged.

A random order is the least; two more rank items for all users from the training pairs alone::

    popularity      score(u, i) = number of training pairs of i
    co-occurrence   score(u, i) = sum over u's training items j of the users that i and j share;
                    equals by popularity

With ``new`` the new users of the split are ranked for, who have their input pairs in the place of
training pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tuneup.data.interactions import Interactions, InteractionSplit, merge
from tuneup.graph.lists import Rows, take_lists
from tuneup.metrics.ranking import is_hit, parse_metric, ranking_scores
from tuneup.metrics.scores import NodeScores
from tuneup.metrics.topk import TopK, top_k

if TYPE_CHECKING:
    from scipy import sparse

_CHUNK = 512
Ranker = Callable[[Tensor, Rows, int], TopK]


def random_recall(candidates: Tensor, k: int) -> float:
    """The recall@k to expect of a random order, with so many ``candidates [n]`` per source."""
    return float((k / candidates.double().clamp(min=1)).clamp(max=1).mean())


def popularity(
    split: InteractionSplit, metric: str = "recall@50", *, new: bool = False
) -> NodeScores:
    """The items with most training pairs, for everyone who does not know them yet."""
    train = split.train
    count = torch.bincount(train.item, minlength=train.num_items).float()[:, None]

    def rank(users: Tensor, known: Rows, k: int) -> TopK:
        return top_k(count.new_ones(users.numel(), 1), count, k, known=known)

    return _scores(split, metric, rank, new)


def co_occurrence(
    split: InteractionSplit, metric: str = "recall@50", *, new: bool = False
) -> NodeScores:
    """The items that most often share a user with the items a user has; on the CPU."""
    split = split.to("cpu")
    matrix = _matrix(split.train)
    shared = (matrix.T @ matrix).tocsr()
    shown = _matrix(split.new_input) if new else matrix
    items = split.train.num_items
    count = torch.bincount(split.train.item, minlength=items)
    # Whole numbers that doubles hold exactly: by sum, then by popularity, then by smallest id.
    last = (count * items + torch.arange(items).flip(0)).double()
    step = float((count.max() + 1) * items)

    def rank(users: Tensor, known: Rows, k: int) -> TopK:
        parts = list(_dense_rank(shown, shared, last, step, users, known, k))
        return TopK(torch.cat([p.ids for p in parts]), torch.cat([p.scores for p in parts]))

    return _scores(split, metric, rank, new)


def _dense_rank(
    matrix: sparse.csr_matrix,
    shared: sparse.csr_matrix,
    last: Tensor,
    step: float,
    users: Tensor,
    known: Rows,
    k: int,
) -> Iterator[TopK]:
    """Some users at a time: scores of all items, no two of them equal."""
    for start in range(0, users.numel(), _CHUNK):
        chunk = torch.arange(start, min(start + _CHUNK, users.numel()))
        sums = torch.from_numpy((matrix[users[chunk].numpy()] @ shared).toarray())
        scores = sums.double().mul_(step).add_(last)
        masked = take_lists(known, chunk)
        row = torch.arange(chunk.numel()).repeat_interleave(masked.count)
        scores[row, masked.col] = -torch.inf
        values, ids = scores.topk(min(k, scores.shape[1]), dim=1)
        ids = ids.masked_fill(values == -torch.inf, -1)
        missing = (0, k - ids.shape[1])  # fewer items than places
        yield TopK(F.pad(ids, missing, value=-1), F.pad(values, missing, value=-torch.inf))


def _matrix(pairs: Interactions) -> sparse.csr_matrix:
    from scipy import sparse  # slow to import, and only this needs it

    ones = np.ones(len(pairs), dtype=np.float32)
    index = (pairs.user.numpy(), pairs.item.numpy())
    return sparse.csr_matrix((ones, index), shape=(pairs.num_users, pairs.num_items))


def _scores(split: InteractionSplit, metric: str, rank: Ranker, new: bool) -> NodeScores:
    name = "inductive" if new else "transductive"
    shown, targets = (split.new_input, split.new_target) if new else (split.train, split.test)
    users = targets.rows().count.nonzero().view(-1)
    wanted = take_lists(targets.rows(), users)
    never = shown if new else merge(split.train, split.validation)
    known = take_lists(never.rows(), users)
    _, k = parse_metric(metric)
    best = rank(users, known, k)
    hits = is_hit(best, wanted, split.train.num_items)
    degree = shown.rows().count[users]
    return NodeScores(name, metric, users, degree, ranking_scores(hits, wanted, metric))
