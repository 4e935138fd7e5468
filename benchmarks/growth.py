"""How time and memory of our epochs grow with the graph, at a constant mean degree of 13.7."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from tuneup.files import atomic_path
from tuneup.report.table import markdown_table

from .harness import (
    MIB,
    ROOT,
    Benchmark,
    Case,
    Quantity,
    Record,
    epoch_seconds,
    join,
    peak_bytes,
)
from .speed import USUAL, measure, memory_needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES, QUICK_SIZES = (10_000, 100_000, 1_000_000), (2_000, 4_000, 8_000)
PICTURE = ROOT / "benchmarks" / "growth.png"
STAGES = {"stage 1, 5 % of the nodes labelled": 1, "stage 2, alpha 0.5, all nodes supervised": 2}
"""What each stage is called in the table and the picture."""
LINEAR = 1.15
"""The largest exponent that still counts as close to linear."""


def stage_case(stage: int, nodes: int, malloc: str = "raised") -> Case:
    """One SAGE epoch of a stage."""
    more = {} if stage == 1 else {"supervision": "all", "alpha": 0.5}
    return {**USUAL, "malloc": malloc, "nodes": nodes, **more}


def cases(quick: bool) -> list[Case]:
    """Every size and stage, under raised thresholds and under glibc's own."""
    return [
        stage_case(stage, nodes, malloc)
        for nodes in (QUICK_SIZES if quick else SIZES)
        for stage in STAGES.values()
        for malloc in ("raised", "default")
    ]


def sizes_of(record: Record) -> list[int]:
    """Numbers of nodes that were measured, ascending."""
    return sorted({case["nodes"] for case, found in record.found if found})


def report(record: Record) -> str:
    """Time and memory over the number of nodes; the exponent is 1 where growth is linear."""
    heading = ["", "nodes", "epoch, s", "exponent", "peak memory, MiB", "exponent"]
    rows, sizes = [], sizes_of(record)
    for name, stage in STAGES.items():
        for before, nodes in zip((None, *sizes), sizes, strict=False):
            case = stage_case(stage, nodes)
            quantities = ((epoch_seconds, 3, 1.0), (peak_bytes, 0, MIB))
            cells = []
            for quantity, digits, scale in quantities:
                grown = power(record, stage, before, nodes, quantity) if before else None
                cells.append(record.spread(case, quantity).text(digits, scale))
                cells.append(f"{grown:.2f}" if grown is not None else "")
            plain = record.spread(stage_case(stage, nodes, "default"), peak_bytes).text(0, MIB)
            rows.append(["" if before else name, f"{nodes:,}", *cells, plain])
    *_, small, large = sizes
    worst = max(
        power(record, stage, small, large, of)
        for stage in STAGES.values()
        for of in (epoch_seconds, peak_bytes)
    )
    verdict = "reached" if worst <= LINEAR else "**missed**"
    return join(
        f"![Time and memory over the number of nodes]({PICTURE.name})",
        markdown_table([*heading, "default malloc, MiB"], rows),
        f"Goal: close to linear, read as no exponent above {LINEAR:g} from {small:,} to {large:,} "
        f"nodes. The largest is {worst:.2f}: {verdict}.",
    )


def power(record: Record, stage: int, before: int, nodes: int, quantity: Quantity) -> float:
    """``log(growth of the quantity) / log(growth of the graph)``."""
    one, other = (record.spread(stage_case(stage, n), quantity).median for n in (before, nodes))
    return math.log(other / one) / math.log(nodes / before)


def draw(record: Record, path: Path) -> None:
    """Time and memory over the number of nodes, log-log, with straight lines of slope one."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.9), dpi=150, layout="constrained")
    time, memory = figure.subplots(1, 2)
    _panel(time, record, epoch_seconds, 1.0, "seconds an epoch")
    _panel(memory, record, peak_bytes, 2.0**-30, "peak memory above the graph's, GiB")
    handles, labels = time.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    with atomic_path(path) as partial:
        figure.savefig(partial, format="png")


def _panel(axes: Axes, record: Record, quantity: Quantity, scale: float, label: str) -> None:
    sizes = sizes_of(record)
    for (name, stage), color, marker in zip(
        STAGES.items(), ("#1f77b4", "#e8710a"), ("o", "s"), strict=True
    ):
        spreads = [record.spread(stage_case(stage, n), quantity) for n in sizes]
        middle = [scale * spread.median for spread in spreads]
        below = [scale * (spread.median - spread.low) for spread in spreads]
        above = [scale * (spread.high - spread.median) for spread in spreads]
        axes.errorbar(
            sizes, middle, [below, above], color=color, marker=marker, ms=5, capsize=3, label=name
        )
        anchor = len(sizes) // 2
        line = [middle[anchor] * n / sizes[anchor] for n in sizes]
        reference = "linear" if stage == max(STAGES.values()) else None
        axes.plot(sizes, line, ":", color="#6b6b6b", lw=1, zorder=0, label=reference)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("nodes")
    axes.set_ylabel(label)
    axes.grid(color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


BENCHMARK = Benchmark(
    "growth", "SAGE, growing graphs", cases, measure, report, rounds=3, memory=memory_needed
)
