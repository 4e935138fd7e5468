"""The five convolutions over :class:`Adjacency`, with PyG's parameter names and PyG's results.

Linear aggregations commute with the weight matrix, ``A (x W) = (A x) W``: each layer aggregates on
whichever side is narrower.  ``aggregate`` is the part of a layer that has no parameters: on fixed
features and a fixed graph a caller computes it once and hands it back as ``aggregated``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from tuneup.errors import InputError
from tuneup.graph import Adjacency, Scaling, SparseMatrix
from tuneup.graph.features import Factored, Features, Inputs, dense, max_features

from .linear import linear

Aggregation = Literal["mean", "sum", "max"]


class Conv(nn.Module, ABC):
    """One layer: states of the senders ``[C, in]`` to states of the receivers ``[R, out]``."""

    reads_own = True
    """whether the layer reads a receiver's own state besides the aggregation"""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels

    @property
    def scalings(self) -> tuple[Scaling, ...]:
        """The propagation matrices that the layer reads."""
        return ()

    @abstractmethod
    def forward(self, x: Inputs, graph: Adjacency, aggregated: Features | None = None) -> Tensor:
        """New states ``[R, out]``; ``aggregated`` is ``self.aggregate(x, graph)`` if known."""

    def aggregate(self, x: Inputs, graph: Adjacency) -> Features | None:
        """The parameter-free first half ``[R, in]``; ``None`` where there is none worth keeping."""
        return None

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"{self.in_channels}, {self.out_channels}"


class _WithOwn(torch.autograd.Function):
    """The states and those of the receivers, ``x`` and ``x[:rows]``.

    A plain slice would pad its gradient with zeros to the size of ``x`` and add the two up anew.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: int) -> tuple[Tensor, Tensor]:
        ctx.rows = rows
        ctx.set_materialize_grads(False)
        return x.view_as(x), x[:rows]

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, own: Tensor | None) -> tuple[Tensor | None, None]:
        if grad is None or own is None:  # only one of the two is read: no layer of ours does that
            raise RuntimeError("both outputs of _WithOwn must enter the loss")
        grad[: ctx.rows] += own  # made by the product just before, and read by no one else
        return grad, None


class SAGEConv(Conv):
    """GraphSAGE: ``W_l agg_j(x_j) + b + W_r x_i`` with agg the mean, sum or maximum."""

    def __init__(
        self, in_channels: int, out_channels: int, aggregation: Aggregation = "mean"
    ) -> None:
        super().__init__(in_channels, out_channels)
        if aggregation not in ("mean", "sum", "max"):
            raise InputError(f"aggregation must be 'mean', 'sum' or 'max'; got {aggregation!r}.")
        self.aggregation: Aggregation = aggregation
        self.lin_l = nn.Linear(in_channels, out_channels)
        self.lin_r = nn.Linear(in_channels, out_channels, bias=False)

    @property
    def scalings(self) -> tuple[Scaling, ...]:
        """That of a mean or a sum."""
        return () if self.aggregation == "max" else (self.aggregation,)

    def aggregate(self, x: Inputs, graph: Adjacency) -> Features | None:
        """``agg_j(x_j)``; for means and sums, features not dense are transformed first instead."""
        if self.aggregation == "max" and isinstance(x, SparseMatrix):
            return max_features(graph, x)
        if not isinstance(x, Tensor):
            return None
        return graph.max(x) if self.aggregation == "max" else graph.matrix(self.aggregation) @ x

    def forward(self, x: Inputs, graph: Adjacency, aggregated: Features | None = None) -> Tensor:
        """New states ``[R, out]``."""
        if self.aggregation == "max" and isinstance(x, Factored):
            x = dense(x)
        own_x = x
        if isinstance(x, Tensor) and aggregated is None and graph.num_rows < x.shape[0]:
            x, own_x = _WithOwn.apply(x, graph.num_rows)  # type: ignore[no-untyped-call]
        transform_first = self.aggregation != "max" and (
            self.out_channels < self.in_channels or not isinstance(x, Tensor)
        )
        if aggregated is None and transform_first:
            assert self.aggregation != "max"
            out = graph.matrix(self.aggregation) @ linear(x, self.lin_l.weight) + self.lin_l.bias
        else:
            if aggregated is None:
                aggregated = self.aggregate(x, graph)
            assert aggregated is not None
            if isinstance(aggregated, Tensor) and not isinstance(x, Tensor):
                aggregated = aggregated.to(self.lin_l.weight)  # features that are stored as float32
            out = linear(aggregated, self.lin_l.weight, self.lin_l.bias)
        if not isinstance(own_x, Tensor):
            return out + linear(own_x, self.lin_r.weight)[: graph.num_rows]
        if graph.num_rows < own_x.shape[0]:  # a slice of all would still pad its gradient
            own_x = own_x[: graph.num_rows]
        if torch.is_autocast_enabled(own_x.device.type):  # which casts what is not in place
            return torch.addmm(out, own_x, self.lin_r.weight.t())
        return out.addmm_(own_x, self.lin_r.weight.t())

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"{super().extra_repr()}, aggregation={self.aggregation!r}"


class GCNConv(Conv):
    """GCN: ``D^-1/2 (A + I) D^-1/2 x W + b`` with D the degrees of A + I.

    ``scaling`` puts another propagation matrix of :meth:`Adjacency.matrix` in its place.
    """

    reads_own = False

    def __init__(self, in_channels: int, out_channels: int, scaling: Scaling = "gcn") -> None:
        super().__init__(in_channels, out_channels)
        self.scaling: Scaling = scaling
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = Parameter(torch.zeros(out_channels))
        nn.init.xavier_uniform_(self.lin.weight)

    @property
    def scalings(self) -> tuple[Scaling, ...]:
        """Its own."""
        return (self.scaling,)

    def aggregate(self, x: Inputs, graph: Adjacency) -> Tensor | None:
        """The normalised sum; features that are not dense are transformed first instead."""
        return graph.matrix(self.scaling) @ x if isinstance(x, Tensor) else None

    def forward(self, x: Inputs, graph: Adjacency, aggregated: Features | None = None) -> Tensor:
        """New states ``[R, out]``."""
        narrow_in = isinstance(x, Tensor) and self.in_channels <= self.out_channels
        if aggregated is None and narrow_in:
            aggregated = self.aggregate(x, graph)
        if aggregated is not None:
            return linear(aggregated, self.lin.weight, self.bias)
        return graph.matrix(self.scaling) @ linear(x, self.lin.weight) + self.bias


_SCORED_AT_A_TIME = 1 << 26
"""Numbers of the senders' states that are multiplied at a time: a temporary of 256 MB."""


