"""Convolutions, the encoder, and the adapter for any other PyG module."""

from .convs import Conv, GATConv, GCNConv, SAGEConv
from .encoder import Encoder, Plan
from .forward import Forward

__all__ = [
    "Conv",
    "Encoder",
    "Forward",
    "GATConv",
    "GCNConv",
    "Plan",
    "SAGEConv",
]
