"""Everything a graph arrives as, turned into an :class:`Adjacency`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tuneup.errors import InputError

from . import csr
from .adjacency import Adjacency


def adjacency_from(
    source: Any,
    num_nodes: int | None = None,
    *,
    undirected: bool | None = None,
    weight: Tensor | None = None,
) -> Adjacency:
    """An :class:`Adjacency` from an ``edge_index``, PyG ``Data`` or ``EdgeIndex``, or scipy matrix.

    Args:
        source: ``edge_index [2, E]`` (sources above, targets below); a PyG ``Data``; a scipy sparse
            matrix whose entry (i, j) is an edge from i to j, whatever its value.
        num_nodes: number of nodes; by default the source's own, or the largest id plus one.
        undirected: ``True`` reads every pair as an undirected edge, given once or twice; ``False``
            keeps directions; ``None`` looks: undirected if every edge has its reverse.
        weight: of each column of the source's edges ``[E]``, above 0; without it the source's own
            weights are not read. Where ``undirected`` looks, both directions must agree too.

    Self-loops and repeated edges are removed and counted in the result.
    """
    if isinstance(source, Adjacency):
        if weight is not None:
            raise InputError(f"{source!r} is already built: give it its weights when it is made.")
        if num_nodes not in (None, source.num_nodes) or undirected not in (None, source.undirected):
            raise InputError(
                f"{source!r} is already built: num_nodes and undirected cannot be changed."
            )
        return source
    if weight is not None:
        found = adjacency_from(source, num_nodes, undirected=undirected)
        edge_index = _whole_numbers(_edge_index(source, None)[0])
        return _weighted(found, edge_index, weight, looks=undirected is None)
    edge_index, num_nodes = _edge_index(source, num_nodes)
    edge_index = _whole_numbers(edge_index)
    num_nodes = _check(edge_index, num_nodes)
    # In place, here and below, and let go at once: edges may be many.
    proper = edge_index[0] != edge_index[1]
    num_proper = int(proper.sum())
    num_self_loops = edge_index.shape[1] - num_proper
    keys = (edge_index[1] * num_nodes).add_(edge_index[0])
    del source, edge_index
    keys = csr.distinct_(keys[proper] if num_self_loops else keys)
    num_duplicates = num_proper - keys.numel()
    if undirected is not False:
        both = csr.distinct_(_both_ways(keys, num_nodes))
        undirected = undirected or both.numel() == keys.numel()
        keys = both if undirected else keys
        del both
    first_keys = torch.arange(num_nodes + 1, device=keys.device) * num_nodes
    rowptr = torch.searchsorted(keys, first_keys)
    return Adjacency(
        rowptr=rowptr,
        col=keys.remainder_(max(1, num_nodes)),
        num_cols=num_nodes,
        undirected=undirected,
        num_duplicates=num_duplicates,
        num_self_loops=num_self_loops,
    )


def _weighted(graph: Adjacency, edge_index: Tensor, weight: Tensor, looks: bool) -> Adjacency:
    """The graph with the weights ``[E]`` of the edges that it was made of.

    If it ``looks``, edges whose directions have different weights make it directed.
    """
    given = weight.detach().float()
    if given.shape != edge_index.shape[1:] or not ((given > 0) & given.isfinite()).all():
        raise InputError(
            f"edge_weight must be {edge_index.shape[1]} numbers above 0, one per edge; got "
            f"{weight.dtype} of shape {list(weight.shape)}"
            + (f" with {given.min():g}." if given.numel() else ".")
        )
    sender, receiver = edge_index
    keys = graph.row * graph.num_nodes + graph.col
    largest = torch.full((graph.num_entries,), -torch.inf, device=graph.device)
    smallest = -largest
    proper = sender != receiver  # self-loops are not in the graph
    ways = ((receiver, sender), (sender, receiver)) if graph.undirected else ((receiver, sender),)
    for row, col in ways:
        place = torch.searchsorted(keys, (row * graph.num_nodes + col)[proper])
        largest.scatter_reduce_(0, place, given[proper], "amax")
        smallest.scatter_reduce_(0, place, given[proper], "amin")
    if not torch.equal(largest, smallest):
        if looks and graph.undirected:
            return _weighted(graph.directed, edge_index, weight, looks=False)
        at = int((largest != smallest).nonzero()[0])
        raise InputError(
            f"edge_weight: the edge between nodes {int(graph.col[at])} and {int(graph.row[at])} "
            f"has the weights {smallest[at]:g} and {largest[at]:g}; expected one: coalesce edges."
        )
    return replace(graph, weight=largest)


def _both_ways(keys: Tensor, num_nodes: int) -> Tensor:
    """Each key ``i * num_nodes + j`` and the one with i and j exchanged."""
    both = keys.new_empty(2 * keys.numel())
    both[: keys.numel()] = keys
    mirrored = both[keys.numel() :]
    torch.remainder(keys, max(1, num_nodes), out=mirrored).mul_(num_nodes)
    mirrored += keys // max(1, num_nodes)
    return both


def _edge_index(source: Any, num_nodes: int | None) -> tuple[Tensor, int | None]:
    """The edges of any accepted source, and the number of nodes: as given, else as it states."""
    if isinstance(source, Tensor):
        sizes = getattr(source, "sparse_size", None)  # an EdgeIndex knows its own
        known = [n for n in sizes() if n is not None] if callable(sizes) else []
        return source, max(known) if known and num_nodes is None else num_nodes
    if hasattr(source, "tocoo"):
        matrix = source.tocoo()
        if matrix.shape[0] != matrix.shape[1]:
            raise InputError(
                f"A scipy adjacency must be square; got shape {matrix.shape}. For a user-item "
                "matrix, put users and items into one square graph first."
            )
        pairs = torch.stack([torch.tensor(matrix.row), torch.tensor(matrix.col)])
        return pairs, matrix.shape[0] if num_nodes is None else num_nodes
    if getattr(source, "edge_index", None) is not None:  # PyG warns if it has to guess num_nodes
        return source.edge_index, source.num_nodes if num_nodes is None else num_nodes
    if getattr(source, "adj_t", None) is not None:
        raise InputError(
            f"{type(source).__name__} has adj_t but no edge_index: give the edges as edge_index."
        )
    raise InputError(
        f"Cannot read a graph from {type(source).__name__}: give an edge_index tensor [2, E], "
        "a PyG Data with edge_index, an EdgeIndex, or a scipy sparse matrix."
    )


def _whole_numbers(edge_index: Tensor) -> Tensor:
    """A plain int64 tensor ``[2, E]``; refuses anything that is not one in disguise."""
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise InputError(f"edge_index must have shape [2, E]; got {list(edge_index.shape)}.")
    kind = edge_index.dtype
    if kind.is_floating_point or kind.is_complex or kind == torch.bool:
        raise InputError(f"edge_index must hold integers; got {kind}.")
    if hasattr(edge_index, "as_tensor"):  # an EdgeIndex is more than a tensor inside, too
        edge_index = edge_index.as_tensor()
    return edge_index.as_subclass(Tensor).long()


def _check(edge_index: Tensor, num_nodes: int | None) -> int:
    """Refuse ids that cannot be nodes, naming the first edge at fault; answer the node count."""
    largest = int(edge_index.max()) if edge_index.numel() else -1
    if num_nodes is None:
        num_nodes = largest + 1
    wrong = (edge_index < 0) | (edge_index >= num_nodes)
    if wrong.any():
        column = int(wrong.any(0).nonzero()[0])
        pair = edge_index[:, column].tolist()
        raise InputError(
            f"edge_index column {column} is {tuple(pair)}, but node ids must lie in "
            f"0..{num_nodes - 1} ({num_nodes} nodes). Renumber the nodes, or give as many rows of "
            "features, or a num_nodes, as there are."
        )
    return num_nodes
