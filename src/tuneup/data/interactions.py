"""Who used what: the edges of a recommendation problem, and their split."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Adjacency, adjacency_from
from tuneup.graph.csr import rowptr_of
from tuneup.graph.lists import Rows

from .splits import exact_share


@dataclass(frozen=True, eq=False)
class Interactions:
    """Distinct pairs (user, item), both counted from 0, in the order of users then items."""

    user: Tensor
    item: Tensor
    num_users: int
    num_items: int
    name: str = "interactions"

    def __len__(self) -> int:
        return self.user.numel()

    def __repr__(self) -> str:
        sizes = f"{self.num_users:,} users, {self.num_items:,} items, {len(self):,} pairs"
        return f"Interactions({self.name}: {sizes})"

    def take(self, index: Tensor) -> Interactions:
        """Some of the pairs."""
        chosen = index.sort().values
        return Interactions(
            self.user[chosen], self.item[chosen], self.num_users, self.num_items, self.name
        )

    def adjacency(self) -> Adjacency:
        """Users and items in one undirected graph: item i is node ``num_users + i``."""
        edges = torch.stack([self.user, self.item + self.num_users])
        return adjacency_from(edges, self.num_users + self.num_items, undirected=True)

    def rows(self) -> Rows:
        """The items of each user."""
        return Rows(rowptr_of(self.user, self.num_users), self.item)


def interactions(
    user: Tensor, item: Tensor, num_users: int, num_items: int, name: str = "interactions"
) -> Interactions:
    """Interactions from pairs in any order; repeated pairs count once."""
    if user.shape != item.shape or user.dim() != 1:
        raise InputError(
            "user and item must be lists of one length; got shapes "
            f"{list(user.shape)} and {list(item.shape)}."
        )
    for kind, found, count in (("user", user, num_users), ("item", item, num_items)):
        wrong = (found < 0) | (found >= count)
        if wrong.any():
            pair = int(wrong.nonzero()[0])
            raise InputError(f"Pair {pair} has {kind} {int(found[pair])}, outside 0..{count - 1}.")
    keys = torch.unique(user.long() * num_items + item.long())
    first = keys // max(1, num_items)
    return Interactions(first, keys - first * num_items, num_users, num_items, name)


def merge(first: Interactions, second: Interactions) -> Interactions:
    """The pairs of both."""
    return interactions(
        torch.cat([first.user, second.user]),
        torch.cat([first.item, second.item]),
        first.num_users,
        first.num_items,
        first.name,
    )


@dataclass(frozen=True, eq=False)
class InteractionSplit:
    """Disjoint pairs for training, validation and test."""

    train: Interactions
    validation: Interactions
    test: Interactions


def split_interactions(
    data: Interactions, *, train: float = 0.1, validation: float = 0.05, seed: int = 0
) -> InteractionSplit:
    """A seeded random split of all pairs; what is in neither of the two shares is for the test."""
    if min(train, validation) <= 0 or train + validation >= 1:
        raise InputError(
            f"train and validation are shares above 0 that leave some for the test; got {train}, "
            f"{validation}."
        )
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    first = int(exact_share(train) * len(data))
    second = first + int(exact_share(validation) * len(data))
    parts = (order[:first], order[first:second], order[second:])
    return InteractionSplit(*(data.take(part) for part in parts))
