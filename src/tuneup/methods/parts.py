"""Small modules that several methods are put together from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tuneup.data import Graph
from tuneup.errors import InputError
from tuneup.graph import Adjacency
from tuneup.graph.features import Features
from tuneup.nn import MLP, Encoder, EncoderSpec, Model, UserItemVectors
from tuneup.tasks import LinkPrediction, NodeClassification, Task


def encoder_of(model: nn.Module) -> nn.Module:
    """The encoder inside a task's model: for node classification, the model itself."""
    return model.encoder if isinstance(model, Model) else model


def expect_encoder(model: nn.Module) -> Encoder:
    """The same, known to be ours."""
    encoder = encoder_of(model)
    if not isinstance(encoder, Encoder):
        raise InputError(
            "This method rebuilds the layers of a tuneup Encoder; the model's is a "
            f"{type(encoder).__name__}. Base, DropEdge and TuneUp train any."
        )
    return encoder


STUDENT = "student"
"""Name of the module that a frozen Base teaches."""


def perceptron(spec: EncoderSpec, num_layers: int, dropout: float) -> MLP:
    """An MLP from an encoder's inputs to its outputs, as wide as it is."""
    return MLP(
        spec.in_channels,
        spec.out_channels,
        width=spec.width,
        num_layers=num_layers,
        dropout=dropout,
    )


def with_encoder(model: nn.Module, encoder: nn.Module) -> nn.Module:
    """The same model, its other parameters shared, around another encoder."""
    return model.with_encoder(encoder) if isinstance(model, Model) else encoder


def inputs_of(model: nn.Module, task: Task[object], graph: Adjacency) -> Features:
    """What the encoder is given on a graph of the task's nodes: features, or learned inputs."""
    if isinstance(model, Model) and isinstance(model.inputs, UserItemVectors):
        return model.inputs.forward(None, graph)
    return data_of(task).x


def data_of(task: Task[object]) -> Graph:
    """The training graph with its features."""
    if not isinstance(task, NodeClassification | LinkPrediction):
        raise InputError(f"{type(task).__name__} has no node features.")
    return task.data


class Answered(nn.Module):
    """Stands in for an encoder whose outputs ``z [N, d]`` are known already."""

    takes_adjacency = True

    def __init__(self, z: Tensor) -> None:
        super().__init__()
        self.z = z

    def forward(self, x: Features, graph: Adjacency) -> Tensor:
        """The known outputs."""
        return self.z


class Remembered:
    """What a frozen module says of a graph: asked once, not at every update."""

    def __init__(self) -> None:
        self._asked: tuple[nn.Module, Adjacency, tuple[int, ...]] | None = None
        self._answer: Tensor | None = None

    def __call__(self, module: nn.Module, graph: Adjacency, ask: Callable[[], Tensor]) -> Tensor:
        """``ask()``, without gradients; anew for another graph, or should the module change."""
        versions = tuple(p._version for p in module.parameters())
        known = self._asked
        if (
            self._answer is None
            or known is None
            or known[0] is not module
            or known[1] is not graph
            or known[2] != versions
        ):
            with torch.no_grad():
                self._asked, self._answer = (module, graph, versions), ask()
        return self._answer


class WholeGraph(nn.Module):
    """An encoder that is always asked about all nodes: what it computes depends on all."""

    takes_adjacency = True

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Features, graph: Adjacency) -> Tensor:
        """Outputs of all nodes ``[N, out]``."""
        out: Tensor = self.encoder(x, graph)
        return out
