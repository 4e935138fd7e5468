"""Intervals of means, paired gains between two methods, and the spread over seeds.

Two resampling kernels are under every interval and test: :func:`resampled_means` and
:func:`sign_flip_p_value`.  Both draw in batches of a bounded size, and both first merge equal
values: the scores of 150,000 nodes are often only zeros and ones, and how often each of a few
values is drawn is a multinomial (or binomial) number. That is the same distribution as drawing node
by node, for far less work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneup.errors import InputError
from tuneup.metrics import NodeScores

Floats = NDArray[np.float64]

_BATCH = 1 << 16  # numbers live at once, few enough for the cache
# A multinomial number costs about as much as drawing this many single nodes.
_MERGE_AT = 8

MISSING = "\N{EN DASH}"
"""Printed in place of a number that does not exist."""


@dataclass(frozen=True)
class Interval:
    """A mean and the interval around it."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Gain:
    """What one method adds to another, on the same nodes.

    Attributes:
        absolute: mean score of the other method minus mean score of the base.
        relative: ``absolute`` divided by the base's mean; NaN if that is 0.
        low: lower end of the interval of ``absolute``.
        high: upper end of it.
        p_value: two-sided, of the hypothesis that the two methods are interchangeable on each node;
            NaN where it was not tested.
        seeds: number of training seeds compared.
        nodes: number of nodes compared.
    """

    absolute: float
    relative: float
    low: float
    high: float
    p_value: float
    seeds: int
    nodes: int


@dataclass(frozen=True)
class MeanStd:
    """Mean and sample standard deviation over training seeds; NaN where there are too few."""

    mean: float
    std: float
    seeds: int

    def text(self, digits: int = 4) -> str:
        """``"0.5996 ± 0.0012"``, with :data:`MISSING` for a number that does not exist."""
        mean, std = (
            MISSING if math.isnan(value) else f"{value:.{digits}f}"
            for value in (self.mean, self.std)
        )
        return f"{mean} ± {std}"

    def __str__(self) -> str:
        return self.text()