class _Scores(torch.autograd.Function):
    """What is sent ``[C, H, D]``, and what it says of senders ``[C, H]`` and receivers ``[R, H]``.

    Plain products would hold four more tensors of the size of what is sent.
    """

    @staticmethod
    def forward(
        ctx: Any, sent: Tensor, att_src: Tensor, att_dst: Tensor, rows: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.rows = rows
        ctx.save_for_backward(sent, att_src, att_dst)
        step = max(1, _SCORED_AT_A_TIME // max(1, att_src.numel()))
        a, b = (
            torch.cat([(part * weight).sum(-1) for part in states.split(step)])
            for states, weight in ((sent, att_src), (sent[:rows], att_dst))
        )
        return sent.view_as(sent), a, b

    @staticmethod
    def backward(
        ctx: Any, grad: Tensor, grad_a: Tensor, grad_b: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, None]:
        # `grad` was made by the attention just before and is read by no one else: it is added to.
        sent, att_src, att_dst = ctx.saved_tensors
        step = max(1, _SCORED_AT_A_TIME // max(1, att_src.numel()))
        sums = []
        for weight, score, rows in ((att_dst, grad_b, ctx.rows), (att_src, grad_a, len(sent))):
            total = torch.zeros_like(weight)
            for start in range(0, rows, step):
                part = slice(start, min(start + step, rows))
                factor = score[part, :, None]
                grad[part] += factor * weight
                total += (factor * sent[part]).sum(0, keepdim=True)
            sums.append(total)
        return grad, sums[1], sums[0], None


class GATConv(Conv):
    """GAT: ``sum_j w_ij W x_j`` over neighbours and the node itself, per head.

    Heads are concatenated (``out = heads * out_channels``) or averaged (``out = out_channels``).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 4,
        concat: bool = True,
        negative_slope: float = 0.2,
    ) -> None:
        super().__init__(in_channels, out_channels)
        if not negative_slope > 0:
            raise InputError(f"negative_slope must be above 0; got {negative_slope}.")
        self.heads = heads
        self.concat = concat
        self.negative_slope = negative_slope
        self.lin = nn.Linear(in_channels, heads * out_channels, bias=False)
        self.att_src = Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = Parameter(torch.empty(1, heads, out_channels))
        self.bias = Parameter(torch.zeros(heads * out_channels if concat else out_channels))
        for weight in (self.lin.weight, self.att_src, self.att_dst):
            nn.init.xavier_uniform_(weight)

    def forward(self, x: Inputs, graph: Adjacency, aggregated: Features | None = None) -> Tensor:
        """New states ``[R, out]``."""
        sent = linear(x, self.lin.weight).view(-1, self.heads, self.out_channels)
        sent, a, b = _Scores.apply(  # type: ignore[no-untyped-call]
            sent, self.att_src, self.att_dst, graph.num_rows
        )
        slope = self.negative_slope
        out = graph.attend(a, b, sent, slope=slope, average=not self.concat)
        return (out.flatten(1) if self.concat else out) + self.bias

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"{super().extra_repr()}, heads={self.heads}, concat={self.concat}"
