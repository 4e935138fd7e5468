"""What a fit will cost, before it is begun: a rough count of numbers kept and multiplied."""

from __future__ import annotations

from dataclasses import dataclass

FLOAT = 4
"""Bytes of a number."""

MULTIPLY = 6.0e-11
"""Seconds of one core per multiplication of a dense layer, backward pass included."""

GATHER = 2.0e-9
"""Seconds of one core per number that is added up along an edge, backward pass included."""

COPIES = 8
"""Hidden states that are alive at once, for each layer: values, gradients, temporaries."""

FIXED = 64 << 20
"""Bytes that torch takes for itself, however small the graph."""


@dataclass(frozen=True)
class Estimate:
    """An estimate, right to about a factor of two: cores differ, and stages may stop early.

    Args:
        memory: peak bytes of training above those of the program itself.
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

    With N nodes, M directed entries, d features (or a learned input of ``width``), width w and L
    layers, an epoch multiplies ``2 N (d w + (L - 1) w^2)`` numbers and adds up
    ``M (d + (L - 1) w)`` along edges; a validation takes a third of that again.  Kept are the
    features, ``COPIES`` hidden states per layer, and three numbers per entry of the graph.
    """
    first = features or width
    multiplied = 2.0 * nodes * width * (first + (num_layers - 1) * width)
    added = float(entries) * (first + (num_layers - 1) * width)
    epoch = (MULTIPLY * multiplied + GATHER * added) * 4 / 3
    hidden = nodes * (first + COPIES * (num_layers - 1) * width)
    memory = FIXED + FLOAT * hidden + 3 * 8 * entries
    return Estimate(int(memory), 2 * epochs * epoch, width, epochs)
