"""What a degree figure says about itself below its panels."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tuneup.evaluation import DegreeBin
from tuneup.metrics import NodeScores

GREY = "#6b6b6b"

FEW = 5
"""A bin with fewer nodes is drawn hollow: its mean may be far off."""


def holds_few(each: DegreeBin) -> bool:
    """Whether the bin is drawn hollow; an empty one is not drawn."""
    return each.count < FEW and not math.isnan(each.mean)


def band_note(panels: Mapping[str, Mapping[str, Sequence[NodeScores]]], unit: str) -> str:
    """What the bands are."""
    seeds = {len(runs) for of_method in panels.values() for runs in of_method.values()}
    bands = [f"95 % bootstrap interval over {unit}"] * (1 in seeds)
    several = sorted(seeds - {1})
    if several:
        least, most = several[0], several[-1]
        bands.append(f"± 1 std over {least if least == most else f'{least} to {most}'} seeds")
    return f"band: {' or '.join(bands)}"


def draw_legend(figure: Figure, tops: Sequence[Axes], notes: Sequence[str]) -> None:
    """Below the panels, where it hides nothing; its title says how to read them."""
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
    legend.get_title().set_color(GREY)
