"""Synthetic graphs keep the statistics that their docstrings promise."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy

from tuneup.data import (
    Graph,
    arxiv_size_graph,
    block_graph,
    block_interactions,
    demo_graph,
    demo_interactions,
    demo_link_graph,
    split_interactions,
    split_nodes,
)
from tuneup.errors import InputError


def labels(graph: Graph) -> Tensor:
    assert graph.y is not None
    return graph.y


def features(graph: Graph) -> Tensor:
    assert isinstance(graph.x, Tensor)
    return graph.x


def share_inside(graph: Graph) -> float:
    edges = graph.adjacency
    same = labels(graph)[edges.row] == labels(graph)[edges.col]
    return float(same.double().mean())


@settings(max_examples=25, deadline=None)
@given(
    st.integers(60, 400),
    st.floats(0.0, 4.0),
    st.integers(2, 5),
    st.floats(2.1, 4.0),
    st.floats(0.0, 1.0),
    st.integers(0, 2**40),
)
def test_counts_and_homophily_are_exact(
    num_nodes: int, ratio: float, classes: int, exponent: float, homophily: float, seed: int
) -> None:
    num_edges = int(ratio * num_nodes)
    graph = block_graph(
        num_nodes, num_edges, classes, 3, exponent=exponent, homophily=homophily, seed=seed
    )
    assert graph.adjacency.undirected
    assert graph.adjacency.num_edges == num_edges
    assert graph.adjacency.num_duplicates == graph.adjacency.num_self_loops == 0
    if num_edges:
        assert share_inside(graph) == pytest.approx(round(homophily * num_edges) / num_edges)
    sizes = torch.bincount(labels(graph), minlength=classes)
    assert int(sizes.max() - sizes.min()) <= 1
    assert features(graph).shape == (num_nodes, 3)
    assert features(graph).dtype == torch.float32


def test_the_graph_is_a_function_of_its_seed() -> None:
    first, again, other = (block_graph(500, 1_500, 4, 6, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first.adjacency.rowptr, again.adjacency.rowptr)
    assert torch.equal(first.adjacency.col, again.adjacency.col)
    assert torch.equal(features(first), features(again))
    assert torch.equal(labels(first), labels(again))
    assert not torch.equal(first.adjacency.col, other.adjacency.col)
    assert not torch.equal(features(first), features(other))


def test_degrees_do_not_depend_on_features_or_class() -> None:
    """The width changes no edge; classes, and low and high ids, have the same mean degree."""
    graph = block_graph(10_000, 50_000, 3, 1)
    assert torch.equal(block_graph(10_000, 50_000, 3, 2).adjacency.col, graph.adjacency.col)
    degree = graph.adjacency.degree.double().clamp(max=100)  # hubs would dominate the comparison
    groups = [degree[labels(graph) == c] for c in range(3)] + [degree[:5_000], degree[5_000:]]
    for group in groups:
        error = float(degree.std()) / group.numel() ** 0.5
        assert abs(float(group.mean() - degree.mean())) < 5 * error


def test_edges_between_classes_favour_no_pair_of_classes() -> None:
    graph = block_graph(8_000, 40_000, 4, 1, homophily=0.0, exponent=4.0)
    ends = labels(graph)[graph.adjacency.edge_index]
    count = torch.bincount(ends[0] * 4 + ends[1], minlength=16).view(4, 4).double()
    assert float(count.diagonal().sum()) == 0.0
    share = count[~torch.eye(4, dtype=torch.bool)] / count.sum()
    assert float((share * 12 - 1).abs().max()) < 0.08


@pytest.mark.parametrize("exponent", [2.2, 2.5, 3.0])
def test_degrees_have_the_tail_of_the_power_law(exponent: float) -> None:
    """Hill's estimate over degrees in the tail, below the cut-off at sqrt(2 |E|) = 894."""
    graph = block_graph(100_000, 400_000, 10, 1, exponent=exponent)
    degree = graph.adjacency.degree.double()
    low, high = 30.0, 400.0
    tail = degree[(degree >= low) & (degree < high)]
    grid = torch.linspace(1.2, 5.0, 381).double()
    shape = grid - 1  # likelihood of a Pareto law between the two bounds
    log = tail.log().mean()
    weight = (low - 0.5) ** -shape - (high - 0.5) ** -shape
    likelihood = shape.log() - grid * log - weight.log()
    assert float(grid[likelihood.argmax()]) == pytest.approx(exponent, abs=0.2)
    assert float(degree.max()) > 40 * float(degree.mean())
    assert float(degree.max()) < 1.2 * 800_000**0.5
    assert int((degree == 0).sum()) > 0


def test_features_are_class_means_plus_unit_noise() -> None:
    graph = block_graph(40_000, 0, 8, 16, signal=2.5)
    x, y = features(graph).double(), labels(graph)
    means = torch.stack([x[y == c].mean(0) for c in range(8)])
    noise = x - means[y]
    assert float(noise.std()) == pytest.approx(1.0, abs=0.01)
    assert float(torch.pdist(means).square().mean().sqrt()) == pytest.approx(2.5, abs=0.05)
    correlation = torch.corrcoef(noise.t()) - torch.eye(16)
    assert float(correlation.abs().max()) < 5 / 40_000**0.5


