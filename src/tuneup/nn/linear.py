"""A linear map of features of any kind, dropout, and a perceptron made of both."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import Adjacency
from tuneup.graph.features import Factored, Features, Inputs


def linear(x: Inputs, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x W^T + b`` for features of any kind."""
    if isinstance(x, Tensor):
        return F.linear(x, weight, bias)
    out = x.linear(weight) if isinstance(x, Factored) else x @ weight.t()
    return out if bias is None else out + bias


_LEVELS = 1 << 16


def dropout(h: Tensor, share: float, training: bool) -> Tensor:
    """Set a ``share`` of the numbers to zero and scale the others by ``1 / (1 - share)``.

    torch's CPU generator spends two 32-bit draws on every number; one 64-bit draw decides four
    here. Draws come from torch's global generator, like those of ``torch.nn.functional.dropout``,
    which serves on other devices. ``share`` is rounded to a multiple of 2^-16, the scale likewise.
    """
    if not training or share == 0.0 or not h.is_cpu:
        return F.dropout(h, share, training)
    dropped = min(max(1, round(share * _LEVELS)), _LEVELS - 1)
    draws = torch.empty((h.numel() + 3) // 4, dtype=torch.long).random_(-(1 << 63), None)
    keep = draws.view(torch.int16)[: h.numel()].view(h.shape) >= dropped - _LEVELS // 2
    scale = _LEVELS / (_LEVELS - dropped)
    out: Tensor = _Masked.apply(h, keep, scale)  # type: ignore[no-untyped-call]
    return out


class _Masked(torch.autograd.Function):
    """``scale * h * keep``, remembering one byte a number for the way back."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, keep: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(keep)
        ctx.scale = scale
        return (h * keep).mul_(scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = ctx.saved_tensors
        return (grad * keep).mul_(ctx.scale), None, None


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
