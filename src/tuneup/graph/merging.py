"""Nodes without an edge, one in place of all of a kind: with one input they have one output."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tuneup.errors import InputError

from .adjacency import Adjacency


@dataclass(frozen=True, eq=False)
class Merged:
    """``graph`` has the M nodes that have an edge and, after them, one without for each kind.

    ``nodes [M]`` are the former, ascending; ``place [N]`` says where each node went.
    """

    graph: Adjacency
    nodes: Tensor
    place: Tensor


def merge_isolated(graph: Adjacency, kind: Tensor, kinds: int) -> Merged:
    """A smaller graph in which all nodes of one ``kind [N]`` without an edge are a single node.

    Layers compute the same for every node: where those nodes have one input in common, outputs on
    the smaller graph, read at ``place``, are the outputs on the whole one.
    """
    if not graph.undirected or graph.num_rows != graph.num_cols:
        raise InputError(f"{graph!r}: whoever receives nothing may send; only undirected merge.")
    linked = graph.rowptr.diff() > 0
    nodes = linked.nonzero().view(-1)
    place = torch.where(linked, linked.cumsum(0) - 1, kind + nodes.numel())
    ends = graph.rowptr[nodes + 1]  # rows in between are empty
    rowptr = torch.cat([graph.rowptr[:1], ends, graph.rowptr[-1:].expand(kinds)])
    smaller = Adjacency(rowptr, place[graph.col], nodes.numel() + kinds, undirected=True)
    return Merged(smaller, nodes, place)
