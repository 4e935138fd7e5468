"""The tables on real graphs of README.md, from the run records and their per-node scores.

python -m benchmarks.real_tables
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tuneup.bench.records import RunRecord, read_records
from tuneup.curriculum import CURRICULA
from tuneup.evaluation import TAIL_DEGREE, over_seeds, paired_gain, split_by_degree
from tuneup.files import write_atomic
from tuneup.methods import curricula
from tuneup.metrics import NodeScores

from . import gowalla_tables, link_graphs, real_graphs
from .demo_graphs import demo_section
from .sections import join, table, unmeasured
from .tables import README, replace_between

TITLES = {
    "base": "Base",
    "dropedge": "DropEdge",
    "tuneup": "**TuneUp**",
    "without-curriculum": "w/o curriculum",
    "without-syn-tails": "w/o syn-tails",
    "without-pseudo-labels": "w/o pseudo-labels",
}


@dataclass(frozen=True)
class Family:
    """The tables of one task.

    Args:
        marker: what they lie between in README.md.
        module: the script that makes the records.
        score: heading of the scores.
        option: what Base chose for all methods, and its name in words.
        values: how many values it chose from.
        relative: whether gains are shown in % of Base as well.
    """

    marker: str
    module: ModuleType
    score: str
    option: tuple[str, str]
    values: int
    relative: bool = False

    @property
    def results(self) -> Path:
        """Folder of the records."""
        folder: Path = self.module.RESULTS
        return folder


FAMILIES = (
    Family(
        "real-graphs",
        real_graphs,
        "accuracy, %",
        ("dropout", "dropout"),
        len(real_graphs.DROPOUTS),
    ),
    Family(
        "link-graphs",
        link_graphs,
        "recall@50, %",
        ("l2", "L2 weight"),
        len(link_graphs.PENALTIES),
        relative=True,
    ),
)

Cell = dict[str, list[RunRecord]]
"""The records of one dataset and architecture: by method, in the order of their seeds."""


def cells(folder: Path) -> dict[tuple[str, str], Cell]:
    """All records, by dataset and architecture."""
    found: dict[tuple[str, str], Cell] = defaultdict(lambda: defaultdict(list))
    for record in sorted(read_records(folder), key=lambda record: record.seed):
        found[record.dataset, record.architecture][record.method].append(record)
    return found


def section(family: Family, dataset: str, architecture: str, cell: Cell) -> str:
    """One dataset and architecture: every method's scores, and every gain over Base."""
    settings = list(cell["base"][0].settings)
    command = f"`python -m {family.module.__name__} run {dataset} {architecture}`"
    seeds = ", ".join(str(record.seed) for record in cell["base"])
    key, words = family.option
    value = cell["base"][0].config[key]
    first, second = (cell["base"][0].config[stage] for stage in ("pretrain", "finetune"))
    intro = (
        f"{command}: training seeds {seeds}; {words} {value:g} chosen on Base; at most "
        f"{first['epochs']} epochs at learning rate {first['lr']:g} in stage 1, "
        f"{second['epochs']} at {second['lr']:g} in stage 2."
    )
    heading = (family.score, "alpha", "trials", *settings, "ran out", "stage 2 won")
    rows = [
        score_row(method, cell[method], settings, family.values)
        for method in CURRICULA
        if cell[method]
    ]
    complete = [
        method
        for method in CURRICULA
        if method != "base" and len(cell[method]) == len(cell["base"])
    ]
    gains, tails = (
        [gain_row(method, cell, settings, family, group) for method in complete]
        for group in ("overall", "tail")
    )
    return join(
        f"### {dataset}, {architecture}",
        intro,
        table(heading, rows),
        table(("gain over Base, points", *settings), gains),
        table((f"the same on nodes of degree 0 to {TAIL_DEGREE}", *settings), tails),
    )


def score_row(method: str, records: list[RunRecord], settings: list[str], values: int) -> list[str]:
    """Mean and standard deviation over seeds, and how the runs ended."""
    means = [over_seeds([100 * r.settings[name] for r in records]).text(2) for name in settings]
    two = len(records[0].stages) == 2
    won = f"{sum(r.winner == 1 for r in records)} of {len(records)}" if two else ""
    alpha = records[0].config["alpha"]
    trials = values if method == "base" else len(curricula.ALPHAS) if alpha else 0
    out = sum(r.stages[-1]["stopped"].startswith("ran all") for r in records)
    ended = f"{out} of {len(records)}"
    return [TITLES[method], f"{alpha:g}" if alpha else "", f"{trials}", *means, ended, won]


def gain_row(method: str, cell: Cell, settings: list[str], family: Family, group: str) -> list[str]:
    """The mean gain and its interval over nodes and seeds; bold if that lies above 0."""
    base, other = (by_setting(cell[name], family.results, group) for name in ("base", method))
    texts = []
    for name in settings:
        gain = paired_gain(base[name], other[name])
        text = f"{100 * gain.absolute:+.2f} ({100 * gain.low:+.2f}, {100 * gain.high:+.2f})"
        text += f" {100 * gain.relative:+.0f} %" if family.relative else ""
        texts.append(f"**{text}**" if gain.low > 0 else text)
    return [TITLES[method], *texts]


def by_setting(records: list[RunRecord], folder: Path, group: str) -> dict[str, list[NodeScores]]:
    """Per-node scores of a group of nodes in all seeds, by setting."""
    scores = [record.scores(folder) for record in records]
    return {name: [split_by_degree(run[name])[group] for run in scores] for name in scores[0]}


def render(family: Family) -> str:
    """All tables of a task that have records."""
    found = cells(family.results)
    blocks = [
        section(family, dataset, architecture, found[dataset, architecture])
        for dataset in family.module.DATASETS
        for architecture in family.module.ARCHITECTURES
        if found[dataset, architecture]["base"]
    ]
    command = f"{family.module.__name__} run"
    return join(*blocks) if blocks else unmeasured(command, "benchmarks.real_tables")


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the parts of README.md between their markers."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real_tables",
        description="Rewrite the tables on real graphs, on gowalla and on the demo graph in "
        "benchmarks/README.md from the records under benchmarks/results. Nothing is trained.",
    )
    parser.parse_args(arguments)
    text = README.read_text()
    for family in FAMILIES:
        text = replace_between(text, family.marker, render(family))
    text = replace_between(text, "gowalla", gowalla_tables.section())
    if found := gowalla_tables.records():
        gowalla_tables.draw(found, gowalla_tables.PICTURE)
    write_atomic(README, replace_between(text, "demo-graphs", demo_section()))


if __name__ == "__main__":
    main()
