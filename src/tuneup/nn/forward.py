"""Running any model on a graph: for the rows that are read, on a sample, or layer by layer."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeVar
from weakref import ref

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tuneup.errors import InputError
from tuneup.graph import Adjacency, Neighbours, ReceptiveField, receptive_field
from tuneup.graph.csr import pointer, row_ranges
from tuneup.graph.features import Features, dense, take_features

from .encoder import Encoder, Plan
from .inputs import UserItemVectors
from .model import Model, call_module, takes_adjacency, unwrapped

FIRST_LAYER_BUDGET = 2 << 30
"""Bytes that a kept first aggregation may take; above it, the layer transforms first."""

FIELD_BUDGET = 1 << 30
"""Bytes that the edges of a receptive field may take; layers that do not fit compute all nodes."""

_PRUNE_BELOW = 0.5
"""Share of rows read above which all nodes are computed: the field would be everything."""

_KEPT = 8
"""Plans and fields that are kept: training and validation, on G and thinned, of two models."""

Key = tuple[object, ...]
T = TypeVar("T")


@dataclass(eq=False)
class Forward:
    """Outputs of a model on graphs that share one set of nodes and features.

    Our :class:`Encoder` computes only the receptive field of the rows asked for, on learned inputs
    too, and keeps the first aggregation of features while the graph is ``graph`` itself.  Any other
    module is called as ``model(x, edge_index)``, or ``model(x, adj_t)`` if it names its second
    argument so, or ``model(x, adjacency)`` if it has a true attribute ``takes_adjacency``.

    Args:
        x: node features.
        graph: the graph that stays; other graphs are usually thinned out of it.
        budget: bytes that a kept first aggregation may take.
        prune: whether to skip what the rows do not need (the result is the same).
        field_budget: bytes that the edges of a receptive field may take; it goes back through as
            many layers as fit, and the layers before it compute all nodes.
        layered: whether passes without a gradient go layer by layer, in bounded memory.
    """

    x: Features
    graph: Adjacency
    budget: int = FIRST_LAYER_BUDGET
    prune: bool = True
    field_budget: int = FIELD_BUDGET
    layered: bool = False
    _fields: dict[Key, tuple[object, ReceptiveField]] = field(default_factory=dict, repr=False)
    _plans: dict[Key, tuple[object, Plan]] = field(default_factory=dict, repr=False)
    _firsts: dict[Key, Features | None] = field(default_factory=dict, repr=False)

    def __call__(self, model: nn.Module, graph: Adjacency, rows: Tensor | None = None) -> Tensor:
        """Outputs ``[len(rows), out]`` (all nodes without ``rows``)."""
        whole = model if type(model) is Model else None  # a subclass may compute otherwise
        learned = whole is not None and whole.learns_inputs
        encoder = model if whole is None else whole.encoder
        if self.layered and not torch.is_grad_enabled():
            found = self._layer_by_layer(model, graph, rows)
            if found is not None:
                return found
        if isinstance(encoder, Encoder):
            pruned = self._is_pruned(rows)
            plan = self._plan(encoder, graph, rows if pruned else None, learned)
            if whole is not None and learned:
                plan = replace(plan, x=whole.inputs(plan.x, graph))
            out = encoder.run(plan)
            return out if rows is None or pruned else out.index_select(0, rows)
        asked = model if learned else encoder
        out = call_module(asked, self.x if takes_adjacency(asked) else self._dense, graph)
        return out if rows is None else out.index_select(0, rows)

    @cached_property
    def _dense(self) -> Tensor:
        """The features for modules that know no sparse ones."""
        with torch.inference_mode(False):  # else an evaluation would spoil it for training
            return dense(self.x)

    def _layer_by_layer(
        self, model: nn.Module, graph: Adjacency, rows: Tensor | None
    ) -> Tensor | None:
        """The same outputs in bounded memory; ``None`` for models whose layers are not known."""
        whole = model if type(model) is Model else None
        encoder = model if whole is None else whole.encoder
        x = self.x if whole is None else whole.inputs(self.x, graph)
        return layer_by_layer(encoder, x, graph, rows)

    def sample(self, graph: Adjacency, seeds: Tensor, fanouts: Sequence[int], key: int) -> Sample:
        """The part of a graph that is drawn for some seeds, with its features."""
        return draw_sample(graph, seeds, fanouts, key, self.x)

    def _is_pruned(self, rows: Tensor | None) -> bool:
        if rows is None or not self.prune or self.graph.weight is not None:
            return False  # a field's blocks know no weights of the edges around them
        return rows.numel() < _PRUNE_BELOW * self.graph.num_nodes

    def _plan(
        self, model: Encoder, graph: Adjacency, rows: Tensor | None, learned: bool = False
    ) -> Plan:
        # Neither depends on weights, so one plan serves every model of the same shape.
        key = (*_first_layer(model), model.num_layers, model.prunable_layers, learned, id(rows))
        if graph is self.graph:
            return self._remember_plan(key, rows, lambda: self._whole_plan(model, rows, learned))
        if rows is None:
            return model.plan(self.x, graph, None)
        if graph.parent is None or graph.parent.col is not self.graph.col:
            depth = model.prunable_layers
            return model.plan(
                self.x, graph, receptive_field(graph.neighbours, rows, depth, self.field_budget)
            )
        return self._thinned(model, graph, rows, (*key, "thinned"))

    def _whole_plan(self, model: Encoder, rows: Tensor | None, learned: bool) -> Plan:
        field = None if rows is None else self._field(model, rows)
        # What is learned instead of the features is new at every update.
        return model.plan(self.x, self.graph, field, None if learned else self._first(model))

    def _first(self, model: Encoder) -> Features | None:
        """Layer 1's aggregation, which all plans on the whole graph share."""
        kind = _first_layer(model)
        if kind not in self._firsts:
            self._firsts[kind] = model.first_aggregation(self.x, self.graph, self.budget)
        return self._firsts[kind]

    def _thinned(self, model: Encoder, graph: Adjacency, rows: Tensor, key: Key) -> Plan:
        """The remembered field with the dropped edges taken out: nothing is searched for anew."""
        whole = self._field(model, rows)
        plan = self._remember_plan(key, rows, lambda: model.plan(self.x, self.graph, whole))
        spared = model.num_layers - len(whole.blocks)
        return Plan(plan.x, (graph,) * spared + whole.thin(graph).blocks, cut=plan.cut)

    def _field(self, model: Encoder, rows: Tensor) -> ReceptiveField:
        depth = model.prunable_layers
        alias = rows.detach()  # a field without a block would keep the rows themselves alive
        return _remember(
            self._fields,
            (id(rows), depth),
            rows,
            lambda: receptive_field(self.graph.neighbours, alias, depth, self.field_budget),
        )

    def _remember_plan(self, key: Key, rows: Tensor | None, build: Callable[[], Plan]) -> Plan:
        if isinstance(self.x, Tensor) and self.x.requires_grad:  # learned: new at every update
            return build()
        return _remember(self._plans, key, rows, build)


