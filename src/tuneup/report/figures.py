"""The paper's figures, drawn by matplotlib, which the extra ``report`` installs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from tuneup.errors import InputError
from tuneup.evaluation import FEW, TAIL_DEGREE, DegreeBin, MeanStd, shared_curves
from tuneup.files import atomic_path
from tuneup.metrics import NodeScores
from tuneup.runtime import require

from .charts import Line, assign_lines, bin_labels
from .summary import Curve
from .table import setting_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")
_GREY, _TAIL_SHADE = "#6b6b6b", "#f3f1ec"

Panel = Mapping[str, Sequence[NodeScores]]
"""Method -> its runs, all of one metric and one setting."""


def degree_figure(
    curves: Mapping[str, Sequence[NodeScores]],
    path: str | Path | None = None,
    *,
    title: str | None = None,
    metric_label: str | None = None,
    tail_degree: int = TAIL_DEGREE,
    min_nodes: int = 20,
    unit: str = "nodes",
) -> Figure:
    """The paper's Figure 1: the mean score per degree of each method, one panel per setting.

    Under each panel, bars count the nodes of each degree. The band is the 95 % bootstrap interval
    over nodes if a method has one run in that setting, and one standard deviation to either side
    over seeds if it has more. The point of a bin with fewer than 5 nodes is hollow.

    Args:
        curves: method -> its scores, of one metric, any settings (each is a panel, in order of
            appearance) and any number of seeds. All methods score the same nodes: the first
            method's are counted.
        path: to save the figure at, as ``.png``, ``.pdf`` or ``.svg``.
        title: above the figure.
        metric_label: of the vertical axis; the metric's name if None.
        tail_degree: degrees up to this one are shaded as the tail.
        min_nodes: neighbouring degree bins are joined until they hold this many nodes.
        unit: what was scored, in the plural: "users", for instance.
    """
    if path is not None:
        _check_format(Path(path))
    panels = _by_setting(curves)
    figure = _new_figure((1.2 + 4.6 * len(panels), 5.0))
    axes = figure.subplots(
        2, len(panels), sharex="col", sharey="row", squeeze=False, height_ratios=[4, 1]
    )
    lines, few = assign_lines(list(curves)), False
    for (setting, methods), (top, bottom) in zip(panels.items(), axes.T, strict=True):
        drawn = shared_curves(methods, tail_degree, min_nodes)
        few |= _draw_panel(top, bottom, drawn, lines, tail_degree)
        more = ["lines coincide"] * coincide(drawn)
        top.set_title(", ".join([setting_label(setting), *more]), fontsize=11)
    metric = next(run.metric for runs in curves.values() for run in runs)
    axes[0, 0].set_ylabel(metric_label or metric)
    axes[1, 0].set_ylabel(unit)
    _legend_below(figure, axes[0], panels.values(), unit, few=few)
    _set_title(figure, title)
    if path is not None:
        save_figure(figure, Path(path))
    return figure


def degree_grid(
    panels: Mapping[tuple[str, str], Panel],
    *,
    title: str,
    metric_label: str,
    tail_degree: int = TAIL_DEGREE,
    min_nodes: int = 20,
    unit: str = "nodes",
) -> Figure:
    """The paper's full per-degree figure: a panel for every architecture on every dataset.

    Args:
        panels: (row, column) -> the methods there; a missing panel is left empty.
        title: above the figure.
        metric_label: of the vertical axes.
        tail_degree: degrees up to this one are shaded as the tail.
        min_nodes: neighbouring degree bins are joined until they hold this many nodes.
        unit: what was scored, in the plural.
    """
    if not panels:
        raise InputError("a grid of degree figures needs at least one panel")
    rows, columns = (list(dict.fromkeys(key[side] for key in panels)) for side in (0, 1))
    figure = _new_figure((1.0 + 4.2 * len(columns), 0.8 + 3.6 * len(rows)), dpi=100)
    axes = figure.subplots(
        2 * len(rows), len(columns), squeeze=False, height_ratios=[4, 1] * len(rows)
    )
    lines = assign_lines(list(dict.fromkeys(chain(*panels.values()))))
    # All methods of a panel have as many runs as its first.
    seeds = {place: len(next(iter(methods.values()))) for place, methods in panels.items()}
    varied = len({*seeds.values()}) > 1
    few, tops = False, []
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            top, bottom = axes[2 * i, j], axes[2 * i + 1, j]
            methods = panels.get((row, column))
            if methods is None:
                top.set_axis_off()
                bottom.set_axis_off()
                continue
            drawn = shared_curves(methods, tail_degree, min_nodes)
            few |= _draw_panel(top, bottom, drawn, lines, tail_degree)
            top.set_xticks([])
            more = [f"{seeds[row, column]} seeds"] * varied
            more += ["lines coincide"] * coincide(drawn)
            top.set_title(", ".join([column, row, *more]), fontsize=11)
            top.set_ylabel(metric_label)
            bottom.set_ylabel(unit)
            tops.append(top)
    _legend_below(figure, tops, panels.values(), unit, few=few)
    _set_title(figure, title)
    return figure


def training_figure(runs: Mapping[str, Sequence[Curve]], metric: str, title: str) -> Figure:
    """Validation scores of every run, a panel a stage, so that the boundary is where they meet.

    Grey across a later panel is what its stage must reach to be selected: the best of those before.

    Args:
        runs: method -> a curve per seed; methods that share their first stage share its lines.
        metric: name of the score.
        title: above the figure.
    """
    stages = 1 + max(
        (stage for own in runs.values() for run in own for stage, *_ in run), default=0
    )
    figure = _new_figure((2.2 + 3.6 * stages, 4.0))
    panels = figure.subplots(1, stages, sharey=True, squeeze=False)[0]
    lines = assign_lines(list(runs))
    first_drawn_by: dict[tuple[int, tuple[tuple[int, float], ...]], str] = {}
    for method, own in runs.items():
        for seed, run in enumerate(own):
            for stage, axes in enumerate(panels):
                points = tuple((e, s) for k, e, _, s in run if k == stage and s is not None)
                before = [s for k, _, _, s in run if k < stage and s is not None]
                if points and before:
                    axes.axhline(max(before), color="#777777", ls=":", lw=0.8)
                if points and first_drawn_by.setdefault((stage, points), method) == method:
                    axes.plot(
                        *zip(*points, strict=True),
                        lines[method].style,
                        color=lines[method].color,
                        lw=1.1,
                        alpha=0.8,
                        label=method if seed == 0 else None,
                    )
    for stage, axes in enumerate(panels):
        axes.set_title(f"stage {stage + 1}", fontsize=11)
        axes.set_xlabel("epoch (grey: the best before it)" if stage else "epoch")
        _plain(axes)
    if any(len(own) > 1 for own in runs.values()):
        panels[0].set_xlabel("epoch (a line is a training seed)")
    panels[0].set_ylabel(f"validation {metric}")
    _legend_beside(figure, panels)
    _set_title(figure, title)
    return figure


def cold_start_figure(
    scores: Mapping[str, Mapping[int, MeanStd]], metric: str, title: str
) -> Figure:
    """The score of new nodes by the share of their edges that was removed.

    Args:
        scores: method -> percentage removed -> mean and deviation over seeds.
        metric: name of the score.
        title: above the figure.
    """
    figure = _new_figure((8.0, 4.2))
    axes = figure.subplots()
    lines, banded = assign_lines(list(scores)), False
    for method, by_share in scores.items():
        line, shares = lines[method], sorted(by_share)
        mean = [by_share[share].mean for share in shares]
        axes.plot(
            shares, mean, line.style, color=line.color, marker=line.marker, ms=4, label=method
        )
        spread = [by_share[share].std for share in shares]
        if all(by_share[share].seeds > 1 for share in shares):
            banded = True
            low = [m - s for m, s in zip(mean, spread, strict=True)]
            high = [m + s for m, s in zip(mean, spread, strict=True)]
            axes.fill_between(shares, low, high, color=line.color, alpha=0.14, linewidth=0)
    note = "\nshaded: ± 1 std over training seeds" if banded else ""
    axes.set_xlabel(f"removed edges of new nodes, %{note}")
    axes.set_ylabel(metric)
    axes.set_xticks(sorted({share for own in scores.values() for share in own}))
    _plain(axes)
    _legend_beside(figure, [axes])
    _set_title(figure, title)
    return figure


def coincide(curves: Mapping[str, Sequence[DegreeBin]]) -> bool:
    """Whether a line lies under another one, as where TuneUp's result is Base."""
    return len({tuple(each.mean for each in bins) for bins in curves.values()}) < len(curves)


