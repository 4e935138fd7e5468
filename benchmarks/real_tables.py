"""The tables on real graphs of README.md, from the run records and their per-node scores.

python -m benchmarks.real_tables
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence

from tuneup.bench.blocks import blocks
from tuneup.bench.conditions import cut_short
from tuneup.bench.presets import DATASETS
from tuneup.bench.rendering import LEGEND, markdown
from tuneup.bench.rows import Row
from tuneup.bench.tables import Block
from tuneup.evaluation import TAIL_DEGREE
from tuneup.files import write_atomic
from tuneup.names import TaskName
from tuneup.report.table import markdown_table

from . import (
    debian,
    gowalla_tables,
    labels,
    method_costs,
    products_gat,
    selection,
    serving,
    tables_in,
)
from .demo_graphs import demo_section
from .records import ROOT
from .sections import join
from .tables import README, replace_between

RESULTS = ROOT / "benchmarks" / "results"
SECTIONS: dict[str, TaskName] = {
    "real-graphs": "node-classification",
    "link-graphs": "link-prediction",
}
"""What the tables of a task lie between in README.md."""
FROM_RECORDS: dict[str, Callable[[], str]] = {
    "selection": selection.section,
    "debian": debian.section,
    "method-costs": method_costs.section,
    "products-gat": products_gat.section,
    "tables-in": tables_in.section,
    "serving": serving.section,
    "gowalla": gowalla_tables.section,
    "labels": labels.section,
    "demo-graphs": demo_section,
}
"""The same of everything else that is measured once."""


def section(block: Block) -> str:
    """One dataset and architecture: every method's scores, and every gain over Base."""
    complete = [
        row for row in block.rows if row.method != "base" and row.records and not row.lacking
    ]
    gains, tails = (
        [gain_row(row, block, group) for row in complete] for group in ("overall", "tail")
    )
    return join(
        f"### {block.dataset}, {block.architecture}",
        introduction(block),
        markdown(block),
        markdown_table(("gain over Base, points", *block.settings), gains),
        markdown_table((f"the same on nodes of degree 0 to {TAIL_DEGREE}", *block.settings), tails),
    )


def introduction(block: Block) -> str:
    """How it was run, and how the runs ended."""
    base = block.records["base"]
    config = base[0].config
    first, second = (config[stage] for stage in ("pretrain", "finetune"))
    option = "dropout" if block.task == "node-classification" else "l2"
    full = ", ".join(words for row in block.rows for words in cut_short(row)) or "none"
    mine = block.records.get("tuneup", [])
    won = [r.stages[-1]["best_score"] >= r.stages[0]["best_score"] for r in mine]
    return (
        f"`{block.command}`: {len(base)} training seeds; {option} {config[option]:g} chosen on "
        f"Base; at most {first['epochs']} epochs at learning rate {first['lr']:g} in stage 1, "
        f"{second['epochs']} at {second['lr']:g} in stage 2. Runs "
        f"that no patience ended: {full}. TuneUp's stage 2 validated at least as well as Base in "
        f"{sum(won)} of {len(won)}."
    )


def gain_row(row: Row, block: Block, group: str) -> list[str]:
    """The mean gain and its interval over nodes and seeds; bold if that lies above 0."""
    texts = []
    for name in block.settings:
        gain = block.gain("base", row.method, name, group)
        assert gain is not None, "the row is complete"
        text = f"{100 * gain.absolute:+.2f} ({100 * gain.low:+.2f}, {100 * gain.high:+.2f})"
        text += f" {100 * gain.relative:+.0f} %" if block.task != "node-classification" else ""
        texts.append(f"**{text}**" if gain.low > 0 else text)
    return [row.title, *texts]


def render(task: TaskName, found: Iterable[Block]) -> str:
    """All tables of a task among those found, in the order of the datasets."""
    own = [block for block in found if block.task == task]
    own.sort(key=lambda block: DATASETS[task].index(block.dataset))
    if not own:
        return (
            f"Not measured yet: run `tuneup bench run --task {task}`, then "
            "`python -m benchmarks.real_tables`."
        )
    return join(LEGEND, *map(section, own))


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the parts of README.md between their markers."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real_tables",
        description="Rewrite the tables on real graphs, on gowalla and on the demo graph in "
        "benchmarks/README.md from the records under benchmarks/results. Nothing is trained.",
    )
    parser.parse_args(arguments)
    text, recorded = README.read_text(), list(blocks(RESULTS))
    for marker, task in SECTIONS.items():
        text = replace_between(text, marker, render(task, recorded))
    for marker, made in FROM_RECORDS.items():
        text = replace_between(text, marker, made())
    if found := gowalla_tables.records():
        gowalla_tables.draw(found, gowalla_tables.PICTURE)
    write_atomic(README, text)


if __name__ == "__main__":
    main()
