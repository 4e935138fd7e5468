"""What nodes enter a model with: their features, or learned vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import Adjacency, SparseMatrix
from tuneup.graph.features import Features


class NodeFeatures(nn.Module):
    """Nodes enter with their features as they are.

    Example::

        links = tuneup.Model(tuneup.NodeFeatures(), encoder, tuneup.HadamardMLP(4))
    """

    def forward(self, x: Features, graph: Adjacency) -> Features:
        """``x [N, d]``."""
        return x


class NodeVectors(nn.Module):
    """A learned vector for every node that training knows: ``x E``.

    ``x`` is made by :func:`tuneup.graph.identities` and takes the place of features. A node with an
    empty row, because training does not know it, enters with the mean of all vectors. In training,
    a random share ``hidden`` of the nodes enters with the mean too: the model learns to predict for
    new nodes, and to read labels off neighbours instead of memorising them.

    Args:
        num_known: nodes with a vector of their own: columns of ``x``.
        width: of the vectors.
        std: of the normal distribution of the initial vectors.
        hidden: share of nodes that training hides.
    """

    def __init__(
        self, num_known: int, width: int, *, std: float = 0.5, hidden: float = 0.0
    ) -> None:
        super().__init__()
        if not 0.0 <= hidden < 1.0:
            raise InputError(f"hidden is a share of the nodes, 0 <= hidden < 1; got {hidden}.")
        self.hidden = hidden
        self.vectors = nn.Parameter(torch.empty(num_known, width).normal_(std=std))

    @property
    def num_known(self) -> int:
        """Nodes with a vector of their own."""
        return self.vectors.shape[0]

    @property
    def unknown(self) -> Tensor:
        """Input of all other nodes ``[width]``: the mean vector, or 0 if there is none."""
        return self.vectors.sum(0) / max(1, self.num_known)

    def forward(self, x: Features, graph: Adjacency | None = None) -> Tensor:
        """Inputs of the encoder ``[N, width]``."""
        if not isinstance(x, SparseMatrix) or x.shape[1] != self.num_known:
            raise InputError(
                f"x: got features of shape {list(x.shape)}; expected the identities of "
                f"{self.num_known} nodes, as identities(known) makes them."
            )
        instead = x.rowptr.diff() == 0
        if self.training and self.hidden:
            instead |= torch.rand(instead.shape, device=instead.device) < self.hidden
        return torch.where(instead[:, None], self.unknown, x @ self.vectors)

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"{self.num_known} nodes, hidden={self.hidden}"


class Compressed(NamedTuple):
    """Inputs on a graph in which isolated nodes of one side are one node.

    ``place [N]`` is the row of each node of the whole graph.
    """

    inputs: Tensor
    graph: Adjacency
    place: Tensor


class UserItemVectors(nn.Module):
    """A learned vector for every user and every item.

    Example::

        inputs = tuneup.UserItemVectors(pairs.num_users, pairs.num_items, 4)
        recommender = tuneup.Model(inputs, tuneup.Encoder(4, 4), tuneup.InnerProduct())

    With ``shared``, one vector of all users is added to each user's own, and one of all items to
    each item's: what is common to a side is learned once.

    With ``unknown``, all users without an edge in the current graph have one input in common, and
    all such items another. No training pair reaches these vectors while the graph is whole; stage
    2, which drops edges, trains them.

    Args:
        num_users: users are nodes ``0 .. num_users - 1``.
        num_items: items are the nodes after them.
        width: of the vectors.
        std: of the normal distribution of the initial vectors.
        shared: whether each side has a vector in common.
        unknown: whether nodes without an edge share an input.
    """

    def __init__(
        self,
        num_users: int,
        num_items: int,
        width: int = 64,
        *,
        std: float = 0.1,
        shared: bool = False,
        unknown: bool = False,
    ) -> None:
        super().__init__()
        self.num_users = num_users
        self.num_items = num_items
        self.vectors = nn.Parameter(torch.empty(num_users + num_items, width).normal_(std=std))
        self.shared = nn.Parameter(torch.empty(2, width).normal_(std=std)) if shared else None
        # Zero carries no information: until stage 2, an encoder answers by its biases alone.
        self.unknown = nn.Parameter(torch.zeros(2, width)) if unknown else None

    def forward(self, x: None, graph: Adjacency, arriving: Tensor | None = None) -> Tensor:
        """Inputs of the encoder ``[N, width]``, which a penalty on inputs is taken on.

        Args:
            x: users and items have no features.
            graph: on all users and items.
            arriving: users ``[num_users]`` (mask) that enter as new users, with :meth:`mean_user`
                instead of their own vectors.
        """
        inputs = self._of_linked(graph, arriving)
        if self.unknown is not None:
            alone = (graph.degree == 0)[:, None]
            inputs = torch.where(alone, self._by_side(self.unknown), inputs)
        return inputs

    def of_nodes(self, nodes: Tensor, alone: Callable[[], Tensor]) -> Tensor:
        """Inputs of some nodes ``[n, width]``, whose vectors alone get a gradient: a sparse one.

        Args:
            nodes: users and items.
            alone: tells which of them have no edge ``[n]``.
        """
        inputs = F.embedding(nodes, self.vectors, sparse=True)
        side = (nodes >= self.num_users).long()
        if self.shared is not None:
            inputs = inputs + self.shared[side]
        if self.unknown is not None:
            inputs = torch.where(alone()[:, None], self.unknown[side], inputs)
        return inputs

    def compressed(self, graph: Adjacency, arriving: Tensor | None = None) -> Compressed | None:
        """The same, with the isolated nodes of each side as one; ``None`` if that saves nothing."""
        if self.unknown is None or not graph.undirected or not bool((graph.degree == 0).any()):
            return None
        linked = graph.rowptr.diff() > 0
        nodes = linked.nonzero().view(-1)
        side = torch.arange(graph.num_nodes, device=graph.device) >= self.num_users
        place = torch.where(linked, linked.cumsum(0) - 1, side.long() + nodes.numel())
        ends = graph.rowptr[nodes + 1]  # rows in between are empty, as the two behind them are
        rowptr = torch.cat([graph.rowptr[:1], ends, graph.rowptr[-1:].expand(2)])
        smaller = Adjacency(rowptr, place[graph.col], nodes.numel() + 2, undirected=True)
        own = self._of_linked(graph, arriving).index_select(0, nodes)
        return Compressed(torch.cat([own, self.unknown]), smaller, place)

    def of_linked(self) -> Tensor:
        """Inputs of nodes with an edge ``[N, width]``."""
        return self.vectors if self.shared is None else self.vectors + self._by_side(self.shared)

    def mean_user(self, graph: Adjacency, arriving: Tensor | None = None) -> Tensor:
        """Input of a new user with an edge ``[width]``.

        The mean input of the users that have an edge and are not ``arriving``, or of all users if
        there are none.
        """
        mean = self._mean_vector(graph, arriving)
        return mean if self.shared is None else mean + self.shared[0]

    def _mean_vector(self, graph: Adjacency, arriving: Tensor | None) -> Tensor:
        vectors = self.vectors[: self.num_users]
        counted = graph.degree[: self.num_users].to(vectors.device) > 0
        if arriving is not None:
            counted = counted & ~arriving
        chosen = vectors[counted] if counted.any() else vectors
        return chosen.double().mean(0).to(vectors.dtype)

    @torch.no_grad()
    def fill_untrained(self, graph: Adjacency) -> None:
        """Give users without an edge in the training ``graph`` the mean vector of the others.

        Training never updates their own vectors. Call it before a model is saved with a graph that
        has edges of theirs: it then answers for them as for any new user.
        """
        untrained = graph.degree[: self.num_users].to(self.vectors.device) == 0
        self.vectors[: self.num_users][untrained] = self._mean_vector(graph, None)

    def _of_linked(self, graph: Adjacency, arriving: Tensor | None) -> Tensor:
        inputs = self.of_linked()
        if arriving is None:
            return inputs
        users, items = inputs.split([self.num_users, self.num_items])
        users = torch.where(arriving[:, None], self.mean_user(graph, arriving), users)
        return torch.cat([users, items])

    def _by_side(self, vectors: Tensor) -> Tensor:
        """The first vector for every user and the second for every item ``[N, width]``."""
        return torch.cat(
            [vectors[:1].expand(self.num_users, -1), vectors[1:].expand(self.num_items, -1)]
        )

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"{self.num_users} users, {self.num_items} items"
