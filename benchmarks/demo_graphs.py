"""The demo's graph from five generator seeds, all of them reported.

python -m benchmarks.demo_graphs             # Base and TuneUp on each, as `tuneup demo` runs them
python -m benchmarks.demo_graphs --fresh     # the same, after removing the records that exist
python -m benchmarks.real_tables             # into benchmarks/README.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from tuneup.evaluation import TAIL_DEGREE, paired_gain, split_by_degree
from tuneup.files import write_atomic
from tuneup.metrics import NodeScores, read_scores, write_scores
from tuneup.report.table import markdown_table
from tuneup.workflow.demo import command_of, demo_problem, run_demo

from .records import shown
from .sections import join, unmeasured

RESULTS = Path(__file__).parent / "results" / "demo"
GRAPH_SEEDS = range(5)
METHODS = ("base", "tuneup")


def record_of(graph_seed: int) -> Path:
    """The file that says what was run and what came out."""
    return RESULTS / f"graph-{graph_seed}.json"


def scores_of(graph_seed: int, method: str) -> Path:
    """The file with a method's score of every node."""
    return RESULTS / f"graph-{graph_seed}-{method}.parquet"


def run(graph_seed: int) -> None:
    """One graph: scores first, as a record that exists is complete."""
    demo = run_demo(demo_problem("node-classification", graph_seed, "sage"))
    RESULTS.mkdir(parents=True, exist_ok=True)
    for method in METHODS:
        write_scores(scores_of(graph_seed, method), [*getattr(demo, method).values()])
    write_atomic(record_of(graph_seed), json.dumps(demo.metrics(command_of(demo)), indent=1) + "\n")
    print(f"graph {graph_seed}: {[round(s.mean(), 4) for s in demo.tuneup.values()]}", flush=True)


def demo_section() -> str:
    """A row a graph: Base, TuneUp and the interval of the gain, in every setting."""
    rows, tails = [], []
    names: list[str] = []
    if not all(record_of(seed).exists() for seed in GRAPH_SEEDS):
        return unmeasured("benchmarks.demo_graphs", "benchmarks.real_tables")
    for seed in GRAPH_SEEDS:
        base, tuned = (
            {s.setting: s for s in read_scores(scores_of(seed, method))} for method in METHODS
        )
        names = list(base)
        row = [f"graph seed {seed}"]
        row += [cell(base[name], tuned[name]) for name in names]
        tails.append([row[0], *(cell(tail(base[name]), tail(tuned[name])) for name in names)])
        rows.append(row)
    intro = (
        "`python -m benchmarks.demo_graphs`: accuracy of Base → TuneUp in %, 95 % interval of "
        "the gain over nodes. Training seed 0, alpha 0.5, nothing selected; all five generator "
        "seeds are here. One thread: with another number, as in `make demo`, sums are added in "
        "another order, and a node or two of 500 may be answered otherwise."
    )
    heading = f"nodes of degree 0 to {TAIL_DEGREE}"
    return join(
        intro, markdown_table(("all nodes", *names), rows), markdown_table((heading, *names), tails)
    )


def tail(scores: NodeScores) -> NodeScores:
    """Those of the nodes with few edges."""
    return split_by_degree(scores)["tail"]


def cell(base: NodeScores, tuned: NodeScores) -> str:
    """Base, TuneUp and the interval of the gain."""
    gain = paired_gain([base], [tuned])
    ends = f"({100 * gain.low:+.1f}, {100 * gain.high:+.1f})"
    return f"{100 * base.mean():.1f} → {100 * tuned.mean():.1f} {ends}"


def forget() -> None:
    """Remove the records of all graphs."""
    kept = sum(record_of(seed).exists() for seed in GRAPH_SEEDS)
    print(f"demo graphs: removing {kept} records from {shown(RESULTS)}", flush=True)
    for seed in GRAPH_SEEDS:
        record_of(seed).unlink(missing_ok=True)
        for method in METHODS:
            scores_of(seed, method).unlink(missing_ok=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """All graphs that are not there yet."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.demo_graphs",
        description="Base and TuneUp on the demo's graph from five generator seeds, about a minute "
        "each. A graph that has a record is not run again.",
    )
    parser.add_argument("--fresh", action="store_true", help="remove the records first")
    if parser.parse_args(arguments).fresh:
        forget()
    missing = [seed for seed in GRAPH_SEEDS if not record_of(seed).exists()]
    if not missing:
        print(
            f"demo graphs: all {len(GRAPH_SEEDS)} runs are recorded in {shown(RESULTS)}; "
            "pass --fresh to remove them and run them again"
        )
    torch.set_num_threads(1)  # as in real_graphs: a result belongs to a thread count
    for seed in missing:
        run(seed)


if __name__ == "__main__":
    main()
