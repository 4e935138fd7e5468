"""A table of (user, item), perhaps with times, into interactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl
import torch
from torch import Tensor

from tuneup.data import Interactions, InteractionSplit, split_interactions
from tuneup.errors import InputError

from .columns import LIKE_WEIGHT, PAIR_ENDS, SPLIT, TIME, WEIGHT, Notes, choose, choose_ends
from .edges import check_weights, note_unused, note_weights, weight_column
from .holdout import pairs_without_some
from .ids import IdMap, check_written, clean_ids, distinct_ids
from .reading import open_table
from .requests import PairTables
from .splits import Shares, pairs_of_parts, read_parts, read_times, split_by_time
from .table import Table


@dataclass(frozen=True, eq=False)
class TablePairs:
    """Interactions that were read from a table, and what their numbers stand for.

    Args:
        interactions: distinct pairs, both ends counted from 0.
        users: the id of each user.
        items: the id of each item.
        times: when each pair was first seen ``[pairs]``, or ``None``.
        given: the split that a column asked for, if any.
        rows: rows of the table; more than pairs where a pair is repeated.
        notes: what was guessed or left out, as lines to print.
        num_bytes: of all files.
        columns: names of the columns of ids, by what they hold.
    """

    interactions: Interactions
    users: IdMap
    items: IdMap
    times: Tensor | None
    given: InteractionSplit | None
    rows: int
    notes: tuple[str, ...]
    num_bytes: int
    columns: Mapping[str, str] = field(default_factory=dict)

    def split(
        self, shares: Shares | None = None, seed: int = 0, *, by_time: bool = False
    ) -> InteractionSplit:
        """The split of the column; else one by time, if asked for; else a seeded one.

        Where the shares hold out new users, these are drawn by the seed in all three.
        """
        shares = shares or Shares()
        if self.given is not None:
            return pairs_without_some(self.given, shares.new, seed)
        if by_time:
            if self.times is None:
                raise InputError(f"{self.interactions.name}: no times to split by; pass --time.")
            return split_by_time(self.interactions, self.times, shares, seed)
        if shares.train + shares.validation >= 1:
            raise InputError("A split of pairs needs a share for the test: lower --train.")
        return split_interactions(
            self.interactions,
            train=shares.train,
            validation=shares.validation,
            new=shares.new,
            seed=seed,
        )


def load_pairs(request: PairTables) -> TablePairs:
    """Read, map and check the table of a request.

    Raises:
        InputError: About the first thing that is wrong, with file, row, column and what to do.
    """
    notes = Notes()
    files = open_table(request.pairs, request.reading, notes)
    ends = choose_ends(
        files,
        (request.user, request.item),
        PAIR_ENDS,
        ("--user", "--item"),
        (*WEIGHT, *LIKE_WEIGHT, *SPLIT, *TIME),
        notes,
    )
    split = None if request.by_time else choose(files, request.split, SPLIT, "--split", notes)
    told = notes if request.by_time else Notes()
    time = choose(files, request.time, TIME, "--time", told, required=request.by_time)
    if time is not None and not request.by_time:
        notes.append(f"{files.name}: column {time!r} may be a time; not used without --by-time.")
    weight = weight_column(files, request.weight, (*ends, split, time))
    note_unused(files, (*ends, split, time, weight), notes)
    note_weights(files, (*ends, split, time, weight), notes)
    special = {name for name in (*ends, split, time) if name is not None}
    table = files.read(special, special | ({weight} if weight else set()))
    check_weights(table, weight, request.ignore_weights, notes)
    maps, columns = [], []
    for end in ends:
        ids = clean_ids(table, end)
        own = IdMap(distinct_ids(ids))
        if own.values.dtype == pl.String:
            check_written(table, end, ids)
        maps.append(own)
        columns.append(own.positions(ids))
    user, item = columns
    if len(maps[1]) < 2:
        raise table.error("there is a single item, so nothing can be ranked.", None, ends[1])
    times = read_times(table, time) if time is not None else None
    part = read_parts(table, split) if split is not None else None
    merged = _merged(table, split, user * len(maps[1]) + item, times, part)
    key = torch.from_numpy(merged["key"].to_numpy(writable=True))
    data = Interactions(
        key // len(maps[1]),
        key % len(maps[1]),
        len(maps[0]),
        len(maps[1]),
        table.parts[0].place.path.stem,
    )
    return TablePairs(
        interactions=data,
        users=maps[0],
        items=maps[1],
        times=_column(merged, "time") if times is not None else None,
        given=pairs_of_parts(data, _column(merged, "part")) if part is not None else None,
        rows=table.frame.height,
        notes=tuple(notes),
        num_bytes=files.num_bytes,
        columns={"user": ends[0], "item": ends[1]},
    )


def _column(frame: pl.DataFrame, name: str) -> Tensor:
    return torch.from_numpy(frame[name].to_numpy(writable=True))


def _merged(
    table: Table, split: str | None, keys: Tensor, times: Tensor | None, part: Tensor | None
) -> pl.DataFrame:
    """Each pair once, ascending, with its earliest time; in two parts at once it is refused."""
    frame = pl.DataFrame({"key": keys.numpy()})
    if times is not None:
        frame = frame.with_columns(pl.Series("time", times.numpy()))
    if part is not None:
        frame = frame.with_columns(pl.Series("part", part.numpy()))
    if frame.width == 1:
        return frame.unique().sort("key")
    columns = [pl.col(name).min() for name in frame.columns if name != "key"]
    if part is not None:
        columns.append(pl.col("part").max().alias("most"))
    merged = frame.group_by("key").agg(columns).sort("key")
    if part is not None:
        torn = merged.filter(pl.col("part") != pl.col("most"))
        if torn.height:
            row = int((keys == torn["key"][0]).nonzero()[-1])
            raise table.error(
                "this pair is in another part too, so the test would be seen in training; give "
                "each pair one part.",
                row,
                split,
            )
    return merged
