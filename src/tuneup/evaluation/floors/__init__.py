"""Simple models that a trained one should beat, scored on the same nodes in every setting."""

from .base import Floor
from .items import co_occurrence, popularity, recommendation_floors
from .links import link_floors
from .nodes import node_floors

__all__ = [
    "Floor",
    "co_occurrence",
    "link_floors",
    "node_floors",
    "popularity",
    "recommendation_floors",
]
