"""One model for all tasks, of inputs, an encoder and a head; and calling a module of one's own."""

from __future__ import annotations

import inspect
from copy import copy
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tuneup.errors import InputError
from tuneup.graph import Adjacency, SparseMatrix, adjacency_from
from tuneup.graph.features import Features, dense
from tuneup.graph.neighbours import Thinned

from .encoder import Encoder
from .inputs import NodeFeatures, NodeVectors, UserItemVectors

# Heads: what a task reads off the outputs


class Classes(nn.Module):
    """The outputs are logits of classes."""

    def forward(self, z: Tensor) -> Tensor:
        """``z [N, C]``."""
        return z


class InnerProduct(nn.Module):
    """The score of a pair is ``z_s . z_t``.

    Example::

        scores = tuneup.InnerProduct()(z[:3], z[3:6])  # of three pairs of rows
    """

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Scores of pairs of rows ``[n]``."""
        return (a * b).sum(1)


class HadamardMLP(nn.Module):
    """The score of a pair is ``w_2 . relu(W_1 (z_s * z_t) + b_1) + b_2``, symmetric in the two.

    Example::

        head = tuneup.HadamardMLP(z.shape[1], width=64)
        scores = head(z[:3], z[3:6])  # of three pairs of rows
    """

    def __init__(self, in_channels: int, width: int = 256) -> None:
        super().__init__()
        self.hidden = nn.Linear(in_channels, width)
        self.out = nn.Linear(width, 1)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Scores of pairs of rows ``[n]``."""
        scores: Tensor = self.out(torch.relu_(self.hidden(a * b)))
        return scores.squeeze(1)


@dataclass(frozen=True, eq=False)
class HadamardScorer:
    """A head's scores of all pairs of some sources and some candidates.

    ``W_1 (z_s * z_c) = (W_1 diag(z_s)) z_c``: the sources of a tile share one matrix product with
    the candidates, and the products of embeddings are never stored.
    """

    head: HadamardMLP
    tile: tuple[int, int] = (16, 1024)

    def __call__(self, sources: Tensor, candidates: Tensor, out: Tensor) -> None:
        """Write the scores of ``[s, d]`` against ``[c, d]`` into ``out [s, c]``."""
        weight = self.head.hidden.weight
        scaled = (sources[:, None, :] * weight).flatten(0, 1)  # [s * width, d]
        bias = self.head.hidden.bias.repeat(sources.shape[0])
        hidden = torch.addmm(bias, candidates, scaled.t()).relu_()
        hidden = hidden.view(candidates.shape[0], sources.shape[0], -1)
        last = self.head.out
        out.copy_((hidden @ last.weight[0] + last.bias).t())


Inputs = NodeFeatures | NodeVectors | UserItemVectors
Head = Classes | HadamardMLP | InnerProduct


class Model(nn.Module):
    """``z = encoder(inputs(x), graph)``, and a head that a task reads off ``z``.

    ============================  =====================  ======================
    task                          inputs                 head
    ============================  =====================  ======================
    node classification           ``NodeFeatures()``     ``Classes()``
    link prediction               ``NodeFeatures()``     ``HadamardMLP(width)``
    recommendation                ``UserItemVectors(n)`` ``InnerProduct()``
    ============================  =====================  ======================

    ``NodeVectors`` takes the place of features that nodes do not have. For node classification any
    module called as ``model(x, edge_index)`` is a model too.

    Example::

        encoder = tuneup.Encoder(data.num_features, 16, width=16)
        links = tuneup.Model(tuneup.NodeFeatures(), encoder, tuneup.HadamardMLP(16))
        z = links(data.x, data.edge_index)          # embeddings [N, 16]
        score = links.head(z[:1], z[1:2])           # of the pair (0, 1)

    Args:
        inputs: what nodes enter with.
        encoder: our ``Encoder``, or any PyG module called as ``encoder(x, edge_index)``.
        head: what the task reads off the outputs.
    """

    takes_adjacency = True

    def __init__(self, inputs: Inputs, encoder: nn.Module, head: Head) -> None:
        super().__init__()
        self.inputs = inputs
        self.encoder = encoder
        self.head = head
        made = _width_of(encoder)
        read = head.hidden.in_features if isinstance(head, HadamardMLP) else made
        if made is not None and made != read:
            raise InputError(
                f"The encoder gives embeddings of width {made}, but the head reads {read}: make it "
                f"HadamardMLP({made})."
            )

    @property
    def learns_inputs(self) -> bool:
        """Whether nodes enter with learned vectors instead of features."""
        return not isinstance(self.inputs, NodeFeatures)

    def forward(
        self, x: Features | None, graph: Adjacency | Tensor, arriving: Tensor | None = None
    ) -> Tensor:
        """Outputs of all nodes ``[N, d]``: logits of classes, or embeddings.

        Args:
            x: features, identities for ``NodeVectors``, or ``None`` for users and items.
            graph: an :class:`~tuneup.graph.Adjacency` or a PyG ``edge_index``.
            arriving: see :meth:`UserItemVectors.forward`.
        """
        if isinstance(self.inputs, UserItemVectors):
            return self._of_users_and_items(self.inputs, graph, arriving)
        assert x is not None
        graph = adjacency_from(graph, x.shape[0])
        return call_module(self.encoder, self.inputs(x, graph), graph)

    def _of_users_and_items(
        self, inputs: UserItemVectors, graph: Adjacency | Tensor, arriving: Tensor | None
    ) -> Tensor:
        graph = adjacency_from(graph, inputs.num_users + inputs.num_items)
        found = inputs.compressed(graph, arriving) if self._answers_alike() else None
        if found is None:
            return call_module(self.encoder, inputs(None, graph, arriving), graph)
        z = call_module(self.encoder, found.inputs, found.graph)
        return z.index_select(0, found.place)

    def _answers_alike(self) -> bool:
        """Whether nodes with equal inputs and no edge have equal outputs: computed once."""
        encoder = unwrapped(self.encoder)
        if type(encoder) is not Encoder:  # a subclass may do otherwise
            return False
        alike = all(isinstance(norm, nn.Identity | nn.LayerNorm) for norm in encoder.norms)
        return alike and not (encoder.training and encoder.dropout > 0)

    def with_encoder(self, encoder: nn.Module) -> Model:
        """The same model around another encoder; all other parameters are shared."""
        twin = copy(self)
        twin._modules = {**self._modules, "encoder": encoder}
        return twin


def _width_of(encoder: nn.Module) -> int | None:
    """Of the outputs, if the encoder has it as an attribute, as PyG's models do."""
    encoder = unwrapped(encoder)
    last = encoder.convs[-1] if isinstance(encoder, Encoder) else encoder
    found = getattr(last, "out_channels", None)
    return found if isinstance(found, int) else None


# Modules of any kind


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
