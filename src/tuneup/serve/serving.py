"""A loaded model with its graph in memory, which answers by numbers.

An arrival changes its neighbours' degrees and states, and theirs in turn: nothing that was computed
before can be used.  A new node's answer is the model's own layers on its receptive field, exactly
as if the graph contained it.  Work and memory depend on the entries of that field alone, never on
the number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import numpy as np
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
from tuneup.nn import (
    Encoder,
    GCNConv,
    LightGCN,
    NodeFeatures,
    NodeVectors,
    Plan,
    SAGEConv,
    UserItemVectors,
)
from tuneup.nn.model import call_module

from .arrivals import Arrivals, Ints
from .artefact import Artefact
from .modules import cut_out, measured_hops

TOGETHER = 256
"""Worlds that are computed at once, if memory allows."""

BUDGET = 1 << 27
"""Bytes of a field's edges above which several worlds are not computed at once."""


@dataclass(frozen=True, eq=False)
class ServedModel:
    """What predictions are computed from: a model with its graph and features."""

    artefact: Artefact

    @cached_property
    def graph(self) -> Adjacency:
        """The graph on the CPU, where fields are cut out of it, whatever the layers' device."""
        return self.artefact.adjacency.to("cpu")

    def prepare(self) -> ServedModel:
        """Make what grows with the graph and every new node reads now, not at the first one."""
        _ = self.inputs, self.new_user
        for ids in (self.artefact.ids, self.artefact.items):
            if ids is not None and len(ids):
                _ = ids.finder
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

    @property
    def num_features(self) -> int | None:
        """Features that a new node brings; ``None`` if the model learned what nodes enter with."""
        reads = isinstance(self.artefact.model.inputs, NodeFeatures)
        return self.artefact.x.shape[1] if reads and self.artefact.x is not None else None

    @cached_property
    def unknown(self) -> Tensor | None:
        """What a new node enters with ``[d]`` if the model learned inputs in place of features."""
        inputs = self.artefact.model.inputs
        return inputs.unknown.detach() if isinstance(inputs, NodeVectors) else None

    @cached_property
    def new_user(self) -> Tensor | None:
        """What a new user of a recommender enters with ``[d]``."""
        inputs = self.artefact.model.inputs
        if not isinstance(inputs, UserItemVectors):
            return None
        return inputs.mean_user(self.artefact.adjacency).detach()

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

    def of_old(self, nodes: Tensor) -> Tensor:
        """Outputs of some old nodes ``[n, d]``."""
        return self.outputs.index_select(0, nodes.to(self.outputs.device))

    def of_new(self, inputs: Tensor, arrivals: Arrivals) -> Tensor:
        """Outputs of new nodes with these inputs ``[m, d]``, each as if its world came alone."""
        return self._encode(self.artefact.model.encoder, inputs, arrivals)

    def embed(self, inputs: Tensor, arrivals: Arrivals) -> Tensor:
        """Embeddings of new nodes with these inputs ``[m, d]``."""
        return self._encode(self._embedder, inputs, arrivals)

    def inputs_of_new(self, degree: Ints) -> Tensor:
        """What new nodes of these degrees enter with ``[m, d]`` in place of features.

        The mean of the learned inputs; a new user of a recommender without any item with what the
        model itself has in place of all such users, if it learned that.
        """
        inputs = self.artefact.model.inputs
        if not isinstance(inputs, UserItemVectors) or self.new_user is None:
            assert self.unknown is not None
            return self.unknown.expand(degree.size, -1)
        found = self.new_user.expand(degree.size, -1)
        if inputs.unknown is None:
            return found
        alone = torch.from_numpy(degree == 0).to(found.device)[:, None]
        return torch.where(alone, inputs.unknown[0], found)

    @cached_property
    def hops(self) -> int:
        """How far the inputs and edges lie that a new node's outputs depend on.

        Raises:
            InputError: If there is no such distance: the model reads the whole graph.
        """
        encoder = self.artefact.model.encoder
        if isinstance(encoder, Encoder | LightGCN):
            return encoder.num_layers + 1  # the last senders' own degrees are read too
        stated = self.artefact.blueprint.module
        found = measured_hops(encoder, self.inputs.shape[1], self.graph)
        return max(found, (stated and stated.depth) or 0)

    @torch.no_grad()
    def _encode(self, module: nn.Module, inputs: Tensor, arrivals: Arrivals) -> Tensor:
        if not len(inputs):
            raise InputError("There is no new node to answer for.")
        old = self.inputs
        inputs = inputs.to(old if isinstance(old, Tensor) else self.artefact.adjacency.device)
        x = Inputs(old, inputs, arrivals.overlay)
        compute: Compute
        if isinstance(module, Encoder | LightGCN) and self.graph.weight is None:
            compute = partial(_by_layers, module, x)
        else:
            compute = partial(self._as_a_graph, module, x, arrivals)
        if arrivals.overlay.worlds == 1:
            out = compute(arrivals.nodes, None)
            assert out is not None  # nothing limits it
            return out
        parts = list(_parts(compute, arrivals))
        order = torch.cat([chosen for chosen, _ in parts]).argsort()
        return torch.cat([out for _, out in parts])[order.to(inputs.device)]

    def _as_a_graph(
        self, module: nn.Module, x: Inputs, arrivals: Arrivals, seeds: Tensor, budget: int | None
    ) -> Tensor | None:
        """Outputs by a module that is called with the field as a graph of its own."""
        found = cut_out(
            arrivals.overlay, seeds, self.hops, partial(self._weights, arrivals), budget
        )
        if found is None:
            return None
        nodes, graph = found
        return call_module(module, x.take(nodes), graph.to(x.new.device))[: len(seeds)]

    def _weights(self, arrivals: Arrivals, nodes: Tensor) -> Tensor | None:
        """Weights of the entries of some nodes, in the order of ``overlay.take``."""
        if self.graph.weight is None or arrivals.weight is None:
            return None
        old, added = arrivals.overlay.parts(nodes)
        behind = old.rowptr[1:].numpy().repeat(added.count.numpy())
        weight = self.graph.weight[old.entries].numpy()
        return torch.from_numpy(np.insert(weight, behind, arrivals.weight[added.entries].numpy()))


