"""What an epoch of each benchmark computes: our models, and the same from PyG's own layers.

PyG gets every advantage that needs no compiled extension: gradients of the rows through
``index_select``, in-place ReLU, edges sorted by target, and for GCN a normalisation computed once
(``gcn_norm``, then ``GCNConv(normalize=False)``) and shared by its layers.  For recommendation,
generated pairs stand in for gowalla's, with its numbers of users, items and training pairs; the
rival is what one writes first, PyG's ``GCNConv`` and ``tensor[index]`` for the ends of every
triple, with the same negatives, so that losses can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.data import (
    InteractionSplit,
    arxiv_size_graph,
    block_graph,
    block_interactions,
    split_interactions,
)
from tuneup.graph import Adjacency, DropEdge
from tuneup.metrics.topk import top_k
from tuneup.names import Architecture
from tuneup.nn import Encoder, Forward, InnerProduct, Model, UserItemVectors
from tuneup.tasks import L2, GraphView, Moment, Recommendation
from tuneup.tasks.ranking import NegativeSampler

from .harness import ARXIV_EDGES, ARXIV_NODES, Case

GOWALLA_USERS = 29_858
GOWALLA_NODES = GOWALLA_USERS + 40_981
GOWALLA_PAIRS = 1_027_370
WIDTH, HEADS, LABELLED = 256, 4, 0.05
CLASSES, FEATURES, LAYERS = 40, 128, 3
SEED = 0

Epoch = Callable[[int], float]
"""Runs one training epoch, the argument being its number, and returns the loss."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """What is loaded before any model of nodes exists; ``edges`` as the variant wants them."""

    x: Tensor
    edges: Adjacency | Tensor
    rows: Tensor
    y: Tensor


def load_nodes(case: Case) -> Inputs:
    """The graph of a case with its supervised rows: 5 % of the nodes, or those and all others."""
    if case["nodes"] == ARXIV_NODES:
        data = arxiv_size_graph(SEED)
    else:
        data = block_graph(case["nodes"], edges_of(case), CLASSES, FEATURES, seed=SEED)
    assert isinstance(data.x, Tensor)
    assert data.y is not None
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(SEED))
    count = round(LABELLED * data.num_nodes)
    rows = order[:count].sort().values
    if case["supervision"] == "all":  # true labels first, as a task puts them
        rows = torch.cat([rows, order[count:].sort().values])
    graph = data.adjacency
    edges: Adjacency | Tensor = graph
    if case["variant"] != "ours":
        edges = graph.adj_t if case["variant"] == "pyg-adj-t" else graph.edge_index
    return Inputs(data.x, edges, rows, data.y[rows])


def adam(model: nn.Module, loss_of: Callable[[int], Tensor]) -> Epoch:
    """Forward pass and loss, backward pass, one step of Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def epoch(step: int) -> float:
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return epoch


Outputs = Callable[[int], Tensor]


def node_trainer(case: Case, inputs: Inputs) -> Epoch:
    """Cross-entropy on the rows."""
    model, outputs = (_our_nodes if case["variant"] == "ours" else _pyg_nodes)(case, inputs)
    return adam(model, lambda step: F.cross_entropy(outputs(step), inputs.y))


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


def _our_nodes(case: Case, inputs: Inputs) -> tuple[nn.Module, Outputs]:
    model, graph = encoder(case["architecture"]), inputs.edges
    assert isinstance(graph, Adjacency)
    forward, drop = Forward(inputs.x, graph), DropEdge(case["alpha"], SEED)
    return model, lambda step: forward(model, drop.thin(graph, step), inputs.rows)


def _pyg_nodes(case: Case, inputs: Inputs) -> tuple[nn.Module, Outputs]:
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    if case["alpha"]:
        raise ValueError("edges are dropped by our own variant only")
    model, edges = PygStack(case["architecture"]), inputs.edges
    assert isinstance(edges, Tensor)
    weight: Tensor | None = None
    if case["architecture"] == "gcn":
        edges, weight = gcn_norm(edges, None, case["nodes"])

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


INPUT_WIDTH = 64
PENALTY = 0.001
TOP = 50
CHUNK = 256
"""Users whose bare products are alive at once."""


@dataclass(frozen=True, eq=False)
class PairInputs:
    """What is loaded before any model exists."""

    split: InteractionSplit
    task: Recommendation
    z: Tensor
    """[users + items, 256] embeddings to rank by"""


