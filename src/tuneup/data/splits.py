"""The paper's splits of nodes and of edges, and the cold-start graph of nodes that arrive later.

One split per dataset, drawn from a *split seed*; training seeds never enter.  V (``known``) and its
induced subgraph G are what training may see.  V_new arrives at test time, with all of its edges
(inductive) or with a share of them removed (cold start).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Adjacency
from tuneup.graph.dropping import edge_draws
from tuneup.graph.hashing import fold_key, seed_of, threshold

_NODES = 0x6E6F646573
_COLD = 0x636F6C64
"""Keep these draws apart from each other and from training's of the same seed (ASCII words)."""

COLD_RATIOS = (0.3, 0.6, 0.9)
"""The paper's shares of removed edges in cold start."""


@dataclass(frozen=True, eq=False)
class NodeSplit:
    """Node index sets of one graph: int64 global ids, each list ascending.

    Args:
        known: V ``[n]``, the nodes that exist while training; G is their induced subgraph.
        new: V_new ``[m]``, all other nodes; one whose label is unknown cannot be scored.
        train: nodes of V whose label is in the loss.
        validation: nodes of V whose label chooses the model.
        test: nodes of V that are scored in the transductive setting.
        seed: the split seed; cold start removes edges by it too.
    """

    known: Tensor
    new: Tensor
    train: Tensor
    validation: Tensor
    test: Tensor
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("known", "new", "train", "validation", "test"):
            ids = getattr(self, name)
            _check_ids(f"NodeSplit: {name}", ids)
            falls = ids.diff() <= 0
            if bool(falls.any()):
                at = int(falls.nonzero()[0])
                raise InputError(
                    f"NodeSplit: {name} must be ascending, each node once; node {int(ids[at + 1])} "
                    f"comes after node {int(ids[at])}. Pass ids.unique()."
                )
        self._check_disjoint("known", "new")
        for first, second in (("train", "validation"), ("train", "test"), ("validation", "test")):
            self._check_disjoint(first, second)
        for name in ("train", "validation", "test"):
            ids = getattr(self, name)
            outside = ids[~_contains(self.known, ids)]
            if outside.numel():
                raise InputError(
                    f"NodeSplit: {name} must lie inside known; node {int(outside[0])} does not."
                )

    def _check_disjoint(self, first: str, second: str) -> None:
        ids = getattr(self, first)
        both = ids[_contains(getattr(self, second), ids)]
        if both.numel():
            raise InputError(
                f"NodeSplit: {first} and {second} must not overlap; node {int(both[0])} is in both."
            )

    def __repr__(self) -> str:
        return (
            f"NodeSplit({self.known.numel():,} known: {self.train.numel():,} train, "
            f"{self.validation.numel():,} validation, {self.test.numel():,} test; "
            f"{self.new.numel():,} new)"
        )

    @property
    def labelled(self) -> Tensor:
        """V_labeled of the paper, ascending: train and validation together."""
        return torch.cat([self.train, self.validation]).sort().values

    def positions(self, nodes: Tensor) -> Tensor:
        """Where nodes of V, given by global id, are in ``graph.induce(split.known)``."""
        outside = nodes[~_contains(self.known, nodes)]
        if outside.numel():
            raise InputError(f"Node {int(outside[0])} is not one of the split's known nodes.")
        return torch.searchsorted(self.known, nodes)


def split_nodes(
    num_nodes: int,
    *,
    labelled: float,
    new: float = 0.05,
    seed: int = 0,
    y: Tensor | None = None,
) -> NodeSplit:
    """The paper's node-classification split, drawn uniformly.

    Of N nodes, ``|V| = floor((1 - new) N)``; ``floor(labelled N)`` nodes of V, a share of *all*
    nodes, are labelled: the first half (the larger, if odd) trains, the second validates.

    Args:
        num_nodes: N.
        labelled: share of all nodes that are labelled: 0.10 for ogbn-arxiv, 0.02 for products.
        new: share of nodes that arrive after training.
        seed: the split seed; training seeds are another matter.
        y: labels ``[N]`` or ``[N, C]`` if some are unknown (-1): such nodes are in V or V_new, but
            never in train, validation or test.
    """
    if not 0.0 < labelled < 1.0:
        raise InputError(f"labelled is a share of all nodes, between 0 and 1; got {labelled}.")
    if y is not None and (y.dim() not in (1, 2) or y.shape[0] != num_nodes):
        raise InputError(f"y must have one label per node, [{num_nodes}]; got {list(y.shape)}.")
    num_labelled = int(exact_share(labelled) * num_nodes)
    known, arrives = known_and_new(num_nodes, new, seed)
    if y is not None and y.dim() == 2:
        y = y[:, 0]
    usable = known if y is None else known[y.to(known.device)[known] >= 0]
    if not 2 <= num_labelled <= usable.numel():
        raise InputError(
            f"labelled={labelled} of {num_nodes:,} nodes asks for {num_labelled:,} labelled nodes; "
            f"allowed are 2 (one trains, one validates) to {usable.numel():,}, the known nodes "
            "that have a label. Change labelled or new."
        )
    half = num_labelled - num_labelled // 2
    parts = (known, arrives, usable[:half], usable[half:num_labelled], usable[num_labelled:])
    known, arrives, train, validation, test = (part.sort().values for part in parts)
    return NodeSplit(known, arrives, train, validation, test, seed)


