"""LightGCN: propagation without weights, and the mean of all layers."""

from __future__ import annotations

from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import Adjacency, adjacency_from


class LightGCN(nn.Module):
    """``1/(L+1) sum_l P^l x`` with ``P = D^-1/2 A D^-1/2``, without self-loops.

    Everything is learned by the embeddings ``x`` underneath.
    """

    takes_adjacency = True
    scalings = ("symmetric",)

    def __init__(self, num_layers: int = 3) -> None:
        super().__init__()
        if num_layers < 1:
            raise InputError(f"num_layers must be 1 or more; got {num_layers}.")
        self.num_layers = num_layers

    def forward(self, x: Tensor, graph: Adjacency | Tensor) -> Tensor:
        """Outputs of all nodes ``[N, d]``; ``graph`` may be a PyG ``edge_index``."""
        matrix = adjacency_from(graph, x.shape[0]).matrix("symmetric")
        total = h = x
        for _ in range(self.num_layers):
            h = matrix @ h
            total = total + h
        return total / (self.num_layers + 1)

    def extra_repr(self) -> str:
        """Shown by ``print(model)``."""
        return f"num_layers={self.num_layers}"
