"""The graph as compressed sparse rows: products, edge dropping, receptive fields."""

from .adjacency import Adjacency
from .convert import adjacency_from
from .csr import Rows
from .dropping import DropEdge
from .features import (
    Factored,
    Features,
    Inputs,
    feature_tensors,
    identities,
    sparse_features,
    take_features,
)
from .matrix import Scaling, SparseMatrix
from .neighbours import Neighbours, Overlay, ReceptiveField, receptive_field

__all__ = [
    "Adjacency",
    "DropEdge",
    "Factored",
    "Features",
    "Inputs",
    "Neighbours",
    "Overlay",
    "ReceptiveField",
    "Rows",
    "Scaling",
    "SparseMatrix",
    "adjacency_from",
    "feature_tensors",
    "identities",
    "receptive_field",
    "sparse_features",
    "take_features",
]
