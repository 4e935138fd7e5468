"""Nodes without features: learned inputs under any encoder."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import Adjacency, SparseMatrix
from tuneup.graph.features import Features

from .calling import call_module
from .encoder import Encoder, Plan


class Embedded(nn.Module):
    """An encoder whose input of node v is a learned vector: ``x E``, where x says who v is.

    x is what :func:`tuneup.graph.identities` makes, and goes wherever features go.  A node whose
    row is empty, because it was not there in training, enters with the mean of all vectors.

    In training a share ``hidden`` of the nodes, drawn anew in each pass, enters so too: a model
    learns what to make of new nodes, and to read a label off the neighbours instead of learning
    by heart whose it is.

    Args:
        encoder: from ``width`` inputs: ours, or any PyG module called as ``encoder(x,
            edge_index)``.
        num_known: nodes that have a vector of their own: columns of x.
        width: of the vectors.
        std: of the normal distribution that they start from.
        hidden: share of nodes that training hides.
    """

    takes_adjacency = True

    def __init__(
        self,
        encoder: nn.Module,
        num_known: int,
        width: int,
        *,
        std: float = 0.5,
        hidden: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0.0 <= hidden < 1.0:
            raise InputError(f"hidden is a share of the nodes, 0 <= hidden < 1; got {hidden}.")
        self.encoder = encoder
        self.hidden = hidden
        self.embedding = nn.Parameter(torch.empty(num_known, width).normal_(std=std))

    @property
    def num_known(self) -> int:
        """Nodes that have a vector of their own."""
        return self.embedding.shape[0]

    @property
    def unknown(self) -> Tensor:
        """What all other nodes enter with ``[width]``: the mean; 0 if there is none to take."""
        return self.embedding.sum(0) / max(1, self.num_known)

    def inputs(self, x: Features) -> Tensor:
        """What the encoder is given ``[N, width]``."""
        if not isinstance(x, SparseMatrix) or x.shape[1] != self.num_known:
            raise InputError(
                f"Embedded has inputs of {self.num_known} nodes: x must say which of these each "
                f"node is, as identities(known) does; got features of shape {list(x.shape)}."
            )
        instead = x.rowptr.diff() == 0
        if self.training and self.hidden:
            instead |= torch.rand(instead.shape, device=instead.device) < self.hidden
        return torch.where(instead[:, None], self.unknown, x @ self.embedding)

    def forward(self, x: Features, graph: Adjacency) -> Tensor:
        """Outputs of all nodes ``[N, out]``."""
        return call_module(self.encoder, self.inputs(x), graph)

    def run(self, plan: Plan) -> Tensor:
        """Outputs ``[R, out]`` of a pass that our own encoder planned for x."""
        assert isinstance(self.encoder, Encoder)
        return self.encoder.run(replace(plan, x=self.inputs(plan.x)))

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"{self.num_known} nodes, hidden={self.hidden}"
