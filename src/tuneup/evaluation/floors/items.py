"""Floors of recommendation: items ranked for a user by the user's items and all training pairs.

With ``n_i`` the number of training pairs of item i, ``n_ij`` the number of users who have both
items and X the matrix of training pairs::

    popularity      n_i
    co-occurrence   sum over the user's items j of n_ij
    item cosine     sum over the user's items j of n_ij / sqrt(n_i n_j)
    EASE            sum over the user's items j of B_ji,  B = I - P / diag(P),  P = (X^T X + c I)^-1

Equals are ranked by popularity, then by id.  EASE is Steck's (WWW 2019); its penalty c is chosen on
validation pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tuneup.data import Interactions, InteractionSplit, merge
from tuneup.graph import Rows
from tuneup.metrics.scores import NodeScores
from tuneup.tasks import Recommendation

from .base import ByNeighbours, Floor, Question, Ranker, by_count, descending, matrix_of

if TYPE_CHECKING:
    from tuneup.evaluation.settings import RecommendationSetting

EASE_ITEMS = 8_000
"""Items above which EASE is skipped: it inverts a dense matrix of items by items."""
_PENALTIES = (10.0, 100.0, 1000.0)
_VALIDATED = 5_000
"""Users that the penalty of EASE is chosen on, at most."""
_SHARED = 100_000_000
"""Pairs of items that may share a user."""


def popularity(split: InteractionSplit, metric: str = "recall@50") -> NodeScores:
    """The items with most training pairs first, without those that a user already has."""
    return _of_split(split, metric).score(by_popularity(split.train))


def co_occurrence(split: InteractionSplit, metric: str = "recall@50") -> NodeScores:
    """The items that most often share a user with the items a user has; on the CPU."""
    return _of_split(split, metric).score(by_co_occurrence(split.train))


def recommendation_floors(settings: Sequence[RecommendationSetting]) -> list[Floor]:
    """All floors of recommendation, made of the training pairs and scored in every setting."""
    task = settings[0].task
    questions = [question(each) for each in settings]
    floors = []
    for name, title, make in _KINDS:
        rank, note = make(task)
        scores = {} if rank is None else {each.setting: each.score(rank) for each in questions}
        floors.append(Floor(name, title, scores, note=note))
    return floors


def by_popularity(train: Interactions) -> Ranker:
    """The items with most training pairs first."""
    return by_count(_count(train))


def by_co_occurrence(train: Interactions) -> Ranker:
    """The items that most often share a user with the user's items first."""
    matrix, order = matrix_of(train.to("cpu").rows(), train.num_items), descending(_count(train))
    return ByNeighbours([matrix.T @ matrix[:, order.numpy()]], order)


def by_cosine(train: Interactions) -> Ranker:
    """Co-occurrence divided by the square roots of both items' popularity."""
    matrix, count = matrix_of(train.to("cpu").rows(), train.num_items), _count(train)
    order = descending(count)
    matrix = matrix.multiply(count.clamp(min=1).double().rsqrt().cpu().numpy()).tocsr()
    return ByNeighbours([matrix.T @ matrix[:, order.numpy()]], order)


def by_ease(train: Interactions, penalty: float) -> Ranker:
    """The linear model without a diagonal that best repeats the training pairs."""
    matrix, order = matrix_of(train.to("cpu").rows(), train.num_items), descending(_count(train))
    gram = torch.from_numpy((matrix.T @ matrix).astype(np.float32).toarray())
    gram.diagonal().add_(penalty)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
    weight = inverse.div_(-inverse.diagonal().clone()).fill_diagonal_(0)
    return ByNeighbours([weight[:, order].numpy()], order)


def question(setting: RecommendationSetting, metric: str | None = None) -> Question:
    """What a setting asks, in the terms of a ranker; by default by the task's own metric."""
    targets = setting.targets.rows()
    users = targets.count.nonzero().view(-1)
    first = setting.task.train.num_users
    linked = setting.graph.neighbours.take(users)
    return Question(
        setting.name,
        metric or setting.task.metric,
        users,
        Rows(linked.rowptr, linked.col - first),
        setting.known.rows().take(users),
        targets.take(users),
        setting.task.train.num_items,
    )


def _of_split(split: InteractionSplit, metric: str) -> Question:
    """The users with a test pair, who have their training pairs."""
    known = merge(split.train, split.validation)
    return _of_pairs("transductive", metric, split.train, known, split.test)


def _of_pairs(
    name: str,
    metric: str,
    inputs: Interactions,
    known: Interactions,
    targets: Interactions,
    most: int | None = None,
) -> Question:
    """All users with a target, or so many of them."""
    users = targets.rows().count.nonzero().view(-1)
    users = users if most is None else users[:: -(-len(users) // most)]
    shown, masked, wanted = (part.rows().take(users) for part in (inputs, known, targets))
    return Question(name, metric, users, shown, masked, wanted, inputs.num_items)


Made = tuple[Ranker | None, str]
"""A ranker and how it was made, or why it was not."""
Maker = Callable[[Recommendation], Made]


def _unless_too_many(make: Callable[[Interactions], Ranker]) -> Maker:
    """For rankers that count the users that items share."""

    def made(task: Recommendation) -> Made:
        train = task.train
        pairs = min(int(train.rows().count.square().sum()), train.num_items**2)
        if pairs > _SHARED:
            return None, f"skipped: up to {pairs:,} pairs of items share a user"
        return make(train), ""

    return made


def _ease(task: Recommendation) -> Made:
    train, validation = task.train, task.validation
    if train.num_items > EASE_ITEMS:
        return None, f"skipped: {train.num_items:,} items, more than {EASE_ITEMS:,}"
    held_out = _of_pairs("validation", task.metric, train, train, validation, _VALIDATED)
    best, chosen, found = -1.0, None, 0.0
    for penalty in _PENALTIES:
        rank = by_ease(train, penalty)
        score = held_out.score(rank).mean()
        if score > best:
            best, chosen, found = score, rank, penalty
    return chosen, f"penalty {found:g}, chosen on validation pairs"


def _count(train: Interactions) -> Tensor:
    """Training pairs of each item."""
    return torch.bincount(train.item, minlength=train.num_items)


_KINDS: tuple[tuple[str, str, Maker], ...] = (
    ("popularity", "popularity", lambda task: (by_popularity(task.train), "")),
    ("co-occurrence", "item co-occurrence", _unless_too_many(by_co_occurrence)),
    ("item-cosine", "item cosine", _unless_too_many(by_cosine)),
    ("ease", "EASE", _ease),
)
