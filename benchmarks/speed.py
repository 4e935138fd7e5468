"""Time and memory of an epoch on a graph of ogbn-arxiv's size, ours against PyG's layers.

python -m benchmarks.speed                 # all parts, 5 rounds: about an hour on two cores
python -m benchmarks.speed sage stage2     # some parts; what is already measured is skipped
python -m benchmarks.speed --quick         # a small graph and one round, to see that it works
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from .case import ARXIV_NODES, GOWALLA_NODES, Architecture, Case
from .machine import memory_available
from .records import QUICK_RESULTS, RESULTS, run_rounds

QUICK_NODES = 4_000


def compared(architecture: Architecture, nodes: int) -> list[Case]:
    """Ours and PyG's, each under both mallocs: ours as used first, then its profile."""
    ours = Case(architecture, "ours", "raised", nodes=nodes)
    cases = [ours, replace(ours, profile=True), replace(ours, malloc="default")]
    for variant in ("pyg-edge-index", "pyg-adj-t"):
        for malloc in ("default", "raised"):
            cases.append(replace(ours, variant=variant, malloc=malloc))
    return cases


def attention(nodes: int) -> list[Case]:
    """GAT is about memory: two epochs show it, and PyG's layer has no CSR path for it."""
    ours = Case("gat", "ours", "raised", nodes=nodes, warmup=1, epochs=1)
    plain = replace(ours, malloc="default")
    return fitting([ours, plain, replace(plain, variant="pyg-edge-index")])


def second_stage(nodes: int) -> list[Case]:
    """All nodes supervised: on the whole graph, and on half of its edges.

    The two are close to each other, so more epochs are timed.
    """
    whole = Case("sage", "ours", "raised", "all", nodes=nodes, epochs=7)
    return [whole, replace(whole, alpha=0.5)]


def recommendation(nodes: int) -> list[Case]:
    """A GCN's epoch at gowalla's size, against the same written naively."""
    ours = Case("gcn", "ours", "raised", nodes=scaled(nodes), problem="pairs")
    naive = replace(ours, variant="pyg-edge-index")
    return [ours, replace(ours, malloc="default"), replace(naive, malloc="default"), naive]


def ranking(nodes: int) -> list[Case]:
    """The 50 best items of all users, against the bare matrix products."""
    ours = Case("gcn", "ours", "raised", nodes=scaled(nodes), problem="ranking", warmup=1)
    return [ours, replace(ours, variant="bare-products")]


def scaled(nodes: int) -> int:
    """The size of gowalla where the graph is of ogbn-arxiv's, and in proportion elsewhere."""
    return nodes * GOWALLA_NODES // ARXIV_NODES


def fitting(cases: Sequence[Case]) -> list[Case]:
    """The same cases on the largest graph, in steps of 10,000 nodes, that memory has room for."""
    cases = list(cases)
    room = int(0.9 * memory_available())
    needed = max(case.memory_needed for case in cases)
    if needed <= room:
        return cases
    nodes = cases[0].nodes * room // needed // 10_000 * 10_000
    print(f"{needed / 2**30:.1f} GiB may be needed: going down to {nodes:,} nodes for all.")
    return [replace(case, nodes=nodes) for case in cases]


PARTS: Mapping[str, Callable[[int], list[Case]]] = {
    "sage": lambda nodes: compared("sage", nodes),
    "gcn": lambda nodes: compared("gcn", nodes),
    "gat": attention,
    "stage2": second_stage,
    "recommendation": recommendation,
    "ranking": ranking,
}
"""Each part's cases for a number of nodes."""


def run(part: str, nodes: int, rounds: int, results: Path) -> None:
    """Measure one part into its file."""
    cases = PARTS[part](nodes)
    command = f"python -m benchmarks.speed {part} --rounds {rounds}"
    command += f" --nodes {nodes}" if nodes != ARXIV_NODES else ""
    run_rounds(
        results / f"{part}.json",
        command,
        cases,
        rounds,
        same_loss=part not in ("stage2", "ranking"),
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that every benchmark has."""
    parser.add_argument("--rounds", type=int, help="measurements of each case (default 5)")
    parser.add_argument("--quick", action="store_true", help="one round on a small graph")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--results", type=Path, help="folder of the JSON files")


def results_folder(options: argparse.Namespace) -> Path:
    """Where the results go: a trial at another size never touches the measured ones."""
    chosen: Path | None = options.results
    return chosen or (QUICK_RESULTS if options.quick or options.nodes else RESULTS)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the parts named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)}; all if none")
    parser.add_argument("--nodes", type=int, help="a trial on a graph of another size")
    add_options(parser)
    options = parser.parse_args(arguments)
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    nodes = options.nodes or (QUICK_NODES if options.quick else ARXIV_NODES)
    rounds = options.rounds or (1 if options.quick else 5)
    results = results_folder(options)
    for part in options.parts or PARTS:
        if options.fresh:
            (results / f"{part}.json").unlink(missing_ok=True)
        run(part, nodes, rounds, results)


if __name__ == "__main__":
    main()
