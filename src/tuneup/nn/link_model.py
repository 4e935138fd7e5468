"""A link model: an encoder over features, and an MLP over the product of two embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tuneup.errors import InputError

from .calling import unwrapped
from .encoder import Encoder


class HadamardMLP(nn.Module):
    """``w_2 . relu(W_1 (z_s * z_t) + b_1) + b_2``: symmetric in the two nodes."""

    def __init__(self, in_channels: int, width: int = 256) -> None:
        super().__init__()
        self.hidden = nn.Linear(in_channels, width)
        self.out = nn.Linear(width, 1)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Scores of pairs of rows ``[n]``."""
        scores: Tensor = self.out(torch.relu_(self.hidden(a * b)))
        return scores.squeeze(1)


class LinkModel(nn.Module):
    """An encoder from features to embeddings, and the decoder that scores two of them."""

    def __init__(self, encoder: nn.Module, decoder: HadamardMLP) -> None:
        super().__init__()
        made, read = _width_of(encoder), decoder.hidden.in_features
        if made is not None and made != read:
            raise InputError(
                f"The encoder gives embeddings of width {made}, but the decoder reads {read}: make "
                f"it HadamardMLP({made})."
            )
        self.encoder = encoder
        self.decoder = decoder


def _width_of(encoder: nn.Module) -> int | None:
    """Of the outputs, if the encoder tells, as PyG's models do."""
    encoder = unwrapped(encoder)
    last = encoder.convs[-1] if isinstance(encoder, Encoder) else encoder
    found = getattr(last, "out_channels", None)
    return found if isinstance(found, int) else None


@dataclass(frozen=True, eq=False)
class HadamardScorer:
    """A decoder's scores of all pairs of some sources and some candidates.

    ``W_1 (z_s * z_c) = (W_1 diag(z_s)) z_c``: the sources of a tile share one matrix product with
    the candidates, and the products of embeddings are never written down.
    """

    decoder: HadamardMLP
    tile: tuple[int, int] = (16, 1024)

    def __call__(self, sources: Tensor, candidates: Tensor, out: Tensor) -> None:
        """Write the scores of ``[s, d]`` against ``[c, d]`` into ``out [s, c]``."""
        weight = self.decoder.hidden.weight
        scaled = (sources[:, None, :] * weight).flatten(0, 1)  # [s * width, d]
        bias = self.decoder.hidden.bias.repeat(sources.shape[0])
        hidden = torch.addmm(bias, candidates, scaled.t()).relu_()
        hidden = hidden.view(candidates.shape[0], sources.shape[0], -1)
        last = self.decoder.out
        out.copy_((hidden @ last.weight[0] + last.bias).t())
