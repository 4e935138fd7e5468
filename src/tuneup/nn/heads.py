"""What a task reads off a model's outputs: classes, or scores of pairs of nodes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


class Classes(nn.Module):
    """The outputs are logits of classes."""

    def forward(self, z: Tensor) -> Tensor:
        """``z [N, C]``."""
        return z


class InnerProduct(nn.Module):
    """The score of a pair is ``z_s . z_t``.

    Example::

        scores = tuneup.InnerProduct()(z[:3], z[3:6])  # of three pairs of rows
    """

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Scores of pairs of rows ``[n]``."""
        return (a * b).sum(1)


class HadamardMLP(nn.Module):
    """The score of a pair is ``w_2 . relu(W_1 (z_s * z_t) + b_1) + b_2``, symmetric in the two.

    Example::

        head = tuneup.HadamardMLP(z.shape[1], width=64)
        scores = head(z[:3], z[3:6])  # of three pairs of rows
    """

    def __init__(self, in_channels: int, width: int = 256) -> None:
        super().__init__()
        self.hidden = nn.Linear(in_channels, width)
        self.out = nn.Linear(width, 1)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Scores of pairs of rows ``[n]``."""
        scores: Tensor = self.out(torch.relu_(self.hidden(a * b)))
        return scores.squeeze(1)


@dataclass(frozen=True, eq=False)
class HadamardScorer:
    """A head's scores of all pairs of some sources and some candidates.

    ``W_1 (z_s * z_c) = (W_1 diag(z_s)) z_c``: the sources of a tile share one matrix product with
    the candidates, and the products of embeddings are never stored.
    """

    head: HadamardMLP
    tile: tuple[int, int] = (16, 1024)

    def __call__(self, sources: Tensor, candidates: Tensor, out: Tensor) -> None:
        """Write the scores of ``[s, d]`` against ``[c, d]`` into ``out [s, c]``."""
        weight = self.head.hidden.weight
        scaled = (sources[:, None, :] * weight).flatten(0, 1)  # [s * width, d]
        bias = self.head.hidden.bias.repeat(sources.shape[0])
        hidden = torch.addmm(bias, candidates, scaled.t()).relu_()
        hidden = hidden.view(candidates.shape[0], sources.shape[0], -1)
        last = self.head.out
        out.copy_((hidden @ last.weight[0] + last.bias).t())
