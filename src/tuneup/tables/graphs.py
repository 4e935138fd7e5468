"""Tables as one graph, or as the interactions of users and items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import polars as pl
import torch
from torch import Tensor

from tuneup.data import (
    EdgeSplit,
    Graph,
    Interactions,
    InteractionSplit,
    NodeSplit,
    split_edges,
    split_interactions,
)
from tuneup.errors import InputError
from tuneup.graph import adjacency_from

from .columns import Notes
from .edges import edge_split_of, merge_rows, number_ends, number_nodes, read_edges
from .features import FeaturePlan
from .fitting import RawFeatures
from .ids import IdMap
from .nodes import ClassName, NodeRows, read_labels_of, read_nodes
from .reading import TableFiles, open_table
from .request import Shares, TableRequest
from .splits import (
    held_out,
    hold_out_edges,
    hold_out_nodes,
    hold_out_users,
    node_split_of,
    pairs_of_parts,
    seeded_node_split,
    split_by_time,
)

_LEARNED = "a vector of --width numbers is learned for each node."
_NO_FEATURES = f"no column of nodes can be a feature: {_LEARNED}"


@dataclass(frozen=True, eq=False)
class TableGraph:
    """A graph that was read from tables, and what its numbers stand for.

    Features are made from ``raw`` columns once it is known which nodes training knows:
    :meth:`with_split` scales them by these nodes alone.  Without it, :attr:`graph` and
    :attr:`plan` scale them by all rows.

    Args:
        bare: edges and classes; with features too once ``raw`` is ``None``.
        raw: columns that are to become features, or ``None``.
        ids: the id of each node.
        classes: the value that each class stands for; empty without labels.
        given: the split that a column asked for, if any.
        edge_rows: rows of the table of edges.
        added: nodes that only edges name.
        notes: what was guessed, filled in or left out, as lines to print.
        num_bytes: of all files.
        columns: names of the columns of ids, by what they hold.
        fitted: the plan by which the features of ``bare`` were made.
    """

    bare: Graph
    raw: RawFeatures | None
    ids: IdMap
    classes: tuple[ClassName, ...]
    given: NodeSplit | EdgeSplit | None
    edge_rows: int
    added: int
    notes: tuple[str, ...]
    num_bytes: int
    columns: Mapping[str, str] = field(default_factory=dict)
    fitted: FeaturePlan = field(default_factory=FeaturePlan)

    @property
    def graph(self) -> Graph:
        """Edges, features ``[N, plan.width]`` (width 0 without features) and classes."""
        return self._ready.bare

    @property
    def plan(self) -> FeaturePlan:
        """How the features were made; it makes those of new nodes too."""
        return self._ready.fitted

    @cached_property
    def _ready(self) -> TableGraph:
        return self if self.raw is None else self.with_split(None)

    def with_split(self, split: NodeSplit | EdgeSplit | None) -> TableGraph:
        """The same graph with its features, fitted to the nodes that training knows.

        These are the nodes that are not held out as new, and of a split of nodes those that neither
        validate nor are tested; without a split, all.  Unlabelled nodes are among them.
        """
        if self.raw is None:
            return self
        notes = Notes(self.notes)
        plan = self.raw.fit(_known_to_training(split, len(self.ids)), notes)
        x = plan.apply(self.raw.table)
        x = torch.cat([x, plan.blanks(len(self.ids) - x.shape[0])]) if self.added else x
        bare = replace(self.bare, x=x)
        notes.extend(plan.lines() if plan.width else [_NO_FEATURES])
        return replace(self, bare=bare, raw=None, notes=tuple(notes), fitted=plan)

    def split(self, shares: Shares | None = None, seed: int = 0) -> NodeSplit | EdgeSplit:
        """The split of the column, or else a seeded one: of labelled nodes, or of edges.

        A share of new nodes is held out of either.
        """
        shares = shares or Shares()
        given = self.given
        if isinstance(given, NodeSplit):
            return hold_out_nodes(given, shares.new, seed) if shares.new else given
        if isinstance(given, EdgeSplit):
            return hold_out_edges(given, shares.new, seed) if shares.new else given
        if self.bare.y is not None:
            return seeded_node_split(self.bare.y, shares, seed, self.bare.name)
        if shares.train + shares.validation >= 1:
            raise InputError("A split of edges needs a share for the test: lower --train.")
        found = split_edges(
            self.bare.adjacency,
            new=shares.new if held_out(len(self.ids), shares.new, seed)[1].numel() else 0.0,
            train=shares.train,
            validation=shares.validation,
            seed=seed,
        )
        if not min(part.shape[1] for part in (found.train, found.validation, found.test)):
            raise InputError(
                f"{self.bare.name}: {self.bare.adjacency.num_edges} edges are too few to split "
                f"into shares of {shares.train:g} and {shares.validation:g}; give more, other "
                "shares, or a column --split."
            )
        return found


@dataclass(frozen=True, eq=False)
class TablePairs:
    """Interactions that were read from a table, and what their numbers stand for.

    Args:
        interactions: distinct pairs, both ends counted from 0.
        users: the id of each user.
        items: the id of each item.
        times: when each pair was first seen ``[pairs]``, or ``None``.
        given: the split that a column asked for, if any.
        by_time: whether a split by time was asked for.
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
    by_time: bool
    rows: int
    notes: tuple[str, ...]
    num_bytes: int
    columns: Mapping[str, str] = field(default_factory=dict)

    def split(self, shares: Shares | None = None, seed: int = 0) -> InteractionSplit:
        """The split of the column; else one by time, if asked for; else a seeded one.

        Where the shares hold out new users, these are drawn by the seed in all three.
        """
        shares = shares or Shares()
        if self.given is not None:
            return hold_out_users(self.given, shares.new, seed)
        if self.by_time and self.times is not None:
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


