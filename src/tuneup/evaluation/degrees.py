"""Reading scores by degree: tail and head, and the curve over log-spaced degrees."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.evaluation.statistics import Interval, as_runs, bootstrap_mean, over_seeds
from tuneup.metrics import NodeScores
from tuneup.names import TAIL_DEGREE as TAIL_DEGREE

FEW = 5
"""The mean score of fewer nodes may be far off."""


@dataclass(frozen=True)
class GroupMean:
    """The number of nodes in a group and their mean score (NaN without nodes).

    ``low`` and ``high`` are the ends of its 95 % bootstrap interval, NaN below two nodes.
    """

    count: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class DegreeBin:
    """The nodes whose degree is in ``low .. high``, both included.

    ``interval`` is around their mean score: a bootstrap interval over the nodes of one run, one
    standard deviation to either side over the seeds of several. Its ends are NaN where one node or
    one seed leaves them undefined; of an empty bin the mean is NaN too.
    """

    low: int
    high: int
    count: int
    interval: Interval

    @property
    def mean(self) -> float:
        """Mean score."""
        return self.interval.mean

    @property
    def holds_few(self) -> bool:
        """Whether it has fewer nodes than :data:`FEW`; an empty bin has no mean at all."""
        return self.count < FEW and not math.isnan(self.mean)

    @property
    def label(self) -> str:
        """``"3"`` or ``"4-5"``."""
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


def split_by_degree(scores: NodeScores, tail_degree: int = TAIL_DEGREE) -> dict[str, NodeScores]:
    """The nodes as ``"overall"``, ``"tail"`` (degree <= ``tail_degree``) and ``"head"`` (above)."""
    if tail_degree < 0:
        raise InputError(f"tail_degree must not be negative, got {tail_degree}")
    tail = scores.degree <= tail_degree
    return {"overall": scores, "tail": scores.select(tail), "head": scores.select(~tail)}


def degree_groups(scores: NodeScores, tail_degree: int = TAIL_DEGREE) -> dict[str, NodeScores]:
    """The groups of :func:`split_by_degree` and, if any node has no edge, ``"isolated"``."""
    isolated = scores.select(scores.degree == 0)
    groups = split_by_degree(scores, tail_degree)
    return {**groups, "isolated": isolated} if len(isolated) else groups


def head_tail(scores: NodeScores, tail_degree: int = TAIL_DEGREE) -> dict[str, GroupMean]:
    """Number of nodes, mean score and interval of ``"overall"``, ``"tail"`` and ``"head"``."""
    found = {}
    for name, group in split_by_degree(scores, tail_degree).items():
        interval = bootstrap_mean(group.score)
        found[name] = GroupMean(len(group), group.mean(), interval.low, interval.high)
    return found


def degree_bins(max_degree: int, tail_degree: int = TAIL_DEGREE) -> tuple[tuple[int, int], ...]:
    """Log-spaced bins 0, 1, 2, 3, 4-5, 6-8, 9-12, 13-18, ... up to the one with ``max_degree``.

    Each bin starts half again as high as the one before: next low = max(low + 1, floor(1.5 low)).
    The bins of a smaller graph are the first bins of a larger one. A bin that would hold both tail
    and head is cut after ``tail_degree``; at the paper's 5 there is none.
    """
    if max_degree < 0:
        raise InputError(f"max_degree must not be negative, got {max_degree}")
    bins, low = [], 0
    while low <= max_degree:
        following = max(low + 1, 3 * low // 2)
        if low <= tail_degree < following:
            following = tail_degree + 1
        bins.append((low, following - 1))
        low = following
    return tuple(bins)


def merge_sparse_bins(
    bins: Sequence[tuple[int, int]],
    degree: Tensor,
    min_nodes: float,
    tail_degree: int = TAIL_DEGREE,
) -> tuple[tuple[int, int], ...]:
    """Join neighbouring bins until each holds ``min_nodes``: the mean of three nodes is noise.

    A bin of the tail is never joined with one of the head, so either may still hold fewer nodes if
    that is all there are. Empty bins at the ends of the tail and of the head are left out.

    Args:
        bins: ascending and disjoint (low, high) pairs.
        degree: int64 ``[n]``, the nodes' degrees.
        min_nodes: nodes wanted per bin.
        tail_degree: the highest degree of the tail.
    """
    merged: list[tuple[int, int]] = []
    for is_tail in (True, False):
        part = [each for each in bins if (each[0] <= tail_degree) == is_tail]
        counts = [int(((degree >= low) & (degree <= high)).sum()) for low, high in part]
        filled = [index for index, count in enumerate(counts) if count]
        groups: list[tuple[int, int, int]] = []  # low, high, count
        for index in range(filled[0], filled[-1] + 1) if filled else ():
            low, high, count = *part[index], counts[index]
            if groups and groups[-1][2] < min_nodes:
                low, count = groups[-1][0], groups[-1][2] + count
                groups.pop()
            groups.append((low, high, count))
        if len(groups) > 1 and groups[-1][2] < min_nodes:
            _, high, _ = groups.pop()
            groups[-1] = (groups[-1][0], high, groups[-1][2])
        merged += [(low, high) for low, high, _ in groups]
    return tuple(merged)


def degree_curve(
    runs: NodeScores | Sequence[NodeScores],
    bins: Sequence[tuple[int, int]] | None = None,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[DegreeBin, ...]:
    """Mean score per degree bin, with its interval over nodes or over seeds.

    Args:
        runs: of one run, or one per seed, of one setting and metric. Of several, ``count`` is a
            run's mean number of nodes in the bin, rounded: seeds of a generated graph do not agree
            on it.
        bins: (low, high) pairs, ascending and disjoint, that hold every node; None for
            :func:`degree_bins`.
        level: level of each bin's bootstrap interval (the intervals are pointwise).
        draws: bootstrap resamples per bin.
        seed: seed of each bin's bootstrap, so that a bin's interval depends on its own nodes only.
    """
    runs = as_runs(runs)
    if not runs or len({(run.setting, run.metric) for run in runs}) > 1:
        raise InputError(
            "a curve over seeds needs runs of one setting and one metric, at least one"
        )
    if bins is None:
        bins = degree_bins(max((int(run.degree.max()) for run in runs if len(run)), default=0))
    owners = [_bin_of(run, bins) for run in runs]
    curve = []
    for index, (low, high) in enumerate(bins):
        insides = [run.score[own == index] for run, own in zip(runs, owners, strict=True)]
        if len(runs) == 1:
            interval = bootstrap_mean(insides[0], level, draws, seed)
        else:
            seeds = over_seeds(float(inside.double().mean()) for inside in insides if len(inside))
            interval = Interval(seeds.mean, seeds.mean - seeds.std, seeds.mean + seeds.std)
        count = round(sum(map(len, insides)) / len(runs))
        curve.append(DegreeBin(low, high, count, interval))
    return tuple(curve)


def shared_curves(
    methods: Mapping[str, Sequence[NodeScores]], tail_degree: int, min_nodes: int
) -> dict[str, tuple[DegreeBin, ...]]:
    """Degree curves of several methods over the same bins.

    Args:
        methods: method -> its runs of one setting and metric, each with at least one node.
        tail_degree: the highest degree of the tail.
        min_nodes: neighbouring bins are joined until they hold this many nodes.

    Returns:
        method -> its curve: over nodes if it has one run, over seeds if it has more.
    """
    runs = [run for of_method in methods.values() for run in of_method]
    degree = torch.cat([run.degree.cpu() for run in runs])
    bins = degree_bins(int(degree.max()), tail_degree)
    bins = merge_sparse_bins(bins, degree, min_nodes * len(runs), tail_degree)
    return {method: degree_curve(own, bins) for method, own in methods.items()}


def _bin_of(scores: NodeScores, bins: Sequence[tuple[int, int]]) -> Tensor:
    """The index of each node's bin, int64 ``[n]``."""
    degree = scores.degree
    lows, highs = (degree.new_tensor([each[end] for each in bins]) for end in (0, 1))
    if not len(lows) or bool((lows > highs).any()) or bool((lows[1:] <= highs[:-1]).any()):
        raise InputError(f"bins must be ascending, disjoint (low, high) pairs, got {list(bins)}")
    owner = torch.bucketize(degree, lows, right=True) - 1
    outside = (owner < 0) | (degree > highs[owner.clamp(min=0)])
    if bool(outside.any()):
        raise InputError(
            f"bins must hold every node: {int(outside.sum())} nodes of the {scores.setting} "
            f"setting are in none, the first of degree {int(degree[outside][0])}"
        )
    return owner
