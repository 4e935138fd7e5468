"""Several methods' curves over the same degree bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from tuneup.evaluation import (
    DegreeBin,
    degree_bins,
    degree_curve,
    degree_curve_over_seeds,
    merge_sparse_bins,
)
from tuneup.metrics import NodeScores


def shared_curves(
    methods: Mapping[str, Sequence[NodeScores]], tail_degree: int, min_nodes: int
) -> dict[str, tuple[DegreeBin, ...]]:
    """Map method -> its curve: over nodes if it has one run, over seeds if it has more.

    Args:
        methods: method -> its runs of one setting and metric, each with at least one node.
        tail_degree: the highest degree of the tail.
        min_nodes: neighbouring bins are joined until they hold this many nodes.
    """
    runs = [run for of_method in methods.values() for run in of_method]
    degree = torch.cat([run.degree.cpu() for run in runs])
    bins = degree_bins(int(degree.max()), tail_degree)
    bins = merge_sparse_bins(bins, degree, min_nodes * len(runs), tail_degree)
    return {
        method: degree_curve(own[0], bins) if len(own) == 1 else degree_curve_over_seeds(own, bins)
        for method, own in methods.items()
    }


def coincide(drawn: Mapping[str, Sequence[DegreeBin]]) -> bool:
    """Whether a line lies under another one, as where TuneUp's guard kept Base."""
    return len({tuple(each.mean for each in bins) for bins in drawn.values()}) < len(drawn)
