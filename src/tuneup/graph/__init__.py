"""The graph as compressed sparse rows: products, edge dropping, receptive fields."""

from .adjacency import Adjacency, Scaling, SparseMatrix, sparse_matrix
from .convert import adjacency_from
from .dropping import DropEdge
from .field import ReceptiveField, receptive_field

__all__ = [
    "Adjacency",
    "DropEdge",
    "ReceptiveField",
    "Scaling",
    "SparseMatrix",
    "adjacency_from",
    "receptive_field",
    "sparse_matrix",
]
