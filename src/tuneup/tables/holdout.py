"""Nodes and users held out as new: they join after training, so that cold start can be measured."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tuneup.data import (
    EdgeSplit,
    InteractionSplit,
    NodeSplit,
    exact_share,
    known_and_new,
    merge,
    new_users,
)
from tuneup.errors import InputError


def held_out(num_nodes: int, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Known and new nodes, ascending; none is new where the share is less than one node."""
    if int(exact_share(share) * num_nodes) < 1:
        share = 0.0
    known, new = known_and_new(num_nodes, share, seed)
    return known.sort().values, new.sort().values


def without_some(split: NodeSplit, share: float, seed: int) -> NodeSplit:
    """The split of a column with a share of all nodes held out, taken from those to be tested."""
    count = int(exact_share(share) * split.known.numel())
    if count >= split.test.numel():
        raise InputError(
            f"--new {share:g} holds out {count:,} nodes, which are taken from the "
            f"{split.test.numel():,} that the split marks for the test, and some must be left: "
            "lower --new, or mark more."
        )
    generator = torch.Generator().manual_seed(seed)
    order = split.test[torch.randperm(split.test.numel(), generator=generator)]
    new = order[:count].sort().values
    known = split.known[~torch.isin(split.known, new)]
    return replace(split, known=known, new=new, test=order[count:].sort().values, seed=seed)


def edges_without_some(split: EdgeSplit, share: float, seed: int) -> EdgeSplit:
    """The split of a column with a share of the nodes held out.

    Of their edges, those for the test are to be found and all others are shown with the node.
    """
    known, new = held_out(split.known.numel(), share, seed)
    apart, joined = [], []
    for part in (split.train, split.validation, split.test):
        touches = torch.isin(part, new).any(0)
        apart.append(part[:, ~touches].contiguous())
        joined.append(part[:, touches])
    if not min(part.shape[1] for part in apart):
        raise InputError(
            f"--new {share:g} leaves no edges for training, validation or the test among the known "
            "nodes: lower it, or mark more."
        )
    return EdgeSplit(
        known=known,
        new=new,
        train=apart[0],
        validation=apart[1],
        test=apart[2],
        new_input=torch.cat(joined[:2], 1).contiguous(),
        new_target=joined[2].contiguous(),
        seed=seed,
    )


def pairs_without_some(split: InteractionSplit, share: float, seed: int) -> InteractionSplit:
    """The split of a column with a share of the users held out.

    Of their pairs, those for the test are to be found and all others are shown.  They are drawn
    from the users who have some of both.
    """
    if not share:
        return split
    parts = (split.train, split.validation, split.test)
    shown, asked = merge(*parts[:2]).rows().count, split.test.rows().count
    new = new_users((shown > 0) & (asked > 0), share, seed)
    held = [torch.isin(part.user, new) for part in parts]
    chosen = list(zip(parts, held, strict=True))
    known, apart = (
        [part.take((mask == is_held).nonzero().view(-1)) for part, mask in chosen]
        for is_held in (False, True)
    )
    if not min(map(len, known[:2])):
        raise InputError(
            f"--new {share:g} leaves no pairs for training or validation among the known users: "
            "lower it, or mark more."
        )
    train, validation, test = known
    return InteractionSplit(train, validation, test, new, merge(*apart[:2]), apart[2], seed)
