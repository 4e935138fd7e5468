"""Rows about edges between nodes, or pairs of users and items: ids, parts of a split and times."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import torch
from torch import Tensor

from tuneup.data import EdgeSplit
from tuneup.errors import InputError

from .columns import (
    SPLIT,
    TIME,
    Notes,
    check_weights,
    choose,
    choose_ends,
    choose_required,
    looks_like_pairs,
    note_unused,
    weight_column,
)
from .ids import IdMap, check_not_rounded, check_same_type, clean_ids, distinct_ids
from .nodes import NodeRows
from .reading import Table, TableFiles
from .request import TableRequest
from .splits import read_parts, read_times
from .values import shown, typed


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """What a table says about edges, or about pairs where items are recommended.

    Args:
        table: the files of the rows, without their values.
        columns: names of the two ends.
        ends: ids at either end ``[rows]``.
        split: name of the column of parts.
        part: of each row ``[rows]``.
        time: of each row ``[rows]``, of pairs.
    """

    table: Table
    columns: tuple[str, str]
    ends: tuple[pl.Series, ...]
    split: str | None = None
    part: Tensor | None = None
    time: Tensor | None = None


def read_edges(files: TableFiles, request: TableRequest, notes: Notes) -> EdgeRows:
    """The table of edges or pairs."""
    pairs = request.task == "recommendation"
    columns = choose_ends(files, request, notes, otherwise="" if pairs else _or_pairs(files))
    split = time = None
    if pairs:
        split, time = _split_and_time(files, request, notes)
    else:
        _note_pairs(files, columns, request, notes)
        if request.task == "link-prediction":
            split = choose(files, request.split, SPLIT, "--split", notes)
    special = [name for name in (*columns, split, time) if name is not None]
    weight = weight_column(files, request.weight, special)
    note_unused(files, (*special, weight), notes, weights=True)
    table = files.read((*special, weight), ids=special)
    if weight is not None:
        check_weights(typed(table.select(weight)), weight, request.ignore_weights, notes)
    first, second = (clean_ids(table, name) for name in columns)
    if not pairs:
        check_same_type((table, columns[0], first), (table, columns[1], second))
    return EdgeRows(
        table.select(),
        columns,
        (first, second),
        split,
        read_parts(table, split) if split is not None else None,
        read_times(table, time) if time is not None else None,
    )


def _split_and_time(
    files: TableFiles, request: TableRequest, notes: Notes
) -> tuple[str | None, str | None]:
    """The columns of the parts and of the times of pairs."""
    if request.by_time:
        return None, choose_required(files, request.time, TIME, "--time", notes)
    split = choose(files, request.split, SPLIT, "--split", notes)
    time = choose(files, request.time, TIME, "--time", Notes())
    if time is not None:
        notes.append(f"{files.name}: column {time!r} may be a time; not used without --by-time.")
    return split, time


def _note_pairs(
    files: TableFiles, columns: tuple[str, str], request: TableRequest, notes: Notes
) -> None:
    user, item = looks_like_pairs(columns)
    if (request.source or request.target) is None and user is not None and item is not None:
        notes.append(
            f"{files.name}: {user!r} and {item!r} look like users and items; --task recommendation "
            "ranks items for users."
        )


def _or_pairs(files: TableFiles) -> str:
    """What to do instead if there are columns of users or items."""
    user, item = looks_like_pairs(files.columns)
    if user is None and item is None:
        return ""
    return (
        "; if rows are items that users chose, pass --task recommendation "
        f"--user {user or 'COLUMN'} --item {item or 'COLUMN'}"
    )


def number_ends(edges: EdgeRows) -> tuple[tuple[IdMap, Tensor], ...]:
    """The ids of either end and the number of each row's, counted apart: users and items."""
    found = []
    for column, ids in zip(edges.columns, edges.ends, strict=True):
        check_not_rounded(edges.table, column, ids)
        own = IdMap(distinct_ids(ids))
        found.append((own, own.positions(ids)))
    return tuple(found)


def number_nodes(
    edges: EdgeRows, nodes: NodeRows | None, request: TableRequest, notes: Notes
) -> tuple[IdMap, Tensor, int]:
    """Ids of all nodes, edges between their numbers ``[2, E]``, and how many nodes were added.

    Nodes are those of the table of nodes, then those that only edges have, if they may be added.
    """
    ends = list(zip(edges.columns, edges.ends, strict=True))
    if nodes is None or nodes.ids is None:
        for column, end in ends:
            check_not_rounded(edges.table, column, end)
        ids = IdMap(distinct_ids(*edges.ends))
        return ids, _positions(ids, edges), 0
    for column, end in ends:
        check_same_type((edges.table, column, end), (nodes.table, nodes.id, nodes.ids))
    ids = IdMap(nodes.ids)
    edge_index = _positions(ids, edges)
    unknown = edge_index < 0
    if not bool(unknown.any()):
        return ids, edge_index, 0
    masks = (pl.Series(row.numpy()) for row in unknown)
    new = distinct_ids(*(end.filter(mask) for end, mask in zip(edges.ends, masks, strict=True)))
    if request.unknown_ids == "error":
        raise _unknown_id(edges, unknown, new, ids, nodes)
    notes.append(
        f"{edges.table.name}: {len(new):,} ids have no row in {nodes.table.name}; added as nodes "
        "without features and labels."
    )
    values = ids.values
    if values.dtype != new.dtype:
        values, new = values.cast(pl.String), new.cast(pl.String)
    ids = IdMap(pl.concat([values.alias("id"), new.alias("id")]))
    return ids, _positions(ids, edges), len(new)