# Samples


@dataclass(frozen=True, eq=False)
class Sample:
    """What an update reads of a graph: blocks for some seeds, and the features of their nodes.

    Args:
        field: the blocks, which may hold only some of a node's neighbours.
        x: features of the field's nodes, if there are features.
        source: what the field was drawn from.
    """

    field: ReceptiveField
    x: Features | None
    source: Neighbours

    @property
    def seeds(self) -> Tensor:
        """The nodes whose outputs are computed ``[n]``."""
        return self.field.nodes[: self.field.blocks[-1].num_rows]

    @cached_property
    def alone(self) -> Tensor:
        """Which of the field's nodes have no neighbour at all ``[C]``."""
        from tuneup.graph.sampling import is_alone

        return is_alone(self.source, self.field.nodes)

    def inputs(self, model: nn.Module) -> Features:
        """What nodes enter the encoder with."""
        whole = model if type(model) is Model else None  # a subclass may compute otherwise
        if whole is not None and isinstance(whole.inputs, UserItemVectors):
            return whole.inputs.of_nodes(self.field.nodes, lambda: self.alone)
        if self.x is None:
            raise InputError(
                f"num_neighbors: got a {type(model).__name__}; expected a Model of users and items "
                "itself, no class derived from it."
            )
        if whole is None or not whole.learns_inputs:
            return self.x
        out: Tensor = whole.inputs(self.x, self.field.blocks[0])
        return out

    def outputs(self, model: nn.Module, inputs: Features | None = None) -> Tensor:
        """Outputs of the seeds ``[n, out]``."""
        encoder = model.encoder if type(model) is Model else model
        x = self.inputs(model) if inputs is None else inputs
        if isinstance(encoder, Encoder):
            return encoder.run(Plan(x, self.field.blocks))
        from tuneup.graph.sampling import one_graph

        return call_module(encoder, x, one_graph(self.field))[: self.seeds.numel()]


