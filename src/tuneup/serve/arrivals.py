"""New nodes and their edges, laid over a graph that stays as it is.

Nodes that are given edges between them arrive together, in one *world* of an
:class:`~tuneup.graph.Overlay`; all others arrive alone, each in a world of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import Adjacency, Overlay, Rows
from tuneup.nn import Encoder, GCNConv, LightGCN

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Arrivals:
    """New nodes, as nodes of an overlay.

    Args:
        overlay: the graph with the new nodes and edges in it.
        nodes: which of its nodes are new ``[m]``; new node i has number N + i in its world.
    """

    overlay: Overlay
    nodes: Tensor

    @property
    def degree(self) -> Ints:
        """Number of senders of each new node ``[m]``."""
        found: Ints = self.overlay.degree(self.nodes).numpy()
        return found

    def old_neighbours(self) -> Rows:
        """The numbers of the old nodes that each new node receives from."""
        senders = self.overlay.take(self.nodes)
        number = self.overlay.number(senders.col)
        return senders.select(number < self.overlay.base.num_nodes, number)


def arrivals(
    graph: Adjacency,
    senders: Sequence[Ints],
    *,
    targets: Sequence[Ints] | None = None,
    between: Ints | None = None,
) -> Arrivals:
    """New nodes from their lists of old neighbours; repeated edges count once.

    Args:
        graph: the old nodes.
        senders: old nodes that each new node receives from; if undirected, also sends to.
        targets: old nodes that each new node sends to, in a directed graph.
        between: edges between new nodes ``[2, F]``, counted from 0: sources above, targets below.
    """
    old, count = graph.num_nodes, len(senders)
    parts = [_entries(old, senders)]
    if targets is not None:
        parts.append(_entries(old, targets)[::-1])
    if between is not None:
        source, target = between[:, between[0] != between[1]] + old
        parts.append((target, source))
    if graph.undirected:
        parts += [(sender, receiver) for receiver, sender in parts]
    receiver, sender = (np.concatenate(side) for side in zip(*parts, strict=True))
    world, span = _worlds(count, between), old + count
    # An old receiver is seen by the sender's world, a new one by its own, which is the same.
    key = world[np.maximum(receiver, sender) - old] * span + receiver
    order = np.lexsort((sender, key))
    key, sender = key[order], sender[order]
    fresh = np.ones(key.size, dtype=np.bool_)
    fresh[1:] = (key[1:] != key[:-1]) | (sender[1:] != sender[:-1])
    key, sender = key[fresh], sender[fresh]
    first = np.ones(key.size, dtype=np.bool_)
    first[1:] = key[1:] != key[:-1]
    receivers, start = key[first], first.nonzero()[0]
    nodes = world * span + np.arange(old, span)
    keys, rowptr, col, new = (
        torch.from_numpy(each) for each in (receivers, np.append(start, key.size), sender, nodes)
    )
    worlds = int(world.max()) + 1 if count else 0
    return Arrivals(Overlay(graph.neighbours, span, worlds, keys, Rows(rowptr, col)), new)


def _entries(old: int, lists: Sequence[Ints]) -> tuple[Ints, Ints]:
    """New nodes, and the old nodes that they list."""
    count = [each.size for each in lists]
    listed = np.concatenate([*lists, np.empty(0, dtype=np.int64)])
    return np.repeat(np.arange(old, old + len(lists)), count), listed


def _worlds(count: int, between: Ints | None) -> Ints:
    """A number for each group of new nodes that edges connect, in the order of first members."""
    if between is None or not between.size:
        return np.arange(count)
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(between.shape[1]), tuple(between)), (count, count))
    found: Ints = connected_components(edges, directed=False)[1].astype(np.int64)
    return found


def check_encoder(encoder: nn.Module) -> Encoder | LightGCN:
    """An encoder whose layers can be run on a part of the graph."""
    if isinstance(encoder, LightGCN):
        return encoder
    if not isinstance(encoder, Encoder):
        raise InputError(
            f"A {type(encoder).__name__} cannot answer for new nodes: only tuneup's own Encoder "
            "and LightGCN compute a part of a graph. Put the nodes into the data, and make the "
            "Predictor again."
        )
    for conv in encoder.convs:
        if isinstance(conv, GCNConv) and conv.scaling != "gcn":
            raise InputError(
                f"An encoder with {conv.scaling} weights cannot be saved or served: only those of "
                "GCN itself are a matter of a node's own neighbourhood."
            )
    return encoder