def load_pairs(case: Case) -> PairInputs:
    """Users and items in gowalla's proportion, a tenth of the pairs for training."""
    users = case["nodes"] * GOWALLA_USERS // GOWALLA_NODES
    pairs = case["nodes"] * GOWALLA_PAIRS // GOWALLA_NODES
    groups = max(1, case["nodes"] // 3_000)
    homophily = 0.65 if groups > 1 else 1.0
    data = block_interactions(
        users, case["nodes"] - users, pairs, groups, homophily=homophily, seed=SEED
    )
    split = split_interactions(data)
    task = Recommendation(split.train, split.validation, L2(output=PENALTY))
    _ = task.graph.edge_index  # the graph is not the model's memory
    wide = case["nodes"] if case["problem"] == "ranking" else 0
    z = torch.randn(wide, WIDTH, generator=torch.Generator().manual_seed(SEED))
    return PairInputs(split, task, z)


def recommender(inputs: PairInputs) -> Model:
    """Our model; its seeded weights are everyone's."""
    torch.manual_seed(SEED)
    encoder = Encoder(INPUT_WIDTH, WIDTH, architecture="gcn", width=WIDTH)
    train = inputs.split.train
    vectors = UserItemVectors(train.num_users, train.num_items, INPUT_WIDTH)
    return Model(vectors, encoder, InnerProduct())


def _our_pairs(inputs: PairInputs) -> Epoch:
    model, task = recommender(inputs), inputs.task
    supervision, view = task.supervision(), GraphView(task.graph)
    return adam(model, lambda step: task.loss(model, view, supervision, Moment(SEED, 0, step)))


class NaiveRecommender(nn.Module):
    """Learned inputs under PyG's layers, with the weights of :func:`recommender`."""

    def __init__(self, ours: Model) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__()
        widths = [INPUT_WIDTH, WIDTH, WIDTH, WIDTH]
        self.convs = nn.ModuleList(
            GCNConv(before, after, cached=True) for before, after in pairwise(widths)
        )
        self.convs.load_state_dict(
            {k.removeprefix("convs."): v for k, v in ours.encoder.state_dict().items()}
        )
        assert isinstance(ours.inputs, UserItemVectors)
        self.embedding = nn.Parameter(ours.inputs.vectors.detach().clone())

    def forward(self, edge_index: Tensor) -> Tensor:
        """Output embeddings of all users and items."""
        x: Tensor = self.embedding
        for k, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            x = x.relu() if k < len(self.convs) - 1 else x
        return x


def _naive(inputs: PairInputs) -> Epoch:
    model, train = NaiveRecommender(recommender(inputs)), inputs.split.train
    edge_index = inputs.task.graph.edge_index
    sampler = NegativeSampler(inputs.task.graph, train.num_users, train.num_items)
    user, item = train.user, train.item + train.num_users

    def loss(step: int) -> Tensor:
        negative = sampler.draw(user, Moment(SEED, 0, step))
        z: Tensor = model(edge_index)
        z_u, z_i, z_n = z[user], z[item], z[negative]
        contrast = F.softplus((z_u * z_n).sum(1) - (z_u * z_i).sum(1)).mean()
        norms = z_u.square().sum(1) + z_i.square().sum(1) + z_n.square().sum(1)
        return contrast + PENALTY * norms.mean() / 2

    return adam(model, loss)


def _ranking(inputs: PairInputs) -> Epoch:
    users, items = _sides(inputs)
    rows = inputs.split.train.rows()
    known = rows.take(torch.arange(users.shape[0]))

    def epoch(step: int) -> float:
        return float(top_k(users, items, TOP, known=known).scores[0, 0])

    return epoch


def _bare_products(inputs: PairInputs) -> Epoch:
    users, items = _sides(inputs)
    out = torch.empty(CHUNK, items.shape[0])

    def epoch(step: int) -> float:
        for chunk in users.split(CHUNK):
            torch.mm(chunk, items.t(), out=out[: chunk.shape[0]])
        return float(out[0, 0])

    return epoch


def _sides(inputs: PairInputs) -> tuple[Tensor, Tensor]:
    train = inputs.split.train
    users, items = inputs.z.split([train.num_users, train.num_items])
    return users, items


def edges_of(case: Case) -> int:
    """Undirected edges that messages flow along."""
    nodes: int = case["nodes"]
    if case["problem"] != "nodes":
        return nodes * GOWALLA_PAIRS // GOWALLA_NODES // 10
    return round(nodes * ARXIV_EDGES / ARXIV_NODES)


def load(case: Case) -> Any:
    """The data of a case, before any model exists."""
    return load_nodes(case) if case["problem"] == "nodes" else load_pairs(case)


def trainer(case: Case, inputs: Any) -> Epoch:
    """An epoch of training, or one ranking of all users."""
    if case["problem"] == "nodes":
        return node_trainer(case, inputs)
    makes = {"pairs": (_our_pairs, _naive), "ranking": (_ranking, _bare_products)}
    return makes[case["problem"]][case["variant"] != "ours"](inputs)
