"""Dropping edges, the paper's synthetic tail nodes, as a pure function.

An edge survives iff its hash ``h(edge, seed, stage, step)`` in [0, 2^53) is at least
``round(alpha * 2^53)``.  The key of an edge is its *global* node ids, sorted if the graph is
undirected: both directions agree by construction, every machine draws the same graph without
talking, and a resumed run draws what the interrupted one would have.

*Graded* dropping draws a share for every receiver v, ``a_v = h(v, v) / 2^53``, uniform in [0, 1):
an edge of v survives iff its own draw is at least ``h(v, v)``.  One graph then holds nodes of every
coldness, none at all included: of a node with d edges, k survive with probability ``1 / (d + 1)``
for every k from 0 to d.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.names import Alpha

from . import csr
from .adjacency import Adjacency
from .hashing import HASH_BITS, fold_key, hash_pairs, threshold, uniform
from .neighbours import Thinned

GRADED = "graded"
"""The alpha that every receiver draws for itself."""

_CHUNK = 1 << 16
"""Entries hashed at a time: the temporaries then stay in the processor's cache."""


def edge_draws(first: Tensor, second: Tensor, key: int, *, symmetric: bool) -> Tensor:
    """One draw in ``[0, 2^53)`` per pair of global ids ``[E]``."""
    out = torch.empty(first.shape, dtype=torch.long, device=first.device)
    for k in range(0, first.numel(), _CHUNK):
        a, b = first[k : k + _CHUNK], second[k : k + _CHUNK]
        if symmetric:
            a, b = torch.minimum(a, b), torch.maximum(a, b)
        out[k : k + _CHUNK] = hash_pairs(a, b, key)
    return out


@dataclass(frozen=True)
class Survival:
    """The rule by which edges survive one draw.

    Args:
        alpha: share of edges to drop, or "graded".
        key: of the draw.
        symmetric: whether both directions of an edge share one draw.
    """

    alpha: Alpha
    key: int
    symmetric: bool

    def __call__(self, receiver: Tensor, sender: Tensor) -> Tensor:
        """Which edges survive ``[E]``, for global ids of their ends."""
        draws = edge_draws(receiver, sender, self.key, symmetric=self.symmetric)
        if isinstance(self.alpha, str):
            return draws >= edge_draws(receiver, receiver, self.key, symmetric=False)
        return draws >= threshold(self.alpha)


