"""From ids at the ends of edges to nodes 0 .. n-1."""

from __future__ import annotations

import polars as pl
import torch
from torch import Tensor

from tuneup.errors import InputError

from .columns import Notes
from .edge_rows import EdgeRows
from .ids import IdMap, check_written, distinct_ids, same_kind
from .nodes import NodeRows
from .requests import GraphTables
from .values import shown


def number_nodes(
    edges: EdgeRows, nodes: NodeRows | None, request: GraphTables, notes: Notes
) -> tuple[IdMap, Tensor, int]:
    """Ids of all nodes, edges between their numbers ``[2, E]``, and how many were added.

    Nodes are those of the table of nodes, then those that only edges have, if they may be added.
    """
    edge_index = torch.empty((2, len(edges.ends[0])), dtype=torch.long)
    if nodes is None or nodes.ids is None:
        ids = IdMap(distinct_ids(*edges.ends))
        for number, (name, end) in enumerate(zip(edges.columns, edges.ends, strict=True)):
            check_written(edges.table, name, end)
            edge_index[number] = ids.positions(end)
        return ids, edge_index, 0
    ids = IdMap(nodes.ids)
    for number, (name, end) in enumerate(zip(edges.columns, edges.ends, strict=True)):
        same_kind((edges.table, name, end), (nodes.table, nodes.id, nodes.ids))
        edge_index[number] = ids.positions(end)
    strange = edge_index < 0
    if not bool(strange.any()):
        return ids, edge_index, 0
    new = distinct_ids(
        *(end.filter(pl.Series(row.numpy())) for end, row in zip(edges.ends, strange, strict=True))
    )
    if request.unknown_ids == "error":
        raise _unknown(edges, strange, new, ids, nodes)
    notes.append(
        f"{edges.table.name}: {len(new):,} ids have no row in {nodes.table.name}; added as nodes "
        "without features and labels."
    )
    values = ids.values
    if values.dtype != new.dtype:
        values, new = values.cast(pl.String), new.cast(pl.String)
    ids = IdMap(pl.concat([values.alias("id"), new.alias("id")]))
    for number, end in enumerate(edges.ends):
        edge_index[number] = ids.positions(end)
    return ids, edge_index, len(new)


def _unknown(
    edges: EdgeRows, strange: Tensor, new: pl.Series, known: IdMap, nodes: NodeRows
) -> InputError:
    row = int(strange.any(0).nonzero()[0])
    at = 0 if bool(strange[0, row]) else 1
    examples = ", ".join(shown(value) for value in new.head(3))
    place = nodes.table.where(column=nodes.id)
    advice = "add their rows, or pass --unknown-ids add"
    if new.dtype == pl.String and bool((known.positions(new.str.strip_chars()) >= 0).any()):
        advice = "there are spaces around these ids: remove them"
    if bool(strange.all()):
        names = " and ".join(map(repr, edges.columns))
        advice = f"no id of the edges is there: are {names} and {nodes.id!r} the right columns?"
    return edges.table.error(
        f"id {shown(edges.ends[at][row])} has no row in {place}; {len(new):,} ids are so "
        f"({examples}{', ...' if len(new) > 3 else ''}): {advice}.",
        row,
        edges.columns[at],
        fix=() if bool(strange.all()) else ("--unknown-ids", "add"),
    )
