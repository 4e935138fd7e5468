"""A recommendation model: learned embeddings under an encoder, scored by inner products."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tuneup.graph import Adjacency

from .forward import call_module


class Recommender(nn.Module):
    """Users and items without features: node v's input is a learned vector.

    Args:
        num_users: users are nodes ``0 .. num_users - 1``.
        num_items: items are the nodes after them.
        encoder: from ``width`` inputs to output embeddings: ours, or any PyG module called as
            ``encoder(x, edge_index)``.
        width: of the learned inputs.
        std: of the normal distribution they start from.
    """

    def __init__(
        self, num_users: int, num_items: int, encoder: nn.Module, width: int = 64, std: float = 0.1
    ) -> None:
        super().__init__()
        self.num_users = num_users
        self.num_items = num_items
        self.encoder = encoder
        self.embedding = nn.Parameter(torch.empty(num_users + num_items, width).normal_(std=std))

    def forward(self, graph: Adjacency) -> Tensor:
        """Output embeddings of all users and items ``[N, d]``."""
        return call_module(self.encoder, self.embedding, graph)

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"{self.num_users} users, {self.num_items} items"
