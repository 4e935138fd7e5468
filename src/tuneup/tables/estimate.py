"""What a fit will cost, before it is begun: a count of numbers kept, multiplied and added up.

The constants were fitted to six graphs of 20 to 100 thousand nodes and 0.2 to 4 million directed
entries, with 50 to 500 features and widths of 64 and 256, on one core of a 2020s server.
"""

from __future__ import annotations

from dataclasses import dataclass

MULTIPLY = 9e-11
"""Seconds per multiplication of a dense layer, backward pass and validation included."""
GATHER = 7e-10
"""Seconds per number that is added up along an edge."""
NODE = 5e-6
"""Seconds per node for all that does not grow with the width."""

FIXED_BYTES = 63 << 20
"""What torch takes for itself, however small the graph."""
NODE_BYTES, ENTRY_BYTES = 2100, 60
"""Of indices, weights, masks and scores."""
HIDDEN_STATES = 4
"""Matrices of nodes by width that are alive at once."""


@dataclass(frozen=True)
class Estimate:
    """An estimate, right to about a factor of two: cores differ, and stages may stop early.

    Args:
        memory: peak bytes of training, above the program and the graph itself.
        seconds: of both stages, each running all of its epochs on one core.
        width: of the hidden states that was assumed.
        epochs: per stage that were assumed.
    """

    memory: int
    seconds: float
    width: int
    epochs: int


def estimate_fit(
    nodes: int,
    entries: int,
    features: int,
    *,
    width: int = 256,
    num_layers: int = 3,
    epochs: int = 300,
) -> Estimate:
    """Time and memory of TuneUp with a SAGE encoder that reads the whole graph in each update.

    With N nodes, M directed entries, d features (or learned inputs of ``width``), width w and L
    layers, an epoch multiplies ``2 N w (d + (L - 1) w)`` numbers and adds up ``M (d + (L - 1) w)``
    along edges.  Alive at once are ``N (d + 4 w)`` numbers and what is kept per node and entry.
    """
    first = features or width
    depth = first + (num_layers - 1) * width
    epoch = MULTIPLY * 2 * nodes * width * depth + GATHER * entries * depth + NODE * nodes
    hidden = 4 * nodes * (first + HIDDEN_STATES * width)
    memory = FIXED_BYTES + NODE_BYTES * nodes + ENTRY_BYTES * entries + hidden
    return Estimate(memory, 2 * epochs * epoch, width, epochs)
