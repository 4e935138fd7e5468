"""One model for all tasks: inputs, an encoder and a head."""

from __future__ import annotations

from copy import copy

from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import Adjacency, adjacency_from
from tuneup.graph.features import Features

from .calling import call_module, unwrapped
from .encoder import Encoder
from .heads import Classes, HadamardMLP, InnerProduct
from .inputs import NodeFeatures, NodeVectors, UserItemVectors

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
