"""Small trained-looking models with data and ids, and the slow way to insert a node."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.nn import GraphSAGE

from tuneup.data import Graph, Interactions, interactions_from
from tuneup.graph import Adjacency, adjacency_from, identities, sparse_features
from tuneup.nn import (
    Classes,
    Encoder,
    HadamardMLP,
    InnerProduct,
    LightGCN,
    Model,
    NodeFeatures,
    NodeVectors,
    UserItemVectors,
)
from tuneup.serve import Predictor

NODES, WIDTH, CLASSES = 60, 12, 5
ARCHITECTURES = ("sage", "sage-max", "sage-sum", "gcn", "gat")


def save_artefact(folder, model, data, *, overwrite=False, **options) -> Path:
    return Predictor(model, data, **options).save(folder, overwrite=overwrite)


def small_graph(undirected: bool = True, sparse: bool = False) -> Graph:
    """60 nodes of which the last five have no edge."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, NODES - 5, (2, 150), generator=generator)
    x = torch.randn(NODES, WIDTH, generator=generator)
    if sparse:
        x = x * (x > 0.5)
    adjacency = adjacency_from(edges, NODES, undirected=undirected)
    return Graph(adjacency, sparse_features(x) if sparse else x, name="toy")


def weighted(graph: Graph) -> Graph:
    """The same graph with a weight for each edge."""
    edges = graph.adjacency.edge_index
    if graph.adjacency.undirected:
        edges = edges[:, edges[0] < edges[1]]
    weight = 0.1 + torch.rand(edges.shape[1], generator=torch.Generator().manual_seed(0))
    undirected = graph.adjacency.undirected
    return Graph(adjacency_from(edges, NODES, undirected=undirected, weight=weight), graph.x)


def small_encoder(architecture: str = "sage", layers: int = 3, **options) -> Encoder:
    torch.manual_seed(1)
    model = Encoder(
        WIDTH, CLASSES, architecture=architecture, width=8, num_layers=layers, **options
    )
    for module in model.modules():  # statistics that do something
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return model.eval()


def link_model() -> Model:
    torch.manual_seed(2)
    return Model(NodeFeatures(), small_encoder("gcn"), HadamardMLP(CLASSES, 6)).eval()


def featureless(undirected: bool = True) -> Graph:
    """The same 60 nodes without features; 3 is connected and the last is not, and both unknown."""
    graph = small_graph(undirected)
    known = torch.ones(NODES, dtype=torch.bool)
    known[[3, NODES - 1]] = False
    return Graph(graph.adjacency, identities(known), name="toy")


def small_embedded(architecture: str = "sage", layers: int = 3, **options) -> Model:
    torch.manual_seed(5)
    encoder = small_encoder(architecture, layers, **options)
    return Model(NodeVectors(NODES - 2, WIDTH, std=1.0, hidden=0.5), encoder, Classes()).eval()


def small_pairs() -> Interactions:
    """20 users and 30 items; user 19 and items 28, 29 have no pair."""
    generator = torch.Generator().manual_seed(3)
    user = torch.randint(0, 19, (90,), generator=generator)
    item = torch.randint(0, 28, (90,), generator=generator)
    return interactions_from(user, item, 20, 30, "toy pairs")


def recommender(kind: str = "lightgcn", **options) -> Model:
    torch.manual_seed(4)
    encoder = LightGCN(3) if kind == "lightgcn" else Encoder(8, 6, architecture=kind, width=8)
    model = Model(UserItemVectors(20, 30, 8, std=1.0, **options), encoder, InnerProduct()).eval()
    if model.inputs.unknown is not None:
        model.inputs.unknown.data.normal_()
    return model


def module(**options) -> GraphSAGE:
    """A model that is not ours."""
    torch.manual_seed(7)
    return GraphSAGE(WIDTH, 8, 2, CLASSES, **options).eval()


def node_ids() -> list[str]:
    return [f"n{number:02}" for number in range(NODES)]


def inserted(
    graph: Adjacency,
    neighbours: list[list[int]],
    targets: list[list[int]] | None = None,
    between: list[tuple[int, int]] | None = None,
) -> Adjacency:
    """The graph with new nodes behind the old ones, built from scratch."""
    old = graph.num_nodes
    pairs = [(s, old + row) for row, each in enumerate(neighbours) for s in each]
    pairs += [(old + row, t) for row, each in enumerate(targets or []) for t in each]
    pairs += [(old + s, old + t) for s, t in between or []]
    edges = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()
    every = torch.cat([graph.edge_index, edges], 1)
    return adjacency_from(every, old + len(neighbours), undirected=graph.undirected)


def close(ours: Tensor, full: Tensor) -> bool:
    """Equal to 1e-5, in size of the numbers or absolutely."""
    return bool(((ours - full).abs() <= 1e-5 * full.abs().clamp(min=1)).all())
