"""Tables as one graph, or as the interactions of users and items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    split_interactions,
)
from tuneup.errors import InputError
from tuneup.graph import adjacency_from

from .columns import existing
from .features import FeaturePlan
from .ids import IdMap, check_same_type, distinct_ids
from .nodes import ClassName, NodeRows, RawFeatures, read_labels_of, read_nodes, read_side
from .reading import Notes, first_true, open_table, shown
from .request import Shares, TableRequest
from .rows import EdgeRows, read_edges
from .splits import (
    hold_out_edges,
    hold_out_nodes,
    hold_out_users,
    node_split_of,
    pairs_of_parts,
    seeded_edge_split,
    seeded_node_split,
    split_by_time,
)

_LEARNED = "a vector of --width numbers is learned for each node."
_NO_FEATURES = f"no column of nodes can be a feature: {_LEARNED}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Read:
    """What is known of tables of either kind.

    Args:
        rows: of the table of edges or pairs; more than these where some are repeated.
        notes: what was guessed, filled in or left out, as lines to print.
        num_bytes: of all files.
        columns: names of the columns of ids, by what they hold.
    """

    rows: int
    notes: tuple[str, ...]
    num_bytes: int
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Described:
    """Features of all nodes, of all users or of all items.

    Args:
        raw: columns that are to become features.
        added: nodes without a row, which come last.
        plan: how the features were made; of width 0 until :meth:`fit`.
        x: the features ``[n, plan.width]``, or ``None`` until then.
    """

    raw: RawFeatures
    added: int = 0
    plan: FeaturePlan = field(default_factory=FeaturePlan)
    x: Tensor | None = None

    def fit(self, training: Tensor | None, notes: Notes) -> Described:
        """With features that are fitted to the nodes that training knows, bool ``[n]``, or all."""
        plan = self.raw.fit(training, notes)
        x = torch.cat([plan.apply(self.raw.table), plan.blanks(self.added)])
        return replace(self, plan=plan, x=x)


@dataclass(frozen=True, eq=False, kw_only=True)
class TableGraph(Read):
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
        added: nodes that only edges name.
        fitted: the plan by which the features of ``bare`` were made.
    """

    bare: Graph
    raw: RawFeatures | None
    ids: IdMap
    classes: tuple[ClassName, ...]
    given: NodeSplit | EdgeSplit | None
    added: int
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
        return self.with_split(None)

    def with_split(self, split: NodeSplit | EdgeSplit | None) -> TableGraph:
        """The same graph with its features, fitted to the nodes that training knows.

        These are the nodes that are not held out as new, and of a split of nodes those that neither
        validate nor are tested; without a split, all.  Unlabelled nodes are among them.
        """
        if self.raw is None:
            return self
        notes, training = Notes(self.notes), torch.ones(len(self.ids), dtype=torch.bool)
        if split is not None:
            training[split.new] = False
        if isinstance(split, NodeSplit):
            training[torch.cat([split.validation, split.test])] = False
        found = Described(self.raw, self.added).fit(training, notes)
        notes.extend(found.plan.lines() if found.plan.width else [_NO_FEATURES])
        bare = self.bare if found.x is None else replace(self.bare, x=found.x)
        return replace(self, bare=bare, raw=None, notes=tuple(notes), fitted=found.plan)

    def split(self, shares: Shares | None = None, seed: int = 0) -> NodeSplit | EdgeSplit:
        """The split of the column, or else a seeded one: of labelled nodes, or of edges.

        A share of new nodes is held out of either.
        """
        shares, given = shares or Shares(), self.given
        if isinstance(given, NodeSplit):
            return hold_out_nodes(given, shares.new, seed)
        if isinstance(given, EdgeSplit):
            return hold_out_edges(given, shares.new, seed)
        if self.bare.y is not None:
            return seeded_node_split(self.bare.y, shares, seed, self.bare.name)
        return seeded_edge_split(self.bare.adjacency, shares, seed, self.bare.name)


