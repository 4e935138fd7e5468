"""A model as data: what to build before its weights are put in, for each of the three tasks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from tuneup.errors import InputError
from tuneup.names import TaskName
from tuneup.nn import (
    Embedded,
    Encoder,
    EncoderSpec,
    HadamardMLP,
    LightGCN,
    LinkModel,
    Recommender,
)

from .passes import check_encoder

Model = Encoder | Embedded | LinkModel | Recommender


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
    def of(cls, model: nn.Module) -> Blueprint:
        """The blueprint of a trained model; refuses what could not be built again from data."""
        if isinstance(model, LinkModel):
            width = model.decoder.hidden.out_features
            spec, known = _spec(model.encoder), _known(model.encoder)
            return cls("link-prediction", spec, decoder_width=width, known=known)
        if isinstance(model, Recommender):
            checked = check_encoder(model.encoder)
            light = isinstance(checked, LightGCN)
            return cls(
                "recommendation",
                None if light else _spec(checked),
                checked.num_layers if light else 0,
                users=model.num_users,
                items=model.num_items,
                width=model.embedding.shape[1],
                shared=model.shared is not None,
                unknown=model.unknown is not None,
            )
        if isinstance(model, LightGCN):
            raise InputError("LightGCN has no classes: it is an encoder of a Recommender.")
        return cls("node-classification", _spec(model), known=_known(model))

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
            encoder: nn.Module = (
                LightGCN(self.layers) if self.encoder is None else self.encoder.build()
            )
            if self.known is not None:
                assert self.encoder is not None
                encoder = Embedded(encoder, self.known, self.encoder.in_channels)
            if self.task == "link-prediction":
                assert self.encoder is not None
                decoder = HadamardMLP(self.encoder.out_channels, self.decoder_width)
                return LinkModel(encoder, decoder)
            if self.task == "recommendation":
                return Recommender(
                    self.users,
                    self.items,
                    encoder,
                    self.width,
                    shared=self.shared,
                    unknown=self.unknown,
                )
            assert isinstance(encoder, Encoder | Embedded)
            return encoder


def _spec(encoder: nn.Module) -> EncoderSpec:
    checked = check_encoder(encoder.encoder if isinstance(encoder, Embedded) else encoder)
    if not isinstance(checked, Encoder):
        raise InputError("A link model needs an Encoder; LightGCN reads no features.")
    return EncoderSpec.of(checked)


def _known(encoder: nn.Module) -> int | None:
    return encoder.num_known if isinstance(encoder, Embedded) else None


def embedded_of(model: Model) -> Embedded | None:
    """The part that holds learned inputs, of a model of nodes without features."""
    found = model.encoder if isinstance(model, LinkModel) else model
    return found if isinstance(found, Embedded) else None


def encoder_of(model: Model) -> Encoder | LightGCN:
    """The part that reads the graph."""
    found = embedded_of(model) or model
    return check_encoder(found if isinstance(found, Encoder) else found.encoder)
