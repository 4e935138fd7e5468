"""Rows about edges: two ids each, and the part of a split."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import torch
from torch import Tensor

from tuneup.data import EdgeSplit

from .columns import (
    EDGE_ENDS,
    LIKE_WEIGHT,
    SPLIT,
    TIME,
    WEIGHT,
    Notes,
    choose,
    choose_ends,
    looks_like_pairs,
)
from .edges import check_weights, note_unused, note_weights, weight_column
from .ids import clean_ids, same_kind
from .reading import TableFiles
from .requests import GraphTables
from .splits import read_parts
from .table import Table


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """What a table says about edges.

    Args:
        table: where its rows are; the values themselves are let go.
        columns: names of the two ends.
        ends: ids at either end ``[rows]``.
        split: name of the column of parts.
        part: of each row ``[rows]``.
    """

    table: Table
    columns: tuple[str, str]
    ends: tuple[pl.Series, ...]
    split: str | None = None
    part: Tensor | None = None


def read_edge_rows(files: TableFiles, request: GraphTables, notes: Notes) -> EdgeRows:
    """The table of edges."""
    columns = choose_ends(
        files,
        (request.source, request.target),
        EDGE_ENDS,
        ("--source", "--target"),
        (*WEIGHT, *LIKE_WEIGHT, *SPLIT, *TIME),
        notes,
        otherwise=_or_pairs(files),
    )
    user, item = looks_like_pairs(columns)
    if (request.source or request.target) is None and user is not None and item is not None:
        notes.append(
            f"{files.name}: {user!r} and {item!r} look like users and items; --task recommendation "
            "ranks items for users."
        )
    split = None
    if request.task == "link-prediction":
        split = choose(files, request.split, SPLIT, "--split", notes)
    weight = weight_column(files, request.weight, (*columns, split))
    note_unused(files, (*columns, split, weight), notes)
    note_weights(files, (*columns, split, weight), notes)
    special = {name for name in (*columns, split) if name is not None}
    table = files.read(special, special | ({weight} if weight else set()))
    check_weights(table, weight, request.ignore_weights, notes)
    first, second = (clean_ids(table, name) for name in columns)
    same_kind((table, columns[0], first), (table, columns[1], second))
    part = read_parts(table, split) if split is not None else None
    return EdgeRows(Table(table.frame.select(), table.parts), columns, (first, second), split, part)


def _or_pairs(files: TableFiles) -> str:
    """What to do instead if there are columns of users or items."""
    user, item = looks_like_pairs(files.columns)
    if user is None and item is None:
        return ""
    return (
        "; if rows are items that users chose, pass --task recommendation "
        f"--user {user or 'COLUMN'} --item {item or 'COLUMN'}"
    )


def edge_split_of(rows: EdgeRows, edge_index: Tensor, num_nodes: int) -> EdgeSplit | None:
    """The parts of the column, each undirected edge once.

    Raises:
        InputError: About an edge in two parts, or in none: training could not use it.
    """
    if rows.part is None:
        return None
    low, high = edge_index.min(0).values, edge_index.max(0).values
    merged = _one_part_each(rows, rows.part, low * num_nodes + high, low != high)
    distinct = torch.from_numpy(merged["key"].to_numpy(writable=True))
    which = torch.from_numpy(merged["part"].to_numpy(writable=True))
    edges = torch.stack([distinct // num_nodes, distinct % num_nodes])
    none = torch.empty((2, 0), dtype=torch.long)
    train, validation, test = (edges[:, which == number].contiguous() for number in range(3))
    return EdgeSplit(
        known=torch.arange(num_nodes),
        new=torch.empty(0, dtype=torch.long),
        train=train,
        validation=validation,
        test=test,
        new_input=none,
        new_target=none,
        seed=0,
    )


def _one_part_each(rows: EdgeRows, part: Tensor, keys: Tensor, proper: Tensor) -> pl.DataFrame:
    """The part of each distinct edge, ascending; rows that repeat an edge may leave it out."""
    frame = pl.DataFrame({"key": keys[proper].numpy(), "part": part[proper].numpy()})
    marked = frame.filter(pl.col("part") >= 0)
    merged = marked.group_by("key").agg(
        pl.col("part").min().alias("part"), pl.col("part").max().alias("most")
    )
    torn = merged.filter(pl.col("part") != pl.col("most"))
    if torn.height:
        row = int((keys == torn["key"].sort()[0]).nonzero()[-1])
        raise rows.table.error(
            "this edge is in another part too, so the test would be seen in training; give each "
            "edge one part.",
            row,
            rows.split,
        )
    bare = frame.join(merged, on="key", how="anti")["key"].unique().to_numpy(writable=True)
    if len(bare):
        row = int(torch.isin(keys, torch.from_numpy(bare)).nonzero()[0])
        others = f", like {len(bare) - 1:,} more" if len(bare) > 1 else ""
        raise rows.table.error(
            f"this edge has no part{others}; write train, validation or test, or remove the row.",
            row,
            rows.split,
        )
    return merged.sort("key")
