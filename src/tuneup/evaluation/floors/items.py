"""Floors of recommendation: items ranked for a user by the user's items and all training pairs.

With ``n_i`` the number of training pairs of item i, ``n_ij`` the number of users who have both
items and X the matrix of training pairs::

    popularity      n_i
    co-occurrence   sum over the user's items j of n_ij
    item cosine     sum over the user's items j of n_ij / sqrt(n_i n_j)
    EASE            sum over the user's items j of B_ji,  B = I - P / diag(P),  P = (X^T X + c I)^-1

Equals are ranked by popularity, then by id.  EASE is Steck's (WWW 2019); its penalty c is chosen on
validation pairs.  A random order is the least that any ranking should beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tuneup.data.interactions import Interactions, InteractionSplit, merge
from tuneup.graph.lists import Rows, take_lists
from tuneup.metrics.scores import NodeScores

from .floor import Floor
from .ranking import ByNeighbours, Question, Ranker, by_count, matrix_of

if TYPE_CHECKING:
    from tuneup.evaluation.edge_settings import RecommendationSetting

EASE_ITEMS = 8_000
"""Items above which EASE is skipped: it inverts a dense matrix of items by items."""
_PENALTIES = (10.0, 100.0, 1000.0)
_VALIDATED = 5_000
"""Users that the penalty of EASE is chosen on, at most."""
_SHARED = 100_000_000
"""Pairs of items that may share a user."""


def random_recall(candidates: Tensor, k: int) -> float:
    """The recall@k to expect of a random order, with so many ``candidates [n]`` per source."""
    return float((k / candidates.double().clamp(min=1)).clamp(max=1).mean())


def popularity(split: InteractionSplit, metric: str = "recall@50") -> NodeScores:
    """The items with most training pairs, for everyone who does not know them yet."""
    return _of_split(split, metric).score(by_popularity(split.train))


def co_occurrence(split: InteractionSplit, metric: str = "recall@50") -> NodeScores:
    """The items that most often share a user with the items a user has; on the CPU."""
    return _of_split(split, metric).score(by_co_occurrence(split.train))


def recommendation_floors(settings: Sequence[RecommendationSetting]) -> list[Floor]:
    """Popularity, item cosine and EASE, made of the training pairs and scored in every setting."""
    task = settings[0].task
    questions = [question(each) for each in settings]
    validated = _validation(task.train, task.validation, task.metric)

    def floor(name: str, title: str, found: tuple[Ranker | None, str]) -> Floor:
        rank, note = found
        asked = questions if rank is not None else []
        scores = {each.setting: each.score(rank) for each in asked if rank is not None}
        return Floor(name, title, scores, note=note)

    return [
        floor("popularity", "popularity", (by_popularity(task.train), "")),
        floor("item-cosine", "item cosine", _cosine(task.train)),
        floor("ease", "EASE", _ease(task.train, validated)),
    ]


def by_popularity(train: Interactions) -> Ranker:
    """The items with most training pairs first."""
    return by_count(_popularity(train))


def by_co_occurrence(train: Interactions) -> Ranker:
    """The items that most often share a user with the user's items first."""
    matrix = matrix_of(_cpu(train).rows(), train.num_items)
    return ByNeighbours((matrix.T @ matrix,), _popularity(train))


def by_cosine(train: Interactions) -> Ranker:
    """Co-occurrence divided by the square roots of both items' popularity."""
    matrix = matrix_of(_cpu(train).rows(), train.num_items)
    count = _popularity(train)
    matrix = matrix.multiply(count.clamp(min=1).double().rsqrt().cpu().numpy()).tocsr()
    return ByNeighbours((matrix.T @ matrix,), count)


def by_ease(train: Interactions, penalty: float) -> Ranker:
    """The linear model without a diagonal that best repeats the training pairs."""
    matrix = matrix_of(_cpu(train).rows(), train.num_items)
    gram = torch.from_numpy((matrix.T @ matrix).toarray().astype(np.float32))
    gram.diagonal().add_(penalty)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
    weight = inverse.div_(-inverse.diagonal().clone())
    weight.fill_diagonal_(0)
    return ByNeighbours((weight.numpy(),), _popularity(train))


def question(setting: RecommendationSetting, metric: str | None = None) -> Question:
    """What a setting asks, in the terms of a ranker; by default by the task's own metric."""
    targets = setting.targets.rows()
    users = targets.count.nonzero().view(-1)
    first = setting.task.train.num_users
    linked = take_lists(Rows(setting.graph.rowptr, setting.graph.col), users)
    return Question(
        setting.name,
        metric or setting.task.metric,
        users,
        Rows(linked.rowptr, linked.col - first),
        take_lists(setting.known.rows(), users),
        take_lists(targets, users),
        setting.task.train.num_items,
    )


def _of_split(split: InteractionSplit, metric: str) -> Question:
    """The users with a test pair, who have their training pairs."""
    known = merge(split.train, split.validation)
    return _asked("transductive", metric, split.train, known, split.test)


def _validation(train: Interactions, validation: Interactions, metric: str) -> Question:
    return _asked("validation", metric, train, train, validation, _VALIDATED)


def _asked(
    name: str,
    metric: str,
    inputs: Interactions,
    known: Interactions,
    targets: Interactions,
    most: int | None = None,
) -> Question:
    """The first users with a target."""
    users = targets.rows().count.nonzero().view(-1)[:most]
    shown, masked, wanted = (take_lists(part.rows(), users) for part in (inputs, known, targets))
    return Question(name, metric, users, shown, masked, wanted, inputs.num_items)


def _cosine(train: Interactions) -> tuple[Ranker | None, str]:
    shared = min(int(train.rows().count.square().sum()), train.num_items**2)
    if shared > _SHARED:
        return None, f"skipped: up to {shared:,} pairs of items share a user"
    return by_cosine(train), ""


def _ease(train: Interactions, validated: Question) -> tuple[Ranker | None, str]:
    if train.num_items > EASE_ITEMS:
        return None, f"skipped: {train.num_items:,} items, more than {EASE_ITEMS:,}"
    best, chosen, found = -1.0, None, 0.0
    for penalty in _PENALTIES:
        rank = by_ease(train, penalty)
        score = validated.score(rank).mean()
        if score > best:
            best, chosen, found = score, rank, penalty
    return chosen, f"penalty {found:g}, chosen on validation pairs"


def _popularity(train: Interactions) -> Tensor:
    return torch.bincount(train.item, minlength=train.num_items)


def _cpu(pairs: Interactions) -> Interactions:
    return pairs.to("cpu")