def save_figure(figure: Figure, path: Path) -> None:
    """As ``.png``, ``.pdf`` or ``.svg``, whole or not at all; the same figure, the same file."""
    _check_format(path)
    suffix = path.suffix.lower()
    dated = {".pdf": "CreationDate", ".svg": "Date"}.get(suffix)
    with atomic_path(path) as temporary:
        figure.savefig(
            temporary, format=suffix.removeprefix("."), metadata={dated: None} if dated else None
        )


def _check_format(path: Path) -> None:
    """Refuse a name that no figure can have, before any work."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: a figure's name must end in {', '.join(FORMATS)}")


def _new_figure(size: tuple[float, float], dpi: int = 150) -> Figure:
    """A figure without pyplot, whose state is global."""
    figure: Figure = require("matplotlib.figure", "report").Figure(
        figsize=size, dpi=dpi, layout="constrained"
    )
    require("matplotlib.backends.backend_agg", "report").FigureCanvasAgg(figure)
    return figure


def _by_setting(curves: Mapping[str, Sequence[NodeScores]]) -> dict[str, Panel]:
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
    return {**panels}


def _draw_panel(
    top: Axes,
    bottom: Axes,
    curves: Mapping[str, Sequence[DegreeBin]],
    lines: Mapping[str, Line],
    tail_degree: int,
) -> bool:
    """Draw curves above and node counts below; whether any point is hollow.

    Bins stand at equal distances: degree is on a log scale.
    """
    for method, curve in curves.items():
        _draw_curve(top, curve, method, lines[method])
    _plain(top)
    top.set_axisbelow(True)
    bins = next(iter(curves.values()))
    bottom.bar(range(len(bins)), [each.count for each in bins], color="#c3c9d3", width=0.8)
    bottom.set_yscale("log")
    bottom.set_ylim(bottom=0.7)  # so that a single node is a bar too
    bottom.minorticks_off()
    bottom.set_xticks(
        range(len(bins)), bin_labels(bins), rotation=45, ha="right", rotation_mode="anchor"
    )
    bottom.tick_params(labelsize=8)
    bottom.set_xlabel("degree in the input graph")
    in_tail = sum(each.low <= tail_degree for each in bins)
    for axes in (top, bottom):
        axes.axvspan(-0.5, in_tail - 0.5, color=_TAIL_SHADE, zorder=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(-0.5, len(bins) - 0.5)
    if in_tail:
        label = f"tail: degree ≤ {tail_degree}"
        top.text(0.015, 0.985, label, transform=top.transAxes, va="top", color=_GREY, fontsize=8)
    return any(each.holds_few for each in chain(*curves.values()))


def _draw_curve(axes: Axes, curve: Sequence[DegreeBin], method: str, line: Line) -> None:
    """One method's line and band; empty bins are skipped, undefined bands left out."""
    filled = {index: each for index, each in enumerate(curve) if not math.isnan(each.mean)}
    x = list(filled)
    mean = [each.mean for each in filled.values()]
    low = [each.interval.low for each in filled.values()]
    high = [each.interval.high for each in filled.values()]
    axes.plot(x, mean, line.style, color=line.color, marker=line.marker, ms=4, lw=1.8, label=method)
    few = {index: each.mean for index, each in filled.items() if each.holds_few}
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