def logistic_accuracy(x: Tensor, y: Tensor, train: Tensor, penalty: float = 0.03) -> Tensor:
    """Which nodes ``[N]`` a penalised linear softmax model, fitted on ``train``, gets right."""
    weight = torch.zeros(x.shape[1], int(y.max()) + 1, requires_grad=True)
    optimiser = torch.optim.LBFGS([weight], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = cross_entropy(x[train] @ weight, y[train]) + penalty * weight.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    return (x @ weight.detach()).argmax(1) == y


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_demo_graph_is_ordinary(seed: int) -> None:
    """Half the nodes are tail; features alone are weak, a head node's neighbourhood is telling."""
    graph = demo_graph(seed)
    degree = graph.adjacency.degree
    assert repr(graph) == (
        "Graph(demo: Adjacency(10,000 nodes, 40,000 undirected edges), 64 features, 10 classes)"
    )
    assert share_inside(graph) == pytest.approx(0.65)
    assert 0.5 < float((degree <= 5).double().mean()) < 0.6
    assert 0.01 < float((degree == 0).double().mean()) < 0.02
    split = split_nodes(10_000, labelled=0.02)
    x, y = features(graph), labels(graph)
    around = graph.adjacency.matrix("mean") @ x
    alone = logistic_accuracy(x, y, split.train)[split.test].double()
    context = logistic_accuracy(around, y, split.train)[split.test].double()
    head = degree[split.test] > 5
    assert 0.3 < float(alone.mean()) < 0.45
    assert 0.65 < float(context[head].mean()) < 0.85
    assert float(context[head].mean() - alone[head].mean()) > 0.25
    assert float(context[head].mean() - context[~head].mean()) > 0.15


def test_the_arxiv_size_graph_has_its_size() -> None:
    graph = arxiv_size_graph()
    assert (graph.num_nodes, graph.adjacency.num_edges) == (169_343, 1_157_799)
    assert (graph.num_features, graph.num_classes) == (128, 40)
    assert int(graph.adjacency.degree.max()) > 50 * 2 * 1_157_799 / 169_343
    assert share_inside(graph) == pytest.approx(0.65, abs=1e-4)


def test_refusals() -> None:
    for change, message in [
        ({"num_classes": 0}, "num_classes must be at least 1; got 0"),
        ({"num_nodes": 5}, "num_nodes must be at least 2 per class; got 5"),
        ({"num_edges": -1}, "num_edges must be 0 or more"),
        ({"num_features": 0}, "num_features must be at least 1"),
        ({"exponent": 2.0}, "exponent must be above 2"),
        ({"exponent": float("nan")}, "exponent must be above 2"),
        ({"homophily": 1.1}, "homophily must be a share, 0 to 1; got 1.1"),
        ({"num_classes": 1}, "homophily must be 1 if there is one class; got 0.65"),
        ({"signal": -1.0}, "signal must be 0 or more"),
        ({"num_edges": 1_000}, "different edges found: too many for 20 nodes"),
    ]:
        good: dict[str, Any] = {
            "num_nodes": 20,
            "num_edges": 30,
            "num_classes": 3,
            "num_features": 2,
        }
        block_graph(**good)
        with pytest.raises(InputError, match=message):
            block_graph(**(good | change))


def test_one_class_is_allowed() -> None:
    graph = block_graph(50, 100, 1, 2, homophily=1.0)
    assert graph.adjacency.num_edges == 100
    assert graph.num_classes == 1


@settings(max_examples=15, deadline=None)
@given(st.integers(20, 80), st.integers(20, 80), st.floats(0.0, 1.0), st.integers(0, 2**40))
def test_interactions_have_the_asked_number_of_distinct_pairs(
    num_users: int, num_items: int, homophily: float, seed: int
) -> None:
    num_pairs = 2 * num_users
    made = block_interactions(num_users, num_items, num_pairs, 4, homophily=homophily, seed=seed)
    assert len(made) == num_pairs  # repeated ones would have been merged
    assert (made.num_users, made.num_items) == (num_users, num_items)
    again = block_interactions(num_users, num_items, num_pairs, 4, homophily=homophily, seed=seed)
    assert made.user.equal(again.user)
    assert made.item.equal(again.item)


def test_users_of_one_group_share_items() -> None:
    """Without pairs across groups, the graph falls apart into as many pieces."""
    made = block_interactions(80, 120, 1200, 4, homophily=1.0)
    piece = made.adjacency().num_nodes
    labels = torch.arange(piece)
    graph = made.adjacency()
    for _ in range(20):
        labels = torch.minimum(
            labels, labels.scatter_reduce(0, graph.row, labels[graph.col], "amin")
        )
    assert labels[graph.degree > 0].unique().numel() == 4


def test_the_demo_pairs_are_gowalla_in_small() -> None:
    made = demo_interactions()
    split = split_interactions(made)
    count = split.train.rows().count
    assert 3.3 < count.double().mean() < 3.5
    assert 0.02 < (count == 0).double().mean() < 0.3
    assert count.max() > 20
    assert not made.item.equal(demo_interactions(1).item)
    assert demo_link_graph().num_nodes == 4000


def test_bad_sizes_of_interactions_are_named() -> None:
    with pytest.raises(InputError, match=r"block_interactions: num_items must be .* got 3"):
        block_interactions(100, 3, 50, 4)
    with pytest.raises(InputError, match=r"1,200 of 1,300 different edges"):
        block_interactions(40, 60, 1300, 2, homophily=1.0)
