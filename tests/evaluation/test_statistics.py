"""Intervals, paired gains and the resampling behind them."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tuneup.errors import InputError
from tuneup.evaluation import bootstrap_mean, over_seeds, paired_gain, statistics
from tuneup.evaluation.statistics import Floats, resampled_means, sign_flip_p_value
from tuneup.metrics import NodeScores


def make(score: object, setting: str = "transductive", metric: str = "accuracy") -> NodeScores:
    values = torch.as_tensor(np.asarray(score, dtype=np.float32))
    nodes = torch.arange(len(values))
    return NodeScores(setting, metric, nodes, nodes % 7, values)


def shuffled(scores: NodeScores, seed: int = 0) -> NodeScores:
    order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(seed))
    return NodeScores(
        scores.setting,
        scores.metric,
        scores.nodes[order],
        scores.degree[order],
        scores.score[order],
    )


def test_interval_of_zero_one_scores_is_binomial() -> None:
    ones, n = 700, 1000
    values = torch.tensor([1.0] * ones + [0.0] * (n - ones))
    interval = bootstrap_mean(values, draws=20_000)
    expected = stats.binom.ppf([0.025, 0.975], n, ones / n) / n
    assert interval.mean == pytest.approx(0.7)
    assert [interval.low, interval.high] == pytest.approx(expected.tolist(), abs=1.5 / n)


def test_interval_of_many_values_is_normal() -> None:
    values = np.random.default_rng(0).normal(size=4000)
    interval = bootstrap_mean(values, level=0.9, draws=4000)
    half = stats.norm.ppf(0.95) * values.std() / math.sqrt(len(values))
    assert interval.mean == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.1 * half)


@pytest.mark.parametrize(
    ("draw", "truth"),
    [
        (lambda rng: (rng.random(150) < 0.6).astype(float), 0.6),
        (lambda rng: rng.random(60) ** 2, 1 / 3),
    ],
)
def test_intervals_cover_the_truth_as_often_as_they_say(
    draw: Callable[[np.random.Generator], Floats], truth: float
) -> None:
    rng = np.random.default_rng(0)
    repeats, covered = 400, 0
    for repeat in range(repeats):
        interval = bootstrap_mean(draw(rng), draws=400, seed=repeat)
        covered += interval.low <= truth <= interval.high
    # The percentile bootstrap is a little short at this size: 0.95 minus a point or two.
    assert 0.90 <= covered / repeats <= 0.98


def test_bootstrap_is_a_function_of_its_seed() -> None:
    values = torch.rand(50, generator=torch.Generator().manual_seed(0))
    first = bootstrap_mean(values, seed=1)
    assert first == bootstrap_mean(values, seed=1)
    assert first != bootstrap_mean(values, seed=2)


def test_too_few_values_have_no_interval() -> None:
    one = bootstrap_mean(torch.tensor([0.5]))
    assert (one.mean, math.isnan(one.low), math.isnan(one.high)) == (0.5, True, True)
    assert math.isnan(bootstrap_mean(torch.zeros(0)).mean)


def test_bad_arguments_are_named() -> None:
    values = torch.zeros(3)
    with pytest.raises(InputError, match=r"level must lie between 0 and 1, got 95"):
        bootstrap_mean(values, level=95)
    with pytest.raises(InputError, match="draws must be at least 1, got 0"):
        bootstrap_mean(values, draws=0)
    with pytest.raises(InputError, match=r"vector, got shape \[3, 1\]"):
        bootstrap_mean(values[:, None])
    with pytest.raises(InputError, match="flips must be at least 1"):
        paired_gain([make([1, 0])], [make([1, 1])], flips=0)


def test_without_a_p_value_all_else_is_the_same() -> None:
    both = [make([1, 0, 0, 1])], [make([1, 1, 1, 0])]
    tested, untested = paired_gain(*both), paired_gain(*both, flips=None)
    assert math.isnan(untested.p_value)
    assert not math.isnan(tested.p_value)
    assert replace(untested, p_value=tested.p_value) == tested


def test_gain_by_hand() -> None:
    gain = paired_gain([make([1, 0, 0, 1])], [make([1, 1, 0, 1])])
    assert (gain.absolute, gain.relative, gain.seeds, gain.nodes) == (0.25, 0.5, 1, 4)
    assert (gain.low, gain.high) == (0.0, 0.75)  # of 0, 1, 2, 3, 4 quarters, p = 1/4 each
    assert gain.p_value == 1.0
    worse = paired_gain([make([1, 1, 0, 1])], [make([1, 0, 0, 1])])
    assert worse.absolute == -0.25
    assert (worse.low, worse.high) == (-0.75, 0.0)
    assert math.isnan(paired_gain([make([0, 0])], [make([1, 0])]).relative)


def test_gain_interval_is_that_of_nodes_widened_by_that_of_seeds() -> None:
    rng = np.random.default_rng(3)
    seeds, nodes, draws = 4, 60, 3000
    shift = rng.normal(0.02, 0.05, size=(seeds, 1))
    before = rng.random((seeds, nodes))
    after = before + shift + rng.normal(0, 0.2, size=(1, nodes))
    gain = paired_gain([make(row) for row in before], [make(row) for row in after], draws=draws)
    difference = after - before
    mean = difference.mean()
    naive = []
    for _ in range(draws):
        columns = rng.integers(0, nodes, nodes)
        naive.append(np.mean([difference[:, column].mean() for column in columns]))
    of_nodes = np.quantile(naive, [0.025, 0.975])
    of_seeds = stats.t.interval(0.95, seeds - 1, loc=mean, scale=stats.sem(difference.mean(axis=1)))
    low, high = (math.hypot(mean - a, mean - b) for a, b in zip(of_nodes, of_seeds, strict=True))
    assert gain.absolute == pytest.approx(mean, abs=1e-6)
    assert mean - gain.low == pytest.approx(low, rel=0.05)
    assert gain.high - mean == pytest.approx(high, rel=0.05)


@pytest.mark.parametrize(
    ("seeds", "of_seed", "of_node", "noise"),
    [(3, 0.05, 0.0, 0.0), (3, 0.02, 0.3, 0.3), (5, 0.02, 0.3, 0.3), (3, 0.0, 0.5, 0.1)],
    ids=["seeds differ", "both differ", "both differ, more seeds", "nodes differ"],
)
def test_gains_cover_the_truth_as_often_as_they_say(
    seeds: int, of_seed: float, of_node: float, noise: float
) -> None:
    rng = np.random.default_rng(seeds)
    repeats, nodes, covered = 300, 80, 0
    base = [make(np.zeros(nodes))] * seeds
    for repeat in range(repeats):
        shift = rng.normal(0, of_seed, (seeds, 1)) + rng.normal(0, of_node, (1, nodes))
        values = shift + rng.normal(0, noise, (seeds, nodes))
        gain = paired_gain(base, [make(row) for row in values], draws=300, flips=1, seed=repeat)
        covered += gain.low <= 0 <= gain.high
    assert covered / repeats >= 0.92  # never fewer; where nodes and seeds both count, a few more


def test_gain_interval_holds_the_seeds_spread() -> None:
    base = [make(np.zeros(500))] * 2
    gain = paired_gain(base, [make(np.zeros(500)), make(np.ones(500))])
    half = stats.t.ppf(0.975, 1) * 0.5
    assert (gain.absolute, gain.low, gain.high) == pytest.approx((0.5, 0.5 - half, 0.5 + half))
    one_seed = paired_gain(base[:1], [make(np.ones(500))])
    assert (one_seed.low, one_seed.high) == (1.0, 1.0)


def test_gain_pairs_by_node_whatever_the_order() -> None:
    rng = np.random.default_rng(0)
    base = [make(rng.random(40)) for _ in range(3)]
    other = [make(rng.random(40)) for _ in range(3)]
    mixed = [shuffled(run, seed) for seed, run in enumerate(other)]
    assert paired_gain(base, mixed) == paired_gain(base, other)


def test_pairing_is_what_makes_a_small_gain_visible() -> None:
    rng = np.random.default_rng(0)
    before = rng.random(2000) < 0.5
    after = before | (rng.random(2000) < 0.02)
    gain = paired_gain([make(before)], [make(after)])
    assert 0 < gain.low < gain.absolute < gain.high
    assert gain.p_value < 0.01
    unpaired = bootstrap_mean(make(before).score)
    assert unpaired.high - unpaired.low > 3 * (gain.high - gain.low)


def test_misuse_of_pairs_is_refused() -> None:
    base = make([1, 0, 1])
    with pytest.raises(InputError, match="got 2 of the base and 1 of the other"):
        paired_gain([base, base], [base])
    with pytest.raises(InputError, match="got 0 of the base and 0 of the other"):
        paired_gain([], [])
    with pytest.raises(InputError, match=r"other\[0\] is accuracy in the cold-90 setting, not acc"):
        paired_gain([base], [make([1, 0, 1], setting="cold-90")])
    with pytest.raises(InputError, match=r"other\[0\] is recall@50 in the transductive setting"):
        paired_gain([base], [make([1, 0, 1], metric="recall@50")])
    with pytest.raises(InputError, match=r"other\[0\] scores 2 nodes, base\[0\] 3"):
        paired_gain([base], [make([1, 0])])
    with pytest.raises(InputError, match=r"base\[1\] scores 4 nodes"):
        paired_gain([base, make([1, 0, 1, 1])], [base, base])
    other_nodes = NodeScores(base.setting, base.metric, base.nodes + 1, base.degree, base.score)
    with pytest.raises(InputError, match="not the same ones; were both runs split"):
        paired_gain([base], [other_nodes])
    other_graph = NodeScores(base.setting, base.metric, base.nodes, base.degree + 1, base.score)
    with pytest.raises(InputError, match=r"one input graph: in other\[0\] some degrees differ"):
        paired_gain([base], [other_graph])
    with pytest.raises(InputError, match="at least one node, got none in transductive"):
        paired_gain([make([])], [make([])])


def test_over_seeds() -> None:
    five = over_seeds([0.1, 0.2, 0.3, 0.4, 0.5])
    assert (five.mean, five.std) == pytest.approx((0.3, math.sqrt(0.025)))
    assert five.seeds == 5
    assert str(five) == "0.3000 ± 0.1581"
    assert five.text(digits=1) == "0.3 ± 0.2"
    assert str(over_seeds([0.25])) == "0.2500 ± \N{EN DASH}"
    assert str(over_seeds([])) == "\N{EN DASH} ± \N{EN DASH}"


# Resampling


def test_means_equal_a_loop_with_the_same_generator() -> None:
    values = np.random.default_rng(1).random((37, 3))
    result = resampled_means(values, 200, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    for mean in result:
        drawn = [values[rng.integers(0, 37)] for _ in range(37)]
        np.testing.assert_allclose(mean, sum(drawn) / 37, atol=1e-12)


def test_the_memory_budget_does_not_change_the_means(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).random((37, 2))
    whole = resampled_means(values, 100, np.random.default_rng(5))
    monkeypatch.setattr(statistics, "_BATCH", 100)
    parts = resampled_means(values, 100, np.random.default_rng(5))
    # The draws are the same; on some processors a product rounds by its number of rows.
    np.testing.assert_allclose(parts, whole, rtol=1e-14)


def test_merged_values_have_the_binomial_distribution() -> None:
    ones, n = 30, 100
    values = np.repeat([0.0, 1.0], [n - ones, ones])[:, None]
    means = resampled_means(values, 20_000, np.random.default_rng(0))[:, 0]
    observed = np.bincount(np.rint(means * n).astype(int), minlength=n + 1)
    expected = stats.binom.pmf(np.arange(n + 1), n, ones / n) * len(means)
    kept = expected > 10
    chi_square = ((observed - expected)[kept] ** 2 / expected[kept]).sum()
    assert stats.chi2.sf(chi_square, kept.sum() - 1) > 1e-3


def test_columns_are_drawn_together(monkeypatch: pytest.MonkeyPatch) -> None:
    first = np.arange(64) % 4.0
    values = np.stack([first, 2 * first + 1], axis=1)
    for merge_at in (8, 10**6):  # by merged values, then node by node
        monkeypatch.setattr(statistics, "_MERGE_AT", merge_at)
        means = resampled_means(values, 50, np.random.default_rng(0))
        np.testing.assert_allclose(means[:, 1], 2 * means[:, 0] + 1)
        assert means[:, 0].std() > 0


def test_equal_rows_give_exactly_their_value() -> None:
    means = resampled_means(np.full((7, 1), 0.1), 5, np.random.default_rng(0))
    assert (means == 0.1).all()


def brute_force(differences: list[float]) -> float:
    observed, hits = abs(sum(differences)), 0
    patterns = list(itertools.product((-1, 1), repeat=len(differences)))
    for signs in patterns:
        total = sum(sign * each for sign, each in zip(signs, differences, strict=True))
        hits += abs(total) >= observed - 1e-6
    return hits / len(patterns)


@settings(max_examples=40, deadline=None)
@given(
    differences=st.lists(
        st.integers(-4, 4).map(lambda value: value / 4) | st.sampled_from([0.3, -0.7, 1 / 3]),
        min_size=1,
        max_size=9,
    )
)
def test_sign_flip_is_exact_for_few_nodes(differences: list[float]) -> None:
    p_value = sign_flip_p_value(np.array(differences), 10_000, np.random.default_rng(0))
    assert p_value == pytest.approx(brute_force(differences), abs=1e-12)


def test_float32_ties_count_as_ties() -> None:
    # 1/3 - 0 and 1 - 2/3 are one number to a person, and two once scores are float32.
    third = np.float32(1 / 3)
    differences = np.array([float(third), 1 - float(np.float32(2 / 3)), -float(third)])
    assert brute_force(differences.tolist()) == 1.0
    assert sign_flip_p_value(differences, 100, np.random.default_rng(0)) == 1.0


def test_equal_methods_have_p_value_one() -> None:
    assert sign_flip_p_value(np.zeros(1000), 10_000, np.random.default_rng(0)) == 1.0


def test_on_zero_one_scores_it_is_the_sign_test() -> None:
    wins, losses = 60, 40
    differences = np.repeat([1.0, -1.0, 0.0], [wins, losses, 500])
    draws = 20_000
    exact = stats.binomtest(wins, wins + losses).pvalue
    p_value = sign_flip_p_value(differences, draws, np.random.default_rng(0))
    assert abs(p_value - exact) < 4 * np.sqrt(exact / draws) + 1 / draws


def test_sampled_signs_agree_with_all_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_BATCH", 64)
    differences = np.random.default_rng(2).normal(0.3, 1, size=13)
    exact = sign_flip_p_value(differences, 2**13, np.random.default_rng(0))
    sampled = sign_flip_p_value(differences, 2**13 - 1, np.random.default_rng(0))
    assert sampled != exact
    assert sampled == pytest.approx(exact, abs=4 * np.sqrt(exact / 2**13))


def test_p_values_are_uniform_if_nothing_differs() -> None:
    rng = np.random.default_rng(0)
    p_values = [sign_flip_p_value(rng.normal(size=25), 199, rng) for _ in range(500)]
    for level in (0.05, 0.25, 0.5):
        share = np.mean(np.array(p_values) <= level)
        assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / 500)
