"""The paper's full per-degree figures: a panel for every architecture on every dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tuneup.errors import InputError
from tuneup.evaluation import TAIL_DEGREE
from tuneup.metrics import NodeScores

from .bins import coincide, shared_curves
from .figures import draw_panel
from .legend import FEW, band_note, draw_legend, holds_few
from .lines import assign_lines

Panel = Mapping[str, Sequence[NodeScores]]
"""Method -> its runs, all of one metric and one setting."""


def draw_degree_grid(
    panels: Mapping[tuple[str, str], Panel],
    *,
    title: str,
    metric_label: str,
    tail_degree: int = TAIL_DEGREE,
    min_nodes: int = 20,
    unit: str = "nodes",
) -> Figure:
    """The mean score per degree, drawn as :func:`~tuneup.report.draw_degree_figure` draws it.

    Args:
        panels: (row, column) -> the methods there; what has no panel is left empty.
        title: above the figure.
        metric_label: of the vertical axes.
        tail_degree: degrees up to this one are shaded as the tail.
        min_nodes: neighbouring degree bins are joined until they hold this many nodes.
        unit: what was scored, in the plural.
    """
    if not panels:
        raise InputError("a grid of degree figures needs at least one panel")
    rows, columns = (list(dict.fromkeys(key[side] for key in panels)) for side in (0, 1))
    figure = Figure(
        figsize=(1.0 + 4.2 * len(columns), 0.8 + 3.6 * len(rows)), dpi=100, layout="constrained"
    )
    FigureCanvasAgg(figure)
    axes = figure.subplots(
        2 * len(rows), len(columns), squeeze=False, height_ratios=[4, 1] * len(rows)
    )
    lines = assign_lines(list(dict.fromkeys(chain(*panels.values()))))
    varied = len({len(_runs(methods)) for methods in panels.values()}) > 1
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
            draw_panel(top, bottom, drawn, lines, tail_degree)
            top.set_xticks([])
            more = [f"{len(_runs(methods))} seeds"] * varied
            more += ["lines coincide"] * coincide(drawn)
            top.set_title(", ".join([column, row, *more]), fontsize=11)
            top.set_ylabel(metric_label)
            bottom.set_ylabel(unit)
            few = few or any(map(holds_few, chain(*drawn.values())))
            tops.append(top)
    seen = {f"{row}, {column}": panel for (row, column), panel in panels.items()}
    notes = [band_note(seen, unit)] + [f"hollow: fewer than {FEW} {unit}"] * few
    draw_legend(figure, tops, notes)
    figure.suptitle(title, fontsize=12, wrap=True)
    return figure


def _runs(methods: Panel) -> Sequence[NodeScores]:
    """The first method's, of which all have as many."""
    return next(iter(methods.values()))
