"""Calling any module on a graph, in the form of the graph that it takes."""

from __future__ import annotations

import inspect
from typing import cast

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tuneup.errors import InputError
from tuneup.graph import Adjacency, SparseMatrix
from tuneup.graph.features import Features, dense
from tuneup.graph.neighbours import Thinned


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside ``torch.compile`` and ``DistributedDataParallel``."""
    while True:
        if isinstance(model, DistributedDataParallel):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = cast(nn.Module, model._orig_mod)
        else:
            return model


def takes_adjacency(model: nn.Module) -> bool:
    """Whether it is called with the :class:`Adjacency` itself, and with sparse features as such."""
    return bool(getattr(unwrapped(model), "takes_adjacency", False))


def call_module(model: nn.Module, x: Features, graph: Adjacency) -> Tensor:
    """Outputs of any module on all nodes, given the form of the graph that it takes.

    A module with a true attribute ``takes_adjacency`` gets the :class:`Adjacency` itself.  What
    wraps a module is called in its place, so that its hooks run.
    """
    if takes_adjacency(model):
        if unwrapped(model) is not model:  # a traced pass cannot keep what it makes
            graph = graph.whole if isinstance(graph, Thinned) else graph
            _ = graph.transposed
            if isinstance(x, SparseMatrix):
                x.transpose()
            for part in model.modules():
                for scaling in getattr(part, "scalings", ()):
                    graph.matrix(scaling)
        return cast(Tensor, model(x, graph))
    out = model(dense(x), _form_of(model, graph), **_weights_for(model, graph))
    if not isinstance(out, Tensor) or out.shape[:1] != (graph.num_nodes,):
        found = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise InputError(
            f"{type(model).__name__}(x, edge_index) must return one row per node "
            f"[{graph.num_nodes}, ...]; got {found}."
        )
    return out


def _weights_for(model: nn.Module, graph: Adjacency) -> dict[str, Tensor]:
    """The edge weights, where there are any, for a module that takes ``edge_weight``."""
    if graph.weight is None:
        return {}
    plain = unwrapped(model)
    names = inspect.signature(plain.forward).parameters
    if list(names)[1:2] == ["adj_t"]:
        return {}  # they are its values
    if "edge_weight" not in names or getattr(plain, "supports_edge_weight", True) is False:
        graph.refuse_weights(type(plain).__name__)
    return {"edge_weight": graph.weight}


def _form_of(model: nn.Module, graph: Adjacency) -> Tensor:
    """The graph as the second argument of the module's ``forward`` names it."""
    plain = unwrapped(model)
    if plain.forward.__name__ == "_forward_unimplemented":
        raise InputError(
            f"{type(plain).__name__} has no forward(x, edge_index), which classifies nodes. "
            "If links are to be predicted, give the data in two parts, as RandomLinkSplit does."
        )
    found = inspect.signature(plain.forward).parameters.values()
    names = [each.name for each in found if each.kind is not each.KEYWORD_ONLY]
    if len(names) < 2 and not any(each.kind is each.VAR_POSITIONAL for each in found):
        raise InputError(
            f"{type(plain).__name__}.forward({', '.join(names)}) must take (x, edge_index), the "
            "features and the edges: tuneup calls it with the edges that a stage leaves."
        )
    return graph.adj_t if names[1:2] == ["adj_t"] else graph.edge_index
