"""Tables of edges, nodes and labels into one graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from tuneup.data import EdgeSplit, Graph, NodeSplit, split_edges
from tuneup.errors import InputError
from tuneup.graph import Adjacency, adjacency_from

from .columns import Notes
from .edge_rows import edge_split_of, read_edge_rows
from .features import FeaturePlan
from .fitting import RawFeatures
from .holdout import edges_without_some, held_out, without_some
from .ids import IdMap
from .labels import ClassName
from .listing import feature_lines
from .nodes import NodeRows, read_label_rows, read_node_rows
from .numbering import number_nodes
from .reading import open_table
from .requests import GraphTables
from .splits import Shares, node_split_of, seeded_node_split
from .table import Table

_LEARNED = "a vector of --width numbers is learned for each node."
NO_FEATURES = f"no column of nodes can be a feature: {_LEARNED}"


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
        notes.extend(feature_lines(plan) if plan.width else [NO_FEATURES])
        return replace(self, bare=bare, raw=None, notes=tuple(notes), fitted=plan)

    def node_split(self, shares: Shares | None = None, seed: int = 0) -> NodeSplit:
        """The split of the column, or else a seeded one of the labelled nodes.

        A share of new nodes is held out of either.
        """
        shares = shares or Shares()
        if isinstance(self.given, NodeSplit):
            return without_some(self.given, shares.new, seed) if shares.new else self.given
        if self.bare.y is None:
            raise InputError(f"{self.bare.name}: nodes without labels cannot be split.")
        return seeded_node_split(self.bare.y, shares, seed, self.bare.name)

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


def load_graph(request: GraphTables) -> TableGraph:
    """Read, map and check everything that a request names.

    Raises:
        InputError: About the first thing that is wrong, with file, row, column and what to do.
    """
    notes = Notes()
    edge_files = open_table(request.edges, request.reading, notes)
    node_files = open_table(request.nodes, request.reading, notes) if request.nodes else None
    label_files = open_table(request.labels, request.reading, notes) if request.labels else None
    # The larger table first: what its reading leaves behind, the other one's is read into.
    nodes = read_node_rows(node_files, request, notes) if node_files is not None else None
    edges = read_edge_rows(edge_files, request, notes)
    ids, edge_index, added = number_nodes(edges, nodes, request, notes)
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
    raw = nodes.features if nodes is not None else None
    if raw is None:
        notes.append(NO_FEATURES if request.nodes else f"no table of nodes: {_LEARNED}")
    files = (edge_files, node_files, label_files)
    return TableGraph(
        bare=_graph(edges.table, adjacency, nodes),
        raw=raw,
        ids=ids,
        classes=nodes.classes if nodes is not None else (),
        given=given,
        edge_rows=edge_rows,
        added=added,
        notes=tuple(notes),
        num_bytes=sum(each.num_bytes for each in files if each is not None),
        columns=columns,
    )


def _graph(table: Table, adjacency: Adjacency, nodes: NodeRows | None) -> Graph:
    """Without features as yet."""
    name, count = table.parts[0].place.path.stem, adjacency.num_nodes
    y = _padded(nodes.y, count) if nodes is not None and nodes.y is not None else None
    classes = len(nodes.classes) if nodes is not None else 0
    return Graph(adjacency, torch.zeros(count, 0), y, classes, name)


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
