"""Convolutions, the encoder, inputs and heads, the model, and the adapter for any PyG module."""

from .convs import Conv, GATConv, GCNConv, SAGEConv
from .encoder import Encoder, EncoderSpec, LightGCN, Plan
from .forward import Forward, Sample
from .inputs import NodeFeatures, NodeVectors, UserItemVectors
from .linear import MLP
from .model import Classes, HadamardMLP, HadamardScorer, InnerProduct, Model, call_module

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
    "HadamardScorer",
    "InnerProduct",
    "LightGCN",
    "Model",
    "NodeFeatures",
    "NodeVectors",
    "Plan",
    "SAGEConv",
    "Sample",
    "UserItemVectors",
    "call_module",
]