@dataclass(frozen=True)
class DropEdge:
    """Drops a share ``alpha`` of the edges; a new draw for every ``(seed, stage, step)``.

    Call it with an :class:`Adjacency`, with PyG's ``edge_index`` or, as a PyG transform, with a
    ``Data`` or ``HeteroData``, whose edge attributes are dropped along with the edges.

    Example::

        drop = tuneup.DropEdge(alpha=0.5, seed=0)
        for epoch in range(epochs):
            out = model(x, drop(edge_index, step=epoch))
            thinned = drop(data, step=epoch)  # edge_index, edge_attr, edge_weight, ...

    Args:
        alpha: share of edges to drop, 0 to 1; "graded": every receiver draws one for itself, anew
            for each step, and drops its own directions of edges by it.
        seed: seed of the draws.
        paired: drop {u, v} as one edge, both directions together (the default), or each direction
            by itself, which leaves a directed graph.
        exact: drop exactly ``round(alpha * |E|)`` edges instead of each with probability alpha.
    """

    alpha: Alpha = 0.5
    seed: int = 0
    paired: bool = True
    exact: bool = False

    def __post_init__(self) -> None:
        if self.alpha == GRADED:
            if self.exact:
                raise InputError('exact=True drops one share of all edges; alpha is "graded".')
            return
        if not isinstance(self.alpha, int | float) or isinstance(self.alpha, bool):
            raise InputError(
                f'alpha is a number, the share of edges to drop, or "{GRADED}"; got '
                f"{self.alpha!r}. To choose one, fit with 0.25, 0.5 and 0.75 and keep the best "
                "validation score."
            )
        if not 0.0 <= self.alpha <= 1.0:
            raise InputError(f"alpha is the share of edges to drop, 0 to 1; got {self.alpha}.")

    def __call__(self, graph: Any, step: int = 0, stage: int = 0) -> Any:
        """The thinned graph, of the same kind as ``graph``.

        The draw is a function of seed, stage and step: equal calls drop the same edges. Pass
        another ``step`` at every update, as with ``lambda data: drop(data, step=next(steps))``
        where a dataset or loader calls it as its transform.

        An ``edge_index`` counts as undirected here if ``paired``: (u, v) and (v, u) go together,
        and columns keep their order.  So do, in a ``HeteroData``, an edge of type ``("user",
        "rates", "item")`` and its reverse of type ``("item", "rev_rates", "user")``.
        """
        if isinstance(graph, Adjacency):
            return self.thin(graph, step, stage)
        if hasattr(graph, "edge_stores"):  # not by its class: importing PyG takes seconds
            return self._transform(graph, step, stage)
        if not isinstance(graph, Tensor) or graph.dim() != 2 or graph.shape[0] != 2:
            got = list(graph.shape) if isinstance(graph, Tensor) else type(graph).__name__
            raise InputError(
                "DropEdge takes an Adjacency, an edge_index [2, E], a Data or a HeteroData; got "
                f"{got}."
            )
        return graph[:, self.mask(graph, step, stage)]

    def mask(self, edge_index: Tensor, step: int, stage: int = 0) -> Tensor:
        """Which columns of an ``edge_index`` survive ``[E]``: for edge weights that go with them.

        Self-loops are no edges to a neighbour: they always survive, and ``exact`` does not count
        them.
        """
        if edge_index.is_floating_point() or edge_index.dtype == torch.bool:
            raise InputError(f"edge_index must hold integers; got {edge_index.dtype}.")
        sender, receiver = edge_index[0], edge_index[1]
        edge = sender != receiver
        keep = ~edge
        rule = self.rule(step, stage)
        keep[edge] = self._keep(receiver[edge], sender[edge], rule)
        return keep

    def _transform(self, data: Any, step: int, stage: int) -> Any:
        """A shallow copy of PyG's ``data`` without the edges, and their attributes, that drop."""
        out = copy(data)
        types = getattr(out, "edge_types", [None])
        relations = sorted({_relation(kind) for kind in types if kind is not None})
        ends = list(accumulate(data[name].num_nodes for name in getattr(data, "node_types", [])))
        first = dict(zip(getattr(data, "node_types", []), [0, *ends], strict=False))
        for kind, store in zip(types, out.edge_stores, strict=True):
            if not isinstance(getattr(store, "edge_index", None), Tensor):
                raise InputError(
                    f"DropEdge drops columns of edge_index; {type(data).__name__} has none"
                    f"{'' if kind is None else f' of type {kind}'}: convert adj_t first."
                )
            if kind is None:
                keep = self.mask(store.edge_index, step, stage)
            else:  # numbers that no two nodes share, and draws that no two relations share
                shift = torch.tensor([[first[kind[0]]], [first[kind[2]]]])
                shifted = store.edge_index.long() + shift.to(store.edge_index.device)
                seed = fold_key(self.seed, relations.index(_relation(kind)))
                keep = replace(self, seed=seed).mask(shifted, step, stage)
            # Edges to be predicted may be as many by chance: they carry no messages.
            names = [
                name
                for name in store.to_dict()
                if store.is_edge_attr(name) and not name.startswith("edge_label")
            ]
            for name in names:
                along_columns = data.__cat_dim__(name, store[name], store) != 0
                store[name] = store[name][:, keep] if along_columns else store[name][keep]
            store.__dict__.pop("_cached_attr", None)
        return out

    def thin(self, graph: Adjacency, step: int, stage: int = 0) -> Adjacency:
        """The same nodes with the surviving edges only, compacted."""
        thinned = self.view(graph, step, stage)
        return thinned.whole if isinstance(thinned, Thinned) else thinned

    def view(self, graph: Adjacency, step: int, stage: int = 0) -> Adjacency:
        """The same graph as :meth:`thin`, which is only computed as far as it is read.

        ``exact`` compares every edge with all others: there the whole graph is computed at once.
        """
        if graph.degrees is not None:
            raise InputError(
                "A block of a receptive field cannot say which edges are undirected: drop edges of "
                "its graph, then call ReceptiveField.thin with the result."
            )
        if self.alpha == 0.0:
            return graph
        symmetric = self._paired and graph.undirected
        parent = graph if symmetric else graph.directed
        rule = self.rule(step, stage, symmetric)
        if self.exact:
            ids = graph.global_ids
            return parent.thin(self._keep(ids[graph.row], ids[graph.col], rule))
        return Thinned(parent, rule)

    @property
    def _paired(self) -> bool:
        """Whether both directions of an edge go together: not where receivers differ."""
        return self.paired and self.alpha != GRADED

    def rule(self, step: int, stage: int = 0, symmetric: bool = True) -> Survival:
        """Which edges survive, as a rule that a sampler asks of the edges it meets.

        Args:
            step: of the draw.
            stage: of the draw.
            symmetric: whether the graph is undirected.
        """
        key = fold_key(self.seed, stage, step)
        return Survival(self.alpha, key, symmetric and self._paired)

    def _keep(self, receiver: Tensor, sender: Tensor, rule: Survival) -> Tensor:
        """Which edges survive ``[E]``: of all edges, where their number is exact."""
        if not self.exact:
            return rule(receiver, sender)
        draws = edge_draws(receiver, sender, rule.key, symmetric=rule.symmetric)
        one_per_edge: Tensor = torch.unique(draws)  # however often and either way it is listed
        count = round(float(self.alpha) * one_per_edge.numel())
        if count == 0:
            return torch.ones_like(draws, dtype=torch.bool)
        return draws > one_per_edge[count - 1]


