"""A model as data: what to build before its weights are put in, for each of the three tasks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from tuneup.errors import InputError
from tuneup.names import TaskName
from tuneup.nn import (
    Classes,
    Encoder,
    EncoderSpec,
    HadamardMLP,
    InnerProduct,
    LightGCN,
    Model,
    NodeFeatures,
    NodeVectors,
    UserItemVectors,
)

from .passes import check_encoder


@dataclass(frozen=True)
class Blueprint:
    """Everything that shapes a model's parameters.

    Args:
        encoder: of any task; ``None`` for LightGCN.
        layers: of LightGCN.
        decoder_width: of a link model.
        users: of a recommender; ``items``, ``width``, ``shared`` and ``unknown`` likewise.
        known: nodes that have a learned input in place of features; ``None`` where nodes have
            features.
    """

    task: TaskName
    encoder: EncoderSpec | None = None
    layers: int = 0
    decoder_width: int = 0
    users: int = 0
    items: int = 0
    width: int = 0
    shared: bool = False
    unknown: bool = False
    known: int | None = None

    @classmethod
    def of(cls, model: Model) -> Blueprint:
        """The blueprint of a trained model; refuses what cannot be built again from data."""
        inputs, encoder = model.inputs, check_encoder(model.encoder)
        if isinstance(inputs, UserItemVectors):
            light = isinstance(encoder, LightGCN)
            return cls(
                "recommendation",
                None if light else _spec(encoder),
                encoder.num_layers if light else 0,
                users=inputs.num_users,
                items=inputs.num_items,
                width=inputs.vectors.shape[1],
                shared=inputs.shared is not None,
                unknown=inputs.unknown is not None,
            )
        known = inputs.num_known if isinstance(inputs, NodeVectors) else None
        if isinstance(model.head, HadamardMLP):
            width = model.head.hidden.out_features
            return cls("link-prediction", _spec(encoder), decoder_width=width, known=known)
        return cls("node-classification", _spec(encoder), known=known)

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Blueprint:
        """What :meth:`to_json` gave."""
        encoder = plain["encoder"]
        spec = None if encoder is None else EncoderSpec(**encoder)
        return cls(**{**plain, "encoder": spec})

    def to_json(self) -> dict[str, Any]:
        """Plain values; models of nodes with features have no word about learned inputs."""
        plain = asdict(self)
        if self.known is None:
            del plain["known"]
        return plain

    def build(self) -> Model:
        """The model without weights: its parameters have shapes and no values."""
        with torch.device("meta"):
            spec = self.encoder
            if self.task == "recommendation":
                encoder = LightGCN(self.layers) if spec is None else spec.build()
                vectors = UserItemVectors(
                    self.users, self.items, self.width, shared=self.shared, unknown=self.unknown
                )
                return Model(vectors, encoder, InnerProduct())
            assert spec is not None
            inputs = (
                NodeFeatures() if self.known is None else NodeVectors(self.known, spec.in_channels)
            )
            classifies = self.task == "node-classification"
            head = Classes() if classifies else HadamardMLP(spec.out_channels, self.decoder_width)
            return Model(inputs, spec.build(), head)

    def on_disk(self, name: str) -> str:
        """Name of a weight in ``weights.safetensors``, as release 0.1 called it."""
        for prefix, written in self._renamed:
            if name.startswith(prefix):
                return written + name.removeprefix(prefix)
        return name

    @property
    def _renamed(self) -> tuple[tuple[str, str], ...]:
        if self.task == "recommendation":
            return (("inputs.vectors", "embedding"), ("inputs.", ""))
        if self.task == "link-prediction":
            learned = (("encoder.", "encoder.encoder."), ("inputs.vectors", "encoder.embedding"))
            return (("head.", "decoder."), *(learned if self.known is not None else ()))
        return (("encoder.", ""),) if self.known is None else (("inputs.vectors", "embedding"),)


def as_model(module: nn.Module) -> Model:
    """A bare encoder as a classifier of nodes with features."""
    return module if isinstance(module, Model) else Model(NodeFeatures(), module, Classes())


def _spec(encoder: nn.Module) -> EncoderSpec:
    if not isinstance(encoder, Encoder):
        raise InputError("LightGCN reads no features: it is an encoder of users and items.")
    return EncoderSpec.of(encoder)
