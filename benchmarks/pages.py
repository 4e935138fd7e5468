"""RESULTS.md and the pages of results on the docs site, from the store and hand-written texts.

python -m benchmarks.pages          # write all of them
python -m benchmarks.pages --check  # fail where one is not what the store says
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tuneup.bench import Store, find_blocks, long_table
from tuneup.bench.presets import SETTINGS
from tuneup.bench.render import LEGEND, block_table, interval, markdown, signed
from tuneup.bench.report import write_overviews
from tuneup.bench.tables import Block, RunBlock, paper_blocks
from tuneup.evaluation import MISSING, TAIL_DEGREE
from tuneup.files import write_atomic
from tuneup.metrics import NodeScores
from tuneup.report.table import markdown_table

from . import studies
from .claims import TASKS, above_base_table, claims_table, shares_table, significance

ROOT = Path(__file__).resolve().parents[1]
STORE, TEXTS, DOCS = ROOT / "benchmarks/results", ROOT / "benchmarks/texts", ROOT / "docs/results"
GROUPS = ((0, 0), (1, 1), (2, 3), (4, TAIL_DEGREE), (TAIL_DEGREE + 1, None))
"""Lowest and highest degree of each group: the tail in four parts, and the head."""
FEWEST = 100
"""Nodes of a group that is shown: the mean of a few is noise."""
GENERATED = "<!-- Written by python -m benchmarks.pages from benchmarks/results: do not edit. -->"


def join(*parts: str) -> str:
    """Paragraphs."""
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def text(name: str) -> str:
    """A part that is written by hand."""
    return (TEXTS / f"{name}.md").read_text()


def results_page(blocks: Sequence[RunBlock]) -> str:
    """RESULTS.md: findings, the gains of every graph beside the paper's, and claims, counted."""
    gains = [
        part for task, title in TASKS.items() for part in (f"### {title}", _gains(blocks, task))
    ]
    return join(
        GENERATED,
        text("findings"),
        "## TuneUp's gain over Base",
        "Relative, in %. **Bold**: the 95 % interval of the paired difference, over nodes and "
        "seeds, is above 0; *italic*: below 0. The paper has no intervals; its gains are computed "
        "from the means that it prints. A dash: not run, or no scores by node. *Transductive* are "
        "nodes of the training graph, *inductive* new nodes, *cold-90* the same new nodes after "
        "90 % of their edges were removed. Accuracy for nodes, recall@50 for links and items.",
        *gains,
        "## The paper's claims, counted",
        "A cell is a graph, an architecture and a setting. *12 of 20 (5, 1)*: the mean is above in "
        "12 of 20 cells, significantly above in 5 and significantly below in 1 (paired 95 % "
        "intervals; of one seed for recommendation, over users alone). The settings of one graph "
        "and architecture score the same models, so cells are not independent.",
        claims_table(blocks),
        above_base_table(blocks),
        text("set-up"),
    )


def _gains(blocks: Sequence[Block], task: str) -> str:
    mine = [block for block in blocks if block.task == task]
    settings = [name for name in SETTINGS if any(name in block.settings for block in mine)]
    rows = []
    for kind in dict.fromkeys(block.architecture for block in mine):
        for block in _both(mine, kind):
            cells = [_gain(block, setting) for setting in settings]
            rows.append([block.short_name, block.whose, *cells])
    return markdown_table(["graph", "whose", *settings], rows, words=(0, 1))


def _both(blocks: Sequence[Block], architecture: str) -> list[Block]:
    """Ours with an architecture, then the paper's."""
    own = [block for block in blocks if block.architecture == architecture]
    return [*own, *paper_blocks([(own[0].task, architecture)])]


def _gain(block: Block, setting: str) -> str:
    if setting not in block.settings or block.lacking("base", "tuneup"):
        return MISSING
    gain = block.gain("base", "tuneup", setting)
    if gain is None:
        return MISSING
    mark = {1: "**", -1: "*", 0: ""}[significance(block, setting)]
    return f"{mark}{signed(gain.relative)}{mark}"


def task_page(blocks: Sequence[RunBlock], task: str) -> str:
    """The tables by graph of a task, gains with intervals, by degree, and the paper's graphs."""
    mine = [block for block in blocks if block.task == task]
    kinds = dict.fromkeys(block.architecture for block in mine)
    every = [block for kind in kinds for block in _both(mine, kind)]
    theirs = paper_blocks([(task, kind) for kind in kinds], without=mine)
    settings = [name for name in SETTINGS if any(name in block.settings for block in mine)]
    return join(
        GENERATED,
        f"# {TASKS[task]}, by graph",
        "All cells as CSV: [results.csv](results.csv). Each table has the command that made it.",
        "## By degree",
        f"![Base and TuneUp by degree of the node]({task}-by-degree.png)",
        "By degree in the graph that training saw: Base's mean → TuneUp's, in %; in parentheses "
        "the relative gain, and the share of those scored that have such a degree. Means over "
        f"all seeds; groups of fewer than {FEWEST} are left out.",
        _by_degree(mine),
        "## Parts of the gain",
        "Of TuneUp's gain over Base, in %, what DropEdge, TuneUp w/o curriculum, w/o "
        "pseudo-labels and w/o syn-tails have, in this order, where they were run. A dash: "
        "TuneUp gains less than 1 %.",
        shares_table(every, settings),
        "## Tables",
        LEGEND,
        *(part for block in mine for part in _block(block)),
        *(markdown(block_table(block)) for block in theirs),
    )