def draw_sample(
    graph: Adjacency, seeds: Tensor, fanouts: Sequence[int], key: int, x: Features | None
) -> Sample:
    """The part of a graph that is drawn for distinct seeds."""
    from tuneup.graph.sampling import sample  # compiled code, which takes a while to load

    graph.refuse_weights("a sample of neighbours")
    source = graph.neighbours
    field = sample(source, seeds, fanouts, key)
    if x is not None:
        x = take_features(x, field.nodes)
        x = x.float() if isinstance(x, Tensor) else x
    return Sample(field, x, source)


def check_depth(model: nn.Module, fanouts: Sequence[int]) -> None:
    """Refuse fan-outs that are not one for each layer of a model.

    A module that is not ours may have one more: its layers then see all degrees that they divide
    by, as those of PyG's GCN do.
    """
    from tuneup.graph.sampling import check_fanouts

    encoder = unwrapped(model.encoder if isinstance(model, Model) else model)
    if getattr(encoder, "needs_whole_graph", False):
        raise InputError(
            f"num_neighbors: {type(encoder).__name__} compares all nodes of a graph; leave it out."
        )
    depth = getattr(encoder, "num_layers", None)
    found = check_fanouts(fanouts)
    if isinstance(encoder, Encoder) or (isinstance(depth, int) and len(found) < depth):
        check_fanouts(fanouts, depth)


# Layer by layer

PART = 1 << 18
"""Entries of the rows that are computed at a time."""

PLAIN = 1 << 30
"""Bytes of states up to which they are in memory; beyond it, in a temporary file."""


def layer_by_layer(
    model: nn.Module, x: Features, graph: Adjacency, rows: Tensor | None = None, part: int = PART
) -> Tensor | None:
    """Exact outputs of all nodes, or of ``rows``, one layer after the other, a part at a time.

    Memory holds the states of two layers, in files if they are large, and the neighbourhoods of one
    part.  Works for our encoder, and for PyG's models of equal layers (``inference_per_layer``);
    the answer is ``None`` for others, and where edges have weights.
    """
    encoder = unwrapped(model)
    if graph.weight is not None:
        return None
    step: Callable[[int, Features, Tensor], Tensor]
    if isinstance(encoder, Encoder):
        depth, step = encoder.num_layers, _step_of_ours(encoder, graph)
    elif _has_equal_layers(encoder):
        depth = int(encoder.num_layers)  # type: ignore[arg-type]
        step, part = _step_of_pyg(encoder, graph), part // 16
    else:
        return None
    h: Features = x
    for k in range(depth):
        wanted = rows if k == depth - 1 else None
        h = _all_rows(partial(step, k, h), graph, wanted, part)
        if isinstance(encoder, Encoder) and k < depth - 1:
            h = _between(encoder, k, h)
    assert isinstance(h, Tensor)
    return h


def _has_equal_layers(module: nn.Module) -> bool:
    """Whether it is a model of PyG's that can be run a layer at a time, without new statistics."""
    counts = any(isinstance(part, _BatchNorm) and part.training for part in module.modules())
    jumps = getattr(module, "jk_mode", None) not in (None, "last")
    return hasattr(module, "inference_per_layer") and not jumps and not counts


