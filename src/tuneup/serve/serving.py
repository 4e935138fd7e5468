"""A loaded model with its graph in memory, which answers by numbers.

An arrival changes its neighbours' degrees and states, and theirs in turn: nothing that was computed
before can be used.  A new node's answer is the model's own layers on its receptive field, exactly
as if the graph contained it.  Work and memory depend on the entries of that field alone, never on
the number of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import (
    Adjacency,
    Features,
    Overlay,
    Rows,
    Scaling,
    receptive_field,
    sparse_features,
    take_features,
)
from tuneup.graph.csr import rows_of
from tuneup.graph.features import stack_features
from tuneup.graph.kernels import csr_reduce
from tuneup.nn import Encoder, GCNConv, LightGCN, NodeVectors, Plan, SAGEConv, UserItemVectors

from .arrivals import Arrivals, Ints, check_encoder
from .artefact import Artefact

TOGETHER = 256
"""Worlds that are computed at once, if memory allows."""

BUDGET = 1 << 27
"""Bytes of a field's edges above which several worlds are not computed at once."""


@dataclass(frozen=True, eq=False)
class ServedModel:
    """What predictions are computed from.

    Args:
        artefact: the model, its graph and features.
        new_user: what a new user of a recommender enters with.
    """

    artefact: Artefact
    new_user: Tensor | None = None

    @cached_property
    def graph(self) -> Adjacency:
        """The graph on the CPU, where fields are cut out of it, whatever the layers' device."""
        return self.artefact.adjacency.to("cpu")

    def prepare(self) -> ServedModel:
        """Make what grows with the graph and every new node reads now, not at the first one."""
        _ = self.inputs
        return self

    @property
    def first(self) -> int:
        """The first node that can be an answer: items come after users."""
        return self.artefact.blueprint.users

    @cached_property
    def inputs(self) -> Features:
        """What old nodes enter with, once they have an edge ``[N, d]``."""
        model = self.artefact.model
        if isinstance(model.inputs, UserItemVectors):
            return model.inputs.of_linked()
        assert self.artefact.x is not None
        with torch.no_grad():
            found: Features = model.inputs(self.artefact.x, self.artefact.adjacency)
        return found

    @cached_property
    def unknown(self) -> Tensor | None:
        """What a new node enters with ``[d]`` if the model learned inputs in place of features."""
        inputs = self.artefact.model.inputs
        return inputs.unknown.detach() if isinstance(inputs, NodeVectors) else None

    @cached_property
    def outputs(self) -> Tensor:
        """Outputs of all old nodes ``[N, d]``, from one pass that is then kept."""
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # a module that is not ours may draw numbers
            found: Tensor = self.artefact.model(self.artefact.x, self.artefact.adjacency)
        return found

    @cached_property
    def _embedder(self) -> nn.Module:
        """What embeddings come from: of a classifier, the layers before that of its classes."""
        encoder = self.artefact.model.encoder
        classifies = self.artefact.blueprint.task == "node-classification"
        if classifies and isinstance(encoder, Encoder) and encoder.num_layers > 1:
            return encoder.body()
        return encoder

    @cached_property
    def embeddings(self) -> Tensor:
        """Embeddings of all old nodes ``[N, d]``: hidden states of a classifier, else outputs."""
        if self._embedder is self.artefact.model.encoder:
            return self.outputs
        with torch.no_grad():
            found: Tensor = self._embedder(self.inputs, self.artefact.adjacency)
        return found

    def of_old(self, nodes: Ints) -> Tensor:
        """Outputs of some old nodes ``[n, d]``."""
        return self.outputs.index_select(0, torch.from_numpy(nodes).to(self.outputs.device))

    def of_new(self, inputs: Tensor, arrivals: Arrivals) -> Tensor:
        """Outputs of new nodes with these inputs ``[m, d]``, each as if its world came alone."""
        return self._encode(self.artefact.model.encoder, inputs, arrivals)

    def embed(self, inputs: Tensor, arrivals: Arrivals) -> Tensor:
        """Embeddings of new nodes with these inputs ``[m, d]``."""
        return self._encode(self._embedder, inputs, arrivals)

    @torch.no_grad()
    def _encode(self, module: nn.Module, inputs: Tensor, arrivals: Arrivals) -> Tensor:
        encoder = check_encoder(module)
        if self.artefact.adjacency.weight is not None:
            raise InputError(
                "New nodes are not supported on a graph with edge weights: a receptive field has "
                "none. Put the nodes into the tables, and make the Predictor again."
            )
        if not len(inputs):
            raise InputError("There is no new node to answer for.")
        inputs = inputs.to(self.artefact.adjacency.device)
        x = Inputs(self.inputs, inputs, arrivals.overlay)
        if arrivals.overlay.worlds == 1:
            out = _outputs(encoder, x, arrivals.nodes, None)
            assert out is not None  # nothing limits it
            return out
        parts = list(_parts(encoder, x, arrivals))
        order = torch.cat([chosen for chosen, _ in parts]).argsort()
        return torch.cat([out for _, out in parts])[order.to(inputs.device)]

    def degree(self, nodes: Ints) -> Ints:
        """In-degree of some old nodes ``[n]``."""
        found: Ints = self.graph.neighbours.degree(torch.from_numpy(nodes)).numpy()
        return found

    def user_inputs(self, degree: Ints) -> Tensor:
        """What new users with so many items enter with ``[m, width]``.

        The mean of the trained users; for one without any item what the model itself has in place
        of all such users, if it learned that.
        """
        model = self.artefact.model.inputs
        if not isinstance(model, UserItemVectors) or self.new_user is None:
            raise InputError("Only a recommender has learned inputs.")
        inputs = self.new_user.expand(degree.size, -1)
        if model.unknown is None:
            return inputs
        alone = torch.from_numpy(degree == 0).to(inputs.device)[:, None]
        return torch.where(alone, model.unknown[0], inputs)


