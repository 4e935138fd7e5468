"""The runs on gowalla as a table, and their validation curves as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuneup.bench.records import RunRecord, read_records
from tuneup.files import atomic_path
from tuneup.report.table import markdown_table

from .gowalla import GROUPS, PAPER, RESULTS, parse
from .records import ROOT
from .sections import join, unmeasured

PICTURE = ROOT / "benchmarks" / "gowalla.png"
METRIC = "recall@50"
FLOORS = {"popularity": ":", "item co-occurrence": "--"}
"""What needs no training, and how its line is drawn."""


def records() -> list[RunRecord]:
    """All runs, best validation first within an architecture."""
    found = read_records(RESULTS) if RESULTS.exists() else []
    found = [record for record in found if record.variant]  # others are the bench's
    return sorted(found, key=lambda r: (r.architecture, -r.validation[METRIC]))


def section() -> str:
    """A row for every stage of every run."""
    found = records()
    if not found:
        return unmeasured("benchmarks.gowalla", "benchmarks.real_tables")
    heading = (
        "run",
        "architecture, stage",
        "validation",
        "test",
        "gain over Base",
        "paper",
        *(f"{name} pairs" for name in GROUPS),
        "with popularity fallback",
    )
    rows = [row for number, record in enumerate(found, 1) for row in rows_of(number, record)]
    floors = found[0].settings
    intro = (
        f"{METRIC} on test of all users with a test pair, and of users by their number of training "
        f"pairs. Without any training, popularity gives {floors['popularity']:.4f} and item "
        f"co-occurrence {floors['item co-occurrence']:.4f}. TuneUp's Base is its own stage 1."
    )
    commands = [f"{number}. `{command_of(record)}`" for number, record in enumerate(found, 1)]
    picture = f"![Validation recall over epochs]({PICTURE.name})"
    return join(intro, markdown_table(heading, rows), "The runs:", "\n".join(commands), picture)


def rows_of(number: int, record: RunRecord) -> list[list[str]]:
    """One row a stage; the popularity fallback was only asked of the stage that won."""
    rows = []
    for index, stage in enumerate(record.stages):
        method = record.method if index == len(record.stages) - 1 else "base"
        paper = PAPER.get((record.architecture, method))
        before = record.stages[0]["test"]
        rows.append(
            [
                f"{number}",
                f"{record.architecture}, {method}",
                f"{stage['best_score']:.4f}",
                f"{stage['test']:.4f}",
                f"{100 * (stage['test'] / before - 1):+.1f} %" if index else "",
                f"{paper:.4f}" if paper else "",
                *(f"{stage['by_degree'][name]:.4f}" for name in GROUPS),
                f"{record.settings['popularity-fallback']:.4f}" if index == record.winner else "",
            ]
        )
    return rows


def command_of(record: RunRecord) -> str:
    """The command that makes the record: what is not a default."""
    plain = vars(parse([]))
    words = [f"python -m benchmarks.gowalla --architecture {record.architecture}"]
    words += [f"--method {record.method}"] if record.method != plain["method"] else []
    words += [f"--seed {record.seed}"] if record.seed != plain["seed"] else []
    apart = {"architecture", "method", "seed", "threads", "schedules"}
    for key, value in record.config.items():
        if key not in apart and value != plain.get(key, value):
            words.append(f"--{key.replace('_', '-')} {_words(value)}".rstrip())
    return " ".join(words)


def _words(value: Any) -> str:
    if value is True:
        return ""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def draw(found: list[RunRecord], path: Path) -> None:
    """Validation recall over the epochs of both stages, one line a run, and the floors."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.6), dpi=150, layout="constrained")
    axes = figure.subplots()
    for number, record in enumerate(found, 1):
        shift = 0
        for index in range(len(record.stages)):
            epochs = [(e, score) for stage, e, _, score in record.curve if stage == index]
            points = [(shift + e, score) for e, score in epochs if score is not None]
            name = f"{number}: {record.architecture}" if index == 0 else None
            style = "-" if index == 0 else "--"
            axes.plot(*zip(*points, strict=True), style, color=f"C{number - 1}", label=name)
            shift += max(e for e, _ in epochs)
    for name, style in FLOORS.items():
        axes.axhline(
            found[0].settings[name], color="#6b6b6b", lw=1, ls=style, label=f"{name}, on test"
        )
    axes.set_xlabel("epoch (solid: stage 1, dashed: stage 2)")
    axes.set_ylabel(f"validation {METRIC}")
    axes.grid(color="#e4e4e4", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    with atomic_path(path) as partial:
        figure.savefig(partial, format="png")
