"""Convolutions, the encoder, inputs and heads, the model, and the adapter for any PyG module."""

from .calling import call_module
from .convs import Conv, GATConv, GCNConv, SAGEConv
from .encoder import Encoder, EncoderSpec, Plan
from .forward import Forward
from .heads import Classes, HadamardMLP, InnerProduct
from .inputs import NodeFeatures, NodeVectors, UserItemVectors
from .lightgcn import LightGCN
from .linear import MLP
from .model import Model

__all__ = [
    "MLP",
    "Classes",
    "Conv",
    "Encoder",
    "EncoderSpec",
    "Forward",
    "GATConv",
    "GCNConv",
    "HadamardMLP",
    "InnerProduct",
    "LightGCN",
    "Model",
    "NodeFeatures",
    "NodeVectors",
    "Plan",
    "SAGEConv",
    "UserItemVectors",
    "call_module",
]
