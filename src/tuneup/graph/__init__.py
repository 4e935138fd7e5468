"""The graph as compressed sparse rows: products, edge dropping, receptive fields."""

from .adjacency import Adjacency
from .convert import adjacency_from
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
from .field import ReceptiveField, receptive_field
from .lists import Rows, take_lists
from .matrix import SparseMatrix, sparse_matrix
from .scaling import Scaling

__all__ = [
    "Adjacency",
    "DropEdge",
    "Factored",
    "Features",
    "Inputs",
    "ReceptiveField",
    "Rows",
    "Scaling",
    "SparseMatrix",
    "adjacency_from",
    "feature_tensors",
    "identities",
    "receptive_field",
    "sparse_features",
    "sparse_matrix",
    "take_features",
    "take_lists",
]