def _step_of_ours(encoder: Encoder, graph: Adjacency) -> Callable[[int, Features, Tensor], Tensor]:
    def step(k: int, h: Features, nodes: Tensor) -> Tensor:
        field = receptive_field(graph.neighbours, nodes, 1)
        read = take_features(h, field.nodes)
        read = read.float() if isinstance(read, Tensor) and read.dtype == torch.half else read
        out: Tensor = encoder.convs[k](read, field.blocks[0])
        return out

    return step


def _step_of_pyg(encoder: nn.Module, graph: Adjacency) -> Callable[[int, Features, Tensor], Tensor]:
    """Two hops, as a layer of PyG's counts the edges of the senders itself."""
    from tuneup.graph.sampling import one_graph, sample

    def step(k: int, h: Features, nodes: Tensor) -> Tensor:
        field = sample(graph.neighbours, nodes, (-1, -1), 0)
        seen = dense(take_features(h, field.nodes)), one_graph(field).edge_index
        out: Tensor = encoder.inference_per_layer(k, *seen, nodes.numel())  # type: ignore[operator]
        return out

    return step


def _all_rows(
    step: Callable[[Tensor], Tensor], graph: Adjacency, rows: Tensor | None, part: int
) -> Tensor:
    out: Tensor | None = None
    count = graph.num_nodes if rows is None else rows.numel()
    for start, nodes in _parts(graph, rows, part):
        found = step(nodes)
        if out is None:
            out = _storage(count, found)
        out[start : start + nodes.numel()] = found
    return step(torch.empty(0, dtype=torch.long)) if out is None else out


def _parts(graph: Adjacency, rows: Tensor | None, part: int) -> Iterator[tuple[int, Tensor]]:
    """Consecutive rows with about as many entries, and where they begin."""
    rowptr = graph.rowptr if rows is None else pointer(graph.neighbours.degree(rows))
    for start, stop in row_ranges(rowptr, part):
        nodes = torch.arange(start, stop, device=graph.device)
        yield start, nodes if rows is None else rows[nodes]


def _storage(count: int, like: Tensor) -> Tensor:
    shape = (count, *like.shape[1:])
    if math.prod(shape) * like.itemsize <= PLAIN or not like.is_cpu:
        return like.new_empty(shape)
    with tempfile.TemporaryFile() as file:  # its pages live as long as the array
        kind = str(like.dtype).removeprefix("torch.")
        return torch.from_numpy(np.memmap(file, kind, "w+", shape=shape))


def _between(encoder: Encoder, k: int, h: Features) -> Tensor:
    """What lies between two layers, in place; batch statistics are those of all rows."""
    assert isinstance(h, Tensor)
    if encoder.norms[k].training and isinstance(encoder.norms[k], nn.BatchNorm1d):
        return encoder.between(k, h)
    for start in range(0, len(h), PART):
        h[start : start + PART] = encoder.between(k, h[start : start + PART])
    return h


def _first_layer(model: Encoder) -> Key:
    """What decides layer 1's aggregation, besides features and graph."""
    conv = model.convs[0]
    return type(conv), getattr(conv, "aggregation", None), getattr(conv, "scaling", None)


def _remember(
    kept: dict[Key, tuple[object, T]], key: Key, rows: Tensor | None, build: Callable[[], T]
) -> T:
    """What ``build`` answers, built once; only the answers used last are kept.

    An answer goes with its rows: those of a batch live for an update, those of a task for all of
    them.  Their id, a part of the key, is free for other rows only after that.
    """
    if key in kept:
        kept[key] = kept.pop(key)
        return kept[key][1]
    with torch.inference_mode(False):  # else an evaluation would spoil it for training
        built = build()
    while len(kept) >= _KEPT:
        del kept[next(iter(kept))]
    life = None if rows is None else ref(rows, lambda _: kept.pop(key, None))
    kept[key] = life, built
    return built
