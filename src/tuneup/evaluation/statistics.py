"""How sure are we? Intervals of means, paired gains between two methods, spread over seeds."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from tuneup.errors import InputError
from tuneup.evaluation.pairing import as_runs, check_paired
from tuneup.evaluation.resampling import Floats, resampled_means, sign_flip_p_value
from tuneup.metrics import NodeScores

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
    seeds (:func:`~tuneup.evaluation.resampling.sign_flip_p_value`): it is about *these* trained
    models.

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