def _positions(ids: IdMap, edges: EdgeRows) -> Tensor:
    edge_index = torch.empty((2, len(edges.ends[0])), dtype=torch.long)
    for number, end in enumerate(edges.ends):
        edge_index[number] = ids.positions(end)
    return edge_index


def _unknown_id(
    edges: EdgeRows, unknown: Tensor, new: pl.Series, known: IdMap, nodes: NodeRows
) -> InputError:
    row = int(unknown.any(0).nonzero()[0])
    at = 0 if bool(unknown[0, row]) else 1
    examples = ", ".join(shown(value) for value in new.head(3))
    place = nodes.table.where(column=nodes.id)
    fix: tuple[str, ...] = ("--unknown-ids", "add")
    advice = "add their rows, or pass --unknown-ids add"
    if new.dtype == pl.String and bool((known.positions(new.str.strip_chars()) >= 0).any()):
        advice = "there are spaces around these ids: remove them"
    if bool(unknown.all()):
        names, fix = " and ".join(map(repr, edges.columns)), ()
        advice = f"no id of the edges is there: are {names} and {nodes.id!r} the right columns?"
    return edges.table.error(
        f"id {shown(edges.ends[at][row])} has no row in {place}; {len(new):,} ids have none "
        f"({examples}{', ...' if len(new) > 3 else ''}): {advice}.",
        row,
        edges.columns[at],
        fix=fix,
    )


def merge_rows(
    rows: EdgeRows, keys: Tensor, what: str, among: Tensor | None = None
) -> pl.DataFrame:
    """Each distinct key once, ascending, with its part and its earliest time if there are any.

    Args:
        rows: the rows.
        keys: what identifies the edge or pair of each row ``[rows]``.
        what: "edge" or "pair", for messages.
        among: the rows to merge, bool ``[rows]``; by default all.

    Raises:
        InputError: About an edge or pair in two parts.
    """
    frame = pl.DataFrame({"key": keys.numpy()})
    columns = []
    for name, values in (("part", rows.part), ("time", rows.time)):
        if values is not None:
            frame = frame.with_columns(pl.Series(name, values.numpy()))
            columns.append(pl.col(name).min())
    if among is not None:
        frame = frame.filter(pl.Series(among.numpy()))
    if not columns:
        return frame.unique().sort("key")
    if rows.part is not None:
        columns.append(pl.col("part").max().alias("most"))
    merged = frame.group_by("key").agg(columns).sort("key")
    if rows.part is not None:
        torn = merged.filter(pl.col("part") != pl.col("most"))
        if torn.height:
            raise rows.table.error(
                f"this {what} is in another part too, so the test would be seen in training; give "
                f"each {what} one part.",
                int((keys == torn["key"][0]).nonzero()[-1]),
                rows.split,
            )
    return merged


def edge_split_of(rows: EdgeRows, edge_index: Tensor, num_nodes: int) -> EdgeSplit | None:
    """The parts of the column, each undirected edge once; ``None`` without such a column.

    Raises:
        InputError: About an edge in two parts, or in none: training could not use it.
    """
    if rows.part is None:
        return None
    low, high = edge_index.min(0).values, edge_index.max(0).values
    keys, proper = low * num_nodes + high, low != high
    marked = proper & (rows.part >= 0)  # rows that repeat an edge may leave its part out
    merged = merge_rows(rows, keys, "edge", marked)
    distinct = torch.from_numpy(merged["key"].to_numpy(writable=True))
    which = torch.from_numpy(merged["part"].to_numpy(writable=True))
    bare = proper & ~torch.isin(keys, distinct)
    if bool(bare.any()):
        count = keys[bare].unique().numel()
        others = f", like {count - 1:,} more" if count > 1 else ""
        raise rows.table.error(
            f"this edge has no part{others}; write train, validation or test, or remove the row.",
            int(bare.nonzero()[0]),
            rows.split,
        )
    edges = torch.stack([distinct // num_nodes, distinct % num_nodes])
    train, validation, test = (edges[:, which == number].contiguous() for number in range(3))
    none = torch.empty((2, 0), dtype=torch.long)
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