@dataclass(frozen=True, eq=False, kw_only=True)
class TablePairs(Read):
    """Interactions that were read from a table, and what their numbers stand for.

    Args:
        interactions: distinct pairs, both ends counted from 0.
        users: the id of each user.
        items: the id of each item.
        times: when each pair was first seen ``[pairs]``, or ``None``.
        given: the split that a column asked for, if any.
        by_time: whether a split by time was asked for.
        described: features of ``"users"`` and of ``"items"``, each if there is a table of them.
    """

    interactions: Interactions
    users: IdMap
    items: IdMap
    times: Tensor | None
    given: InteractionSplit | None
    by_time: bool
    described: Mapping[str, Described] = field(default_factory=dict)

    @property
    def user_x(self) -> Tensor | None:
        """Features of users ``[num_users, d]``, once :meth:`with_split` has fitted them."""
        return self.described["users"].x if "users" in self.described else None

    @property
    def item_x(self) -> Tensor | None:
        """Features of items ``[num_items, d]``, once :meth:`with_split` has fitted them."""
        return self.described["items"].x if "items" in self.described else None

    def with_split(self, split: InteractionSplit | None) -> TablePairs:
        """The same pairs with features of users and items, fitted to those with training pairs.

        Without a split, they are fitted to all.
        """
        notes, found, data = Notes(self.notes), {}, self.interactions
        counts = {"users": data.num_users, "items": data.num_items}
        for kind, described in self.described.items():
            training = None
            if split is not None:
                training = torch.zeros(counts[kind], dtype=torch.bool)
                training[split.train.user if kind == "users" else split.train.item] = True
            found[kind] = described.fit(training, notes)
            notes.extend(f"{kind}: {line}" for line in found[kind].plan.lines())
        return replace(self, described=found, notes=tuple(notes))

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
    named = (request.edges, request.nodes, request.labels)
    files = [open_table(each, request, notes) if each else None for each in named]
    edge_files, node_files, label_files = files
    assert edge_files is not None
    # The larger table first: what its reading leaves behind, the other one's is read into.
    nodes = read_nodes(node_files) if node_files is not None else None
    edges = read_edges(edge_files)
    columns = dict(zip(("source", "target"), edges.columns, strict=True))
    if nodes is not None:
        columns["id"] = nodes.id
    ids, edge_index = number_nodes(edges, nodes, request, notes)
    edges = replace(edges, ids=())  # numbered now: free the ids
    num_rows, count = edge_index.shape[1], len(ids)
    given: NodeSplit | EdgeSplit | None = edges.edge_split(edge_index, count)
    edges.check_weights(edge_index, count, directed=request.directed)
    adjacency = adjacency_from(
        edge_index, count, undirected=not request.directed, weight=edges.weight
    )
    del edge_index
    if not adjacency.num_entries:
        raise edges.table.error("every edge joins a node with itself; no two nodes are connected.")
    if nodes is None or nodes.features is None:
        notes.append(_NO_FEATURES if nodes else f"no table of nodes: {_LEARNED}")
    labels = read_labels_of(label_files, ids) if label_files is not None else nodes
    raw = nodes.features if nodes is not None else None
    y: Tensor | None = None
    classes: tuple[ClassName, ...] = ()
    if labels is not None and labels.y is not None:
        y, classes = _padded(labels.y, count), labels.classes
        given = None if labels.part is None else node_split_of(_padded(labels.part, count))
    return TableGraph(
        bare=Graph(adjacency, torch.zeros(count, 0), y, len(classes), edge_files.stem),
        raw=raw,
        ids=ids,
        classes=classes,
        given=given,
        rows=num_rows,
        added=0 if nodes is None or nodes.ids is None else count - len(nodes.ids),
        notes=tuple(notes),
        num_bytes=sum(each.num_bytes for each in files if each is not None),
        columns=columns,
    )


def _padded(values: Tensor, count: int) -> Tensor:
    """With -1 for the nodes that were added."""
    return torch.cat([values, values.new_full((count - values.numel(),), -1)])


def number_nodes(
    edges: EdgeRows, nodes: NodeRows | None, request: TableRequest, notes: Notes
) -> tuple[IdMap, Tensor]:
    """Ids of all nodes, and edges between their numbers ``[2, E]``."""
    ids = number_ends(edges, (0, 1), nodes, request, notes)
    found = torch.empty((2, len(edges.ids[0])), dtype=torch.long)
    for number, end in enumerate(edges.ids):  # one after the other: less memory than a stack
        found[number] = ids.positions(end)
    return ids, found


