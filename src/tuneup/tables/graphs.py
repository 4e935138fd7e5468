"""Tables of edges, nodes and labels into one graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import polars as pl
import torch
from torch import Tensor

from tuneup.data import EdgeSplit, Graph, NodeSplit, split_edges
from tuneup.errors import InputError
from tuneup.graph import Adjacency, adjacency_from

from .columns import Notes
from .edge_rows import EdgeRows, edge_split_of, read_edge_rows
from .features import FeaturePlan
from .holdout import edges_without_some, held_out, without_some
from .ids import IdMap, check_written, distinct_ids, same_kind
from .labels import ClassName
from .nodes import NodeRows, read_label_rows, read_node_rows
from .reading import open_table
from .requests import GraphTables
from .splits import Shares, node_split_of, seeded_node_split
from .table import Table
from .values import shown


@dataclass(frozen=True, eq=False)
class TableGraph:
    """A graph that was read from tables, and what its numbers stand for.

    Args:
        graph: edges, features ``[N, plan.width]`` (width 0 without features) and classes.
        ids: the id of each node.
        classes: the value that each class stands for; empty without labels.
        plan: how the features were made; it makes those of new nodes too.
        given: the split that a column asked for, if any.
        edge_rows: rows of the table of edges.
        added: nodes that only edges name.
        notes: what was guessed, filled in or left out, as lines to print.
        num_bytes: of all files.
        columns: names of the columns of ids, by what they hold.
    """

    graph: Graph
    ids: IdMap
    classes: tuple[ClassName, ...]
    plan: FeaturePlan
    given: NodeSplit | EdgeSplit | None
    edge_rows: int
    added: int
    notes: tuple[str, ...]
    num_bytes: int
    columns: Mapping[str, str] = field(default_factory=dict)

    def node_split(self, shares: Shares | None = None, seed: int = 0) -> NodeSplit:
        """The split of the column, or else a seeded one of the labelled nodes.

        A share of new nodes is held out of either.
        """
        shares = shares or Shares()
        if isinstance(self.given, NodeSplit):
            return without_some(self.given, shares.new, seed) if shares.new else self.given
        if self.graph.y is None:
            raise InputError(f"{self.graph.name}: nodes without labels cannot be split.")
        return seeded_node_split(self.graph.y, shares, seed, self.graph.name)

    def edge_split(self, shares: Shares | None = None, seed: int = 0) -> EdgeSplit:
        """The split of the column, or else a seeded one of all edges.

        A share of new nodes is held out of either.
        """
        shares = shares or Shares()
        if isinstance(self.given, EdgeSplit):
            return edges_without_some(self.given, shares.new, seed) if shares.new else self.given
        if shares.train + shares.validation >= 1:
            raise InputError("A split of edges needs a share for the test: lower --train.")
        found = split_edges(
            self.graph.adjacency,
            new=shares.new if held_out(len(self.ids), shares.new, seed)[1].numel() else 0.0,
            train=shares.train,
            validation=shares.validation,
            seed=seed,
        )
        if not min(part.shape[1] for part in (found.train, found.validation, found.test)):
            raise InputError(
                f"{self.graph.name}: {self.graph.adjacency.num_edges} edges are too few to split "
                f"into shares of {shares.train:g} and {shares.validation:g}; give more, other "
                "shares, or a column --split."
            )
        return found


def load_graph(request: GraphTables) -> TableGraph:
    """Read, map and check everything that a request names.

    Raises:
        InputError: About the first thing that is wrong, with file, row, column and what to do.
    """
    notes = Notes()
    edge_files = open_table(request.edges, request.reading)
    node_files = open_table(request.nodes, request.reading) if request.nodes else None
    label_files = open_table(request.labels, request.reading) if request.labels else None
    # The larger table first: what its reading leaves behind, the other one's is read into.
    nodes = read_node_rows(node_files, request, notes) if node_files is not None else None
    edges = read_edge_rows(edge_files, request, notes)
    ids, edge_index, added = _number(edges, nodes, request, notes)
    columns = dict(zip(("source", "target"), edges.columns, strict=True))
    if nodes is not None:
        columns["id"] = nodes.id
    edges = replace(edges, ends=())  # numbered now: let the ids go
    edge_rows = edge_index.shape[1]
    given: NodeSplit | EdgeSplit | None = edge_split_of(edges, edge_index, len(ids))
    adjacency = adjacency_from(edge_index, len(ids), undirected=not request.directed)
    del edge_index
    if not adjacency.num_entries:
        raise edges.table.error(
            "every edge joins a node with itself, so no two nodes are connected."
        )
    if label_files is not None:
        labels = read_label_rows(label_files, request, ids, notes)
        nodes = labels if nodes is None else nodes.with_labels(labels)
    if nodes is not None and nodes.part is not None:
        given = node_split_of(_padded(nodes.part, len(ids)))
    graph, plan = _graph(edges.table, adjacency, nodes)
    if not plan.width:
        why = "no column of nodes can be a feature" if request.nodes else "no table of nodes"
        notes.append(f"{why}: a vector of --width numbers is learned for each node.")
    files = (edge_files, node_files, label_files)
    return TableGraph(
        graph=graph,
        ids=ids,
        classes=nodes.classes if nodes is not None else (),
        plan=plan,
        given=given,
        edge_rows=edge_rows,
        added=added,
        notes=tuple(notes),
        num_bytes=sum(each.num_bytes for each in files if each is not None),
        columns=columns,
    )


def _number(
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
    )


def _graph(table: Table, adjacency: Adjacency, nodes: NodeRows | None) -> tuple[Graph, FeaturePlan]:
    name = table.parts[0].place.path.stem
    count = adjacency.num_nodes
    if nodes is None:
        return Graph(adjacency, torch.zeros(count, 0), name=name), FeaturePlan()
    x = torch.zeros(count, 0)
    if nodes.x is not None:
        x = nodes.x
        if x.shape[0] < count:
            more = nodes.plan.blanks(count - x.shape[0])
            x = torch.cat([x, more])
    y = _padded(nodes.y, count) if nodes.y is not None else None
    return Graph(adjacency, x, y, len(nodes.classes), name), nodes.plan


def _padded(values: Tensor, count: int) -> Tensor:
    """With -1 for the nodes that were added."""
    return torch.cat([values, values.new_full((count - values.numel(),), -1)])
