"""Convolutions, encoders, the models of the edge tasks, and the adapter for any PyG module."""

from .calling import call_module
from .convs import Conv, GATConv, GCNConv, SAGEConv
from .embedded import Embedded
from .encoder import Encoder, Plan
from .forward import Forward
from .lightgcn import LightGCN
from .linear import MLP
from .link_model import HadamardMLP, LinkModel
from .recommender import Recommender
from .spec import EncoderSpec

__all__ = [
    "MLP",
    "Conv",
    "Embedded",
    "Encoder",
    "EncoderSpec",
    "Forward",
    "GATConv",
    "GCNConv",
    "HadamardMLP",
    "LightGCN",
    "LinkModel",
    "Plan",
    "Recommender",
    "SAGEConv",
    "call_module",
]
