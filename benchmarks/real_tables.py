"""The accuracy tables of README.md, from the run records and their per-node scores.

python -m benchmarks.real_tables
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tuneup.bench.records import RunRecord, read_records
from tuneup.curriculum import CURRICULA
from tuneup.evaluation import over_seeds, paired_gain
from tuneup.files import write_atomic
from tuneup.metrics import NodeScores

from .demo_graphs import demo_section
from .real_graphs import ALPHAS, ARCHITECTURES, DATASETS, DROPOUTS, RESULTS
from .sections import join, table
from .tables import README, replace_between

TITLES = {
    "base": "Base",
    "dropedge": "DropEdge",
    "tuneup": "**TuneUp**",
    "without-curriculum": "w/o curriculum",
    "without-syn-tails": "w/o syn-tails",
    "without-pseudo-labels": "w/o pseudo-labels",
}
Cell = dict[str, list[RunRecord]]
"""The records of one dataset and architecture: by method, in the order of their seeds."""


def cells(folder: Path) -> dict[tuple[str, str], Cell]:
    """All records, by dataset and architecture."""
    found: dict[tuple[str, str], Cell] = defaultdict(lambda: defaultdict(list))
    for record in sorted(read_records(folder), key=lambda record: record.seed):
        found[record.dataset, record.architecture][record.method].append(record)
    return found


def section(dataset: str, architecture: str, cell: Cell, folder: Path) -> str:
    """One dataset and architecture: every method's scores, and every gain over Base."""
    settings = list(cell["base"][0].settings)
    command = f"`python -m benchmarks.real_graphs run {dataset} {architecture}`"
    seeds = ", ".join(str(record.seed) for record in cell["base"])
    dropout = cell["base"][0].config["dropout"]
    first, second = (cell["base"][0].config[stage] for stage in ("pretrain", "finetune"))
    intro = (
        f"{command}: training seeds {seeds}; dropout {dropout:g} chosen on Base; at most "
        f"{first['epochs']} epochs at learning rate {first['lr']:g} in stage 1, "
        f"{second['epochs']} at {second['lr']:g} in stage 2."
    )
    heading = ("accuracy, %", "alpha", "trials", *settings, "ran out", "stage 2 won")
    rows = [score_row(method, cell[method], settings) for method in CURRICULA if cell[method]]
    gains = [
        gain_row(method, cell, settings, folder)
        for method in CURRICULA
        if method != "base" and len(cell[method]) == len(cell["base"])
    ]
    return join(
        f"### {dataset}, {architecture}",
        intro,
        table(heading, rows),
        table(("gain over Base, points", *settings), gains),
    )


def score_row(method: str, records: list[RunRecord], settings: list[str]) -> list[str]:
    """Mean and standard deviation over seeds, and how the runs ended."""
    means = [over_seeds([100 * r.settings[name] for r in records]).text(2) for name in settings]
    two = len(records[0].stages) == 2
    won = f"{sum(r.winner == 1 for r in records)} of {len(records)}" if two else ""
    alpha = records[0].config["alpha"]
    trials = len(DROPOUTS) if method == "base" else len(ALPHAS) if alpha else 0
    out = sum(r.stages[-1]["stopped"].startswith("ran all") for r in records)
    ended = f"{out} of {len(records)}"
    return [TITLES[method], f"{alpha:g}" if alpha else "", f"{trials}", *means, ended, won]


def gain_row(method: str, cell: Cell, settings: list[str], folder: Path) -> list[str]:
    """The mean gain and its interval over nodes and seeds; bold if that lies above 0."""
    base, other = (by_setting(cell[name], folder) for name in ("base", method))
    texts = []
    for name in settings:
        gain = paired_gain(base[name], other[name])
        text = f"{100 * gain.absolute:+.2f} ({100 * gain.low:+.2f}, {100 * gain.high:+.2f})"
        texts.append(f"**{text}**" if gain.low > 0 else text)
    return [TITLES[method], *texts]


def by_setting(records: list[RunRecord], folder: Path) -> dict[str, list[NodeScores]]:
    """Per-node scores of all seeds, by setting."""
    scores = [record.scores(folder) for record in records]
    return {name: [run[name] for run in scores] for name in scores[0]}


def main() -> None:
    """Rewrite the part of README.md between its markers."""
    found = cells(RESULTS)
    blocks = [
        section(dataset, architecture, found[dataset, architecture], RESULTS)
        for dataset in DATASETS
        for architecture in ARCHITECTURES
        if found[dataset, architecture]["base"]
    ]
    text = replace_between(README.read_text(), "real-graphs", join(*blocks))
    write_atomic(README, replace_between(text, "demo-graphs", demo_section()))


if __name__ == "__main__":
    main()
