import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneup.errors import InputError
from tuneup.evaluation import (
    TAIL_DEGREE,
    bootstrap_mean,
    degree_bins,
    degree_curve,
    degree_groups,
    head_tail,
    merge_sparse_bins,
    split_by_degree,
)
from tuneup.metrics import NodeScores


def make(degree: list[int], score: list[float], setting: str = "transductive") -> NodeScores:
    return NodeScores(
        setting,
        "accuracy",
        torch.arange(len(degree)),
        torch.tensor(degree, dtype=torch.int64),
        torch.tensor(score, dtype=torch.float32),
    )


@st.composite
def node_scores(draw: st.DrawFn) -> NodeScores:
    pairs = draw(st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 1, width=32)), min_size=1))
    return make([degree for degree, _ in pairs], [score for _, score in pairs])


def test_first_bins() -> None:
    assert degree_bins(20) == (
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 5),
        (6, 8),
        (9, 12),
        (13, 18),
        (19, 27),
    )
    assert degree_bins(0) == ((0, 0),)
    with pytest.raises(InputError, match="max_degree must not be negative, got -1"):
        degree_bins(-1)


@given(max_degree=st.integers(0, 10**9))
def test_bins_cover_every_degree_once_and_grow_evenly(max_degree: int) -> None:
    bins = degree_bins(max_degree)
    assert bins[0][0] == 0
    assert bins[-1][0] <= max_degree <= bins[-1][1]
    for (low, high), (following, _) in pairwise(bins):
        assert following == high + 1
        assert low <= high
        if low >= 4:
            assert 1.4 <= following / low <= 1.5


@given(smaller=st.integers(0, 10**6), larger=st.integers(0, 10**6))
def test_bins_of_a_smaller_graph_are_the_first_of_a_larger(smaller: int, larger: int) -> None:
    smaller, larger = sorted((smaller, larger))
    bins = degree_bins(smaller)
    assert degree_bins(larger)[: len(bins)] == bins


def test_the_tail_is_a_union_of_bins() -> None:
    assert TAIL_DEGREE in {high for _, high in degree_bins(100)}
    assert degree_bins(9, tail_degree=4)[4:] == ((4, 4), (5, 6), (7, 9))
    for tail_degree in range(100):
        assert tail_degree in {high for _, high in degree_bins(100, tail_degree)}


@settings(max_examples=30, deadline=None)
@given(scores=node_scores(), tail_degree=st.integers(0, 50))
def test_head_and_tail_recombine_to_overall(scores: NodeScores, tail_degree: int) -> None:
    groups = head_tail(scores, tail_degree)
    assert list(groups) == ["overall", "tail", "head"]
    tail, head, overall = groups["tail"], groups["head"], groups["overall"]
    assert tail.count + head.count == overall.count == len(scores)
    total = sum(each.count * each.mean for each in (tail, head) if each.count)
    assert total / overall.count == pytest.approx(scores.mean(), abs=1e-9)


def test_nodes_without_an_edge_are_a_group_of_the_tail() -> None:
    scores = make([0, 5, 0, 100], [1.0, 0.0, 0.5, 0.75])
    groups = degree_groups(scores)
    assert list(groups) == ["overall", "tail", "head", "isolated"]
    assert [groups["isolated"].nodes.tolist(), groups["tail"].nodes.tolist()] == [[0, 2], [0, 1, 2]]
    assert groups["isolated"].mean() == 0.75
    assert list(degree_groups(make([1, 6], [0.0, 1.0]))) == ["overall", "tail", "head"]


def test_head_tail_by_hand() -> None:
    groups = head_tail(make([0, 5, 6, 100], [1.0, 0.0, 0.25, 0.75]))
    assert [(each.count, each.mean) for each in groups.values()] == [(4, 0.5), (2, 0.5), (2, 0.5)]
    assert all(each.low <= 0.5 <= each.high for each in groups.values())
    only_tail = head_tail(make([0, 1], [1.0, 1.0]))
    assert only_tail["head"].count == 0
    assert math.isnan(only_tail["head"].mean)
    with pytest.raises(InputError, match="tail_degree must not be negative"):
        split_by_degree(make([1], [1.0]), -1)