def _relation(kind: tuple[str, str, str]) -> tuple[str, str, str]:
    """An edge type, or the one that it is the reverse of by PyG's naming."""
    sender, name, receiver = kind
    if name.startswith("rev_"):
        return receiver, name.removeprefix("rev_"), sender
    return kind


_COUNTS = 0x666F726765
"""Keeps the draws of how many links stay apart from those of which ("forge" in ASCII)."""


def forge_tails(graph: Adjacency, k: int, seed: int, stage: int, step: int) -> Adjacency:
    """Every node with more than ``k`` incoming links keeps ``uniform{1..k}`` of them, at random.

    Each node chooses for itself, so the answer is directed.  Nodes with at most ``k`` links keep
    theirs.  Senders keep the degrees of the graph, as a true tail's neighbours have theirs.
    """
    if k < 1:
        raise InputError(f"k: got {k}; expected 1 or more.")
    key = fold_key(seed, stage, step)
    ids, degree = graph.global_ids, graph.rowptr.diff()
    heads = (degree > k).nonzero().view(-1)
    kept = 1 + (uniform(ids[heads], fold_key(_COUNTS, key)) * k).long()
    pointer, entries = csr.take_rows(graph.rowptr, heads)
    number = csr.rows_of(pointer, entries.numel())
    draws = edge_draws(ids[heads][number], ids[graph.col[entries]], key, symmetric=False)
    # One sort: by row, then by as many bits of the draw as there is room for.
    room = min(HASH_BITS, 62 - heads.numel().bit_length())
    order = torch.argsort((number << room) | (draws >> (HASH_BITS - room)), stable=True)
    rank = torch.arange(entries.numel(), device=graph.device) - pointer[number]
    keep = torch.ones_like(graph.col, dtype=torch.bool)
    keep[entries[order]] = rank < kept[number]  # sorted by row: the n-th entry is of the n-th's row
    return replace(graph.directed.thin(keep), degrees=graph.degree)
