import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tuneup.evaluation import statistics as resampling
from tuneup.evaluation.statistics import resampled_means, sign_flip_p_value


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
    monkeypatch.setattr(resampling, "_BATCH", 100)
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
        monkeypatch.setattr(resampling, "_MERGE_AT", merge_at)
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


@pytest.mark.parametrize(("wins", "losses"), [(60, 40), (530, 470), (70, 30)])
def test_on_zero_one_scores_it_is_the_sign_test(wins: int, losses: int) -> None:
    differences = np.repeat([1.0, -1.0, 0.0], [wins, losses, 500])
    draws = 20_000
    exact = stats.binomtest(wins, wins + losses).pvalue
    p_value = sign_flip_p_value(differences, draws, np.random.default_rng(0))
    assert abs(p_value - exact) < 4 * np.sqrt(exact / draws) + 1 / draws


@pytest.mark.parametrize("batch", [64, 1 << 16])
def test_sampled_signs_agree_with_all_signs(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "_BATCH", batch)
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
