"""Scores over the course of training, and over the share of edges that new nodes have lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tuneup.errors import InputError
from tuneup.evaluation import MeanStd
from tuneup.files import atomic_path
from tuneup.report.lines import assign_lines

FORMATS = (".png", ".pdf", ".svg")

Curve = Sequence[tuple[int, int, float, float | None]]
"""A run as its records keep it: (stage, epoch, loss, validation score or None)."""


def training_figure(runs: Mapping[str, Sequence[Curve]], metric: str, title: str) -> Figure:
    """Validation scores of every run, a panel a stage, so that the boundary is where they meet.

    Grey across a later panel is what its stage must reach to be kept: the best of those before.

    Args:
        runs: method -> a curve per seed; methods that share their first stage share its lines.
        metric: name of the score.
        title: above the figure.
    """
    stages = 1 + max(
        (stage for own in runs.values() for run in own for stage, *_ in run), default=0
    )
    figure = Figure(figsize=(2.2 + 3.6 * stages, 4.0), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
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
        axes.set_xlabel("epoch")
        _plain(axes)
    if any(len(own) > 1 for own in runs.values()):
        panels[0].set_xlabel("epoch (a line is a training seed)")
    for axes in panels[1:]:
        axes.set_xlabel("epoch (grey: the best before it)")
    panels[0].set_ylabel(f"validation {metric}")
    _legend(figure, panels)
    figure.suptitle(title, fontsize=12, wrap=True)
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
    figure = Figure(figsize=(8.0, 4.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
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
    _legend(figure, [axes])
    figure.suptitle(title, fontsize=12, wrap=True)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """As ``.png``, ``.pdf`` or ``.svg``, whole or not at all; the same figure, the same file."""
    check_format(path)
    suffix = path.suffix.lower()
    dated = {".pdf": "CreationDate", ".svg": "Date"}.get(suffix)
    with atomic_path(path) as temporary:
        figure.savefig(
            temporary, format=suffix.removeprefix("."), metadata={dated: None} if dated else None
        )


def check_format(path: Path) -> None:
    """Refuse a name that no figure can have, before any work."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: a figure's name must end in {', '.join(FORMATS)}")


def _plain(axes: Axes) -> None:
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    found = {str(line.get_label()): line for axes in panels for line in axes.get_lines()}
    named = {label: line for label, line in found.items() if not label.startswith("_")}
    figure.legend(
        list(named.values()), list(named), loc="outside right upper", frameon=False, fontsize=8
    )