def read_tables(request: TableRequest) -> TableGraph | TablePairs:
    """Read and check everything that a request names; which of the two it is, its task says.

    Raises:
        InputError: About the first thing that is wrong, with file, row, column and what to do.
    """
    known, notes = request.with_task(), Notes()
    if request.task is None:
        task, why = request.guess_task()
        notes.append(f"task: {task.replace('-', ' ')}, as {why} (--task).")
    return (_pairs if known.task == "recommendation" else _graph)(known, notes)


def _graph(request: TableRequest, notes: Notes) -> TableGraph:
    edge_files = open_table(request.edges, request, notes)
    node_files = open_table(request.nodes, request, notes) if request.nodes else None
    label_files = open_table(request.labels, request, notes) if request.labels else None
    # The larger table first: what its reading leaves behind, the other one's is read into.
    nodes = read_nodes(node_files, request, notes) if node_files is not None else None
    edges = read_edges(edge_files, request, notes)
    ids, edge_index, added = number_nodes(edges, nodes, request, notes)
    columns = dict(zip(("source", "target"), edges.columns, strict=True))
    if nodes is not None:
        columns["id"] = nodes.id
    edges = replace(edges, ends=())  # numbered now: free the ids
    edge_rows = edge_index.shape[1]
    given: NodeSplit | EdgeSplit | None = edge_split_of(edges, edge_index, len(ids))
    adjacency = adjacency_from(edge_index, len(ids), undirected=not request.directed)
    del edge_index
    if not adjacency.num_entries:
        raise edges.table.error(
            "every edge joins a node with itself, so no two nodes are connected."
        )
    if label_files is not None:
        labels = read_labels_of(label_files, request, ids, notes)
        nodes = labels if nodes is None else nodes.with_labels(labels)
    nodes = nodes or NodeRows(edges.table, "")
    if nodes.part is not None:
        given = node_split_of(_padded(nodes.part, len(ids)))
    if nodes.features is None:
        notes.append(_NO_FEATURES if request.nodes else f"no table of nodes: {_LEARNED}")
    y = None if nodes.y is None else _padded(nodes.y, len(ids))
    none = torch.zeros(len(ids), 0)  # features come with a split
    return TableGraph(
        bare=Graph(adjacency, none, y, len(nodes.classes), _stem(edge_files)),
        raw=nodes.features,
        ids=ids,
        classes=nodes.classes,
        given=given,
        edge_rows=edge_rows,
        added=added,
        notes=tuple(notes),
        num_bytes=sum(
            each.num_bytes for each in (edge_files, node_files, label_files) if each is not None
        ),
        columns=columns,
    )


def _pairs(request: TableRequest, notes: Notes) -> TablePairs:
    files = open_table(request.edges, request, notes)
    rows = read_edges(files, request, notes)
    (users, user), (items, item) = number_ends(rows)
    if len(items) < 2:
        raise rows.table.error(
            "there is a single item, so nothing can be ranked.", None, rows.columns[1]
        )
    merged = merge_rows(rows, user * len(items) + item, "pair")
    key = _column(merged, "key")
    data = Interactions(key // len(items), key % len(items), len(users), len(items), _stem(files))
    return TablePairs(
        interactions=data,
        users=users,
        items=items,
        times=_column(merged, "time") if rows.time is not None else None,
        given=pairs_of_parts(data, _column(merged, "part")) if rows.part is not None else None,
        by_time=request.by_time,
        rows=user.numel(),
        notes=tuple(notes),
        num_bytes=files.num_bytes,
        columns=dict(zip(("user", "item"), rows.columns, strict=True)),
    )


def _column(frame: pl.DataFrame, name: str) -> Tensor:
    return torch.from_numpy(frame[name].to_numpy(writable=True))


def _stem(files: TableFiles) -> str:
    """What data read from some files is called."""
    return files.files[0].path.stem


def _known_to_training(split: NodeSplit | EdgeSplit | None, count: int) -> Tensor | None:
    """Which nodes training may know, bool ``[N]``; ``None`` for all."""
    if split is None:
        return None
    known = torch.ones(count, dtype=torch.bool)
    known[split.new] = False
    if isinstance(split, NodeSplit):
        known[split.validation] = False
        known[split.test] = False
    return known


def _padded(values: Tensor, count: int) -> Tensor:
    """With -1 for the nodes that were added."""
    return torch.cat([values, values.new_full((count - values.numel(),), -1)])
