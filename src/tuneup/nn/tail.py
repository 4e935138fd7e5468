"""An encoder whose tail nodes aggregate one neighbour more: the one that is predicted for them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import Parameter

from tuneup.errors import InputError
from tuneup.graph import Adjacency, Scaling, adjacency_from
from tuneup.graph.features import Features

from .convs import Conv, GCNConv, SAGEConv
from .encoder import Encoder
from .linear import linear

_SLOPE = 0.2


class Missing(nn.Module):
    """``m = h + (LeakyReLU(G1 h + G2 n) + 1) * r + LeakyReLU(B1 h + B2 n) - n``.

    Args:
        width: of ``h`` and ``n``.
        translated: whether G, B and ``r`` start at random, or at 0: as ``h - n``.
    """

    def __init__(self, width: int, translated: bool = True) -> None:
        super().__init__()
        self.translation = Parameter(torch.zeros(width))
        self.gamma = nn.Linear(2 * width, width, bias=False)
        self.beta = nn.Linear(2 * width, width, bias=False)
        if translated:
            nn.init.uniform_(self.translation, -(width**-0.5), width**-0.5)
        else:
            nn.init.zeros_(self.gamma.weight)
            nn.init.zeros_(self.beta.weight)

    def forward(self, h: Tensor, n: Tensor) -> Tensor:
        """What the neighbourhoods lack ``[N, width]``."""
        both = torch.cat([h, n], 1)
        gamma = F.leaky_relu(self.gamma(both), _SLOPE) + 1
        beta = F.leaky_relu(self.beta(both), _SLOPE)
        return h + gamma * self.translation + beta - n


Nodes = Tensor | slice
"""Chosen nodes ``[n]``, or a slice of all of them."""


def tail_conv(
    conv: GCNConv | SAGEConv,
    lack: Missing,
    x: Features,
    graph: Adjacency,
    nodes: Nodes | None,
    *,
    added: bool,
) -> tuple[Tensor, Tensor | None]:
    """A layer ``[N, out]``, and ``m [n, width]`` of the chosen nodes, ``added`` there or not.

    The missing information lives where messages are: in the layer's inputs, or in its outputs where
    those are narrower and the layer transforms first.  It enters as one more neighbour: of the mean
    with weight ``1 / (deg + 1)``, of the sum with 1, of GCN with that of a neighbour of the node's
    own degree, ``1 / (deg + 1)``; the weights of GCN's other neighbours stay as they are, and are
    those of the mean that ``m`` is taken from.
    """
    projection = conv.lin_l if isinstance(conv, SAGEConv) else conv.lin
    bias = conv.lin_l.bias if isinstance(conv, SAGEConv) else conv.bias
    sent = linear(x, projection.weight) if transforms_first(conv) else x
    if not isinstance(sent, Tensor):
        raise InputError("Sparse features need a layer that is narrower than they are.")
    (scaling,) = conv.scalings
    total = graph.matrix(scaling) @ sent
    missing = None
    if nodes is not None:
        own, degree = _take(sent, nodes), graph.rowptr.diff()[nodes][:, None]
        near = _neighbourhood(_take(total, nodes), own, degree, scaling)
        missing = lack(own, near)
        if added:
            more = missing - near if scaling == "mean" else missing  # the mean of one more
            if scaling != "sum":
                more = more / (degree + 1)
            total = total + more if isinstance(nodes, slice) else total.index_add(0, nodes, more)
    out = total + bias if transforms_first(conv) else F.linear(total, projection.weight, bias)
    if isinstance(conv, SAGEConv):
        out = out + linear(x, conv.lin_r.weight)
    return out, missing


def _neighbourhood(total: Tensor, own: Tensor, degree: Tensor, scaling: Scaling) -> Tensor:
    """The mean of the neighbours, as the layer weighs them, from what it aggregated; else 0.

    GCN gives a neighbour of the node's own degree ``1 / (deg + 1)``, others more or less.  Against
    a plain mean, messages of large degree would be outweighed by what is subtracted for them.
    """
    if scaling == "mean":
        return total
    if scaling == "sum":
        return total / degree.clamp(min=1)
    return ((degree + 1) * total - own) / degree.clamp(min=1)


def _take(x: Tensor, nodes: Nodes) -> Tensor:
    return x[nodes] if isinstance(nodes, slice) else x.index_select(0, nodes)


def transforms_first(conv: Conv) -> bool:
    """Whether messages are the layer's outputs."""
    return conv.out_channels < conv.in_channels


class TailEncoder(nn.Module):
    """An encoder in which nodes of degree up to ``k``, the tails, are given what they miss.

    Args:
        encoder: ours, whose convolutions, activation and dropout are used.
        k: largest degree of a tail; 0: no node is one, and this is the encoder itself.
        translated: see :class:`Missing`.
    """

    takes_adjacency = True

    def __init__(self, encoder: Encoder, k: int, translated: bool = True) -> None:
        super().__init__()
        self.encoder = encoder
        self.k = k
        self.lacks = nn.ModuleList(
            Missing(min(conv.in_channels, conv.out_channels), translated) for conv in self._convs()
        )

    def _convs(self) -> list[GCNConv | SAGEConv]:
        found: list[GCNConv | SAGEConv] = []
        for conv in self.encoder.convs:
            if not isinstance(conv, GCNConv | SAGEConv):
                raise InputError(f"A missing neighbour needs a weighted sum; {conv} has none.")
            if isinstance(conv, SAGEConv) and conv.aggregation == "max":
                raise InputError("A missing neighbour needs a weighted sum, not a maximum.")
            found.append(conv)
        return found

    def forward(self, x: Features, graph: Adjacency | Tensor) -> Tensor:
        """Outputs ``[N, out]``: tails with their missing information, heads without."""
        graph = adjacency_from(graph, x.shape[0])
        tail = graph.rowptr.diff() <= self.k
        if not self.k or not tail.any():
            out: Tensor = self.encoder(x, graph)
            return out
        nodes = slice(None) if tail.all() else tail.nonzero().view(-1)
        return self._run(x, graph, nodes, added=True)[0]

    def head_pass(
        self, x: Features, graph: Adjacency, asked: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Outputs with every node treated as a head, and what the ``asked`` ones miss by layer."""
        return self._run(x, graph, asked, added=False)

    def _run(
        self, x: Features, graph: Adjacency, nodes: Nodes | None, *, added: bool
    ) -> tuple[Tensor, list[Tensor]]:
        h: Features = x
        missing = []
        for k, (conv, lack) in enumerate(zip(self._convs(), self.lacks, strict=True)):
            assert isinstance(lack, Missing)
            h, lacked = tail_conv(conv, lack, h, graph, nodes, added=added)
            if lacked is not None:
                missing.append(lacked)
            if k < len(self.lacks) - 1:
                h = self.encoder.between(k, h)
        assert isinstance(h, Tensor)
        return h, missing