def _parts(
    encoder: Encoder | LightGCN, x: Inputs, arrivals: Arrivals
) -> Iterator[tuple[Tensor, Tensor]]:
    """Outputs of the new nodes of some worlds, as many worlds at a time as fit."""
    overlay, nodes = arrivals.overlay, arrivals.nodes
    world, count = nodes // overlay.span, overlay.worlds
    todo = [(start, min(start + TOGETHER, count)) for start in range(0, count, TOGETHER)]
    while todo:
        start, stop = todo.pop()
        chosen = ((world >= start) & (world < stop)).nonzero().view(-1)
        out = _outputs(encoder, x, nodes[chosen], BUDGET if stop - start > 1 else None)
        if out is not None:
            yield chosen, out
        else:
            middle = (start + stop) // 2
            todo += [(middle, stop), (start, middle)]


def _outputs(
    encoder: Encoder | LightGCN, x: Inputs, seeds: Tensor, budget: int | None
) -> Tensor | None:
    """Outputs of some new nodes ``[n, out]``, or ``None`` if their field is above the budget."""
    read = _read_in_place(encoder) if isinstance(x.old, Tensor) else None
    depth = encoder.num_layers - (read is not None)
    field = receptive_field(x.overlay, seeds, depth, budget)
    if len(field.blocks) < depth:
        return None
    own, blocks = x.take(field.nodes), [block.to(x.new.device) for block in field.blocks]
    if read is None:
        assert isinstance(encoder, Encoder)
        return encoder.run(Plan(own, tuple(blocks)))
    assert isinstance(own, Tensor)
    if budget is not None and 32 * int(x.overlay.degree(field.nodes).sum()) > budget:
        return None
    first = x.aggregate(field.nodes, own, read)
    if isinstance(encoder, LightGCN):
        return encoder.run(own, blocks, first)
    rowptr = own.new_zeros(len(own) + 1, dtype=torch.long)  # its length is all that is read
    receivers = Adjacency(rowptr, rowptr[:0], len(own), False)
    return encoder.run(Plan(own, (receivers, *blocks), first))


def _read_in_place(encoder: Encoder | LightGCN) -> Scaling | Literal["max"] | None:
    """How the first layer aggregates its inputs, if it does so before all else."""
    if isinstance(encoder, LightGCN):
        return "symmetric"
    conv = encoder.convs[0]
    if isinstance(conv, SAGEConv):
        return conv.aggregation
    return conv.scaling if isinstance(conv, GCNConv) else None


@dataclass(frozen=True, eq=False)
class Inputs:
    """What nodes of an overlay enter with: rows of two tables that are not put together.

    Args:
        old: of old nodes ``[N, d]``.
        new: of new nodes ``[m, d]``.
        overlay: the graph with the new nodes in it.
    """

    old: Features
    new: Tensor
    overlay: Overlay

    def take(self, nodes: Tensor) -> Features:
        """Of some nodes, of which the new ones come first."""
        number = self.overlay.number(nodes)
        count = int((number >= self.overlay.base.num_nodes).sum())
        number = number.to(self.new.device)
        old = take_features(self.old, number[count:])
        new = self.new[number[:count] - self.overlay.base.num_nodes]
        return stack_features(new if isinstance(old, Tensor) else sparse_features(new), old)

    def aggregate(self, nodes: Tensor, own: Tensor, how: Scaling | Literal["max"]) -> Tensor:
        """What some nodes receive ``[n, d]``, by a propagation matrix or as maxima.

        Layer 1 has most of a field's entries: it reads its inputs where they lie. ``own`` are those
        of the receivers.
        """
        assert isinstance(self.old, Tensor)
        device = self.old.device
        old, added = self.overlay.parts(nodes)
        order = self.overlay.number(added.col).argsort(descending=True)  # new nodes come first
        row = rows_of(added.rowptr, added.col.numel())[order].to(device)
        sent, count = self.take(added.col[order]), (old.count + added.count).to(device)
        rows = Rows(old.rowptr.to(device), self.overlay.number(old.col).to(device))
        assert isinstance(sent, Tensor)
        if how == "max":
            ones = self.old.new_ones(rows.col.numel())
            out = csr_reduce(rows.rowptr, rows.col, ones, self.old, "amax")
            out[rows.count == 0] = -torch.inf
            out.scatter_reduce_(0, row[:, None].expand_as(sent), sent, "amax")
            return out.masked_fill_((count == 0)[:, None], 0.0)
        loops, value = int(how == "gcn"), None
        if how in ("gcn", "symmetric"):
            value, scale = (
                _inverse_root(self.overlay.degree(senders).to(device), loops)
                for senders in (old.col, added.col[order])
            )
            sent = sent * scale[:, None]
        out = _bags(rows, value, self.old).index_add_(0, row, sent)
        if how == "sum":
            return out
        if how == "mean":
            return out.div_(count.clamp(min=1)[:, None])
        scale = _inverse_root(count, loops)[:, None]
        return (out.addcmul_(own, scale) if loops else out).mul_(scale)


def _inverse_root(degree: Tensor, loops: int) -> Tensor:
    return (degree + loops).clamp_(min=1).float().rsqrt_()


def _bags(rows: Rows, value: Tensor | None, x: Tensor) -> Tensor:
    """``out[i] = sum over k in row i of value[k] * x[col[k]]``.

    This kernel fetches rows ahead, which pays where they are far apart.
    """
    if not rows.col.numel():
        return x.new_zeros(rows.num_nodes, x.shape[1])
    return F.embedding_bag(
        rows.col, x, rows.rowptr, mode="sum", per_sample_weights=value, include_last_offset=True
    )
