"""Graphs made from a seed: the degree-corrected stochastic block model with Gaussian features.

Every node i has a class ``y_i`` and an expected degree ``w_i`` from a power law
``P(w > t) ~ t^(1 - exponent)``.  With W the sum of all weights and ``W_c`` that of class c,

* a share ``homophily`` of the edges is drawn inside a class: ``P(i, j) = w_i w_j / (W W_c)`` for
  ``y_i = y_j = c``;
* the others between classes: ``P(i, j) = w_i w_j / (W (W - W_c))`` for ``y_i = c != y_j``;
* features are ``x_i = mean of class y_i + noise``, noise standard normal in each column.

Edges are drawn until the asked number of *distinct* ones is reached, so counts and homophily are
exact; degrees are near Poisson around their expectation, and isolated nodes occur.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from tuneup.errors import InputError
from tuneup.graph import adjacency_from
from tuneup.graph.hashing import seed_of

from .graph import Graph
from .interactions import Interactions, interactions_from
from .splits import split_nodes

if TYPE_CHECKING:
    from torch_geometric.data import Data

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ROUNDS = 60
"""Draws of missing edges before giving up; an ordinary sparse graph needs two or three."""

_PURPOSE = 0x626C6F636B73
"""Keeps these draws apart from splits and training runs of the same seed ("blocks" in ASCII)."""


def block_graph(
    num_nodes: int,
    num_edges: int,
    num_classes: int,
    num_features: int,
    *,
    exponent: float = 2.5,
    homophily: float = 0.65,
    signal: float = 3.0,
    seed: int = 0,
    name: str = "blocks",
) -> Graph:
    """A scale-free graph with classes, noisy features and exactly ``num_edges`` undirected edges.

    Args:
        num_nodes: N, at least two per class.
        num_edges: distinct undirected edges, without self-loops.
        num_classes: classes, of equal size up to one node.
        num_features: width of ``x [N, num_features]``, float32.
        exponent: of the power law of expected degrees, above 2; they stop at ``sqrt(2 |E|)``,
            beyond which no simple graph can have independent edges.
        homophily: share of the edges whose ends are of one class.
        signal: root mean square distance of two class means; the noise has deviation 1.
        seed: everything is a function of the arguments and this.
        name: what to call the graph in reports.
    """
    _check(
        "block_graph",
        *_law("class", "num_classes", num_classes, exponent, homophily),
        ("num_nodes", num_nodes, num_nodes >= 2 * num_classes, "at least 2 per class"),
        ("num_edges", num_edges, num_edges >= 0, "0 or more"),
        ("num_features", num_features, num_features >= 1, "at least 1"),
        ("signal", signal, 0.0 <= signal < np.inf, "0 or more"),
    )
    rng = np.random.default_rng(seed_of(_PURPOSE, seed))
    # Everything is drawn with the nodes in the order of their classes, and shuffled at the end.
    label = np.sort(np.arange(num_nodes) % num_classes)
    blocks = Blocks.of(label, expected_degrees(num_nodes, num_edges, exponent, rng))
    pairs = _mixed_pairs(partial(blocks.draw, rng=rng), num_edges, homophily, num_nodes, rng)
    node = rng.permutation(num_nodes)
    edge_index = torch.from_numpy(node[pairs])
    y = np.empty_like(label)
    y[node] = label
    x = _features(y, num_classes, num_features, signal, rng)
    adjacency = adjacency_from(edge_index, num_nodes, undirected=True)
    return Graph(adjacency, torch.from_numpy(x), torch.from_numpy(y), num_classes, name)


def demo_graph(seed: int = 0) -> Graph:
    """The graph of ``tuneup demo``: 10,000 nodes, 40,000 edges, 10 classes, 64 features.

    Chosen once, by looking at real graphs and at a logistic model on the features, never at a GNN:

    * exponent 2.5 and mean degree 8, as in citation graphs: somewhat more than half of the nodes
      have at most 5 neighbours and 1.5 % have none;
    * homophily 0.65, that of ogbn-arxiv (0.66; Computers 0.78, CS 0.81, dblp 0.83 are easier);
    * signal 3: with 2 % of the nodes labelled, the logistic model is right on 0.39 to 0.43 of the
      test nodes (seeds 0 to 4); fed with the mean of a node's neighbours instead, on 0.73 to 0.80
      of those with more than 5 neighbours and 0.48 to 0.53 of the others.
    """
    return block_graph(10_000, 40_000, 10, 64, seed=seed, name="demo")


def block_interactions(
    num_users: int,
    num_items: int,
    num_pairs: int,
    num_groups: int,
    *,
    exponent: float = 2.5,
    homophily: float = 0.65,
    seed: int = 0,
    name: str = "blocks",
) -> Interactions:
    """Users and items in groups, with exactly ``num_pairs`` distinct pairs.

    The block model of this module between two kinds of nodes: a share ``homophily`` of the pairs
    joins a user to an item of its own group, the others to one of another group, each end in
    proportion to its weight.

    Args:
        num_users: users, in groups of equal size up to one.
        num_items: items, likewise.
        num_pairs: distinct pairs.
        num_groups: groups.
        exponent: of the power law of the weights, above 2.
        homophily: share of the pairs inside a group.
        seed: everything is a function of the arguments and this.
        name: what to call the pairs in reports.
    """
    _check(
        "block_interactions",
        *_law("group", "num_groups", num_groups, exponent, homophily),
        ("num_users", num_users, num_users >= num_groups, "at least 1 per group"),
        ("num_items", num_items, num_items >= num_groups, "at least 1 per group"),
        ("num_pairs", num_pairs, num_pairs >= 0, "0 or more"),
    )
    rng = np.random.default_rng(seed_of(_PURPOSE, seed))
    users, items = (
        Blocks.of(
            np.sort(np.arange(count) % num_groups),
            expected_degrees(count, num_pairs, exponent, rng),
        )
        for count in (num_users, num_items)
    )
    shift = np.array([[0], [num_users]])

    def draw(count: int, inside: bool) -> Ints:
        pairs: Ints = users.draw_with(items, count, inside, rng) + shift
        return pairs

    total = num_users + num_items
    user, item = _mixed_pairs(draw, num_pairs, homophily, total, rng) - shift
    user, item = rng.permutation(num_users)[user], rng.permutation(num_items)[item]
    return interactions_from(
        torch.from_numpy(user), torch.from_numpy(item), num_users, num_items, name
    )


def demo_link_graph(seed: int = 0) -> Graph:
    """The graph of ``tuneup demo --task link-prediction``: 4,000 nodes, 16,000 edges, 40 classes.

    :func:`demo_graph` in small, with classes of 100 nodes, so that a ranking of all nodes takes a
    few seconds and 50 places are not a whole class.
    """
    return block_graph(4_000, 16_000, 40, 64, seed=seed, name="demo links")


def demo_interactions(seed: int = 0) -> Interactions:
    """The pairs of ``tuneup demo --task recommendation``: gowalla in small.

    3,000 users, 4,000 items and 34 pairs a user, so that a tenth of them leaves, as there, 3.4
    training pairs for a user on average and none for some.
    """
    return block_interactions(3_000, 4_000, 102_000, 40, seed=seed, name="demo pairs")


def demo_data(seed: int = 0) -> Data:
    """The demo graph as a PyG ``Data`` with masks: 1 % of the nodes train, 1 % validate."""
    from torch_geometric.data import Data  # slow to import, and only examples need it

    graph = demo_graph(seed)
    split = split_nodes(graph.num_nodes, labelled=0.02, new=0.0, y=graph.y)
    data = Data(x=graph.x, y=graph.y, edge_index=graph.adjacency.edge_index)
    for name, nodes in (("train", split.train), ("val", split.validation), ("test", split.test)):
        mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
        mask[nodes] = True
        data[f"{name}_mask"] = mask
    return data


def arxiv_size_graph(seed: int = 0) -> Graph:
    """A graph of ogbn-arxiv's size: 169,343 nodes, 1,157,799 edges, 128 features, 40 classes.

    For measuring time and memory, which depend on the sizes and the degrees, not on the accuracy.
    """
    return block_graph(169_343, 1_157_799, 40, 128, seed=seed, name="arxiv-size")


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
    for _ in range(10):  # the weight cut off hubs is spread over all nodes; converges fast
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


def _mixed_pairs(
    draw: Callable[[int, bool], Ints],
    count: int,
    homophily: float,
    num_nodes: int,
    rng: np.random.Generator,
) -> Ints:
    """``count`` distinct pairs ``[2, count]``: first those inside a group, then the others."""
    inside = round(homophily * count)
    parts = [
        distinct_pairs(lambda k: draw(k, True), inside, num_nodes, rng),
        distinct_pairs(lambda k: draw(k, False), count - inside, num_nodes, rng),
    ]
    return np.concatenate(parts, axis=1)


def _features(
    y: Ints, num_classes: int, width: int, signal: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Class means, scaled to the asked root mean square distance, plus noise: ``[N, width]``."""
    mean = rng.standard_normal((num_classes, width))
    mean -= mean.mean(axis=0)
    if num_classes > 1:  # the mean square distance of two rows is 2 C / (C - 1) times their spread
        spread = np.square(mean).sum(axis=1).mean() * 2 * num_classes / (num_classes - 1)
        mean *= signal / np.sqrt(spread)
    x = rng.standard_normal((y.size, width), dtype=np.float32)
    x += mean.astype(np.float32)[y]
    return x


Rule = tuple[str, float, bool, str]
"""An argument, what was given, whether that is fine, and what would be."""


def _check(function: str, *rules: Rule) -> None:
    for name, value, fine, allowed in rules:
        if not fine:
            raise InputError(f"{function}: {name} must be {allowed}; got {value}.")


def _law(kind: str, name: str, groups: int, exponent: float, homophily: float) -> tuple[Rule, ...]:
    """Rules that both block models share; a group is called ``kind``."""
    alone = groups > 1 or homophily == 1.0
    return (
        (name, groups, groups >= 1, "at least 1"),
        ("exponent", exponent, 2.0 < exponent < np.inf, "above 2, where the mean degree exists"),
        ("homophily", homophily, 0.0 <= homophily <= 1.0, "a share, 0 to 1"),
        ("homophily", homophily, alone, f"1 if there is one {kind}"),
    )
