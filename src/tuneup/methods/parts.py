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
"""Name of the module that learns from a frozen Base."""


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


class PrecomputedEncoder(nn.Module):
    """An encoder whose outputs ``z [N, d]`` are known already."""

    takes_adjacency = True

    def __init__(self, z: Tensor) -> None:
        super().__init__()
        self.z = z

    def forward(self, x: Features, graph: Adjacency) -> Tensor:
        """The known outputs."""
        return self.z


class CachedOutput:
    """The output of a frozen module for a graph: computed once, not at every update."""

    def __init__(self) -> None:
        self._key: tuple[nn.Module, Adjacency, tuple[int, ...]] | None = None
        self._output = torch.empty(0)

    def __call__(self, module: nn.Module, graph: Adjacency, run: Callable[[], Tensor]) -> Tensor:
        """``run()`` without gradients; computed again if the graph or the module changes."""
        versions = tuple(p._version for p in module.parameters())
        key = self._key
        if key is None or key[0] is not module or key[1] is not graph or key[2] != versions:
            with torch.no_grad():
                self._key, self._output = (module, graph, versions), run()
        return self._output


class WholeGraph(nn.Module):
    """An encoder whose outputs always depend on all nodes: its graph is never pruned."""

    takes_adjacency = True

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Features, graph: Adjacency) -> Tensor:
        """Outputs of all nodes ``[N, out]``."""
        out: Tensor = self.encoder(x, graph)
        return out