def _block(block: RunBlock) -> Iterator[str]:
    yield markdown(block_table(block))
    rows = {"gain over Base, points": "overall", f"on degree 0 to {TAIL_DEGREE}": "tail"}
    complete = [m for m in block.runs if m != "base" and not block.lacking(m)]
    for title, group in rows.items():
        lines = [[block.label(m), *_points(block, m, group)] for m in complete]
        yield markdown_table([title, *block.settings], lines)


def _points(block: RunBlock, method: str, group: str) -> Iterator[str]:
    for setting in block.settings:
        gain = block.gain("base", method, setting, group)
        cell = interval(gain) if gain else MISSING
        yield f"**{cell}**" if gain and gain.low > 0 else cell


def _by_degree(blocks: Sequence[RunBlock]) -> str:
    names = ["0", "1", "2 to 3", f"4 to {TAIL_DEGREE}", f"{TAIL_DEGREE + 1} and more"]
    rows, shown = [], list[tuple[float, float]]()
    for block in blocks:
        groups = [_group(block, *degrees) for degrees in GROUPS]
        if any(groups):
            lacking = block.means_only("tuneup")
            label = f"{block.short_name}; without {lacking} of {len(block.runs['tuneup'])} runs"
            first = label if lacking else block.short_name
            rows.append([first, *(cell[0] if cell else MISSING for cell in groups)])
            shown += [cell[1] for cell in groups if cell]
    above, below = (sum(sign * (b - a) > 0 for a, b in shown) for sign in (1, -1))
    return join(
        markdown_table(["graph", *names], rows),
        f"TuneUp's mean is above Base's in {above} of these {len(shown)} groups, and below it in "
        f"{below}.",
    )


def _group(block: RunBlock, low: int, high: int | None) -> tuple[str, tuple[float, float]] | None:
    before, after = (block.scores.get(m, {}).get(SETTINGS[0], {}) for m in ("base", "tuneup"))
    common = sorted(before.keys() & after.keys())
    if not common:
        return None
    groups = [[_within(own[seed], low, high) for seed in common] for own in (before, after)]
    count, whole = len(groups[0][0]), len(before[common[0]])
    if count < FEWEST:
        return None
    old, new = (sum(part.mean() for part in own) / len(own) for own in groups)
    gain = signed(new / old - 1) if old else MISSING
    cell = f"{100 * old:.1f} → {100 * new:.1f} ({gain}; {100 * count / whole:.0f} %)"
    return cell, (old, new)


def _within(scores: NodeScores, low: int, high: int | None) -> NodeScores:
    inside = scores.degree >= low
    return scores.select(inside if high is None else inside & (scores.degree <= high))


def studies_page(store: Store) -> str:
    """What was studied beside the paper's tables."""
    parts = {
        "Selection on nodes that lost edges": studies.selection,
        "A real cold start: software packages": studies.debian,
        "More labels": studies.labels,
        "The demo graph": studies.demo,
        "gowalla by hand": studies.by_hand,
        "Users who arrive later": studies.new_users,
    }
    written = [part for title, make in parts.items() for part in (f"## {title}", *make(store))]
    return join(GENERATED, "# Studies beside the paper's tables", *written)


def pages(store: Store) -> dict[Path, str]:
    """Every generated text by its path."""
    blocks = find_blocks(store)
    theirs = paper_blocks((block.task, block.architecture) for block in blocks)
    found = {
        ROOT / "RESULTS.md": results_page(blocks),
        DOCS / "studies.md": studies_page(store),
        DOCS / "discussion.md": join(GENERATED, text("discussion")),
        DOCS / "results.csv": long_table([*blocks, *theirs]).write_csv(float_precision=6),
    }
    return found | {DOCS / f"{task}.md": task_page(blocks, task) for task in TASKS}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args(arguments).check
    store = Store(STORE)
    found = pages(store)
    if check:
        stale = [str(path) for path, new in found.items() if path.read_text() != new]
        sys.exit(f"not what the store says: {', '.join(stale)}" if stale else 0)
    DOCS.mkdir(parents=True, exist_ok=True)
    for path, new in found.items():
        write_atomic(path, new)
        print(f"wrote {path.relative_to(ROOT)}")
    for picture in write_overviews(find_blocks(store), DOCS, (".png",)):
        print(f"wrote {picture.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