def known_and_new(num_nodes: int, new: float, seed: int) -> tuple[Tensor, Tensor]:
    """V and V_new in random order: of N nodes, ``floor((1 - new) N)`` are known."""
    if not 0.0 <= new < 1.0:
        raise InputError(f"new is the share of new nodes, from 0 to below 1; got {new}.")
    generator = torch.Generator().manual_seed(seed_of(_NODES, seed))
    order = torch.randperm(num_nodes, generator=generator)
    num_known = int((1 - exact_share(new)) * num_nodes)
    return order[:num_known], order[num_known:]


def cold_start(adjacency: Adjacency, new: Tensor, ratio: float, seed: int) -> Adjacency:
    """The graph after a share of the new nodes' edges is removed; all nodes stay.

    An edge {u, v} with an end in V_new goes iff ``hash({u, v}, seed) < ratio``: larger ratios
    remove the same edges and more, so the graphs of 0.3, 0.6 and 0.9 are nested.  Edges inside V
    always stay.

    Args:
        adjacency: the graph on V and V_new.
        new: global ids of V_new.
        ratio: share of their edges to remove, 0 to 1.
        seed: the split seed.
    """
    if not 0.0 <= ratio <= 1.0:
        raise InputError(f"ratio is the share of edges to remove, 0 to 1; got {ratio}.")
    _check_ids("cold_start: new", new)
    ids = adjacency.global_ids
    new = new.to(ids.device)
    absent = new[~torch.isin(new, ids)]
    if absent.numel():
        raise InputError(
            f"cold_start: new node {int(absent[0])} is not in the graph; give global ids, and the "
            "graph on known and new nodes."
        )
    arrived = torch.isin(ids, new)
    touched = (arrived[adjacency.row] | arrived[adjacency.col]).nonzero()[:, 0]
    receiver, sender = ids[adjacency.row[touched]], ids[adjacency.col[touched]]
    key = fold_key(_COLD, seed)
    draws = edge_draws(receiver, sender, key, symmetric=adjacency.undirected)
    keep = torch.ones_like(adjacency.col, dtype=torch.bool)
    keep[touched] = draws >= threshold(ratio)
    return adjacency.thin(keep)


@dataclass(frozen=True, eq=False)
class EdgeSplit:
    """Known and new nodes, and undirected edges ``[2, E]``, each listed once, in global ids.

    ``train``, ``validation`` and ``test`` lie among the known nodes.  Edges with an end in a new
    node are either ``new_input``, shown when the model is asked about new nodes, or ``new_target``.
    Cold start removes edges by the split's ``seed`` too.
    """

    known: Tensor
    new: Tensor
    train: Tensor
    validation: Tensor
    test: Tensor
    new_input: Tensor
    new_target: Tensor
    seed: int


def split_edges(
    graph: Adjacency,
    *,
    new: float = 0.05,
    train: float = 0.5,
    validation: float = 0.2,
    new_input: float = 0.5,
    seed: int = 0,
) -> EdgeSplit:
    """A seeded split; every edge goes to exactly one part, once for both directions.

    Args:
        graph: an undirected graph.
        new: share of the nodes that are new.
        train: share of the edges among known nodes that messages flow along.
        validation: share of them that chooses the epoch; the rest is for the test.
        new_input: share of the new nodes' edges that the model is shown.
        seed: of the split.
    """
    if not graph.undirected:
        raise InputError("Edges are split once for both directions: the graph must be undirected.")
    if min(train, validation) <= 0 or train + validation >= 1 or not 0 < new_input < 1:
        raise InputError(
            "train, validation and new_input are shares above 0 that leave some over; got "
            f"{train}, {validation}, {new_input}."
        )
    known, arrives = (
        part.sort().values.to(graph.device) for part in known_and_new(graph.num_nodes, new, seed)
    )
    once = graph.row < graph.col
    edges = torch.stack([graph.row[once], graph.col[once]])
    is_new = torch.zeros(graph.num_nodes, dtype=torch.bool, device=graph.device)
    is_new[arrives] = True
    touches = is_new[edges].any(0)
    generator = torch.Generator().manual_seed(seed)
    inside = _shuffled(edges[:, ~touches], generator)
    outside = _shuffled(edges[:, touches], generator)
    first = int(exact_share(train) * inside.shape[1])
    second = first + int(exact_share(validation) * inside.shape[1])
    half = int(exact_share(new_input) * outside.shape[1])
    return EdgeSplit(
        known=known,
        new=arrives,
        train=inside[:, :first].contiguous(),
        validation=inside[:, first:second].contiguous(),
        test=inside[:, second:].contiguous(),
        new_input=outside[:, :half].contiguous(),
        new_target=outside[:, half:].contiguous(),
        seed=seed,
    )


def _shuffled(edges: Tensor, generator: torch.Generator) -> Tensor:
    return edges[:, torch.randperm(edges.shape[1], generator=generator).to(edges.device)]


def exact_share(share: float) -> Decimal:
    """The decimal that was written: 0.29 of 100 nodes are 29, not ``int(0.29 * 100) = 28``."""
    return Decimal(repr(float(share)))


def _contains(ascending: Tensor, ids: Tensor) -> Tensor:
    """Which ids are in an ascending list; faster on millions than ``isin``, which sorts both."""
    if not ascending.numel():
        return torch.zeros_like(ids, dtype=torch.bool)
    found = torch.searchsorted(ascending, ids).clamp_(max=ascending.numel() - 1)
    return ascending[found] == ids


def _check_ids(what: str, ids: Tensor) -> None:
    if ids.dim() != 1 or ids.dtype != torch.long:
        raise InputError(
            f"{what} must be int64 node ids [n]; got {ids.dtype} of shape {list(ids.shape)}."
        )
    if ids.numel() and int(ids.min()) < 0:
        raise InputError(f"{what} must be node ids, 0 or more; got {int(ids.min())}.")
