"""A stack of convolutions, and how one pass through it is planned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import Adjacency, ReceptiveField, adjacency_from
from tuneup.graph.features import Features, take_features
from tuneup.names import Architecture

from .convs import Conv, GATConv, GCNConv, SAGEConv
from .linear import dropout

Norm = Literal["none", "batch", "layer"]
Activation = Literal["relu", "elu", "none"]

_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    # In place: the product before it does not need its own output in the backward pass.
    "relu": torch.relu_,
    "elu": F.elu_,
    "none": lambda h: h,
}


@dataclass(frozen=True, eq=False)
class Plan:
    """One pass through an encoder: which nodes each layer reads, and what is known already."""

    x: Features
    """features of the nodes that layer 1 reads"""
    layers: tuple[Adjacency, ...]
    """the graph or block of each layer"""
    first: Features | None = None
    """layer 1's aggregation of ``x``, if it is fixed and was kept"""
    cut: tuple[int, Tensor] | None = None
    """after ``cut[0]`` layers (> 0), go on with the nodes ``cut[1]`` only"""


class Encoder(nn.Module):
    """``num_layers`` convolutions with activation, dropout and optional normalisation between.

    Example::

        model = tuneup.Encoder(data.num_features, 4, architecture="gcn", width=64)
        logits = model(data.x, data.edge_index)

    Args:
        in_channels: width of the features.
        out_channels: width of the output: the number of classes, or of an embedding.
        architecture: "sage" (mean), "sage-max", "sage-sum", "gcn" or "gat".
        width: width of the hidden states.
        num_layers: how many convolutions.
        dropout: share of hidden numbers set to zero in training; the input features never are.
        norm: "none", "layer", or "batch", whose statistics run over all nodes.
        activation: "relu", "elu" or "none".
        heads: of GAT; ``width`` is split among them and the last layer averages them.
        orthogonal: whether weight matrices start orthogonal, which keeps lengths and angles, and
            not from PyG's own initialisation.
    """

    takes_adjacency = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        architecture: Architecture = "sage",
        width: int = 128,
        num_layers: int = 3,
        dropout: float = 0.0,
        norm: Norm = "none",
        activation: Activation = "relu",
        heads: int = 4,
        orthogonal: bool = False,
    ) -> None:
        super().__init__()
        _check_choice("architecture", architecture, get_args(Architecture))
        _check_choice("norm", norm, get_args(Norm))
        _check_choice("activation", activation, get_args(Activation))
        if num_layers < 1 or width < 1:
            raise InputError(f"num_layers and width must be 1 or more: {num_layers}, {width}.")
        if not 0.0 <= dropout < 1.0:
            raise InputError(f"dropout is a share, 0 <= dropout < 1; got {dropout}.")
        if architecture == "gat" and width % heads:
            raise InputError(f"width {width} cannot be split among {heads} heads.")
        self.architecture: Architecture = architecture
        self.dropout = dropout
        self.norm: Norm = norm
        self.activation: Activation = activation
        widths = [in_channels, *[width] * (num_layers - 1), out_channels]
        last = num_layers - 1
        self.convs = nn.ModuleList(
            _conv(architecture, widths[k], widths[k + 1], heads, k == last)
            for k in range(num_layers)
        )
        norms: dict[Norm, Callable[[], nn.Module]] = {
            "none": nn.Identity,
            "layer": lambda: nn.LayerNorm(width),
            "batch": lambda: nn.BatchNorm1d(width),
        }
        self.norms = nn.ModuleList(norms[norm]() for _ in range(last))
        if orthogonal:
            for weight in (p for p in self.convs.parameters() if p.dim() == 2):
                nn.init.orthogonal_(weight)

    @property
    def num_layers(self) -> int:
        """Number of convolutions."""
        return len(self.convs)

    @property
    def prunable_layers(self) -> int:
        """How many of the last layers may skip nodes that the loss does not read.

        Batch statistics run over all nodes, so the layers that feed them must compute all.
        """
        return 1 if self.norm == "batch" else self.num_layers

    def body(self) -> Encoder:
        """The layers before the last, with the same parameters: they compute its inputs."""
        if self.num_layers < 2:
            raise InputError("An encoder of one layer has no layers before the last.")
        body = copy(self)
        body._modules = {**self._modules, "convs": self.convs[:-1]}  # norms follow these too
        return body

    def forward(
        self, x: Features, graph: Adjacency | Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        """Outputs of all nodes ``[N, out]``; ``graph`` may be a PyG ``edge_index``.

        ``edge_weight [E]`` multiplies the messages of "gcn", "sage" and "sage-sum".
        """
        graph = adjacency_from(graph, x.shape[0], weight=edge_weight)
        return self.run(Plan(x, (graph,) * self.num_layers))

    def run(self, plan: Plan) -> Tensor:
        """Outputs ``[R, out]`` of the last layer's receivers."""
        h: Features = plan.x
        for k, (conv, graph) in enumerate(zip(self.convs, plan.layers, strict=True)):
            if plan.cut is not None and plan.cut[0] == k:
                h = take_features(h, plan.cut[1])
            out: Tensor = conv(h, graph, plan.first if k == 0 else None)
            h = self.between(k, out) if k < len(self.norms) else out
        if plan.cut is not None and plan.cut[0] == self.num_layers:
            h = take_features(h, plan.cut[1])
        assert isinstance(h, Tensor)
        return h

    def between(self, k: int, h: Tensor) -> Tensor:
        """What lies between layers ``k`` and ``k + 1``: normalisation, activation, dropout.

        ``h`` may be overwritten.
        """
        h = _ACTIVATIONS[self.activation](self.norms[k](h))
        return dropout(h, self.dropout, self.training)

    def plan(
        self,
        x: Features,
        graph: Adjacency,
        field: ReceptiveField | None,
        first: Features | None = None,
    ) -> Plan:
        """A pass over all nodes, or over the receptive field of the rows that are wanted.

        Args:
            x: features of all nodes.
            graph: the graph.
            field: with at most :attr:`prunable_layers` blocks.
            first: :meth:`first_aggregation` of these features and this graph, if it is kept.
        """
        if field is None:
            layers, nodes, cut = (graph,) * self.num_layers, None, None
        else:
            whole = self.num_layers - len(field.blocks)
            layers = (graph,) * whole + field.blocks
            nodes, cut = (None, (whole, field.nodes)) if whole else (field.nodes, None)
        if first is None:
            return Plan(x if nodes is None else take_features(x, nodes), layers, cut=cut)
        if nodes is not None:  # the whole graph aggregates as fast, and needs no other transpose
            nodes = nodes[: layers[0].num_rows]
            first = take_features(first, nodes)
        if not self.convs[0].reads_own:
            return Plan(first, layers, first, cut)
        return Plan(x if nodes is None else take_features(x, nodes), layers, first, cut)

    def first_aggregation(self, x: Features, graph: Adjacency, budget: int) -> Features | None:
        """Layer 1's aggregation of fixed features ``[N, in]``, if it fits the budget.

        The same for every model of this architecture, whatever its weights and its rows.
        """
        conv = self.convs[0]
        assert isinstance(conv, Conv)
        if isinstance(x, Tensor) and (x.requires_grad or x.numel() * 4 > budget):
            return None
        with torch.no_grad():
            found = conv.aggregate(x, graph)
        return found if found is not None and found.nbytes <= budget else None

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return (
            f"architecture={self.architecture!r}, dropout={self.dropout}, norm={self.norm!r}, "
            f"activation={self.activation!r}"
        )


class LightGCN(nn.Module):
    """``1/(L+1) sum_l P^l x`` with ``P = D^-1/2 A D^-1/2``, without self-loops.

    Everything is learned by the embeddings ``x`` underneath.
    """

    takes_adjacency = True
    scalings = ("symmetric",)

    def __init__(self, num_layers: int = 3) -> None:
        super().__init__()
        if num_layers < 1:
            raise InputError(f"num_layers must be 1 or more; got {num_layers}.")
        self.num_layers = num_layers

    def forward(self, x: Tensor, graph: Adjacency | Tensor) -> Tensor:
        """Outputs of all nodes ``[N, d]``; ``graph`` may be a PyG ``edge_index``."""
        return self.run(x, (adjacency_from(graph, x.shape[0]),) * self.num_layers)

    def run(self, x: Tensor, layers: Sequence[Adjacency], first: Tensor | None = None) -> Tensor:
        """Outputs ``[R, d]`` of the last block's receivers; each layer has a graph or a block.

        ``first`` is ``P x`` of the inputs ``x`` of layer 1's receivers, if it is known: then
        ``layers`` are those after it.
        """
        total = h = x
        if first is not None:
            h, total = first, x + first
        for graph in layers:
            h = graph.matrix("symmetric") @ h
            total = (total if len(total) == len(h) else total[: len(h)]) + h
        return total / (self.num_layers + 1)

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"num_layers={self.num_layers}"


@dataclass(frozen=True)
class EncoderSpec:
    """The arguments of an :class:`Encoder`: a method may build it, or something like it."""

    in_channels: int
    out_channels: int
    architecture: Architecture = "sage"
    width: int = 128
    num_layers: int = 3
    dropout: float = 0.0
    norm: Norm = "none"
    activation: Activation = "relu"
    heads: int = 4
    orthogonal: bool = False

    @classmethod
    def of(cls, encoder: Encoder) -> EncoderSpec:
        """What an encoder was built from, but for how its weights started."""
        first, last = encoder.convs[0], encoder.convs[-1]
        assert isinstance(first, Conv)
        assert isinstance(last, Conv)
        heads = first.heads if isinstance(first, GATConv) else 4
        width = first.out_channels * (heads if encoder.architecture == "gat" else 1)
        return cls(
            first.in_channels,
            last.out_channels,
            encoder.architecture,
            width if encoder.num_layers > 1 else heads,  # of one layer, no one reads it
            encoder.num_layers,
            encoder.dropout,
            encoder.norm,
            encoder.activation,
            heads,
        )

    def build(self) -> Encoder:
        """A fresh encoder from torch's current seed."""
        return Encoder(**asdict(self))


def _check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(map(str, allowed))}; got {value!r}.")


def _conv(
    architecture: Architecture, in_channels: int, out_channels: int, heads: int, last: bool
) -> Conv:
    if architecture == "gcn":
        return GCNConv(in_channels, out_channels)
    if architecture == "gat":
        size = out_channels if last else out_channels // heads
        return GATConv(in_channels, size, heads, concat=not last)
    if architecture == "sage-max":
        return SAGEConv(in_channels, out_channels, "max")
    return SAGEConv(in_channels, out_channels, "sum" if architecture == "sage-sum" else "mean")
