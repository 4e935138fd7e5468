"""A linear map of features of any kind, and a perceptron made of such maps."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import Adjacency
from tuneup.graph.features import Factored, Features, Inputs

from .dropout import dropout


def linear(x: Inputs, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x W^T + b`` for features of any kind."""
    if isinstance(x, Tensor):
        return F.linear(x, weight, bias)
    out = x.linear(weight) if isinstance(x, Factored) else x @ weight.t()
    return out if bias is None else out + bias


class MLP(nn.Module):
    """A perceptron on each node's own features; it can be asked like an encoder, and uses no edge.

    Args:
        in_channels: width of the features.
        out_channels: width of the output.
        width: width of the hidden states.
        num_layers: how many linear maps, with ReLU and dropout between them.
        dropout: share of hidden numbers set to zero in training.
    """

    takes_adjacency = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        width: int = 256,
        num_layers: int = 3,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if num_layers < 1 or width < 1:
            raise InputError(f"num_layers and width must be 1 or more: {num_layers}, {width}.")
        if not 0.0 <= dropout < 1.0:
            raise InputError(f"dropout is a share, 0 <= dropout < 1; got {dropout}.")
        self.dropout = dropout
        widths = [in_channels, *[width] * (num_layers - 1), out_channels]
        self.layers = nn.ModuleList(map(nn.Linear, widths, widths[1:]))

    def forward(self, x: Features, graph: Adjacency | None = None) -> Tensor:
        """Outputs of all rows ``[N, out]``, whatever the graph."""
        first, *others = self.layers
        assert isinstance(first, nn.Linear)
        h = linear(x, first.weight, first.bias)
        for layer in others:
            h = layer(dropout(torch.relu_(h), self.dropout, self.training))
        return h

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"dropout={self.dropout}"
