"""A conditional variational autoencoder of a neighbour's features, given a node's own."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tuneup.graph.features import Factored, Features, Inputs, dense

from .linear import MLP, linear

Drawing = Callable[[torch.Generator | None], Inputs]
"""One draw of a possible neighbour for each node ``[n, d]``."""


class NeighbourGenerator(nn.Module):
    """``p(x_u | x_v)`` for a neighbour u of v, by way of a small normal latent.

    The encoder maps ``[x_u; x_v]`` to the latent's mean and log-variance, the decoder maps
    ``[latent; x_v]`` to ``x_u``.  Features may be sparse; draws that are wider than the hidden
    layers stay :class:`Factored`.

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

    def loss(self, neighbour: Features, own: Features, noise: Tensor) -> Tensor:
        """Squared error plus divergence from the prior, a mean over pairs.

        ``neighbour`` and ``own`` are ``[n, d]``, ``noise`` standard normal ``[n, latent]``.
        """
        mean, log_variance = _two_layers(self.encoder, neighbour, own).chunk(2, 1)
        latent = mean + noise * (log_variance / 2).exp()
        error = self._decoded(latent, self._own_part(own)).squared_distance(neighbour)
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
        loss: Tensor = (error + divergence).mean()
        return loss

    def noise(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Standard normal latents ``[count, latent]``, the same on every device."""
        drawn = torch.randn((count, self.latent), generator=generator)
        return drawn.to(next(self.parameters()))

    def given(self, own: Features) -> Drawing:
        """Draws neighbours of nodes with these features ``[n, d]``; they need no edge."""
        with torch.no_grad():
            part = self._own_part(own)

        def draw(generator: torch.Generator | None = None) -> Inputs:
            with torch.no_grad():
                drawn = self._decoded(self.noise(part.shape[0], generator), part).detach()
                wide = drawn.shape[1] > drawn.left.shape[1]
                return drawn if wide else dense(drawn)

        return draw

    def _own_part(self, own: Features) -> Tensor:
        """What the nodes' own features give to the decoder's hidden layer, whatever the draw."""
        first = self.decoder.layers[0]
        assert isinstance(first, nn.Linear)
        return linear(own, first.weight[:, self.latent :], first.bias)

    def _decoded(self, latent: Tensor, own_part: Tensor) -> Factored:
        first, last = self.decoder.layers
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        hidden = own_part + latent @ first.weight[:, : self.latent].t()
        return Factored(hidden.relu_(), last.weight.t(), last.bias)


def _two_layers(network: MLP, one: Features, other: Features) -> Tensor:
    """Outputs on ``[one; other]``, which are not put side by side."""
    first, last = network.layers
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    left, right = first.weight.split((one.shape[1], other.shape[1]), 1)
    out: Tensor = last((linear(one, left) + linear(other, right, first.bias)).relu_())
    return out
