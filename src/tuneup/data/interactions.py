"""User-item interactions, the edges of a recommendation problem, and their split."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Adjacency, Rows, adjacency_from
from tuneup.graph.csr import distinct, rowptr_of
from tuneup.graph.hashing import seed_of

from .splits import exact_share

_USERS = 0x7573657273
"""Keeps the draw of new users apart from others of the same seed (ASCII word)."""


@dataclass(frozen=True, eq=False)
class Interactions:
    """Distinct pairs (user, item), both counted from 0, in the order of users then items.

    Example::

        from tuneup.data import interactions_from

        user, item = torch.tensor([0, 0, 1]), torch.tensor([2, 0, 1])
        pairs = interactions_from(user, item, num_users=2, num_items=3)

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


def _no_users() -> Tensor:
    return torch.empty(0, dtype=torch.long)


def _no_pairs() -> Interactions:
    return Interactions(_no_users(), _no_users(), 0, 0, "no pairs")


@dataclass(frozen=True, eq=False)
class InteractionSplit:
    """Disjoint pairs for training, validation and test, and the pairs of held-out users.

    Args:
        train: pairs that messages flow along and that the loss is taken on.
        validation: pairs that choose the epoch.
        test: pairs to find in the transductive setting.
        new: held-out users ``[m]``, ascending; they have no pair in the three parts above.
        new_input: their pairs that the model is shown when it is asked about them.
        new_target: their other pairs, to find in the inductive and cold-start settings.
        seed: of the split; cold start removes pairs of ``new_input`` by it too.
    """

    train: Interactions
    validation: Interactions
    test: Interactions
    new: Tensor = field(default_factory=_no_users)
    new_input: Interactions = field(default_factory=_no_pairs)
    new_target: Interactions = field(default_factory=_no_pairs)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("train", "validation", "test") if self.new.numel() else ():
            user = getattr(self, name).user
            both = user[torch.isin(user, self.new)]
            if both.numel():
                raise InputError(f"InteractionSplit: new user {int(both[0])} has a {name} pair.")

    def to(self, device: torch.device | str) -> InteractionSplit:
        """The same pairs on another device."""
        parts = {name: part.to(device) for name, part in vars(self).items() if name != "seed"}
        return replace(self, **parts)


def split_interactions(
    data: Interactions,
    *,
    train: float = 0.1,
    validation: float = 0.05,
    new: float = 0.0,
    new_input: float = 0.5,
    seed: int = 0,
) -> InteractionSplit:
    """A seeded random split of all pairs; pairs in no share are for the test.

    Args:
        data: the pairs.
        train: share of the known users' pairs that trains.
        validation: share of them that chooses the epoch.
        new: share of the users that is held out, drawn from those with two pairs or more.
        new_input: share of each held-out user's pairs that the model is shown, at least one; at
            least one more is a target.
        seed: of the split.
    """
    if min(train, validation) <= 0 or train + validation >= 1:
        raise InputError(
            f"train and validation are shares above 0 that leave some for the test; got {train}, "
            f"{validation}."
        )
    shown = torch.Generator().manual_seed(seed_of(_USERS, seed, 1))
    order = torch.randperm(len(data), generator=shown).to(data.user.device)
    held = hold_out(data, new_users(data.rows().count > 1, new, seed), order, new_input)
    known = held.known
    order = torch.randperm(known.numel(), generator=torch.Generator().manual_seed(seed))
    order = known[order.to(known.device)]
    first = int(exact_share(train) * order.numel())
    second = first + int(exact_share(validation) * order.numel())
    if first == 0 or second == first:
        raise InputError(
            f"{data.name}: {order.numel()} pairs are too few for shares of {train} and "
            f"{validation}."
        )
    split = InteractionSplit(
        data.take(order[:first]), data.take(order[first:second]), data.take(order[second:])
    )
    return held.joined(data, split, seed)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out users ``new``, and three lists of pairs, each by its position in the data.

    ``known`` are the pairs of all other users, ``shown`` and ``target`` those of held-out ones.
    """

    new: Tensor
    known: Tensor
    shown: Tensor
    target: Tensor

    def joined(self, data: Interactions, split: InteractionSplit, seed: int) -> InteractionSplit:
        """A split of the known users' pairs, with the held-out users of the same data."""
        if not self.new.numel():
            return replace(split, seed=seed)
        shown, target = data.take(self.shown), data.take(self.target)
        return replace(split, new=self.new, new_input=shown, new_target=target, seed=seed)


def new_users(able: Tensor, share: float, seed: int) -> Tensor:
    """A seeded share of the users who can be held out, ascending; none if it is less than one.

    ``able [N]`` marks them: to be scored, a user needs a pair to be shown and one to be found.
    """
    if not 0 <= share < 1:
        raise InputError(f"new is the share of new users, from 0 to below 1; got {share}.")
    able = able.nonzero().view(-1)
    generator = torch.Generator().manual_seed(seed_of(_USERS, seed))
    order = torch.randperm(able.numel(), generator=generator).to(able.device)
    return able[order[: int(exact_share(share) * able.numel())]].sort().values


def hold_out(data: Interactions, new: Tensor, order: Tensor, share: float = 0.5) -> HeldOut:
    """Take the pairs of new users out; of each user's, a share is shown and the rest are targets.

    Args:
        data: all pairs.
        new: users with two pairs or more each.
        order: all pairs by position ``[len(data)]``; a user's first ones are shown.
        share: of each user's pairs that is shown, rounded down, but one or more; one or more is
            left as a target.
    """
    if not 0 < share < 1:
        raise InputError(f"new_input is a share above 0 and below 1; got {share}.")
    rows = data.rows()
    above, below = exact_share(share).as_integer_ratio()
    quota = torch.minimum((rows.count * above // below).clamp(min=1), rows.count - 1)
    by_user = order[data.user[order].sort(stable=True).indices]  # their users are data.user
    place = torch.arange(len(data), device=order.device) - rows.rowptr[data.user]
    is_shown = torch.empty_like(data.user, dtype=torch.bool)
    is_shown[by_user] = place < quota[data.user]
    is_new = torch.isin(data.user, new)
    known, shown, target = (
        mask.nonzero().view(-1) for mask in (~is_new, is_new & is_shown, is_new & ~is_shown)
    )
    return HeldOut(new, known, shown, target)
