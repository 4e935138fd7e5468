"""An encoder as data: what to build, before anything is built."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tuneup.names import Architecture

from .convs import Conv, GATConv
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

    @classmethod
    def of(cls, encoder: Encoder) -> EncoderSpec:
        """What an encoder was built from, but for how its weights started."""
        first, last = encoder.convs[0], encoder.convs[-1]
        assert isinstance(first, Conv)
        assert isinstance(last, Conv)
        heads = first.heads if isinstance(first, GATConv) else 4
        width = first.out_channels * (heads if encoder.architecture == "gat" else 1)
        return cls(
            first.in_channels,
            last.out_channels,
            encoder.architecture,
            width if encoder.num_layers > 1 else heads,  # of one layer, no one reads it
            encoder.num_layers,
            encoder.dropout,
            encoder.norm,
            encoder.activation,
            heads,
        )

    def build(self) -> Encoder:
        """A fresh encoder from torch's current seed."""
        return Encoder(**asdict(self))
