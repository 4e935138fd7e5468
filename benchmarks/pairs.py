"""Recommendation at gowalla's size: an epoch, ours and naively from PyG's layers, and a ranking.

Generated pairs stand in for gowalla's, with its numbers of users, items and training pairs: time
and memory depend on these.  The naive model is what one writes first: PyG's ``GCNConv`` (its
normalisation cached) on an ``edge_index``, and ``tensor[index]`` for the ends of every triple.  It
draws the same negatives with our sampler, so that losses can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.data import InteractionSplit, block_interactions, split_interactions
from tuneup.metrics.topk import top_k
from tuneup.nn import Encoder, InnerProduct, Model, UserItemVectors
from tuneup.tasks import L2, GraphView, Moment, Recommendation
from tuneup.tasks.ranking import NegativeSampler

from .case import GOWALLA_NODES, GOWALLA_PAIRS, GOWALLA_USERS, WIDTH, Case
from .variants import SEED, Epoch

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


def load(case: Case) -> PairInputs:
    """Users and items in gowalla's proportion, a tenth of the pairs for training."""
    users = case.nodes * GOWALLA_USERS // GOWALLA_NODES
    pairs = case.nodes * GOWALLA_PAIRS // GOWALLA_NODES
    groups = max(1, case.nodes // 3_000)
    homophily = 0.65 if groups > 1 else 1.0
    data = block_interactions(
        users, case.nodes - users, pairs, groups, homophily=homophily, seed=SEED
    )
    split = split_interactions(data)
    task = Recommendation(split.train, split.validation, L2(output=PENALTY))
    _ = task.graph.edge_index  # the graph is not the model's memory
    wide = case.nodes if case.problem == "ranking" else 0
    z = torch.randn(wide, WIDTH, generator=torch.Generator().manual_seed(SEED))
    return PairInputs(split, task, z)


def trainer(case: Case, inputs: PairInputs) -> Epoch:
    """An epoch of training, or one ranking of all users."""
    if case.problem == "ranking":
        return _ranking(inputs) if case.variant == "ours" else _bare_products(inputs)
    return _ours(inputs) if case.variant == "ours" else _naive(inputs)


def recommender(inputs: PairInputs) -> Model:
    """Our model; its seeded weights are everyone's."""
    torch.manual_seed(SEED)
    encoder = Encoder(INPUT_WIDTH, WIDTH, architecture="gcn", width=WIDTH)
    train = inputs.split.train
    vectors = UserItemVectors(train.num_users, train.num_items, INPUT_WIDTH)
    return Model(vectors, encoder, InnerProduct())


def _ours(inputs: PairInputs) -> Epoch:
    model, task = recommender(inputs), inputs.task
    supervision, view = task.supervision(), GraphView(task.graph)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def epoch(step: int) -> float:
        loss = task.loss(model, view, supervision, Moment(SEED, 0, step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return epoch


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
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def epoch(step: int) -> float:
        negative = sampler.draw(user, Moment(SEED, 0, step))
        z = model(edge_index)
        z_u, z_i, z_n = z[user], z[item], z[negative]
        loss = F.softplus((z_u * z_n).sum(1) - (z_u * z_i).sum(1)).mean()
        norms = z_u.square().sum(1) + z_i.square().sum(1) + z_n.square().sum(1)
        loss = loss + PENALTY * norms.mean() / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return epoch


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
