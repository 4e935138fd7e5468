"""Who used what: the edges of a recommendation problem, and their split."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Adjacency, adjacency_from
from tuneup.graph.csr import distinct, rowptr_of
from tuneup.graph.lists import Rows

from .splits import exact_share


@dataclass(frozen=True, eq=False)
class Interactions:
    """Distinct pairs (user, item), both counted from 0, in the order of users then items.

    :func:`interactions_from` makes them from pairs in any order.
    """

    user: Tensor
    item: Tensor
    num_users: int
    num_items: int
    name: str = "interactions"

    def __post_init__(self) -> None:
        _check_pairs(self.user, self.item, self.num_users, self.num_items)
        keys = self.user * self.num_items + self.item
        wrong = keys[1:] <= keys[:-1]
        if wrong.any():
            pair = int(wrong.nonzero()[0]) + 1
            raise InputError(
                f"{self.name}: pair {pair} repeats or precedes the one before it; "
                "use interactions_from, which sorts and merges."
            )

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

    def to(self, device: torch.device | str) -> Interactions:
        """The same pairs on another device."""
        return replace(self, user=self.user.to(device), item=self.item.to(device))

    def adjacency(self) -> Adjacency:
        """Users and items in one undirected graph: item i is node ``num_users + i``."""
        edges = torch.stack([self.user, self.item + self.num_users])
        return adjacency_from(edges, self.num_users + self.num_items, undirected=True)

    def rows(self) -> Rows:
        """The items of each user."""
        return Rows(rowptr_of(self.user, self.num_users), self.item)


def interactions_from(
    user: Tensor, item: Tensor, num_users: int, num_items: int, name: str = "interactions"
) -> Interactions:
    """Interactions from pairs in any order; repeated pairs count once."""
    user, item = user.long(), item.long()
    _check_pairs(user, item, num_users, num_items)
    keys = distinct(user * num_items + item)
    first = keys // max(1, num_items)
    return Interactions(first, keys - first * num_items, num_users, num_items, name)


def _check_pairs(user: Tensor, item: Tensor, num_users: int, num_items: int) -> None:
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


def merge(first: Interactions, second: Interactions) -> Interactions:
    """The pairs of both."""
    return interactions_from(
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

    def to(self, device: torch.device | str) -> InteractionSplit:
        """The same pairs on another device."""
        return InteractionSplit(*(part.to(device) for part in vars(self).values()))


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
    order = order.to(data.user.device)
    first = int(exact_share(train) * len(data))
    second = first + int(exact_share(validation) * len(data))
    if first == 0 or second == first:
        raise InputError(
            f"{data.name}: {len(data)} pairs are too few for shares of {train} and {validation}."
        )
    parts = (order[:first], order[first:second], order[second:])
    return InteractionSplit(*(data.take(part) for part in parts))
