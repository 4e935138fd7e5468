"""Running any model on a graph for the rows that are read, and remembering what does not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar
from weakref import ref

import torch
from torch import Tensor, nn

from tuneup.graph import Adjacency, ReceptiveField, receptive_field
from tuneup.graph.features import Features, dense

from .encoder import Encoder, Plan
from .model import Model, call_module, takes_adjacency

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
    """

    x: Features
    graph: Adjacency
    budget: int = FIRST_LAYER_BUDGET
    prune: bool = True
    field_budget: int = FIELD_BUDGET
    _fields: dict[Key, tuple[object, ReceptiveField]] = field(default_factory=dict, repr=False)
    _plans: dict[Key, tuple[object, Plan]] = field(default_factory=dict, repr=False)
    _firsts: dict[Key, Features | None] = field(default_factory=dict, repr=False)

    def __call__(self, model: nn.Module, graph: Adjacency, rows: Tensor | None = None) -> Tensor:
        """Outputs ``[len(rows), out]`` (all nodes without ``rows``)."""
        whole = model if type(model) is Model else None  # a subclass may compute otherwise
        learned = whole is not None and whole.learns_inputs
        encoder = model if whole is None else whole.encoder
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
