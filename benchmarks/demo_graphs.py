"""The demo's graph from five generator seeds, all of them reported.

python -m benchmarks.demo_graphs     # Base and TuneUp on each, as `tuneup demo` runs them
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from tuneup.bench.demo import run_demo
from tuneup.bench.problems import node_classification
from tuneup.data import demo_graph
from tuneup.evaluation import TAIL_DEGREE, paired_gain, split_by_degree
from tuneup.files import write_atomic
from tuneup.metrics import NodeScores, read_scores, write_scores

from .sections import join, table

RESULTS = Path(__file__).parent / "results" / "demo"
GRAPH_SEEDS = range(5)


def run(graph_seed: int) -> None:
    """One graph, unless it is there already."""
    name = RESULTS / f"graph-{graph_seed}"
    if name.with_suffix(".json").exists():
        return
    demo = run_demo(node_classification(demo_graph(graph_seed)))
    RESULTS.mkdir(parents=True, exist_ok=True)
    for method in ("base", "tuneup"):
        write_scores(RESULTS / f"{name.name}-{method}.parquet", [*getattr(demo, method).values()])
    write_atomic(name.with_suffix(".json"), json.dumps(demo.metrics(), indent=1) + "\n")
    print(f"graph {graph_seed}: {[round(s.mean(), 4) for s in demo.tuneup.values()]}", flush=True)


def demo_section() -> str:
    """A row a graph: Base, TuneUp and the interval of the gain, in every setting."""
    rows, tails = [], []
    names: list[str] = []
    if not all((RESULTS / f"graph-{seed}.json").exists() for seed in GRAPH_SEEDS):
        return "Not measured yet."
    for seed in GRAPH_SEEDS:
        base, tuned = (
            {s.setting: s for s in read_scores(RESULTS / f"graph-{seed}-{method}.parquet")}
            for method in ("base", "tuneup")
        )
        names = list(base)
        row = [f"graph seed {seed}"]
        row += [cell(base[name], tuned[name]) for name in names]
        tails.append([row[0], *(cell(tail(base[name]), tail(tuned[name])) for name in names)])
        rows.append(row)
    intro = (
        "`python -m benchmarks.demo_graphs`: accuracy of Base → TuneUp in %, 95 % interval of "
        "the gain over nodes. Training seed 0, alpha 0.5, nothing selected; all five generator "
        "seeds are here."
    )
    heading = f"nodes of degree 0 to {TAIL_DEGREE}"
    return join(intro, table(("all nodes", *names), rows), table((heading, *names), tails))


def tail(scores: NodeScores) -> NodeScores:
    """Those of the nodes with few edges."""
    return split_by_degree(scores)["tail"]


def cell(base: NodeScores, tuned: NodeScores) -> str:
    """Base, TuneUp and the interval of the gain."""
    gain = paired_gain([base], [tuned])
    ends = f"({100 * gain.low:+.1f}, {100 * gain.high:+.1f})"
    return f"{100 * base.mean():.1f} → {100 * tuned.mean():.1f} {ends}"


def main() -> None:
    """All graphs that are not there yet."""
    torch.set_num_threads(1)  # as in real_graphs: a result belongs to a thread count
    for seed in GRAPH_SEEDS:
        run(seed)


if __name__ == "__main__":
    main()
