"""An encoder whose tail nodes aggregate one neighbour more: the one that is predicted for them."""

from __future__ import annotations

from typing import NamedTuple

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
        """What the neighbourhoods lack ``[N, width]``, in few passes over memory."""
        of_h, of_n = torch.cat([self.gamma.weight, self.beta.weight]).split(h.shape[1], 1)
        both = F.leaky_relu(torch.addmm(h @ of_h.t(), n, of_n.t()), _SLOPE)
        gamma, beta = both.split(h.shape[1], 1)
        return torch.addcmul(h - n + self.translation + beta, gamma, self.translation)


Nodes = Tensor | slice
"""Chosen nodes ``[n]``, or a slice of all of them."""


class Sent(NamedTuple):
    """What a layer's nodes send, and what SAGE adds of their own; both without the graph."""

    messages: Tensor
    own: Tensor | None


def send(conv: GCNConv | SAGEConv, x: Features) -> Sent:
    """Messages ``[N, width]``: the layer's inputs, or its outputs where those are narrower."""
    messages = linear(x, _projection(conv).weight) if transforms_first(conv) else x
    if not isinstance(messages, Tensor):
        raise InputError("Sparse features need a layer that is narrower than they are.")
    return Sent(messages, linear(x, conv.lin_r.weight) if isinstance(conv, SAGEConv) else None)


def receive(
    conv: GCNConv | SAGEConv,
    lack: Missing,
    sent: Sent,
    graph: Adjacency,
    nodes: Nodes | None,
    *,
    added: bool,
) -> tuple[Tensor, Tensor | None]:
    """A layer ``[N, out]``, and ``m [n, width]`` of the chosen nodes, ``added`` there or not.

    The missing information lives where messages are.  It enters as one more neighbour: of the mean
    with weight ``1 / (deg + 1)``, of the sum with 1, of GCN with that of a neighbour of the node's
    own degree, ``1 / (deg + 1)``; the weights of GCN's other neighbours stay as they are, and are
    those of the mean that ``m`` is taken from.
    """
    (scaling,) = conv.scalings
    total = graph.matrix(scaling) @ sent.messages
    missing = None
    if nodes is not None:
        own, degree = _take(sent.messages, nodes), graph.rowptr.diff()[nodes][:, None]
        near = _neighbourhood(_take(total, nodes), own, degree, scaling)
        missing = lack(own, near)
        if added:
            more = missing - near if scaling == "mean" else missing  # the mean of one more
            if scaling != "sum":
                more = more / (degree + 1)
            total = total + more if isinstance(nodes, slice) else total.index_add(0, nodes, more)
    bias = conv.lin_l.bias if isinstance(conv, SAGEConv) else conv.bias
    if transforms_first(conv):
        out = total + bias
    else:
        out = F.linear(total, _projection(conv).weight, bias)
    return out if sent.own is None else out + sent.own, missing


def _projection(conv: GCNConv | SAGEConv) -> nn.Linear:
    return conv.lin_l if isinstance(conv, SAGEConv) else conv.lin


def _neighbourhood(total: Tensor, own: Tensor, degree: Tensor, scaling: Scaling) -> Tensor:
    """The mean of the neighbours, as the layer weighs them, from what it aggregated; else 0.

    GCN gives a neighbour of the node's own degree ``1 / (deg + 1)``, others more or less.  Against
    a plain mean, messages of large degree would be outweighed by what is subtracted for them.
    """
    if scaling == "mean":
        return total
    count = degree.clamp(min=1)
    if scaling == "sum":
        return total / count
    return torch.addcmul(total * ((degree + 1) / count), own, 1 / count, value=-1)


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
        return self._run(self._send(x), graph, _rows(tail), added=True)[0]

    def head_pass(
        self, x: Features, graph: Adjacency, asked: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Outputs with every node treated as a head, and what the ``asked`` ones miss by layer."""
        return self._run(self._send(x), graph, asked, added=False)

    def both_passes(
        self, x: Features, whole: Adjacency, forged: Adjacency, asked: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor], Tensor]:
        """:meth:`head_pass` on one graph, and the outputs on another one of the same nodes.

        What the nodes send in the first layer is computed once for both.
        """
        sent = self._send(x)
        z, missing = self._run(sent, whole, asked, added=False)
        tail = forged.rowptr.diff() <= self.k
        return z, missing, self._run(sent, forged, _rows(tail), added=True)[0]

    def _send(self, x: Features) -> Sent:
        return send(self._convs()[0], x)

    def _run(
        self, sent: Sent, graph: Adjacency, nodes: Nodes | None, *, added: bool
    ) -> tuple[Tensor, list[Tensor]]:
        convs, missing = self._convs(), []
        for k, (conv, lack) in enumerate(zip(convs, self.lacks, strict=True)):
            assert isinstance(lack, Missing)
            h, lacked = receive(conv, lack, sent, graph, nodes, added=added)
            if lacked is not None:
                missing.append(lacked)
            if k < len(convs) - 1:
                sent = send(convs[k + 1], self.encoder.between(k, h))
        return h, missing


def _rows(chosen: Tensor) -> Nodes:
    """Where a mask is true; a slice if that is everywhere."""
    return slice(None) if bool(chosen.all()) else chosen.nonzero().view(-1)
