"""The same model three times: ours, and PyG's own layers on an ``edge_index`` or an ``adj_t``.

PyG gets every advantage that needs no compiled extension: gradients of the rows through
``index_select``, in-place ReLU, edges sorted by target, and for GCN a normalisation computed once
(``gcn_norm``, then ``GCNConv(normalize=False)``) and shared by its layers, where ``cached=True``
would keep one copy per layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.data import Graph, arxiv_size_graph, block_graph
from tuneup.graph import Adjacency, DropEdge
from tuneup.nn import Encoder, Forward

from .case import ARXIV_NODES, HEADS, LABELLED, WIDTH, Architecture, Case, Variant

CLASSES, FEATURES, LAYERS = 40, 128, 3
SEED = 0

Epoch = Callable[[int], float]
"""Runs one training epoch, the argument being its number, and returns the loss."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """What is loaded before any model exists; ``edges`` as the variant wants them."""

    x: Tensor
    edges: Adjacency | Tensor
    rows: Tensor
    y: Tensor


def load(case: Case) -> Inputs:
    """The graph of a case with its supervised rows: 5 % of the nodes, or those and all others."""
    data = _graph(case)
    assert isinstance(data.x, Tensor)
    assert data.y is not None
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(SEED))
    count = round(LABELLED * data.num_nodes)
    rows = order[:count].sort().values
    if case.supervision == "all":  # true labels first, as a task puts them
        rows = torch.cat([rows, order[count:].sort().values])
    return Inputs(data.x, _edges(data.adjacency, case.variant), rows, data.y[rows])


def _graph(case: Case) -> Graph:
    if case.nodes == ARXIV_NODES:
        return arxiv_size_graph(SEED)
    return block_graph(case.nodes, case.edges, CLASSES, FEATURES, seed=SEED)


def _edges(graph: Adjacency, variant: Variant) -> Adjacency | Tensor:
    if variant == "ours":
        return graph
    return graph.adj_t if variant == "pyg-adj-t" else graph.edge_index


def trainer(case: Case, inputs: Inputs) -> Epoch:
    """Forward pass, cross-entropy on the rows, backward pass, one step of Adam."""
    model, outputs = (_ours if case.variant == "ours" else _pyg)(case, inputs)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def epoch(step: int) -> float:
        loss = F.cross_entropy(outputs(step), inputs.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return epoch


Outputs = Callable[[int], Tensor]


def encoder(architecture: Architecture) -> Encoder:
    """Our model; its seeded weights are everyone's."""
    torch.manual_seed(SEED)
    return Encoder(
        FEATURES,
        CLASSES,
        architecture=architecture,
        width=WIDTH,
        num_layers=LAYERS,
        heads=HEADS,
    )


def _ours(case: Case, inputs: Inputs) -> tuple[nn.Module, Outputs]:
    model, graph = encoder(case.architecture), inputs.edges
    assert isinstance(graph, Adjacency)
    forward, drop = Forward(inputs.x, graph), DropEdge(case.alpha, SEED)
    return model, lambda step: forward(model, drop.thin(graph, step), inputs.rows)


def _pyg(case: Case, inputs: Inputs) -> tuple[nn.Module, Outputs]:
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    if case.alpha:
        raise ValueError("edges are dropped by our own variant only")
    model, edges = PygStack(case.architecture), inputs.edges
    assert isinstance(edges, Tensor)
    weight: Tensor | None = None
    if case.architecture == "gcn":
        edges, weight = gcn_norm(edges, None, case.nodes)

    def outputs(step: int) -> Tensor:
        return model(inputs.x, edges, weight).index_select(0, inputs.rows)  # type: ignore[no-any-return]

    return model, outputs


class PygStack(nn.Module):
    """PyG's layers with the weights of :func:`encoder`."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        widths = [FEATURES, *[WIDTH] * (LAYERS - 1), CLASSES]
        self.convs = nn.ModuleList(
            _pyg_conv(architecture, widths[k], widths[k + 1], k == LAYERS - 1)
            for k in range(LAYERS)
        )
        self.load_state_dict(encoder(architecture).state_dict())

    def forward(self, x: Tensor, edges: Tensor, weight: Tensor | None) -> Tensor:
        """Outputs of all nodes."""
        more = () if weight is None else (weight,)
        for k, conv in enumerate(self.convs):
            x = conv(x, edges, *more)
            x = x.relu_() if k < LAYERS - 1 else x
        return x


def _pyg_conv(architecture: Architecture, width: int, out: int, last: bool) -> nn.Module:
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv

    conv: nn.Module
    if architecture == "gcn":
        conv = GCNConv(width, out, normalize=False)
    elif architecture == "gat":
        conv = GATConv(width, out if last else out // HEADS, HEADS, concat=not last)
    else:
        conv = SAGEConv(width, out)
    return conv