def number_ends(
    edges: EdgeRows,
    ends: Sequence[int],
    nodes: NodeRows | None,
    request: TableRequest,
    notes: Notes,
) -> IdMap:
    """Ids of the table of nodes, then those that only some ends of edges have, if any may be added.

    Args:
        edges: the edges, or pairs.
        ends: which of their two columns hold ids of this kind.
        nodes: the table of nodes, users or items, if there is one.
        request: says what to do about ids without a row.
        notes: get a line if some are added.
    """
    columns = [edges.ids[end] for end in ends]
    if nodes is None or nodes.ids is None:
        return IdMap(distinct_ids(*columns))
    for end in ends:
        rows = (edges.table, edges.columns[end], edges.ids[end])
        check_same_type(rows, (nodes.table, nodes.id, nodes.ids))
    ids = IdMap(nodes.ids)
    unknown = [pl.Series((ids.positions(column) < 0).numpy()) for column in columns]
    if not any(mask.any() for mask in unknown):
        return ids
    new = distinct_ids(*(c.filter(mask) for c, mask in zip(columns, unknown, strict=True)))
    if request.unknown_ids == "error":
        raise _unknown_id(edges, ends, unknown, new, ids, nodes)
    notes.append(
        f"{edges.table.name}: {len(new):,} ids have no row in {nodes.table.name}; added without "
        "features and labels."
    )
    values = ids.values
    if values.dtype != new.dtype:
        values, new = values.cast(pl.String), new.cast(pl.String)
    return IdMap(pl.concat([values.alias("id"), new.alias("id")]))


def _unknown_id(
    edges: EdgeRows,
    ends: Sequence[int],
    unknown: Sequence[pl.Series],
    new: pl.Series,
    known: IdMap,
    nodes: NodeRows,
) -> InputError:
    rows = [first_true(mask) for mask in unknown]
    row, at = min((row, at) for at, row in zip(ends, rows, strict=True) if row is not None)
    examples = ", ".join(shown(value) for value in new.head(3))
    fix: tuple[str, ...] = ("--unknown-ids", "add")
    advice = "add their rows, or pass --unknown-ids add"
    if new.dtype == pl.String and bool((known.positions(new.str.strip_chars()) >= 0).any()):
        advice = "there are spaces around these ids: remove them"
    if all(mask.all() for mask in unknown):
        names, fix = " and ".join(repr(edges.columns[end]) for end in ends), ()
        advice = f"no id of the edges is there: are {names} and {nodes.id!r} the right columns?"
    return edges.table.error(
        f"id {shown(edges.ids[at][row])} has no row in {nodes.table.where(column=nodes.id)}; "
        f"{len(new):,} ids have none ({examples}{', ...' if len(new) > 3 else ''}): {advice}.",
        row,
        edges.columns[at],
        fix=fix,
    )


def _pairs(request: TableRequest, notes: Notes) -> TablePairs:
    named = {"users": request.users, "items": request.items}
    files = open_table(request.edges, request, notes)
    tables = {kind: open_table(given, request, notes) for kind, given in named.items() if given}
    every = {name for each in tables.values() for name in each.columns}
    sides = {kind: read_side(each, kind[:-1], every) for kind, each in tables.items()}
    for name, option in request.named_features:
        if name not in every:
            existing(next(iter(tables.values())), name, option)
    rows = read_edges(files)
    users, items = (
        number_ends(rows, (end,), sides.get(kind), request, notes) for end, kind in enumerate(named)
    )
    user, item = users.positions(rows.ids[0]), items.positions(rows.ids[1])
    if len(items) < 2:
        problem = "there is a single item, so nothing can be ranked."
        raise rows.table.error(problem, None, rows.columns[1])
    merged = {
        each.name: torch.from_numpy(each.to_numpy(writable=True))
        for each in rows.merge(user * len(items) + item, "pair")
    }
    key = merged["key"]
    data = Interactions(key // len(items), key % len(items), len(users), len(items), files.stem)
    described, counts = {}, {"users": len(users), "items": len(items)}
    for kind, side in sides.items():
        if side.features is None:
            notes.append(f"{tables[kind].name}: no column can be a feature of {kind}.")
        elif side.ids is not None:
            described[kind] = Described(side.features, counts[kind] - len(side.ids))
    return TablePairs(
        interactions=data,
        users=users,
        items=items,
        times=merged.get("time"),
        given=pairs_of_parts(data, merged["part"]) if "part" in merged else None,
        by_time=request.by_time,
        described=described,
        rows=user.numel(),
        notes=tuple(notes),
        num_bytes=sum(each.num_bytes for each in (files, *tables.values())),
        columns=dict(zip(("user", "item"), rows.columns, strict=True)),
    )
