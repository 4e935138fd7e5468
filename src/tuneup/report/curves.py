"""What figures and the page's charts share: degree curves, and how each method's line looks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from tuneup.evaluation import (
    DegreeBin,
    degree_bins,
    degree_curve,
    merge_sparse_bins,
)
from tuneup.metrics import NodeScores

FEW = 5
"""The point of a bin with fewer nodes is drawn hollow: its mean may be far off."""


@dataclass(frozen=True)
class Line:
    """A curve's colour, dashes and marker, as matplotlib names them."""

    color: str
    style: str
    marker: str


# Base and TuneUp look as in the paper; the others differ in colour, dashes and marker at once, so
# that no one has to tell them apart by colour alone.
_LINES = {
    "Base": Line("#1f77b4", ":", "o"),
    "TuneUp": Line("#e8710a", "-", "s"),
}
_MORE_LINES = (
    Line("#009e73", "--", "^"),
    Line("#cc79a7", "-.", "v"),
    Line("#56b4e9", "--", "D"),
    Line("#8c6d1f", "-.", "P"),
    Line("#555555", "--", "X"),
    Line("#7b3fa0", "-.", "*"),
    Line("#c1272d", "--", "<"),
    Line("#0b7a75", "-.", ">"),
    Line("#9aa50b", "--", "p"),
    Line("#2b2d6e", "-.", "h"),
)


def assign_lines(methods: Sequence[str]) -> dict[str, Line]:
    """Base and TuneUp have lines of their own; the others take the remaining ones in turn."""
    others = [method for method in methods if method not in _LINES]
    more = {name: _MORE_LINES[index % len(_MORE_LINES)] for index, name in enumerate(others)}
    return {method: _LINES.get(method) or more[method] for method in methods}


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


def bin_labels(bins: Sequence[DegreeBin]) -> list[str]:
    """Of the degree axis; the last bin is open."""
    return [each.label for each in bins[:-1]] + [f"{bins[-1].low}+"]


def coincide(curves: Mapping[str, Sequence[DegreeBin]]) -> bool:
    """Whether a line lies under another one, as where TuneUp's result is Base."""
    return len({tuple(each.mean for each in bins) for bins in curves.values()}) < len(curves)


def holds_few(each: DegreeBin) -> bool:
    """Whether the bin's point is hollow; an empty bin has none."""
    return each.count < FEW and not math.isnan(each.mean)
