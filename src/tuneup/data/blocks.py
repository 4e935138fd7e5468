"""Nodes with classes and weights, and the distinct pairs of them that a block model draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuneup.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ROUNDS = 60
"""Draws of missing edges before giving up; an ordinary sparse graph needs two or three."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Nodes in the order of their classes on a line, each as long as its weight."""

    label: Ints
    """[N] class of each node, ascending"""
    stop: Floats
    """[N] where each node ends on the line"""
    class_start: Floats
    """[C] where each class begins"""
    class_length: Floats
    """[C]"""

    @classmethod
    def of(cls, label: Ints, weight: Floats) -> Blocks:
        """The line of nodes with these classes, ascending, and these weights."""
        stop = np.cumsum(weight)
        last = np.flatnonzero(np.diff(label, append=label[-1] + 1))
        bounds = np.concatenate([[0.0], stop[last]])
        return cls(label, stop, bounds[:-1], np.diff(bounds))

    def at(self, place: Floats) -> Ints:
        """The node at each place of the line."""
        return np.minimum(np.searchsorted(self.stop, place, side="right"), self.stop.size - 1)

    def draw(self, count: int, inside: bool, rng: np.random.Generator) -> Ints:
        """About ``count`` pairs of nodes ``[2, k]``, all of one class or all of two."""
        pairs = self.draw_with(self, count, inside, rng)
        return pairs[:, pairs[0] != pairs[1]]

    def draw_with(self, other: Blocks, count: int, inside: bool, rng: np.random.Generator) -> Ints:
        """The same for pairs of a node of this line and one of another with the same classes."""
        # Sorted, the search walks through memory instead of jumping: three times as fast.
        first = self.at(np.sort(rng.random(count)) * self.stop[-1])
        label = self.label[first]
        start, length = other.class_start[label], other.class_length[label]
        if inside:
            place = start + rng.random(count) * length
        else:
            place = rng.random(count) * (other.stop[-1] - length)
            place += np.where(place >= start, length, 0.0)
        second = other.at(place)
        # Rounding may put a place just across a border: such pairs are not used.
        same = label == other.label[second]
        return np.stack([first, second])[:, same == inside]


def expected_degrees(
    num_nodes: int, num_edges: int, exponent: float, rng: np.random.Generator
) -> Floats:
    """Pareto weights ``[N]`` with mean ``2 |E| / N``, cut off at ``sqrt(2 |E|)``."""
    weight = (1.0 - rng.random(num_nodes)) ** (-1.0 / (exponent - 1.0))
    total = 2.0 * max(1, num_edges)
    for _ in range(10):  # what is cut off a few hubs goes to all: this settles at once
        weight = np.minimum(weight * (total / weight.sum()), np.sqrt(total))
    return weight


def distinct_pairs(
    draw: Callable[[int], Ints], count: int, num_nodes: int, rng: np.random.Generator
) -> Ints:
    """Exactly ``count`` different unordered pairs ``[2, count]``, drawn until there are enough."""
    keys = np.empty(0, dtype=np.int64)
    for _ in range(_ROUNDS):
        missing = count - keys.size
        if missing <= 0:
            chosen = rng.choice(keys, count, replace=False, shuffle=False)
            return np.stack([chosen // num_nodes, chosen % num_nodes])
        pairs = draw(missing + missing // 10 + 16)
        fresh = pairs.min(axis=0) * num_nodes + pairs.max(axis=0)
        keys = np.sort(np.concatenate([keys, fresh]))  # np.unique hashes, which is slower
        keys = keys[np.diff(keys, prepend=-1) > 0]
    raise InputError(
        f"Only {keys.size:,} of {count:,} different edges found: too many for "
        f"{num_nodes:,} nodes at this homophily. Ask for fewer edges, fewer classes or more nodes."
    )
