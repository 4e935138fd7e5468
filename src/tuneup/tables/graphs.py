"""Tables of edges, nodes and labels into one graph."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl
import torch
from torch import Tensor

from tuneup.data import EdgeSplit, Graph, NodeSplit, split_edges
from tuneup.errors import InputError
from tuneup.graph import Adjacency, adjacency_from

from .columns import EDGE_ENDS, SPLIT, TIME, WEIGHT, Notes, choose, choose_ends
from .edges import check_weights, note_unused, weight_column
from .features import FeaturePlan
from .ids import IdMap, check_written, clean_ids, distinct_ids, id_map, same_kind
from .labels import ClassName
from .nodes import NodeRows, read_label_rows, read_node_rows
from .reading import open_table
from .requests import GraphTables
from .splits import Shares, node_split_of, read_parts, seeded_node_split
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

    def node_split(self, shares: Shares | None = None, seed: int = 0) -> NodeSplit:
        """The split of the column, or else a seeded one of the labelled nodes."""
        if isinstance(self.given, NodeSplit):
            return self.given
        if self.graph.y is None:
            raise InputError(f"{self.graph.name}: nodes without labels cannot be split.")
        return seeded_node_split(self.graph.y, shares or Shares(), seed, self.graph.name)

    def edge_split(self, shares: Shares | None = None, seed: int = 0) -> EdgeSplit:
        """The split of the column, or else a seeded one of all edges."""
        if isinstance(self.given, EdgeSplit):
            return self.given
        shares = shares or Shares()
        if shares.train + shares.validation >= 1:
            raise InputError("A split of edges needs a share for the test: lower --train.")
        found = split_edges(
            self.graph.adjacency,
            new=0.0,
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
    files = [edge_files]
    nodes: NodeRows | None = None
    by_nodes = request.task == "node-classification"
    ends = choose_ends(
        edge_files,
        (request.source, request.target),
        EDGE_ENDS,
        ("--source", "--target"),
        (*WEIGHT, *SPLIT, *TIME),
        notes,
    )
    split = None
    if not by_nodes:
        split = choose(edge_files, request.split, SPLIT, "--split", notes)
    weight = weight_column(edge_files, request.weight, (*ends, split))
    note_unused(edge_files, (*ends, split, weight), notes)
    if request.nodes:
        node_files = open_table(request.nodes, request.reading)
        files.append(node_files)
        nodes = read_node_rows(node_files, request, notes)
    table = edge_files.read(
        {*ends, split or ends[0]}, {name for name in (*ends, split, weight) if name}
    )
    check_weights(table, weight, request.ignore_weights, notes)
    columns = [clean_ids(table, end) for end in ends]
    same_kind((table, ends[0], columns[0]), (table, ends[1], columns[1]))
    ids, added = _all_ids(table, ends, columns, nodes, request, notes)
    edge_index = torch.stack([ids.positions(column) for column in columns])
    part = read_parts(table, split) if split is not None else None
    adjacency = adjacency_from(edge_index, len(ids), undirected=not request.directed)
    if not adjacency.num_entries:
        raise table.error("every edge joins a node with itself, so no two nodes are connected.")
    given: NodeSplit | EdgeSplit | None = None
    if part is not None and split is not None:
        given = _edge_split(table, split, edge_index, part, len(ids))
    if request.labels:
        label_files = open_table(request.labels, request.reading)
        files.append(label_files)
        labels = read_label_rows(label_files, request, ids, notes)
        nodes = (
            labels
            if nodes is None
            else replace(nodes, y=labels.y, part=labels.part, classes=labels.classes)
        )
    graph, plan = _graph(table, adjacency, nodes)
    if nodes is not None and nodes.part is not None and by_nodes:
        given = node_split_of(_padded(nodes.part, len(ids)))
    return TableGraph(
        graph=graph,
        ids=ids,
        classes=nodes.classes if nodes is not None else (),
        plan=plan,
        given=given,
        edge_rows=table.frame.height,
        added=added,
        notes=tuple(notes),
        num_bytes=sum(each.num_bytes for each in files),
    )


def _all_ids(
    table: Table,
    ends: tuple[str, str],
    columns: list[pl.Series],
    nodes: NodeRows | None,
    request: GraphTables,
    notes: Notes,
) -> tuple[IdMap, int]:
    """The ids of the table of nodes, then those that only edges have, if they may be added."""
    if nodes is None or nodes.ids is None:
        found = distinct_ids(*columns)
        for end, column in zip(ends, columns, strict=True):
            if found.dtype == pl.String:
                check_written(table, end, column)
        return IdMap(found), 0
    for end, column in zip(ends, columns, strict=True):
        same_kind((table, end, column), (nodes.table, nodes.id, nodes.ids))
    known = id_map(nodes.ids)
    strange = [known.positions(column) < 0 for column in columns]
    if not any(bool(each.any()) for each in strange):
        return known, 0
    rows = [pl.Series(each.numpy()) for each in strange]
    new = distinct_ids(*(column.filter(row) for column, row in zip(columns, rows, strict=True)))
    if request.unknown_ids == "error":
        raise _unknown(table, ends, columns, rows, new, known, nodes)
    notes.append(
        f"{table.name}: {len(new):,} ids have no row in {nodes.table.name}; added as nodes without "
        "features and labels."
    )
    values = known.values
    if values.dtype != new.dtype:
        values, new = values.cast(pl.String), new.cast(pl.String)
    return IdMap(pl.concat([values.alias("id"), new.alias("id")])), len(new)


def _unknown(
    table: Table,
    ends: tuple[str, str],
    columns: list[pl.Series],
    rows: list[pl.Series],
    new: pl.Series,
    known: IdMap,
    nodes: NodeRows,
) -> InputError:
    at = 0 if rows[0].any() else 1
    row = int(rows[at].arg_max() or 0)
    examples = ", ".join(shown(value) for value in new.head(3))
    place = nodes.table.where(column=nodes.id)
    advice = "add their rows, or pass --unknown-ids add"
    if new.dtype == pl.String:
        trimmed = known.positions(new.str.strip_chars())
        if bool((trimmed >= 0).any()):
            advice = "there are spaces around these ids: remove them"
    if all(bool(each.all()) for each in rows):
        advice = f"no id of the edges is there: are {ends} and {nodes.id!r} the right columns?"
    return table.error(
        f"id {shown(columns[at][row])} has no row in {place}; {len(new):,} ids are so ({examples}"
        f"{', ...' if len(new) > 3 else ''}): {advice}.",
        row,
        ends[at],
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


def _edge_split(
    table: Table, column: str, edge_index: Tensor, part: Tensor, num_nodes: int
) -> EdgeSplit:
    """The parts of a column, each undirected edge once; one edge in two parts is refused."""
    low, high = edge_index.min(0).values, edge_index.max(0).values
    keys = low * num_nodes + high
    proper = (low != high) & (part >= 0)
    frame = pl.DataFrame({"key": keys[proper].numpy(), "part": part[proper].numpy()})
    merged = frame.group_by("key").agg(
        pl.col("part").min().alias("part"), pl.col("part").max().alias("most")
    )
    torn = merged.filter(pl.col("part") != pl.col("most"))
    if torn.height:
        key = int(torn["key"].min())  # type: ignore[arg-type]
        row = int((keys == key).nonzero()[-1])
        raise table.error(
            "this edge is in another part too, so the test would be seen in training; give each "
            "edge one part.",
            row,
            column,
        )
    merged = merged.sort("key")
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
