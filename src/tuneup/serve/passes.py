"""A model's outputs on new nodes: its own layers, on the field of what has arrived."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import Adjacency, Features
from tuneup.graph.features import sparse_features, stack_features, take_features
from tuneup.nn import Conv, Encoder, GCNConv, LightGCN, Plan, SAGEConv

from .arrivals import Arrivals, Ints
from .field import ArrivalField, OldGraph, arrival_field
from .first import first_max, first_sum, own_inputs

TOGETHER = 256
"""Worlds that are computed at once, if memory allows."""

LIMIT = 1 << 22
"""Entries of layer 1 above which several worlds are not computed at once."""


def check_encoder(encoder: nn.Module) -> Encoder | LightGCN:
    """An encoder whose layers can be run on a part of the graph."""
    if isinstance(encoder, LightGCN):
        return encoder
    if not isinstance(encoder, Encoder):
        raise InputError(
            f"A {type(encoder).__name__} cannot answer for new nodes: only tuneup's own Encoder "
            "and LightGCN compute a part of a graph. Put the nodes into the data, and make the "
            "Predictor again."
        )
    for conv in encoder.convs:
        if isinstance(conv, GCNConv) and conv.scaling != "gcn":
            raise InputError(
                f"An encoder with {conv.scaling} weights cannot be saved or served: only those of "
                "GCN itself are a matter of a node's own neighbourhood."
            )
    return encoder


@torch.no_grad()
def encode_new(
    encoder: Encoder | LightGCN, x: Features, x_new: Tensor, graph: OldGraph, arrivals: Arrivals
) -> Tensor:
    """Outputs of all new nodes ``[m, out]``, each as if its world alone were inserted.

    Args:
        encoder: in evaluation mode: its statistics are fixed, so no layer needs all nodes.
        x: inputs of the old nodes, ``[N, d]``.
        x_new: inputs of the new ones ``[m, d]``.
        graph: the old graph.
        arrivals: the new nodes' edges.
    """
    count = x_new.shape[0]
    if count == 0:
        raise InputError("There is no new node to answer for.")
    parts: list[Tensor] = []
    places: list[Ints] = []
    for place, field in _fields(encoder, graph, arrivals):
        chosen = torch.from_numpy(place).to(x_new.device)
        parts.append(_run(encoder, field, x, x_new.index_select(0, chosen)))
        places.append(place)
    if len(parts) == 1:
        return parts[0]
    order = torch.from_numpy(np.concatenate(places).argsort()).to(x_new.device)
    return torch.cat(parts).index_select(0, order)


def _fields(
    encoder: Encoder | LightGCN, graph: OldGraph, arrivals: Arrivals
) -> Iterator[tuple[Ints, ArrivalField]]:
    """The new nodes of some worlds and their field, as many worlds at a time as fit."""
    count, keys = arrivals.num_worlds, arrivals.new_keys
    todo = [(start, min(start + TOGETHER, count)) for start in range(0, count, TOGETHER)]
    while todo:
        start, stop = todo.pop()
        place = np.flatnonzero((arrivals.world >= start) & (arrivals.world < stop))
        limit = LIMIT if stop - start > 1 else None
        field = arrival_field(graph, arrivals, keys[place], encoder.num_layers, limit)
        if field is None:
            middle = (start + stop) // 2
            todo += [(middle, stop), (start, middle)]
        else:
            yield place, field


def _run(encoder: Encoder | LightGCN, field: ArrivalField, x: Features, x_new: Tensor) -> Tensor:
    if isinstance(encoder, LightGCN):
        return _light(encoder, field, x, x_new)
    conv = encoder.convs[0]
    assert isinstance(conv, Conv)
    if isinstance(x, Tensor) and isinstance(conv, SAGEConv | GCNConv):
        own = own_inputs(field, x, x_new)
        if isinstance(conv, GCNConv):
            first = first_sum(field, conv.scaling, x, x_new, own)
        elif conv.aggregation == "max":
            first = first_max(field, x, x_new)
        else:
            first = first_sum(field, conv.aggregation, x, x_new, own)
        rowptr = torch.from_numpy(field.first.old_rowptr)
        receivers = Adjacency(
            rowptr, rowptr[:0], own.shape[0], False
        )  # its length is all that is read
        return encoder.run(Plan(own, (receivers, *field.blocks), first))
    number, block = field.gathered(encoder.architecture == "gcn")
    old = torch.from_numpy(number[field.wanted :]).to(x_new.device)
    gathered = stack_features(
        x_new if isinstance(x, Tensor) else sparse_features(x_new), take_features(x, old)
    )
    return encoder.run(Plan(gathered, (block, *field.blocks)))


def _light(encoder: LightGCN, field: ArrivalField, x: Features, x_new: Tensor) -> Tensor:
    """``1/(L+1) sum_l h_l`` of the new nodes, which come first in every block."""
    assert isinstance(x, Tensor)
    h = first_sum(field, "symmetric", x, x_new, x_new)
    total = x_new + h[: field.wanted]
    for block in field.blocks:
        h = block.matrix("symmetric") @ h
        total = total + h[: field.wanted]
    return total / (encoder.num_layers + 1)
