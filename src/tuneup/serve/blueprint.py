"""A model as data, from which it is built before its weights are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import Any

import torch
from torch import nn

from tuneup.errors import ArtefactError, InputError
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

from .arrivals import check_encoder


@dataclass(frozen=True)
class ModuleSpec:
    """The description of a module that is not tuneup's own; its code is not saved.

    Args:
        path: of its class, as ``package.module:Class``.
        out_channels: width of its outputs.
        arguments: what its class is called with; ``None`` if unknown.
    """

    path: str
    out_channels: int
    arguments: dict[str, Any] | None = None

    @classmethod
    def of(cls, module: nn.Module, out_channels: int) -> ModuleSpec:
        """The description of a module, without its arguments."""
        kind = type(module)
        return cls(f"{kind.__module__}:{kind.__qualname__}", out_channels)

    def build(self, allow: Sequence[str]) -> nn.Module:
        """A fresh module, if its class is in a package that the caller allows by name.

        Raises:
            ArtefactError: If it is not, or cannot be imported or built.
        """
        if isinstance(allow, str):
            raise InputError(f"allow: got the text {allow!r}; expected names, as in ({allow!r},).")
        source, _, name = self.path.partition(":")
        if not _is_within(source, allow):
            package = source.partition(".")[0]
            raise ArtefactError(
                f"its module is a {self.path!r}, whose code is imported only if you allow it: pass "
                "the module itself, Predictor.load(folder, model=...), or allow its package, "
                f"Predictor.load(folder, allow=({package!r},))"
            )
        if self.arguments is None:
            raise ArtefactError(
                f"it does not say how its {self.path!r} is built: pass the module, "
                "Predictor.load(folder, model=...), or save it with its arguments, "
                "predictor.save(folder, arguments={...})"
            )
        try:
            kind: Any = import_module(source)
            for part in name.split("."):
                kind = getattr(kind, part)
        except Exception as error:  # a package may raise anything when it is imported
            problem = first_line(error)
            raise ArtefactError(f"its {self.path!r} cannot be imported: {problem}") from error
        is_module = isinstance(kind, type) and issubclass(kind, nn.Module)
        if not is_module or not _is_within(kind.__module__, allow):
            raise ArtefactError(f"{self.path!r} is not a torch module from an allowed package")
        try:
            with torch.random.fork_rng(devices=[]):
                module: nn.Module = kind(**self.arguments)
        except Exception as error:
            raise ArtefactError(
                f"{self.path!r} cannot be built with the arguments it was saved with "
                f"({first_line(error)}): pass the module, Predictor.load(folder, model=...)"
            ) from error
        return module


def first_line(error: BaseException) -> str:
    """What an error says, or its kind if it says nothing."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _is_within(module: str, packages: Sequence[str]) -> bool:
    """Whether a module is one of some packages or inside of one, and is not a program."""
    named = all(part.isidentifier() and part != "__main__" for part in module.split("."))
    return named and any(f"{module}.".startswith(f"{package}.") for package in packages)


@dataclass(frozen=True)
class Blueprint:
    """Everything that shapes a model's parameters.

    Args:
        task: what the model does.
        encoder: of any task; ``None`` for LightGCN and for a module that is not ours.
        layers: of LightGCN.
        decoder_width: of a link model.
        users: of a recommender; ``items``, ``width``, ``shared`` and ``unknown`` likewise.
        known: nodes that have a learned input in place of features; ``None`` where nodes have
            features.
        module: an encoder that is not ours.
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
    module: ModuleSpec | None = None

    @classmethod
    def of(cls, model: Model) -> Blueprint:
        """The blueprint of a trained model; of a module that is not ours, without its width."""
        inputs, encoder, head = model.inputs, model.encoder, model.head
        ours = isinstance(encoder, Encoder | LightGCN)
        if ours:
            check_encoder(encoder)
        spec = EncoderSpec.of(encoder) if isinstance(encoder, Encoder) else None
        module = None if ours else ModuleSpec.of(encoder, 0)
        if isinstance(inputs, UserItemVectors):
            return cls(
                "recommendation",
                spec,
                encoder.num_layers if isinstance(encoder, LightGCN) else 0,
                users=inputs.num_users,
                items=inputs.num_items,
                width=inputs.vectors.shape[1],
                shared=inputs.shared is not None,
                unknown=inputs.unknown is not None,
                module=module,
            )
        if isinstance(encoder, LightGCN):
            raise InputError("LightGCN reads no features: it is an encoder of users and items.")
        decoder = head.hidden.out_features if isinstance(head, HadamardMLP) else 0
        learned = inputs if isinstance(inputs, NodeVectors) else None
        return cls(
            "link-prediction" if decoder else "node-classification",
            spec,
            decoder_width=decoder,
            width=0 if learned is None or ours else learned.vectors.shape[1],
            known=None if learned is None else learned.num_known,
            module=module,
        )

    @property
    def out_channels(self) -> int:
        """Width of the outputs: the number of classes, or of an embedding."""
        if self.encoder is not None:
            return self.encoder.out_channels
        return self.width if self.module is None else self.module.out_channels

    def with_module(self, **changes: Any) -> Blueprint:
        """The same with another description of the module that is not ours."""
        assert self.module is not None
        return replace(self, module=replace(self.module, **changes))

    def to_json(self) -> dict[str, Any]:
        """Plain values; keys of later formats are left out where they are not used."""
        plain = asdict(self)
        return {k: v for k, v in plain.items() if k not in ("known", "module") or v is not None}

    def build(self, encoder: nn.Module | None = None) -> Model:
        """The model without weights: its parameters have shapes and no values.

        Args:
            encoder: the module that is not ours, where there is one; it is used as it is.
        """
        with torch.device("meta"):
            if encoder is None:
                encoder = LightGCN(self.layers) if self.encoder is None else self.encoder.build()
            if self.task == "recommendation":
                vectors = UserItemVectors(
                    self.users, self.items, self.width, shared=self.shared, unknown=self.unknown
                )
                return Model(vectors, encoder, InnerProduct())
            width = self.width if self.encoder is None else self.encoder.in_channels
            inputs = NodeFeatures() if self.known is None else NodeVectors(self.known, width)
            classifies = self.task == "node-classification"
            head = Classes() if classifies else HadamardMLP(self.out_channels, self.decoder_width)
            return Model(inputs, encoder, head)

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
