"""The paper's Figure 1: how well each method does on nodes of each degree."""

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tuneup.errors import InputError
from tuneup.evaluation import TAIL_DEGREE, DegreeBin
from tuneup.metrics import NodeScores
from tuneup.report.bins import coincide, shared_curves
from tuneup.report.curves import check_format, save_figure
from tuneup.report.labels import setting_label
from tuneup.report.legend import FEW, GREY, band_note, draw_legend, holds_few
from tuneup.report.lines import Line, assign_lines

_TAIL_SHADE = "#f3f1ec"


def degree_figure(
    curves: Mapping[str, Sequence[NodeScores]],
    path: str | Path,
    *,
    title: str | None = None,
    metric_label: str | None = None,
    tail_degree: int = TAIL_DEGREE,
    min_nodes: int = 20,
    unit: str = "nodes",
) -> None:
    """Draw :func:`draw_degree_figure` and save it as ``.png``, ``.pdf`` or ``.svg``, atomically."""
    path = Path(path)
    check_format(path)
    figure = draw_degree_figure(
        curves,
        title=title,
        metric_label=metric_label,
        tail_degree=tail_degree,
        min_nodes=min_nodes,
        unit=unit,
    )
    save_figure(figure, path)


def draw_degree_figure(
    curves: Mapping[str, Sequence[NodeScores]],
    *,
    title: str | None = None,
    metric_label: str | None = None,
    tail_degree: int = TAIL_DEGREE,
    min_nodes: int = 20,
    unit: str = "nodes",
) -> Figure:
    """The mean score per degree of each method, one panel per setting.

    Under each panel, bars count the nodes of each degree. The band is the 95 % bootstrap interval
    over nodes if a method has one run in that setting, and one standard deviation to either side
    over seeds if it has more. The point of a bin with fewer than 5 nodes is hollow.

    Args:
        curves: method -> its scores, of one metric, any settings (each is a panel, in order of
            appearance) and any number of seeds. All methods score the same nodes: the first
            method's are counted.
        title: above the figure.
        metric_label: of the vertical axis; the metric's name if None.
        tail_degree: degrees up to this one are shaded as the tail.
        min_nodes: neighbouring degree bins are joined until they hold this many nodes.
        unit: what was scored, in the plural: "users", for instance.
    """
    panels = _by_setting(curves)
    figure = Figure(figsize=(1.2 + 4.6 * len(panels), 5.0), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(
        2, len(panels), sharex="col", sharey="row", squeeze=False, height_ratios=[4, 1]
    )
    lines = assign_lines(list(curves))
    few = False
    for (setting, methods), (top, bottom) in zip(panels.items(), axes.T, strict=True):
        drawn = shared_curves(methods, tail_degree, min_nodes)
        draw_panel(top, bottom, drawn, lines, tail_degree)
        more = ["lines coincide"] * coincide(drawn)
        top.set_title(", ".join([setting_label(setting), *more]), fontsize=11)
        few = few or any(map(holds_few, chain(*drawn.values())))
    metric = next(run.metric for runs in curves.values() for run in runs)
    axes[0, 0].set_ylabel(metric_label or metric)
    axes[1, 0].set_ylabel(unit)
    notes = [band_note(panels, unit)] + [f"hollow: fewer than {FEW} {unit}"] * few
    draw_legend(figure, axes[0], notes)
    if title:
        figure.suptitle(title, fontsize=12, wrap=True)
    return figure


def _by_setting(
    curves: Mapping[str, Sequence[NodeScores]],
) -> dict[str, dict[str, list[NodeScores]]]:
    """Map setting -> method -> its runs: settings in order of appearance, runs that have nodes."""
    panels: dict[str, dict[str, list[NodeScores]]] = {}
    for method, runs in curves.items():
        for run in filter(len, runs):
            panels.setdefault(run.setting, {}).setdefault(method, []).append(run)
    if not panels:
        raise InputError("a degree figure needs at least one method with at least one scored node")
    metrics = {run.metric for runs in curves.values() for run in runs}
    if len(metrics) > 1:
        raise InputError(f"a degree figure shows one metric, got {', '.join(sorted(metrics))}")
    return panels


def draw_panel(
    top: Axes,
    bottom: Axes,
    curves: Mapping[str, Sequence[DegreeBin]],
    lines: Mapping[str, Line],
    tail_degree: int,
) -> None:
    """Curves above, node counts below; bins stand at equal distances: degree is on a log scale."""
    for method, curve in curves.items():
        _draw_curve(top, curve, method, lines[method])
    top.grid(axis="y", color="#e4e4e4", linewidth=0.7)
    top.set_axisbelow(True)
    bins = next(iter(curves.values()))
    labels = [each.label for each in bins[:-1]] + [f"{bins[-1].low}+"]
    bottom.bar(range(len(bins)), [each.count for each in bins], color="#c3c9d3", width=0.8)
    bottom.set_yscale("log")
    bottom.set_ylim(bottom=0.7)  # so that a single node is a bar too
    bottom.minorticks_off()
    bottom.set_xticks(range(len(bins)), labels, rotation=45, ha="right", rotation_mode="anchor")
    bottom.tick_params(labelsize=8)
    bottom.set_xlabel("degree in the input graph")
    in_tail = sum(each.low <= tail_degree for each in bins)
    for axes in (top, bottom):
        axes.axvspan(-0.5, in_tail - 0.5, color=_TAIL_SHADE, zorder=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(-0.5, len(bins) - 0.5)
    if in_tail:
        label = f"tail: degree ≤ {tail_degree}"
        top.text(0.015, 0.985, label, transform=top.transAxes, va="top", color=GREY, fontsize=8)


def _draw_curve(axes: Axes, curve: Sequence[DegreeBin], method: str, line: Line) -> None:
    """One method's line and band; empty bins are skipped, undefined bands left out."""
    filled = {index: each for index, each in enumerate(curve) if not math.isnan(each.mean)}
    x = list(filled)
    mean = [each.mean for each in filled.values()]
    low = [each.interval.low for each in filled.values()]
    high = [each.interval.high for each in filled.values()]
    axes.plot(x, mean, line.style, color=line.color, marker=line.marker, ms=4, lw=1.8, label=method)
    few = {index: each.mean for index, each in filled.items() if holds_few(each)}
    axes.scatter(
        list(few),
        list(few.values()),
        30,
        marker=line.marker,
        facecolors="white",
        edgecolors=line.color,
        linewidths=1.4,
        zorder=3,
    )
    axes.fill_between(x, low, high, color=line.color, alpha=0.16, linewidth=0)