Compute = Callable[[Tensor, int | None], Tensor | None]
"""Outputs of some new nodes ``[n, out]``, or ``None`` if their field is above a budget of bytes."""


def _parts(compute: Compute, arrivals: Arrivals) -> Iterator[tuple[Tensor, Tensor]]:
    """Outputs of the new nodes of some worlds, as many worlds at a time as fit."""
    overlay, nodes = arrivals.overlay, arrivals.nodes
    world, count = nodes // overlay.span, overlay.worlds
    todo = [(start, min(start + TOGETHER, count)) for start in range(0, count, TOGETHER)]
    while todo:
        start, stop = todo.pop()
        chosen = ((world >= start) & (world < stop)).nonzero().view(-1)
        out = compute(nodes[chosen], BUDGET if stop - start > 1 else None)
        if out is not None:
            yield chosen, out
        else:
            middle = (start + stop) // 2
            todo += [(middle, stop), (start, middle)]


def _by_layers(
    encoder: Encoder | LightGCN, x: Inputs, seeds: Tensor, budget: int | None
) -> Tensor | None:
    """Outputs by the layers of our own encoders, each on the nodes that the next one reads."""
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
                _inverse_root(self.overlay.degree(senders), loops, self.old)
                for senders in (old.col, added.col[order])
            )
            sent = sent * scale[:, None]
        out = _bags(rows, value, self.old).index_add_(0, row, sent)
        if how == "sum":
            return out
        if how == "mean":
            return out.div_(count.clamp(min=1)[:, None])
        scale = _inverse_root(count, loops, self.old)[:, None]
        return (out.addcmul_(own, scale) if loops else out).mul_(scale)


def _inverse_root(degree: Tensor, loops: int, like: Tensor) -> Tensor:
    return (degree + loops).clamp_(min=1).to(like).rsqrt_()


def _bags(rows: Rows, value: Tensor | None, x: Tensor) -> Tensor:
    """``out[i] = sum over k in row i of value[k] * x[col[k]]``.

    This kernel fetches rows ahead, which pays where they are far apart.
    """
    if not rows.col.numel():
        return x.new_zeros(rows.num_nodes, x.shape[1])
    return F.embedding_bag(
        rows.col, x, rows.rowptr, mode="sum", per_sample_weights=value, include_last_offset=True
    )
