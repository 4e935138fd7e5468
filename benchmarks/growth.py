"""How time and memory of our epochs grow with the graph, at a constant mean degree of 13.7.

python -m benchmarks.growth            # 10 k, 100 k and 1 M nodes, 3 rounds: about 40 minutes
python -m benchmarks.growth --quick    # small graphs and one round, to see that it works
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuneup.files import atomic_path
from tuneup.report.table import markdown_table

from .case import Case, Malloc
from .records import ROOT, Quantity, Record, epoch_seconds, peak_bytes, run_rounds
from .sections import MIB, join
from .speed import add_options, results_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (2_000, 4_000, 8_000)
PICTURE = ROOT / "benchmarks" / "growth.png"
STAGES = {"stage 1, 5 % of the nodes labelled": 1, "stage 2, alpha 0.5, all nodes supervised": 2}
"""What each stage is called in the table and the picture."""
LINEAR = 1.15
"""The largest exponent that still counts as close to linear."""


def stage_case(stage: int, nodes: int, malloc: Malloc) -> Case:
    """One SAGE epoch of a stage."""
    if stage == 1:
        return Case("sage", "ours", malloc, nodes=nodes)
    return Case("sage", "ours", malloc, "all", 0.5, nodes)


def run(sizes: Sequence[int], rounds: int, results: Path) -> None:
    """Measure every size and stage, under raised thresholds and under glibc's own."""
    cases = [
        stage_case(stage, nodes, malloc)
        for nodes in sizes
        for stage in STAGES.values()
        for malloc in ("raised", "default")
    ]
    command = f"python -m benchmarks.growth --rounds {rounds}"
    command += f" --nodes {' '.join(map(str, sizes))}" if tuple(sizes) != SIZES else ""
    run_rounds(results / "growth.json", command, cases, rounds, same_loss=False)


def sizes_of(record: Record) -> list[int]:
    """Numbers of nodes that were measured, ascending."""
    return sorted({case.nodes for case, found in record.rounds.items() if found})


def growing(record: Record) -> str:
    """Time and memory over the number of nodes; the exponent is 1 where growth is linear."""
    heading = (
        "",
        "nodes",
        "epoch, s",
        "exponent",
        "peak memory, MiB",
        "exponent",
        "default malloc, MiB",
    )
    rows = []
    for name, stage in STAGES.items():
        before: Case | None = None
        for nodes in sizes_of(record):
            case = stage_case(stage, nodes, "raised")
            plain = stage_case(stage, nodes, "default")
            rows.append(
                [
                    "" if before else name,
                    f"{nodes:,}",
                    record.spread(case, epoch_seconds).text(3),
                    exponent(record, before, case, epoch_seconds),
                    record.spread(case, peak_bytes).text(0, MIB),
                    exponent(record, before, case, peak_bytes),
                    record.spread(plain, peak_bytes).text(0, MIB),
                ]
            )
            before = case
    picture = f"![Time and memory over the number of nodes]({PICTURE.name})"
    return join(picture, markdown_table(heading, rows), linear_goal(record))


def exponent(record: Record, before: Case | None, case: Case, quantity: Quantity) -> str:
    """The growth since the size before, as a cell."""
    return "" if before is None else f"{power(record, before, case, quantity):.2f}"


def power(record: Record, before: Case, case: Case, quantity: Quantity) -> float:
    """``log(growth of the quantity) / log(growth of the graph)``."""
    grown = record.spread(case, quantity).median / record.spread(before, quantity).median
    return math.log(grown) / math.log(case.nodes / before.nodes)


def linear_goal(record: Record) -> str:
    """Whether the last step, between graphs that no cache holds, is close to linear."""
    *_, small, large = sizes_of(record)
    worst = max(
        power(record, stage_case(stage, small, "raised"), stage_case(stage, large, "raised"), of)
        for stage in STAGES.values()
        for of in (epoch_seconds, peak_bytes)
    )
    verdict = "reached" if worst <= LINEAR else "**missed**"
    return (
        f"Goal: close to linear, read as no exponent above {LINEAR:g} from {small:,} to {large:,} "
        f"nodes. The largest is {worst:.2f}: {verdict}."
    )


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
        spreads = [record.spread(stage_case(stage, n, "raised"), quantity) for n in sizes]
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the sizes on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth")
    parser.add_argument("--nodes", type=int, nargs="+", help="trial sizes instead of the usual")
    add_options(parser)
    options = parser.parse_args(arguments)
    results = results_folder(options)
    path = results / "growth.json"
    if options.fresh:
        path.unlink(missing_ok=True)
    sizes = options.nodes or (QUICK_SIZES if options.quick else SIZES)
    run(sizes, options.rounds or (1 if options.quick else 3), results)


if __name__ == "__main__":
    main()