@settings(max_examples=30, deadline=None)
@given(scores=node_scores())
def test_curve_is_the_mean_of_each_bin_and_recombines(scores: NodeScores) -> None:
    curve = degree_curve(scores, draws=50)
    assert sum(each.count for each in curve) == len(scores)
    total = 0.0
    for each in curve:
        inside = [
            score
            for degree, score in zip(scores.degree.tolist(), scores.score.tolist(), strict=True)
            if each.low <= degree <= each.high
        ]
        assert each.count == len(inside)
        if inside:
            assert each.mean == pytest.approx(sum(inside) / len(inside), abs=1e-9)
            total += each.count * each.mean
    assert total / len(scores) == pytest.approx(scores.mean(), abs=1e-9)


def test_curve_intervals_labels_and_single_nodes() -> None:
    degree = [0] * 30 + [4, 5] * 20 + [7]
    score = [float(index % 3 == 0) for index in range(len(degree))]
    scores = make(degree, score)
    curve = degree_curve(scores, seed=3)
    assert [each.label for each in curve] == ["0", "1", "2", "3", "4-5", "6-8"]
    assert curve[0].interval == bootstrap_mean(scores.score[:30], seed=3)
    assert curve[0].interval.low < curve[0].mean < curve[0].interval.high
    assert (curve[1].count, math.isnan(curve[1].mean)) == (0, True)
    assert (curve[5].count, curve[5].mean, math.isnan(curve[5].interval.low)) == (1, 0.0, True)


def test_bins_that_lose_nodes_are_refused() -> None:
    scores = make([0, 3, 9], [0.0, 0.5, 1.0])
    for bins in ([(0, 3), (3, 9)], [(4, 9), (0, 3)], [(3, 0)], []):
        with pytest.raises(InputError, match="ascending, disjoint"):
            degree_curve(scores, bins)
    for bins, degree in (([(0, 2), (4, 9)], 3), ([(1, 9)], 0), ([(0, 4)], 9)):
        with pytest.raises(InputError, match=f"are in none, the first of degree {degree}"):
            degree_curve(scores, bins)


def test_curve_over_seeds_is_mean_and_sample_deviation() -> None:
    runs = [
        make([1, 1, 2], [0.0, 1.0, 0.25]),
        make([1, 1, 2], [1.0, 1.0, 0.75]),
        make([1, 1, 1], [0.0, 0.0, 0.0]),
    ]
    zero, one, two = degree_curve(runs)
    assert (zero.count, math.isnan(zero.mean)) == (0, True)
    assert (one.low, one.high, one.count, one.mean) == (1, 1, 2, 0.5)  # 7 nodes over 3 runs
    assert one.interval.high - one.mean == pytest.approx(0.5)  # of 0.5, 1 and 0
    assert (two.count, two.mean) == (1, 0.5)
    assert two.mean - two.interval.low == pytest.approx(math.sqrt(0.125))  # of 0.25 and 0.75
    (single,) = degree_curve([runs[0]], [(0, 9)])
    assert single.mean == pytest.approx(5 / 12)
    assert single.interval == bootstrap_mean(runs[0].score)
    with pytest.raises(InputError, match="one setting"):
        degree_curve([runs[0], make([1], [1.0], setting="inductive")])


@given(
    degree=st.lists(st.integers(0, 3000), max_size=200),
    min_nodes=st.integers(0, 40),
    tail_degree=st.integers(0, 20),
)
def test_merged_bins_hold_every_node_and_are_full_enough(
    degree: list[int], min_nodes: int, tail_degree: int
) -> None:
    bins = degree_bins(3000)
    merged = merge_sparse_bins(bins, torch.tensor(degree), min_nodes, tail_degree)
    for value in degree:
        assert sum(low <= value <= high for low, high in merged) == 1
    lows, highs = {low for low, _ in bins}, {high for _, high in bins}
    parts: dict[bool, list[int]] = {True: [], False: []}
    for low, high in merged:
        assert low in lows
        assert high in highs
        starts = [start for start, _ in bins if low <= start <= high]
        assert len({start <= tail_degree for start in starts}) == 1
        parts[low <= tail_degree].append(sum(low <= value <= high for value in degree))
    for counts in parts.values():
        assert len(counts) < 2 or min(counts) >= min_nodes
        assert all(counts) or min_nodes == 0


def test_merged_bins_by_hand() -> None:
    degree = torch.tensor([1] * 10 + [2] * 3 + [3] * 8 + [4] + [7] * 2)
    assert merge_sparse_bins(degree_bins(8), degree, 10) == ((1, 1), (2, 5), (6, 8))