def bootstrap_mean(
    values: Tensor | Floats, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval of a mean over nodes.

    The nodes are resampled with replacement ``draws`` times; the interval holds the middle
    ``level`` of the resampled means. One node says nothing about the spread: its ``low`` and
    ``high`` are NaN.

    Args:
        values: ``[n]``, one score per node.
        level: share of the resampled means inside the interval.
        draws: number of resamples.
        seed: seed of the resampling.
    """
    _check_draws(level, draws)
    array = _to_numpy(values)
    if array.ndim != 1:
        raise InputError(f"values must be a vector, got shape {list(array.shape)}")
    if len(array) < 2:
        return Interval(float(array.mean()) if len(array) else math.nan, math.nan, math.nan)
    means = resampled_means(array[:, None], draws, np.random.default_rng(seed))
    return Interval(float(array.mean()), *_percentiles(means[:, 0], level))


def paired_gain(
    base: NodeScores | Sequence[NodeScores],
    other: NodeScores | Sequence[NodeScores],
    level: float = 0.95,
    draws: int = 2000,
    flips: int | None = 10_000,
    seed: int = 0,
) -> Gain:
    """The gain of ``other`` over ``base``, with a paired interval over nodes *and* seeds.

    With D_{s,v} = other_s(v) - base_s(v) the interval is that of nodes, the middle ``level`` of the
    mean of D over resampled nodes, widened by that of seeds, Student's for the S means over nodes:

        low = mean - sqrt((mean - low_nodes)^2 + t^2 var_s / S)      and ``high`` alike

    It says how the gain may vary with other test nodes and other training seeds on the same graph;
    with one seed, with other nodes only. Seeds are few: resampling three of them would leave the
    truth out three times in ten.

    The p-value is that of the paired sign-flip test over nodes of the differences averaged over
    seeds (:func:`sign_flip_p_value`): it is about *these* trained models.

    Args:
        base: the base's scores, one per seed; a single run's may be given alone.
        other: the other method's, ``other[i]`` trained with the seed of ``base[i]``. All must be of
            one setting and metric and hold the same nodes with the same degrees, in any order.
        level: how often such an interval should hold the truth.
        draws: number of resamples of the nodes.
        flips: number of sign patterns for the p-value; None: it is not tested, and is NaN.
        seed: seed of the resampling.
    """
    _check_draws(level, draws)
    if flips is not None and flips < 1:
        raise InputError(f"flips must be at least 1, got {flips}")
    both = as_runs(base), as_runs(other)
    check_paired(*both)
    before, after = (np.stack([_by_node(run) for run in runs]) for runs in both)
    difference = after - before  # [seeds, nodes]
    seeds, nodes = difference.shape
    rng = np.random.default_rng(seed)
    absolute, base_mean = float(difference.mean()), float(before.mean())
    means = resampled_means(difference.mean(axis=0)[:, None], draws, rng)[:, 0]
    low, high = _percentiles(means, level)
    spread = _half_width(difference.mean(axis=1), level)
    low = absolute - math.hypot(absolute - low, spread)
    high = absolute + math.hypot(high - absolute, spread)
    tested = math.nan if flips is None else sign_flip_p_value(difference.mean(axis=0), flips, rng)
    return Gain(
        absolute=absolute,
        relative=absolute / base_mean if base_mean else math.nan,
        low=low,
        high=high,
        p_value=tested,
        seeds=seeds,
        nodes=nodes,
    )


def over_seeds(values: Iterable[float]) -> MeanStd:
    """Mean and sample standard deviation (ddof = 1); of one seed the deviation is NaN."""
    array = np.asarray(list(values), dtype=np.float64)
    return MeanStd(
        mean=float(array.mean()) if len(array) else math.nan,
        std=float(array.std(ddof=1)) if len(array) > 1 else math.nan,
        seeds=len(array),
    )


def _to_numpy(values: Tensor | Floats) -> Floats:
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    return np.asarray(values, dtype=np.float64)


def _by_node(scores: NodeScores) -> Floats:
    return _to_numpy(scores.score[scores.nodes.argsort()])


def _percentiles(draws: Floats, level: float) -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _half_width(values: Floats, level: float) -> float:
    """Half of Student's interval of the mean of a few values; 0 of a single one."""
    if len(values) < 2:
        return 0.0
    from scipy.special import stdtrit  # slow to import

    quantile = float(stdtrit(len(values) - 1, (1 + level) / 2))
    return quantile * float(values.std(ddof=1)) / math.sqrt(len(values))


def _check_draws(level: float, draws: int) -> None:
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, got {level}")
    if draws < 1:
        raise InputError(f"draws must be at least 1, got {draws}")


def as_runs(scores: NodeScores | Sequence[NodeScores]) -> Sequence[NodeScores]:
    """One run's scores, or those of several seeds, as the latter."""
    return [scores] if isinstance(scores, NodeScores) else scores


def check_paired(base: Sequence[NodeScores], other: Sequence[NodeScores]) -> None:
    """Refuse runs that are not seed for seed of one setting, metric, set of nodes and input graph.

    The order of the nodes may differ from run to run.
    """
    if not base or len(base) != len(other):
        raise InputError(
            "a paired gain needs the same seeds of both methods, at least one; "
            f"got {len(base)} of the base and {len(other)} of the other"
        )
    first = base[0]
    if not len(first):
        raise InputError(f"a paired gain needs at least one node, got none in {first.setting}")
    for name, runs in (("base", base), ("other", other)):
        for index, run in enumerate(runs):
            _check_same(f"{name}[{index}]", run, first)


def _check_same(where: str, run: NodeScores, first: NodeScores) -> None:
    """Refuse a run that is not on the same task, nodes and input graph as ``first``."""
    named, expected = (f"{each.metric} in the {each.setting} setting" for each in (run, first))
    if named != expected:
        raise InputError(
            f"a paired gain compares like with like: {where} is {named}, not {expected}"
        )
    if torch.equal(run.nodes, first.nodes) and torch.equal(run.degree, first.degree):
        return  # in the same order, as records have them: nothing to sort
    mine, order = run.nodes.argsort(), first.nodes.argsort()
    if not torch.equal(run.nodes[mine], first.nodes[order]):
        raise InputError(
            f"a paired gain needs the same nodes everywhere: {where} scores {len(run)} nodes, "
            f"base[0] {len(first)}, not the same ones; were both runs split with one split seed?"
        )
    if not torch.equal(run.degree[mine], first.degree[order]):
        raise InputError(
            f"a paired gain needs one input graph: in {where} some degrees differ from base[0]'s"
        )


def resampled_means(values: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Means of ``draws`` samples of n rows, taken with replacement from the n rows of ``values``.

        mean_b = 1/n sum_i w_{b,i} values_i,   w_b ~ Multinomial(n; 1/n, ..., 1/n)

    Args:
        values: ``[n, k]`` with n > 0; the k entries of a row are always drawn together.
        draws: the number of samples.
        rng: the source of randomness.

    Returns:
        ``[draws, k]``.
    """
    n = len(values)
    distinct, counts = np.unique(values, axis=0, return_counts=True)
    if len(distinct) == 1:  # nothing to resample, and no rounding of w @ values
        return np.repeat(distinct, draws, axis=0)
    if len(distinct) * _MERGE_AT <= n:
        means = [
            rng.multinomial(n, counts / n, size=rows) @ distinct
            for rows in _batches(draws, len(distinct))
        ]
    else:
        means = [_draw_counts(n, rows, rng) @ values for rows in _batches(draws, n)]
    return np.asarray(np.concatenate(means) / n, dtype=np.float64)


def sign_flip_p_value(differences: Floats, draws: int, rng: np.random.Generator) -> float:
    """Two-sided p-value of the paired sign-flip (permutation) test of no difference.

    If the two methods were interchangeable, each difference d_i would be as likely as -d_i:

        p = P(|sum_i s_i d_i| >= |sum_i d_i|),   s_i independent, +1 or -1 with probability 1/2

    Exact, over all sign patterns of the non-zero differences, if there are at most ``draws``
    patterns (13 non-zero differences at 10,000); otherwise estimated as (1 + hits) / (1 + draws),
    which is never 0 and keeps the test valid.

    Args:
        differences: ``[n]``.
        draws: the number of sign patterns to try.
        rng: the source of randomness; unused if the result is exact.
    """
    size = np.abs(differences[differences != 0])
    # Sums that are equal on paper differ by rounding, float32 scores by up to 6e-8 of their size.
    threshold = abs(differences.sum()) - 1e-7 * size.sum()
    if 2 ** min(len(size), 63) <= draws:
        sums = np.zeros(1)
        for each in size:
            sums = np.concatenate([sums + each, sums - each])
        return float(np.mean(np.abs(sums) >= threshold))
    hits = sum(int((np.abs(sums) >= threshold).sum()) for sums in _flipped(size, draws, rng))
    return (1 + hits) / (1 + draws)


def _flipped(size: Floats, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Batches of sums of ``size`` under random signs, ``draws`` sums in all."""
    distinct, counts = np.unique(size, return_counts=True)
    total = size.sum()
    if len(distinct) * _MERGE_AT <= len(size):
        for rows in _batches(draws, len(distinct)):
            positive = rng.binomial(counts, 0.5, size=(rows, len(distinct)))
            yield 2 * (positive @ distinct) - total
    else:
        for rows in _batches(draws, len(size)):
            bits = np.frombuffer(rng.bytes(rows * -(-len(size) // 8)), dtype=np.uint8)
            signs = np.unpackbits(bits.reshape(rows, -1), axis=1, count=len(size))
            yield 2 * (signs.astype(np.float64) @ size) - total


def _draw_counts(n: int, rows: int, rng: np.random.Generator) -> Floats:
    """How often each of n items is among n draws with replacement, ``[rows, n]``."""
    drawn = rng.integers(0, n, size=(rows, n)) + n * np.arange(rows)[:, None]
    counts = np.bincount(drawn.reshape(-1), minlength=rows * n)
    return counts.reshape(rows, n).astype(np.float64)


def _batches(draws: int, width: int) -> Iterator[int]:
    """Row counts that add up to ``draws``, so that ``[rows, width]`` stays within the budget."""
    rows = max(1, _BATCH // width)
    for start in range(0, draws, rows):
        yield min(rows, draws - start)
