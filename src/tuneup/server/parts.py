"""What a server reads of a ``Predictor`` beyond its questions: all such names are in this file."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import Adjacency, Features, sparse_features, take_features
from tuneup.graph.features import stack_features
from tuneup.metrics import Temperature
from tuneup.metrics.calibration import UNIT
from tuneup.names import TaskName
from tuneup.nn import Encoder, HadamardMLP, LightGCN, Model, NodeVectors, Plan, UserItemVectors
from tuneup.serve import Predictor
from tuneup.tables import IdMap


@dataclass(frozen=True, eq=False)
class Parts:
    """A trained model taken apart.

    Args:
        predictor: the model.
        model: its inputs, encoder and head.
        graph: that it was saved with.
        x: features of the nodes, or their identities; a recommender has none.
        inputs: what old nodes enter the encoder with, once they have an edge ``[N, d]``.
        labels: name of each class.
        temperature: what a classifier's outputs are divided by.
        new_user: what a new user of a recommender enters with.
    """

    predictor: Predictor
    model: Model
    graph: Adjacency
    x: Features | None
    inputs: Features
    labels: tuple[str | int, ...]
    temperature: Temperature
    new_user: Tensor | None

    @classmethod
    def of(cls, predictor: Predictor) -> Parts:
        """The parts of a predictor, on the CPU."""
        served = predictor.model
        artefact = served.artefact
        return cls(
            predictor,
            artefact.model,
            served.graph,
            artefact.x,
            served.inputs,
            artefact.class_names,
            artefact.config.temperature or UNIT,
            served.new_user,
        )

    @property
    def task(self) -> TaskName:
        """What the model does."""
        return self.predictor.task

    @property
    def ids(self) -> IdMap:
        """Of the nodes, or of a recommender's users."""
        return self.predictor.ids

    @property
    def name(self) -> str:
        """What the model is called."""
        return self.predictor.model.artefact.config.name

    @property
    def first(self) -> int:
        """The first node that can be an answer: items come after users."""
        return len(self.ids) if self.task == "recommendation" else 0

    @property
    def width(self) -> int | None:
        """Features that a new node brings; ``None`` if the model learned what nodes enter with."""
        if self.x is None or isinstance(self.model.inputs, NodeVectors):
            return None
        return int(self.x.shape[1])

    @property
    def head(self) -> HadamardMLP | None:
        """Of a link model."""
        return self.model.head if isinstance(self.model.head, HadamardMLP) else None

    @property
    def is_ours(self) -> bool:
        """Whether the layers are tuneup's own, which can run on a part of a graph."""
        return isinstance(self.model.encoder, Encoder | LightGCN)

    @property
    def encoder(self) -> Encoder | LightGCN:
        """The layers.

        Raises:
            InputError: If they are not tuneup's own, which alone can run on a part of a graph.
        """
        encoder = self.model.encoder
        if not isinstance(encoder, Encoder | LightGCN):
            raise InputError(
                f"got a {type(encoder).__name__}; expected tuneup's own Encoder or LightGCN, which "
                "compute a part of a graph: serve this model without --live."
            )
        return encoder

    @property
    def embedder(self) -> Encoder | LightGCN:
        """What embeddings come from: of a classifier, the layers before that of its classes."""
        encoder = self.encoder
        classifies = self.task == "node-classification"
        if classifies and isinstance(encoder, Encoder) and encoder.num_layers > 1:
            return encoder.body()
        return encoder

    @property
    def blank(self) -> Tensor | None:
        """What a new node enters with that brings no features ``[d]``."""
        if isinstance(self.model.inputs, NodeVectors):
            return self.model.inputs.unknown.detach()
        return self.new_user

    def rows(self, nodes: Tensor, degree: Tensor, added: Tensor) -> Features:
        """What nodes of a grown graph enter the encoder with ``[n, d]``.

        Args:
            nodes: numbers; those from N on were added.
            degree: theirs in the grown graph.
            added: inputs of the added nodes ``[m, d]``.
        """
        count = self.graph.num_nodes
        old = (nodes < count).nonzero().view(-1)
        if old.numel() == nodes.numel():
            found = take_features(self.inputs, nodes)
        else:
            new = (nodes >= count).nonzero().view(-1)
            parts = take_features(self.inputs, nodes[old]), added[nodes[new] - count]
            place = torch.empty_like(nodes)
            place[torch.cat([old, new])] = torch.arange(nodes.numel())
            below = parts[1] if isinstance(parts[0], Tensor) else sparse_features(parts[1])
            found = take_features(stack_features(parts[0], below), place)
        inputs = self.model.inputs
        if isinstance(inputs, UserItemVectors) and inputs.unknown is not None:
            assert isinstance(found, Tensor)
            item = ((nodes >= self.first) & (nodes < count)).long()
            return torch.where((degree == 0)[:, None], inputs.unknown[item], found)
        return found


def run(module: nn.Module, x: Features, layers: tuple[Adjacency, ...]) -> Tensor:
    """Outputs of the last layer's receivers ``[R, out]``."""
    if isinstance(module, LightGCN):
        assert isinstance(x, Tensor)
        return module.run(x, layers)
    assert isinstance(module, Encoder)
    return module.run(Plan(x, layers))
