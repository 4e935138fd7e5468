"""A recommendation model: learned embeddings under an encoder, scored by inner products."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tuneup.graph import Adjacency
from tuneup.graph.merging import merge_isolated

from .calling import call_module, unwrapped
from .encoder import Encoder


class Recommender(nn.Module):
    """Users and items without features: node v's input is a learned vector.

    With ``shared``, a vector that all users have in common is added to each user's own, and one
    that all items have in common to each item's: how popular an item is can then be said once.

    With ``unknown``, all users without an edge in the graph at hand have one input in common, and
    all such items another.  No training pair reaches these vectors while the graph is whole; stage
    2, which drops edges, teaches them what to recommend to someone about whom nothing is known.

    Args:
        num_users: users are nodes ``0 .. num_users - 1``.
        num_items: items are the nodes after them.
        encoder: from ``width`` inputs to output embeddings: ours, or any PyG module called as
            ``encoder(x, edge_index)``.
        width: of the learned inputs.
        std: of the normal distribution they start from.
        shared: whether users, and items, have a part of their inputs in common.
        unknown: whether nodes without an edge share an input, one for users and one for items.
    """

    def __init__(
        self,
        num_users: int,
        num_items: int,
        encoder: nn.Module,
        width: int = 64,
        std: float = 0.1,
        shared: bool = False,
        unknown: bool = False,
    ) -> None:
        super().__init__()
        self.num_users = num_users
        self.num_items = num_items
        self.encoder = encoder
        self.embedding = nn.Parameter(torch.empty(num_users + num_items, width).normal_(std=std))
        self.shared = nn.Parameter(torch.empty(2, width).normal_(std=std)) if shared else None
        # Zero says nothing: until stage 2 teaches it, an encoder answers by its biases alone.
        self.unknown = nn.Parameter(torch.zeros(2, width)) if unknown else None

    def inputs(self, graph: Adjacency, arriving: Tensor | None = None) -> Tensor:
        """What the encoder is given ``[N, width]``, and what a penalty on inputs is taken on.

        Args:
            graph: on all users and items.
            arriving: marks users ``[num_users]`` who enter as new users, with :meth:`mean_user`,
                and not with the vectors that were learned for them.
        """
        inputs = self._linked_inputs(graph, arriving)
        if self.unknown is not None:
            alone = (graph.degree == 0)[:, None]
            inputs = torch.where(alone, self._of_sides(self.unknown), inputs)
        return inputs

    def known_inputs(self) -> Tensor:
        """Inputs of nodes that have an edge ``[N, width]``, whichever these are."""
        if self.shared is None:
            return self.embedding
        return self.embedding + self._of_sides(self.shared)

    def mean_user(self, graph: Adjacency, arriving: Tensor | None = None) -> Tensor:
        """What a new user with an edge enters with ``[width]``.

        The mean input of the users that have an edge and are not ``arriving`` themselves; of all
        users if there are none.
        """
        mean = self._mean_vector(graph, arriving)
        return mean if self.shared is None else mean + self.shared[0]

    def _mean_vector(self, graph: Adjacency, arriving: Tensor | None) -> Tensor:
        vectors = self.embedding[: self.num_users]
        counted = graph.degree[: self.num_users].to(vectors.device) > 0
        if arriving is not None:
            counted = counted & ~arriving
        chosen = vectors[counted] if counted.any() else vectors
        return chosen.double().mean(0).to(vectors.dtype)

    @torch.no_grad()
    def fill_untrained(self, graph: Adjacency) -> None:
        """Give users without an edge in the training ``graph`` the mean vector of the others.

        Training never updates their own vectors.  Call it before a model is saved with a graph
        that has edges of theirs: it then answers for them as for any new user.
        """
        untrained = graph.degree[: self.num_users].to(self.embedding.device) == 0
        self.embedding[: self.num_users][untrained] = self._mean_vector(graph, None)

    def _linked_inputs(self, graph: Adjacency, arriving: Tensor | None) -> Tensor:
        """Inputs of the nodes that have an edge; what other nodes have here is not read."""
        inputs = self.known_inputs()
        if arriving is None:
            return inputs
        users, items = inputs.split([self.num_users, self.num_items])
        users = torch.where(arriving[:, None], self.mean_user(graph, arriving), users)
        return torch.cat([users, items])

    def _of_sides(self, vectors: Tensor) -> Tensor:
        """The first vector for every user and the second for every item ``[N, width]``."""
        return torch.cat(
            [vectors[:1].expand(self.num_users, -1), vectors[1:].expand(self.num_items, -1)]
        )

    def _sides(self) -> Tensor:
        """0 for every user and 1 for every item ``[N]``."""
        node = torch.arange(self.num_users + self.num_items, device=self.embedding.device)
        return (node >= self.num_users).long()

    def encode(self, inputs: Tensor, graph: Adjacency) -> Tensor:
        """Output embeddings ``[N, d]`` of given inputs."""
        return call_module(self.encoder, inputs, graph)

    def forward(self, graph: Adjacency, arriving: Tensor | None = None) -> Tensor:
        """Output embeddings of all users and items ``[N, d]``; see :meth:`inputs`."""
        if self.unknown is None or not self._answers_alike(graph):
            return self.encode(self.inputs(graph, arriving), graph)
        merged = merge_isolated(graph, self._sides(), 2)
        known = self._linked_inputs(graph, arriving).index_select(0, merged.nodes)
        z = self.encode(torch.cat([known, self.unknown]), merged.graph)
        return z.index_select(0, merged.place)

    def _answers_alike(self, graph: Adjacency) -> bool:
        """Whether equal inputs without an edge must have equal outputs: they are computed once."""
        encoder = unwrapped(self.encoder)
        if type(encoder) is not Encoder or not graph.undirected:  # a kind of it may do otherwise
            return False
        alike = all(isinstance(norm, nn.Identity | nn.LayerNorm) for norm in encoder.norms)
        drawn = encoder.training and encoder.dropout > 0
        return alike and not drawn and bool((graph.degree == 0).any())

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"{self.num_users} users, {self.num_items} items"
