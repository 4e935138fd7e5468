"""Splits by a column, by time or seeded, with nodes and users held out as new.

New nodes and users join after training, so that cold start can be measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl
import torch
from torch import Tensor

from tuneup.data import (
    EdgeSplit,
    Interactions,
    InteractionSplit,
    NodeSplit,
    exact_share,
    hold_out,
    known_and_new,
    merge,
    new_users,
    split_edges,
)
from tuneup.errors import InputError
from tuneup.graph import Adjacency

from .reading import Table, first_true, shown
from .request import Shares

PARTS = ("train", "validation", "test")
_WORDS = {
    **dict.fromkeys(("train", "training"), 0),
    **dict.fromkeys(("val", "valid", "validation", "dev"), 1),
    **dict.fromkeys(("test", "testing"), 2),
}


def cut(shares: Shares, count: int, what: str) -> tuple[int, int]:
    """Where the second and the third part of ``count`` things begin: at least one in each."""
    first = max(1, int(exact_share(shares.train) * count))
    second = first + max(1, int(exact_share(shares.validation) * count))
    if second > count:
        raise InputError(
            f"{what}: {count} are too few to split into shares of {shares.train:g} and "
            f"{shares.validation:g}; give more, or a column --split."
        )
    return first, count if shares.train + shares.validation >= 1 else second


def read_parts(table: Table, column: str) -> Tensor:
    """The part of each row ``[rows]``: 0 train, 1 validation, 2 test, -1 none (no value)."""
    values = table.frame[column]
    if values.dtype not in (pl.String, pl.Categorical, pl.Enum):
        problem = f"holds {values.dtype}; a split is written as train, validation and test."
        raise table.error(problem, None, column)
    words = values.cast(pl.String).str.strip_chars().str.to_lowercase()
    part = words.replace_strict(_WORDS, default=None, return_dtype=pl.Int64)
    table.refuse(
        part.is_null() & words.is_not_null(),
        column,
        lambda row: (
            f"{shown(values[row])} is not the name of a split; write train, validation or test."
        ),
    )
    for number, name in enumerate(PARTS[:2]):
        if not (part == number).any():
            raise table.error(f"no row is marked {name}; training needs some.", None, column)
    return torch.from_numpy(part.fill_null(-1).to_numpy(writable=True))


def node_split_of(part: Tensor, seed: int = 0, new: Tensor | None = None) -> NodeSplit:
    """The split of a part per node ``[N]``; every node is known that is not new."""
    train, validation, test = ((part == number).nonzero()[:, 0] for number in range(3))
    new = torch.empty(0, dtype=torch.long) if new is None else new
    nodes = torch.arange(part.numel())
    return NodeSplit(nodes[~torch.isin(nodes, new)], new, train, validation, test, seed)


def seeded_node_split(y: Tensor, shares: Shares, seed: int, name: str) -> NodeSplit:
    """Shares of the nodes that have a label, drawn uniformly; new ones have one too."""
    labelled = (y >= 0).nonzero()[:, 0]
    known, new = (labelled[part] for part in held_out(labelled.numel(), shares.new, seed))
    first, second = cut(shares, known.numel(), f"{name}, labelled nodes")
    order = torch.randperm(known.numel(), generator=torch.Generator().manual_seed(seed))
    part = torch.full_like(y, -1)
    for number, chosen in enumerate((order[:first], order[first:second], order[second:])):
        part[known[chosen]] = number
    return node_split_of(part, seed, new)


def seeded_edge_split(adjacency: Adjacency, shares: Shares, seed: int, name: str) -> EdgeSplit:
    """Shares of the edges, drawn uniformly; new nodes are held out with theirs."""
    if shares.train + shares.validation >= 1:
        raise InputError("A split of edges needs a share for the test: lower --train.")
    new = shares.new if held_out(adjacency.num_rows, shares.new, seed)[1].numel() else 0.0
    split = split_edges(
        adjacency, new=new, train=shares.train, validation=shares.validation, seed=seed
    )
    if not min(part.shape[1] for part in (split.train, split.validation, split.test)):
        raise InputError(
            f"{name}: {adjacency.num_edges} edges are too few to split into shares of "
            f"{shares.train:g} and {shares.validation:g}; give more, or a column --split."
        )
    return split


def pairs_of_parts(data: Interactions, part: Tensor) -> InteractionSplit:
    """The split of a part per pair ``[len(data)]``; pairs in no part are left out."""
    train, validation, test = (data.take((part == number).nonzero()[:, 0]) for number in range(3))
    return InteractionSplit(train, validation, test)


def split_by_time(
    data: Interactions, time: Tensor, shares: Shares, seed: int = 0
) -> InteractionSplit:
    """The earliest pairs train, the next validate, the latest are the test.

    Pairs of one moment stay together, in the earlier part.  Of a new user, the earlier half of the
    pairs is shown to the model and the later half is to be found.

    Args:
        data: the pairs.
        time: when each was first seen ``[len(data)]``, in any unit.
        shares: of the pairs, and of new users.
        seed: which users are new.
    """
    new = new_users(data.rows().count > 1, shares.new, seed)
    held = hold_out(data, new, time.argsort(stable=True))
    known = data.take(held.known)
    return held.joined(data, _by_time(known, time[held.known], shares), seed)


def _by_time(data: Interactions, time: Tensor, shares: Shares) -> InteractionSplit:
    first, second = cut(shares, len(data), f"{data.name}, pairs")
    ascending = time.sort().values
    part = torch.full_like(data.user, 2)
    part[time <= ascending[second - 1]] = 1
    part[time <= ascending[first - 1]] = 0
    wanted = 3 if second < len(data) else 2
    for number in range(wanted):
        if not bool((part == number).any()):
            raise InputError(
                f"{data.name}: too many pairs share one moment to split by time; none are left for "
                f"the {PARTS[number]}: give finer times, other shares, or split at random."
            )
    return pairs_of_parts(data, part)


def read_times(table: Table, column: str) -> Tensor:
    """When each row happened ``[rows]``, int64, in any unit that grows with time."""
    values = table.frame[column]
    if values.dtype == pl.String:
        values = _parsed(table, column, values)
    if values.dtype.is_decimal():
        values = values.cast(pl.Float64)
    kind = values.dtype
    if not (kind.is_numeric() or kind in (pl.Date, pl.Datetime)):
        raise table.error(f"times cannot be of type {kind}; use dates or numbers.", None, column)
    if kind.is_float():
        values = values.set((~values.is_finite()).fill_null(False), None)
        values = (values * 1e6).round() if bool((values.abs() < 9e12).all()) else values.round()
    table.refuse(values.is_null(), column, "missing timestamp; fill it in or remove the row.")
    whole = values.cast(pl.Int64, strict=False)
    table.refuse(
        whole.is_null(), column, lambda row: f"timestamp {shown(values[row])} is out of range."
    )
    return torch.from_numpy(whole.to_numpy(writable=True))


def _parsed(table: Table, column: str, values: pl.Series) -> pl.Series:
    """Times that CSV wrote as text: numbers, or dates of ISO 8601 with or without a zone."""
    readings: tuple[Callable[[], pl.Series], ...] = (
        lambda: values.cast(pl.Int64, strict=False),
        lambda: values.cast(pl.Float64, strict=False),
        lambda: values.str.to_datetime(strict=False),
        lambda: values.str.to_datetime(strict=False, time_zone="UTC"),
        lambda: values.str.to_datetime("%+", strict=False),
        lambda: values.str.to_date(strict=False),
    )
    best = pl.Series([None]).new_from_index(0, len(values))
    for reading in readings:
        try:
            moments = reading()
        except pl.exceptions.PolarsError:
            continue  # not the layout of the first rows
        best = min(best, moments, key=pl.Series.null_count)
        if best.null_count() == values.null_count():
            return best
    row = first_true(best.is_null() & values.is_not_null()) or 0
    problem = f"{shown(values[row])} is not a timestamp; write 2024-05-31, 2024-05-31T12:00:00 or"
    raise table.error(f"{problem} a number.", row, column)


def held_out(num_nodes: int, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Known and new nodes, ascending; none is new where the share is less than one node."""
    if int(exact_share(share) * num_nodes) < 1:
        share = 0.0
    known, new = known_and_new(num_nodes, share, seed)
    return known.sort().values, new.sort().values


def hold_out_nodes(split: NodeSplit, share: float, seed: int) -> NodeSplit:
    """The split of a column with a share of all nodes held out, taken from those to be tested."""
    count = int(exact_share(share) * split.known.numel())
    if not share:
        return split
    if count >= split.test.numel():
        raise InputError(
            f"--new {share:g} holds out {count:,} nodes of the {split.test.numel():,} that the "
            "split marks for the test, and some must be left: lower --new, or mark more."
        )
    generator = torch.Generator().manual_seed(seed)
    order = split.test[torch.randperm(split.test.numel(), generator=generator)]
    new = order[:count].sort().values
    known = split.known[~torch.isin(split.known, new)]
    return replace(split, known=known, new=new, test=order[count:].sort().values, seed=seed)


def hold_out_edges(split: EdgeSplit, share: float, seed: int) -> EdgeSplit:
    """The split of a column with a share of the nodes held out.

    Of their edges, those for the test are to be found and all others are shown with the node.
    """
    if not share:
        return split
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


def hold_out_users(split: InteractionSplit, share: float, seed: int) -> InteractionSplit:
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
