"""Time and memory of every method relative to Base, on a graph of ogbn-arxiv's size.

    python -m benchmarks.method_costs                  # node classification, about half an hour
    python -m benchmarks.method_costs --quick          # a small graph, printed: nothing is written
    python -m benchmarks.method_costs --fresh          # all of it anew; else only what is missing

Every measurement is a process of its own that trains a method for a few updates a stage.  Methods
take turns in a round, Base first, and ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch

from tuneup.bench.paper import title_of
from tuneup.bench.presets import applicable
from tuneup.curriculum import Schedule
from tuneup.data import arxiv_size_graph, block_graph, split_nodes
from tuneup.files import write_atomic
from tuneup.methods import Setup, method_named, run
from tuneup.methods.local_aug import LocalAug
from tuneup.nn import EncoderSpec
from tuneup.runtime import tune_malloc, tuned_environ
from tuneup.tasks import NodeClassification
from tuneup.training import Progress

from .machine import describe, peak_resident, settle
from .records import ROOT, Spread
from .sections import MIB, join, table

RESULTS = ROOT / "benchmarks" / "results" / "speed" / "method-costs.json"
ARCHITECTURES = ("sage", "gcn")
UPDATES = 5
"""A stage's updates: the first prepares what the others reuse, the last is followed by validation,
and those between are timed."""
THREADS = 2
LEFT_OUT = ("without-pseudo-labels",)  # TuneUp, in time and memory


@dataclass(frozen=True)
class Cost:
    """One method in one process: seconds of an update by stage, and the peak of memory."""

    architecture: str
    method: str
    round: int
    seconds: list[float]
    peak: int


def measure(architecture: str, method: str, number: int, nodes: int | None) -> Cost:
    """Train a method for a few updates."""
    torch.set_num_threads(THREADS)
    tune_malloc()
    graph = block_graph(nodes, 7 * nodes, 40, 128) if nodes else arxiv_size_graph(0)
    split = split_nodes(graph.num_nodes, labelled=0.1, y=graph.y)
    brief = Schedule(epochs=UPDATES, validate_every=UPDATES)
    setup = Setup(
        NodeClassification.from_split(graph, split),
        EncoderSpec(graph.num_features, graph.num_classes, architecture),  # type: ignore[arg-type]
        pretrain=brief,
        finetune=brief,
    )
    found = method_named(method)
    settings = found.settings
    if isinstance(settings, LocalAug):
        settings = replace(settings, generator=replace(settings.generator, epochs=50))
    clock: dict[int, list[float]] = {}

    def tell(progress: Progress) -> None:
        clock.setdefault(progress.stage, []).append(time.perf_counter())

    before = settle()
    run(found, setup, settings=settings, callback=tell)
    seconds = [median(b - a for a, b in pairwise(times[:-1])) for times in clock.values()]
    return Cost(architecture, method, number, seconds, peak_resident() - before)


def in_process(architecture: str, method: str, number: int, nodes: int | None) -> Cost:
    """The same in a process of its own."""
    import os

    given = json.dumps([architecture, method, number, nodes])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.method_costs", "--worker", given],
        cwd=ROOT,
        env=tuned_environ({**os.environ, "OMP_NUM_THREADS": str(THREADS)}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stderr}{architecture} {method}: the worker failed.")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def rows() -> list[tuple[str, str]]:
    """What is measured: Base first."""
    return [
        (architecture, method)
        for architecture in ARCHITECTURES
        for method in applicable("node-classification", architecture)  # type: ignore[arg-type]
        if method not in LEFT_OUT
    ]


def section(path: Path = RESULTS) -> str:
    """As Markdown."""
    if not path.exists():
        return (
            "Not measured yet: run `python -m benchmarks.method_costs`, then "
            "`python -m benchmarks.real_tables`."
        )
    plain = json.loads(path.read_text())
    return join(
        f"`{plain['command']}`: {', '.join(f'{k} {v}' for k, v in plain['machine'].items())}.",
        costs_table([Cost(**cost) for cost in plain["costs"]]),
        noise([Cost(**cost) for cost in plain["costs"]]),
    )


def noise(costs: Sequence[Cost]) -> str:
    """How far first stages that are Base's own are from 1."""
    base = {(c.architecture, c.round): c.seconds[0] for c in costs if c.method == "base"}
    found = [
        c.seconds[0] / base[c.architecture, c.round]
        for c in costs
        if len(c.seconds) > 1 and c.method != "localaug"
    ]
    return (
        "How sure this is: the first of two stages is Base's own (but for LocalAug's), so it would "
        f"be 1.00 on a quiet machine, and was {min(found):.2f} to {max(found):.2f}."
    )


def costs_table(costs: Sequence[Cost]) -> str:
    """An update of each stage, and the peak, over Base's of the same round."""
    by_key = {(c.architecture, c.method, c.round): c for c in costs}
    lines = []
    for architecture, method in dict.fromkeys((c.architecture, c.method) for c in costs):
        mine = [c for c in costs if (c.architecture, c.method) == (architecture, method)]
        bases = [by_key[architecture, "base", c.round] for c in mine]
        updates = [
            Spread.of([c.seconds[k] / b.seconds[0] for c, b in zip(mine, bases, strict=True)])
            for k in range(len(mine[0].seconds))
        ]
        memory = Spread.of([c.peak / b.peak for c, b in zip(mine, bases, strict=True)])
        absolute = Spread.of([c.peak * MIB for c in mine])
        lines.append(
            [
                f"{title_of(method)}, {architecture}",
                ", then ".join(spread.text() for spread in updates),
                memory.text(),
                absolute.text(0),
            ]
        )
    heading = ("method", "an update of each stage / Base's", "memory / Base's", "peak, MiB")
    return table(heading, lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is not measured yet."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.method_costs",
        description="Measure an update and the peak memory of every method relative to Base, on a "
        "graph of ogbn-arxiv's size; benchmarks.real_tables writes the table.",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a small graph, one round, printed")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        architecture, method, number, nodes = json.loads(options.worker)
        print(json.dumps(asdict(measure(architecture, method, number, nodes))))
        return
    if options.quick:
        print(costs_table([in_process(*row, 0, 4_000) for row in rows()]))
        return
    here = describe()
    kept = [] if options.fresh or not RESULTS.exists() else json.loads(RESULTS.read_text())["costs"]
    costs = [Cost(**cost) for cost in kept]
    done = {(c.architecture, c.method, c.round) for c in costs}
    for number in range(options.rounds):
        for row in rows():
            if (*row, number) in done:
                continue
            costs.append(in_process(*row, number, None))
            said = ", ".join(f"{seconds:.2f}" for seconds in costs[-1].seconds)
            print(f"{number} {row}: {said} s, {costs[-1].peak * MIB:,.0f} MiB", flush=True)
            whole = {
                "command": f"python -m benchmarks.method_costs --rounds {options.rounds}",
                "machine": here,
                "costs": [asdict(cost) for cost in costs],
            }
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(RESULTS, json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
