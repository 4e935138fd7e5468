"""A conditional variational autoencoder of a neighbour's features, given a node's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .linear import MLP


class NeighbourGenerator(nn.Module):
    """``p(x_u | x_v)`` for a neighbour u of v, by way of a small normal latent.

    The encoder maps ``[x_u; x_v]`` to the latent's mean and log-variance, the decoder maps
    ``[latent; x_v]`` to ``x_u``.

    Args:
        num_features: width of the features.
        latent: width of the latent.
        width: of the hidden layers.
    """

    def __init__(self, num_features: int, latent: int = 10, width: int = 256) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = MLP(2 * num_features, 2 * latent, width=width, num_layers=2)
        self.decoder = MLP(latent + num_features, num_features, width=width, num_layers=2)

    def loss(self, neighbour: Tensor, own: Tensor, noise: Tensor) -> Tensor:
        """Squared error plus divergence from the prior, a mean over pairs.

        ``neighbour`` and ``own`` are ``[n, d]``, ``noise`` standard normal ``[n, latent]``.
        """
        mean, log_variance = self.encoder(torch.cat([neighbour, own], 1)).chunk(2, 1)
        latent = mean + noise * (log_variance / 2).exp()
        error = (self.decode(latent, own) - neighbour).square().sum(1)
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
        loss: Tensor = (error + divergence).mean()
        return loss

    def decode(self, latent: Tensor, own: Tensor) -> Tensor:
        """Features of a neighbour ``[n, d]``."""
        out: Tensor = self.decoder(torch.cat([latent, own], 1))
        return out

    @torch.no_grad()
    def draw(self, own: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Features of one possible neighbour of each node ``[n, d]``; it needs no edge."""
        shape = (own.shape[0], self.latent)
        return self.decode(torch.randn(shape, generator=generator).to(own), own)