def _plain(axes: Axes) -> None:
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)


def _set_title(figure: Figure, title: str | None) -> None:
    if title:
        figure.suptitle(title, fontsize=12, wrap=True)


def _legend_beside(figure: Figure, panels: Sequence[Axes]) -> None:
    found = {str(line.get_label()): line for axes in panels for line in axes.get_lines()}
    named = {label: line for label, line in found.items() if not label.startswith("_")}
    figure.legend(
        list(named.values()), list(named), loc="outside right upper", frameon=False, fontsize=8
    )


def _legend_below(
    figure: Figure, tops: Sequence[Axes], panels: Iterable[Panel], unit: str, *, few: bool
) -> None:
    """Below the panels, where it hides nothing; its title says how to read them."""
    seeds = {len(runs) for methods in panels for runs in methods.values()}
    bands = [f"95 % bootstrap interval over {unit}"] * (1 in seeds)
    several = sorted(seeds - {1})
    if several:
        least, most = several[0], several[-1]
        bands.append(f"± 1 std over {least if least == most else f'{least} to {most}'} seeds")
    notes = [f"band: {' or '.join(bands)}"] + [f"hollow: fewer than {FEW} {unit}"] * few
    lines = {str(line.get_label()): line for axes in tops for line in axes.get_lines()}
    legend = figure.legend(
        list(lines.values()),
        list(lines),
        loc="outside lower center",
        ncols=min(len(lines), 3 * len(tops)),
        title="; ".join(notes),
        title_fontsize=8,
        frameon=False,
    )
    legend.get_title().set_color(_GREY)
