"""The graph of a model with all that has arrived, and answers as if it had been built so.

Nothing that was computed before an arrival can be used after it, so a node's answer is computed on
its own receptive field.  Rankings need the outputs of all candidates: these are kept, and computed
again where a change affects them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import Adjacency, Neighbours, Rows, receptive_field
from tuneup.metrics.topk import INNER_PRODUCT, TopK, top_k
from tuneup.nn import HadamardScorer
from tuneup.tables import IdMap

from .parts import Parts, run
from .patched import NONE, Ints, Patched

_MOST = 0.2
"""Share of the nodes whose outputs are out of date above which all are computed."""
_SHOWN = 3
"""Unknown ids that a message names."""


@dataclass(eq=False)
class _Outputs:
    """Outputs of all nodes, and the nodes that have changed since."""

    module: nn.Module
    z: Tensor | None = None
    changed: set[int] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class Arrival:
    """A new node by numbers: nodes that it receives from, and (if directed) that it sends to."""

    senders: Ints
    targets: Ints = field(default_factory=lambda: NONE)


class Growing:
    """A model on a graph that grows, in memory; numbers from N on are of added nodes.

    Args:
        parts: of the model.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.graph = Patched(parts.graph.neighbours)
        self.removed: set[int] = set()
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._found: list[dict[str, int]] = [{}, {}]
        width = parts.width if parts.blank is None else parts.blank.numel()
        self._added = torch.empty(0, width or 0)
        self._outputs: dict[str, _Outputs] = {}
        self._whole_numbers = parts.ids.values.dtype.is_integer()

    # Ids

    def numbers(self, ids: Sequence[str], known: IdMap | None = None) -> Ints:
        """The number of each id, -1 where there is none; of items if ``known`` are these."""
        items = known is not None and known is not self.parts.ids
        base = known if items and known is not None else self.parts.ids
        found: Ints = base.positions(pl.Series("id", ids, dtype=pl.String)).numpy().copy()
        if items:
            return np.where(found < 0, -1, found + self.parts.first)
        if self.removed:
            found[np.isin(found, list(self.removed))] = -1
        if self._numbers:
            for row in np.flatnonzero(found < 0).tolist():
                found[row] = self._numbers.get(ids[row], -1)
        return found

    def known(self, ids: Sequence[str], known: IdMap | None = None) -> Ints:
        """The number of each id; refuses those that are not known, by name."""
        found = self.numbers(ids, known)
        if (found < 0).any():
            raise unknown_ids(
                [ids[row] for row in np.flatnonzero(found < 0).tolist()], known or self.ids
            )
        return found

    def find(self, ids: Sequence[str], end: int = 0) -> None:
        """Look up ids for :meth:`number`, all at once; ``end`` is 1 for items or targets."""
        known = self.parts.predictor.candidates if end else self.parts.ids
        found = known.positions(pl.Series("id", ids, dtype=pl.String)).tolist()
        shift = self.parts.first if end else 0
        self._found[end] = {
            id: number + shift if number >= 0 else -1 for id, number in zip(ids, found, strict=True)
        }

    def number(self, id: str, end: int = 0) -> int:
        """The number of one id that was looked up, -1 if it is not in the graph now."""
        if not (end and self.parts.first) and id in self._numbers:
            return self._numbers[id]
        number = self._found[end].get(id, -1)
        return -1 if number in self.removed else number

    @property
    def ids(self) -> IdMap:
        """Those of the saved model."""
        return self.parts.ids

    def names(self, numbers: Ints) -> list[int | str]:
        """The id of each number."""
        count, first = self.parts.graph.num_nodes, self.parts.first
        if first and (numbers >= first).all() and (numbers < count).all():
            named: list[int | str] = self.parts.predictor.candidates.values.gather(
                numbers - first
            ).to_list()
            return named
        old = numbers < count
        found: list[int | str] = self.parts.ids.values.gather(np.where(old, numbers, 0)).to_list()
        for row in np.flatnonzero(~old).tolist():
            found[row] = self._name(int(numbers[row]))
        return found

    def _name(self, number: int) -> int | str:
        name = self._names[number - self.parts.graph.num_nodes]
        return int(name) if self._whole_numbers and name.lstrip("-").isdecimal() else name

    # Changes

    def add_node(self, name: str, x: Tensor | None, arrival: Arrival) -> int:
        """Add a node with its edges; the answer is its number.

        Args:
            name: its id, not taken.
            x: its features ``[d]``; ``None`` if the model reads none.
            arrival: its edges.
        """
        (number,) = self.graph.add_nodes(1)
        row = self.parts.blank if x is None else x
        assert row is not None
        at = number - self.parts.graph.num_nodes
        if at >= len(self._added):
            room = self._added.new_zeros(max(64, 2 * len(self._added)), row.numel())
            room[:at] = self._added[:at]
            self._added = room
        self._added[at] = row
        self._names.append(name)
        self._numbers[name] = number
        insert(self.graph, number, arrival, self.parts.graph.undirected)
        self._note([number, *arrival.senders.tolist(), *arrival.targets.tolist()])
        return number

    def add_edge(self, source: int, target: int) -> bool:
        """Add an edge; whether it is new."""
        added = self.graph.join(source, target)
        if added and self.parts.graph.undirected:
            self.graph.join(target, source)
        self._note([source, target] if added else [])
        return added

    def remove_edge(self, source: int, target: int) -> bool:
        """Take an edge out; whether it was there."""
        removed = self.graph.part(source, target)
        if removed and self.parts.graph.undirected:
            self.graph.part(target, source)
        self._note([source, target] if removed else [])
        return removed

    def remove_node(self, number: int) -> None:
        """Take a node out with its edges."""
        senders = self.graph.row(number).tolist()
        receivers = self.graph.receivers(number, self.parts.graph.undirected).tolist()
        for receiver in receivers:
            self.graph.part(number, receiver)
        self.graph.replace(number, NONE)
        self.removed.add(number)
        if number >= self.parts.graph.num_nodes:
            name = self._names[number - self.parts.graph.num_nodes]
            if self._numbers.get(name) == number:
                del self._numbers[name]
        self._note([number, *senders, *receivers])

    def has_edge(self, source: int, target: int) -> bool:
        """Whether there is one."""
        row = self.graph.row(target)
        place = int(row.searchsorted(source))
        return place < row.size and int(row[place]) == source

    def _note(self, nodes: Sequence[int]) -> None:
        for kept in self._outputs.values():
            kept.changed.update(nodes)

    # Answers

    @torch.no_grad()
    def outputs(self, numbers: Ints, graph: Neighbours | None = None) -> Tensor:
        """Outputs of some nodes ``[n, d]``."""
        return self._field(self.parts.encoder, numbers, graph or self.graph, self._added)

    def degree(self, numbers: Ints) -> Ints:
        """Number of senders of some nodes ``[n]``."""
        found: Ints = self.graph.degree(torch.from_numpy(numbers)).numpy()
        return found

    @torch.no_grad()
    def of_new(
        self, x: Tensor | None, arrivals: Sequence[Arrival], *, embed: bool = False
    ) -> tuple[Tensor, Ints]:
        """Outputs of new nodes, each as if it came alone ``[m, d]``, and their degrees ``[m]``.

        Args:
            x: their features ``[m, d]``; ``None`` if the model reads none.
            arrivals: their edges.
            embed: whether embeddings are wanted in place of outputs.
        """
        module = self.parts.embedder if embed else self.parts.encoder
        found, degrees = [], []
        for row, arrival in enumerate(arrivals):
            own = None if x is None else x[row : row + 1]
            z, degree = self._together(module, own, [arrival])
            found.append(z)
            degrees.append(degree)
        return torch.cat(found), np.concatenate(degrees)

    @torch.no_grad()
    def of_group(
        self,
        x: Tensor | None,
        arrivals: Sequence[Arrival],
        between: Sequence[tuple[int, int]],
        *,
        embed: bool = False,
    ) -> tuple[Tensor, Ints]:
        """The same of new nodes with edges between them, which arrive together."""
        module = self.parts.embedder if embed else self.parts.encoder
        return self._together(module, x, arrivals, between)

    def _together(
        self,
        module: nn.Module,
        x: Tensor | None,
        arrivals: Sequence[Arrival],
        between: Sequence[tuple[int, int]] = (),
    ) -> tuple[Tensor, Ints]:
        graph = Patched(self.graph, brief=True)
        numbers = graph.add_nodes(len(arrivals))
        undirected = self.parts.graph.undirected
        for number, arrival in zip(numbers, arrivals, strict=True):
            insert(graph, number, arrival, undirected)
        for source, target in between:
            if source != target:
                graph.join(numbers[source], numbers[target])
                if undirected:
                    graph.join(numbers[target], numbers[source])
        blank = self.parts.blank
        rows = blank.expand(len(arrivals), -1) if x is None and blank is not None else x
        assert rows is not None
        wanted = np.array(numbers, dtype=np.int64)
        count = self.graph.num_nodes - self.parts.graph.num_nodes
        added = torch.cat([self._added[:count].reshape(count, rows.shape[1]), rows])
        z = self._field(module, wanted, graph, added)
        return z, graph.degree(torch.from_numpy(wanted)).numpy()

    @torch.no_grad()
    def what_if(self, number: int, add: Ints, remove: Ints) -> tuple[Tensor, int]:
        """Outputs and degree of a known node with other edges ``[1, d]``."""
        graph, undirected = Patched(self.graph, brief=True), self.parts.graph.undirected
        for other in add.tolist():
            if other != number:
                graph.join(other, number)
                if undirected:
                    graph.join(number, other)
        for other in remove.tolist():
            graph.part(other, number)
            if undirected:
                graph.part(number, other)
        z = self._field(self.parts.encoder, np.array([number]), graph, self._added)
        return z, int(graph.degree(torch.tensor([number])))

    def _field(self, module: nn.Module, numbers: Ints, graph: Neighbours, added: Tensor) -> Tensor:
        self.parts.graph.refuse_weights("a graph with other edges")
        seeds, place = np.unique(numbers, return_inverse=True)
        depth = module.num_layers
        assert isinstance(depth, int)
        found = receptive_field(graph, torch.from_numpy(seeds), depth)
        x = self.parts.rows(found.nodes, graph.degree(found.nodes), added)
        return run(module, x, found.blocks)[torch.from_numpy(place)]

    # Rankings

    def rank(self, z: Tensor, known: Rows, k: int) -> TopK:
        """The ``k`` best candidates of each source, none of them known; ids are numbers.

        Args:
            z: outputs of the sources ``[n, d]``.
            known: candidates of each that are not ranked, by number.
            k: how many.
        """
        head, table = self.parts.head, self.table()
        scorer = INNER_PRODUCT if head is None else HadamardScorer(head)
        return self._best(z, table, known, k, scorer)

    def nearest(self, z: Tensor, known: Rows, k: int) -> TopK:
        """The ``k`` candidates of the nearest embeddings, by cosine."""
        unit = nn.functional.normalize(self.table(embed=True), dim=1)
        return self._best(nn.functional.normalize(z, dim=1), unit, known, k, INNER_PRODUCT)

    def _best(self, z: Tensor, table: Tensor, known: Rows, k: int, scorer: object) -> TopK:
        first = self.parts.first
        last = self.parts.graph.num_nodes if first else self.graph.num_nodes
        gone = np.array(sorted(each for each in self.removed if first <= each < last), np.int64)
        left_out = Rows(known.rowptr, known.col - first)
        for each in (gone - first).tolist():
            left_out = left_out.append(torch.full((len(z),), each))
        left_out = _inside(left_out, last - first)
        best = top_k(z, table[first:last], k, known=left_out, scorer=scorer)  # type: ignore[arg-type]
        return TopK(torch.where(best.ids >= 0, best.ids + first, best.ids), best.scores)

    @torch.no_grad()
    def table(self, *, embed: bool = False) -> Tensor:
        """Outputs (or embeddings) of all nodes ``[N + m, d]``, up to date."""
        self.parts.graph.refuse_weights("a graph with other edges")
        kind = "embeddings" if embed else "outputs"
        if kind not in self._outputs:
            module = self.parts.embedder if embed else self.parts.encoder
            self._outputs[kind] = _Outputs(module)
        kept = self._outputs[kind]
        count = self.graph.num_nodes
        stale = None if kept.z is None else self._stale(kept)
        if stale is None:
            graph = self.adjacency()
            x = self.parts.rows(torch.arange(count), graph.degree, self._added)
            depth = kept.module.num_layers
            assert isinstance(depth, int)
            kept.z = run(kept.module, x, (graph,) * depth)
        elif stale.size:
            assert kept.z is not None
            z = kept.z.new_zeros(count, kept.z.shape[1])
            z[: len(kept.z)] = kept.z
            z[torch.from_numpy(stale)] = self._field(kept.module, stale, self.graph, self._added)
            kept.z = z
        kept.changed.clear()
        return kept.z  # type: ignore[return-value]

    def _stale(self, kept: _Outputs) -> Ints | None:
        """Nodes whose outputs a change affects; ``None`` if they are too many to list."""
        reached = np.array(sorted(kept.changed), dtype=np.int64)
        if not self.parts.graph.undirected and reached.size:
            return None
        depth = kept.module.num_layers
        assert isinstance(depth, int)
        for _ in range(depth):
            if reached.size > _MOST * self.graph.num_nodes:
                return None
            reached = np.union1d(reached, self.graph.take(torch.from_numpy(reached)).col.numpy())
        return None if reached.size > _MOST * self.graph.num_nodes else reached

    # The whole

    def adjacency(self) -> Adjacency:
        """The grown graph in compressed rows."""
        everyone = self.graph.take(torch.arange(self.graph.num_nodes))
        return Adjacency(
            everyone.rowptr, everyone.col, self.graph.num_nodes, self.parts.graph.undirected
        )

    @property
    def added(self) -> Tensor:
        """What added nodes enter with ``[m, d]``."""
        return self._added[: self.graph.num_nodes - self.parts.graph.num_nodes]

    @property
    def added_names(self) -> list[str]:
        """Ids of added nodes, the removed ones included."""
        return list(self._names)


def insert(graph: Patched, number: int, arrival: Arrival, undirected: bool) -> None:
    """Add the edges of a new node."""
    graph.replace(number, arrival.senders)
    receivers = arrival.senders if undirected else arrival.targets
    for receiver in receivers.tolist():
        graph.join(number, receiver)


def unknown_ids(names: Sequence[str], known: IdMap) -> InputError:
    """What to say about ids that are not known."""
    some = ", ".join(map(repr, names[:_SHOWN]))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return UnknownId(
        f"The model knows no {known.kind} {some}{more}; it knows {len(known):,}, like "
        f"{known[0]!r} ({known.values.dtype})."
    )


class UnknownId(InputError):
    """An id that is not in the graph."""


def _inside(rows: Rows, count: int) -> Rows:
    """Rows without nodes that are no candidates."""
    return rows.select((rows.col >= 0) & (rows.col < count))
