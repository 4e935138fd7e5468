"""An encoder as data: what to build, before anything is built."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tuneup.names import Architecture

from .encoder import Activation, Encoder, Norm


@dataclass(frozen=True)
class EncoderSpec:
    """The arguments of an :class:`Encoder`: a method may build it, or something like it."""

    in_channels: int
    out_channels: int
    architecture: Architecture = "sage"
    width: int = 256
    num_layers: int = 3
    dropout: float = 0.0
    norm: Norm = "none"
    activation: Activation = "relu"
    heads: int = 4
    orthogonal: bool = False

    def build(self) -> Encoder:
        """A fresh encoder from torch's current seed."""
        return Encoder(**asdict(self))
