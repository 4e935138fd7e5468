"""The graph of a model and of a database together: what is committed is answered from at once."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from tuneup.errors import InputError, OutputError

from .engine import Engine, Reply, TakenId, taken_id, texts
from .growing import Arrival, Growing, UnknownId, unknown_ids
from .patched import Ints
from .questions import AddNode
from .store import Change, Store, Write

log = logging.getLogger("tuneup.server")

_AT_ONCE = 4096
"""Changes that are read from the database and looked up at a time."""


class Exists(InputError):
    """Something to add is there already."""


class Missing(InputError):
    """Something to remove is not there."""


@dataclass(frozen=True, eq=False)
class _Node:
    """A node to add: its id and all that it brings, checked but for its id."""

    id: str
    given: dict[str, Any]
    x: Tensor | None
    neighbours: tuple[str, ...]
    targets: tuple[str, ...]


class Live:
    """The grown graph of an engine; all calls come from one thread.

    Args:
        engine: whose graph grows.
        path: of the database.

    Raises:
        InputError: If the model cannot be served so, or cannot read a node that has arrived.
    """

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        engine.parts.encoder  # noqa: B018 - refuses a module that is not ours
        engine.parts.graph.refuse_weights("a graph that grows (--live, compact)")
        self._pairs = engine.predictor.task == "recommendation"
        self.store = Store(path)
        self.growing = Growing(engine.parts)
        self._sequence = 0
        self.passed_over = 0
        """Changes that the model had already, or that name nodes which it does not know."""
        self._play()

    def catch_up(self) -> None:
        """Take over what other processes have committed."""
        if self.store.is_changed():
            self._play()

    def _play(self) -> None:
        changes = self.store.since(self._sequence)
        for start in range(0, len(changes), _AT_ONCE):
            self._replay(changes[start : start + _AT_ONCE])

    def _replay(self, changes: Sequence[tuple[int, Change, Any]]) -> None:
        """Apply changes that were committed; those that are there already change nothing."""
        added = [row for _, change, row in changes if change == "add-nodes"]
        read = iter(self._read([AddNode.model_validate(each) for row in added for each in row]))
        together = {
            sequence: [next(read) for _ in row]
            for sequence, change, row in changes
            if change == "add-nodes"
        }
        others = [row for _, change, row in changes if change != "add-nodes"]
        self._find(others, [node for nodes in together.values() for node in nodes])
        for sequence, change, row in changes:
            if change == "add-nodes":
                new = [n for n in together[sequence] if self.growing.number(n.id) < 0]
                self.passed_over += len(row) - len(new)
                self._insert(new)
            else:
                try:
                    if change == "remove-nodes":
                        self._remove_node(row[0])
                    else:
                        self._change_edge(change, row)
                except Missing:
                    self.passed_over += 1
            self._sequence = sequence

    def commit(self, writes: Sequence[Write]) -> list[Reply | Exception]:
        """Check, apply and commit changes together; each is acknowledged by its reply."""
        replies: list[Reply | Exception] = []
        try:
            with self.store.transaction():
                self._play()
                for write in writes:
                    replies.append(self._commit_one(write))
        except (sqlite3.Error, OSError) as error:
            self._rebuild()
            reason = OutputError(f"cannot write {self.store.path}: {error}; nothing was added")
            return [reason for _ in writes]
        except BaseException:
            self._rebuild()
            raise
        return replies

    def _commit_one(self, write: Write) -> Reply | Exception:
        try:
            before = self.store.answered(write)
            if before is not None:
                return Reply([{**before, "repeated": True}])
            rows, nodes, edges = self._apply(write)
        except InputError as error:  # before anything was applied
            return error
        self._sequence = self.store.append(write.change, rows)
        answer = {"nodes": nodes, "edges": edges, "sequence": self._sequence}
        self.store.note(write, answer)
        return Reply([answer])

    def _rebuild(self) -> None:
        """Forget what was applied and not committed."""
        self.growing, self._sequence = Growing(self._engine.parts), 0
        self._play()

    # Changes: checked whole, then applied whole

    def _apply(self, write: Write) -> tuple[list[Any], int, int]:
        """Rows to keep, and how many nodes and edges changed."""
        if write.change == "add-nodes":
            nodes = self._read(write.rows)
            self._find([], nodes)
            self._check_nodes(nodes)
            return [[node.given for node in nodes]], len(nodes), self._insert(nodes)
        rows = [tuple(texts(row)) for row in write.rows]
        self._find(rows, [])
        if write.change == "remove-nodes":
            return rows, len(rows), sum(self._remove_node(row[0]) for row in rows)
        self._check_edges(write.change, rows)
        for row in rows:
            self._change_edge(write.change, row)
        return rows, 0, len(rows)

    def _read(self, given: Sequence[AddNode]) -> list[_Node]:
        if self._pairs and any(node.targets for node in given):
            raise InputError("targets are for directed graphs: here an edge goes both ways.")
        x = None if self._pairs else self._engine.features_of(given)
        if self._pairs and any(n.features is not None or n.columns is not None for n in given):
            raise InputError("The model reads no features of users: leave them out.")
        return [
            _Node(
                str(node.id),
                {name: value for name, value in node.model_dump().items() if value is not None},
                None if x is None else x[row],
                tuple(dict.fromkeys(texts(node.neighbours))),
                tuple(dict.fromkeys(texts(node.targets or ()))),
            )
            for row, node in enumerate(given)
        ]

    def _find(self, rows: Sequence[Sequence[str]], nodes: Sequence[_Node]) -> None:
        """Look up all ids that changes name."""
        sources = [row[0] for row in rows] + [node.id for node in nodes]
        targets = [row[1] for row in rows if len(row) > 1]
        listed = [each for node in nodes for each in (*node.neighbours, *node.targets)]
        self.growing.find([*sources, *([] if self._pairs else targets + listed)])
        self.growing.find([*targets, *listed], 1)

    def _check_nodes(self, nodes: Sequence[_Node]) -> None:
        """Refuse nodes to add; they may name each other."""
        growing, end = self.growing, int(self._pairs)
        names = {node.id for node in nodes}
        if len(names) < len(nodes):
            raise TakenId("ids of new nodes must be distinct; one comes twice in this request.")
        for row, node in enumerate(nodes):
            if growing.number(node.id) >= 0:
                raise taken_id(self._engine.predictor.ids.kind, node.id)
            if node.targets and self._engine.parts.graph.undirected:
                raise InputError("targets are for directed graphs: here an edge goes both ways.")
            unknown = [
                each
                for each in (*node.neighbours, *node.targets)
                if growing.number(each, end) < 0 and (self._pairs or each not in names)
            ]
            if unknown:
                error = unknown_ids(unknown, self._engine.predictor.candidates)
                raise UnknownId(f"neighbours of new node {row}: {error}")
            if node.id in (*node.neighbours, *node.targets) and not self._pairs:
                raise InputError(f"new node {node.id!r}: got an edge to itself; leave it out.")

    def _insert(self, nodes: Sequence[_Node]) -> int:
        """Add nodes with their edges to known ones and each other; the answer counts edges."""
        growing, edges = self.growing, 0
        names = set() if self._pairs else {node.id for node in nodes}  # items are never added
        for node in nodes:  # each joins those that are there; of two new ones, the second the first
            senders, targets = self._ends(node.neighbours), self._ends(node.targets)
            growing.add_node(node.id, node.x, Arrival(senders, targets))
            edges += senders.size + targets.size
        for node in nodes:
            number = growing.number(node.id)
            for other in node.neighbours:
                edges += other in names and growing.add_edge(growing.number(other), number)
            for other in node.targets:
                edges += other in names and growing.add_edge(number, growing.number(other))
        return edges

    def _ends(self, ids: Sequence[str]) -> Ints:
        found = [self.growing.number(each, int(self._pairs)) for each in ids]
        return np.unique(np.array([each for each in found if each >= 0], dtype=np.int64))

    def _check_edges(self, change: Change, rows: Sequence[tuple[str, ...]]) -> None:
        growing, seen = self.growing, set()
        known = self._engine.predictor
        for row in rows:
            ends = self._edge(row)
            for name, number, ids in zip(row, ends, (known.ids, known.candidates), strict=True):
                if number < 0:
                    error = unknown_ids([name], ids)
                    raise error if change == "add-edges" else Missing(str(error))
            if ends[0] == ends[1]:
                raise InputError(f"edge {row!r}: got an edge of a node to itself; leave it out.")
            there = growing.has_edge(*ends)
            same = tuple(sorted(ends)) if self._engine.parts.graph.undirected else ends
            if change == "add-edges" and (there or same in seen):
                raise Exists(f"The graph has the edge {row[0]!r}, {row[1]!r} already.")
            if change == "remove-edges" and not there:
                raise Missing(f"The graph has no edge {row[0]!r}, {row[1]!r}.")
            seen.add(same)

    def _edge(self, row: Sequence[str]) -> tuple[int, int]:
        return self.growing.number(row[0]), self.growing.number(row[1], int(self._pairs))

    def _change_edge(self, change: Change, row: Sequence[str]) -> None:
        ends = self._edge(row)
        if min(ends) < 0:
            raise Missing(f"The graph has no edge {row[0]!r}, {row[1]!r}.")
        if change == "add-edges":
            self.growing.add_edge(*ends)
        else:
            self.growing.remove_edge(*ends)

    def _remove_node(self, name: str) -> int:
        """Remove a node; the answer is how many edges it had."""
        number = self.growing.number(name)
        if number < 0:
            raise Missing(str(unknown_ids([name], self._engine.predictor.ids)))
        edges = int(self.growing.degree(np.array([number]))[0])
        self.growing.remove_node(number)
        return edges
