"""Who trains, who validates and who is scored: by a column, by time, or by a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
import torch
from torch import Tensor

from tuneup.data import Interactions, InteractionSplit, NodeSplit, exact_share, hold_out, new_users
from tuneup.errors import InputError

from .holdout import held_out
from .table import Table
from .values import shown

PARTS = ("train", "validation", "test")
_WORDS = {
    "train": 0,
    "training": 0,
    "val": 1,
    "valid": 1,
    "validation": 1,
    "dev": 1,
    "test": 2,
    "testing": 2,
}


@dataclass(frozen=True)
class Shares:
    """Shares of a seeded split or one by time; what is left is for the test.

    Args:
        train: share that trains.
        validation: share that chooses the model.
        new: share of all nodes of a graph, or of the users, that training never sees.
    """

    train: float = 0.8
    validation: float = 0.1
    new: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.new < 1:
            raise InputError(
                f"--new is a share of the nodes or users, 0 to below 1; got {self.new:g}."
            )
        if not (min(self.train, self.validation) > 0 and self.train + self.validation <= 1):
            raise InputError(
                "--train and --validation are shares above 0 that add up to 1 at most; got "
                f"{self.train:g} and {self.validation:g}."
            )

    def cuts(self, count: int, what: str) -> tuple[int, int]:
        """Where the second and the third part of ``count`` things begin: at least one in each."""
        first = max(1, int(exact_share(self.train) * count))
        second = first + max(1, int(exact_share(self.validation) * count))
        if second > count:
            raise InputError(
                f"{what}: {count} are too few to split into shares of {self.train:g} and "
                f"{self.validation:g}; give more, or a column --split."
            )
        if self.train + self.validation >= 1:
            second = count
        return first, second


def read_parts(table: Table, column: str) -> Tensor:
    """The part of each row ``[rows]``: 0 train, 1 validation, 2 test, -1 none (no value)."""
    values = table.frame[column]
    if values.dtype not in (pl.String, pl.Categorical, pl.Enum):
        raise table.error(
            f"a split is written as train, validation and test; this column holds {values.dtype}.",
            None,
            column,
        )
    words = values.cast(pl.String).str.strip_chars().str.to_lowercase()
    part = words.replace_strict(_WORDS, default=None, return_dtype=pl.Int64)
    wrong = part.is_null() & words.is_not_null()
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise table.error(
            f"{shown(values[row])} is no part of a split; write train, validation or test.",
            row,
            column,
        )
    for number, name in enumerate(PARTS[:2]):
        if not (part == number).any():
            raise table.error(f"no row is marked {name}; training needs some.", None, column)
    return torch.from_numpy(part.fill_null(-1).to_numpy(writable=True))


def node_split_of(part: Tensor, seed: int = 0, new: Tensor | None = None) -> NodeSplit:
    """The :class:`NodeSplit` of a part per node ``[N]``; every node is known that is not new."""
    train, validation, test = ((part == number).nonzero()[:, 0] for number in range(3))
    new = torch.empty(0, dtype=torch.long) if new is None else new
    nodes = torch.arange(part.numel())
    return NodeSplit(nodes[~torch.isin(nodes, new)], new, train, validation, test, seed)


def seeded_node_split(y: Tensor, shares: Shares, seed: int, name: str) -> NodeSplit:
    """Shares of the nodes that have a label, drawn uniformly; new ones have one too."""
    labelled = (y >= 0).nonzero()[:, 0]
    known, new = (labelled[part] for part in held_out(labelled.numel(), shares.new, seed))
    first, second = shares.cuts(known.numel(), f"{name}, labelled nodes")
    order = torch.randperm(known.numel(), generator=torch.Generator().manual_seed(seed))
    part = torch.full_like(y, -1)
    for number, chosen in enumerate((order[:first], order[first:second], order[second:])):
        part[known[chosen]] = number
    return node_split_of(part, seed, new)


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
    first, second = shares.cuts(len(data), f"{data.name}, pairs")
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
    kind = values.dtype
    if not (kind.is_numeric() or kind in (pl.Date, pl.Datetime)):
        raise table.error(f"times cannot be of type {kind}; use dates or numbers.", None, column)
    if kind.is_float():
        bad = ~values.is_finite().fill_null(False)
        if bad.any():
            raise table.error("no time here.", int(bad.arg_max() or 0), column)
        values = (values * 1e6).round() if bool((values.abs() < 9e12).all()) else values.round()
    if values.null_count():
        row = int(values.is_null().arg_max() or 0)
        raise table.error("no time here; fill it in or remove the row.", row, column)
    whole = values.cast(pl.Int64, strict=False)
    if whole.null_count():
        row = int(whole.is_null().arg_max() or 0)
        raise table.error(f"{shown(values[row])} is beyond all time.", row, column)
    return torch.from_numpy(whole.to_numpy(writable=True))


def _parsed(table: Table, column: str, values: pl.Series) -> pl.Series:
    """Times that CSV wrote as text: numbers, or dates of ISO 8601 with or without a zone."""
    row = int(values.is_not_null().arg_max() or 0)
    present = values.null_count()
    for kind in (pl.Int64, pl.Float64):
        numbers = values.cast(kind, strict=False)
        if numbers.null_count() == present:
            return numbers
    readings: tuple[Callable[[], pl.Series], ...] = (
        lambda: values.str.to_datetime(strict=False),
        lambda: values.str.to_datetime(strict=False, time_zone="UTC"),
        lambda: values.str.to_datetime("%+", strict=False),
        lambda: values.str.to_date(strict=False),
    )
    best: pl.Series | None = None
    for reading in readings:
        try:
            moments = reading()
        except pl.exceptions.PolarsError:
            continue  # not the layout of the first rows
        if best is None or moments.null_count() < best.null_count():
            best = moments
        if moments.null_count() == present:
            return moments
    if best is not None:
        row = int((best.is_null() & values.is_not_null()).arg_max() or 0)
    raise table.error(
        f"{shown(values[row])} is no time; write 2024-05-31, 2024-05-31T12:00:00 or a number.",
        row,
        column,
    )
