"""Time and memory of every method relative to Base, on a graph of ogbn-arxiv's size.

    python -m benchmarks.method_costs                  # three rounds, about half an hour
    python -m benchmarks.method_costs --quick          # a small graph, printed: nothing is written
    python -m benchmarks.method_costs --fresh          # all of it anew; else only what is missing

Every measurement is a process of its own that trains a method for a few updates a stage.  Methods
take turns in a round, Base first, and ratios are taken within a round.  Methods that classify nodes
are measured at that; those that do not, at link prediction, against Base at link prediction.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from tuneup.bench.presets import VARIANTS, applicable
from tuneup.curriculum import Schedule
from tuneup.data import Graph, arxiv_size_graph, block_graph, split_edges, split_nodes
from tuneup.files import write_atomic
from tuneup.methods import Setup, method_named, run, title_of
from tuneup.methods.local_aug import LocalAug
from tuneup.names import Architecture, TaskName
from tuneup.nn import EncoderSpec, HadamardMLP, Model, NodeFeatures
from tuneup.report.table import markdown_table
from tuneup.runtime import tune_malloc, tuned_environ
from tuneup.tasks import LinkPrediction, NodeClassification
from tuneup.train import Progress

from .machine import Clock, describe, peak_resident, settle
from .records import ROOT, Spread
from .sections import MIB, join

RESULTS = ROOT / "benchmarks" / "results" / "speed" / "method-costs.json"
ARCHITECTURES: tuple[Architecture, ...] = ("sage", "gcn")
UPDATES = 5
"""A stage's updates: the first prepares what the others reuse, the last is followed by validation,
and those between are timed."""
THREADS = 2
LEFT_OUT = ("without-pseudo-labels",)  # TuneUp, in time and memory
OWN_FIRST_STAGE = ("localaug", "nodedup-tuneup")
"""Methods of two stages, the first of which is not Base's."""


@dataclass(frozen=True)
class Row:
    """What is measured."""

    task: TaskName
    architecture: Architecture
    method: str

    @property
    def base(self) -> Row:
        """What it is compared with."""
        return replace(self, method="base")


@dataclass(frozen=True)
class Cost:
    """One row in one process: seconds of an update by stage, and the peak of memory."""

    row: Row
    round: int
    seconds: list[float]
    peak: int
    others: float
    """Share of the machine that other processes took."""

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Cost:
        """From JSON."""
        return cls(**{**plain, "row": Row(**plain["row"])})


def setup_of(row: Row, graph: Graph) -> Setup:
    """A few updates a stage on a graph."""
    brief = Schedule(epochs=UPDATES, validate_every=UPDATES)
    if row.task == "link-prediction":
        return Setup(
            LinkPrediction.from_split(graph, split_edges(graph.adjacency)),
            EncoderSpec(graph.num_features, 64, row.architecture, width=256),
            lambda encoder: Model(NodeFeatures(), encoder, HadamardMLP(64, 64)),
            pretrain=brief,
            finetune=brief,
        )
    split = split_nodes(graph.num_nodes, labelled=0.1, y=graph.y)
    return Setup(
        NodeClassification.from_split(graph, split),
        EncoderSpec(graph.num_features, graph.num_classes, row.architecture, width=256),
        pretrain=brief,
        finetune=brief,
    )


def measure(row: Row, number: int, nodes: int | None) -> Cost:
    """Train a method for a few updates."""
    torch.set_num_threads(THREADS)
    tune_malloc()
    graph = block_graph(nodes, 7 * nodes, 40, 128) if nodes else arxiv_size_graph(0)
    setup = setup_of(row, graph)
    found = method_named(row.method)
    settings = found.settings
    if isinstance(settings, LocalAug):
        settings = replace(settings, generator=replace(settings.generator, epochs=50))
    clock: dict[int, list[float]] = {}

    def tell(progress: Progress) -> None:
        clock.setdefault(progress.stage, []).append(time.perf_counter())

    before, start = settle(), Clock.now()
    run(found, setup, settings=settings, callback=tell)
    others = start.others_until(Clock.now())
    seconds = [median(b - a for a, b in pairwise(times[:-1])) for times in clock.values()]
    return Cost(row, number, seconds, peak_resident() - before, others)


def in_process(row: Row, number: int, nodes: int | None) -> Cost:
    """The same in a process of its own."""
    given = json.dumps([asdict(row), number, nodes])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.method_costs", "--worker", given],
        cwd=ROOT,
        env=tuned_environ({**os.environ, "OMP_NUM_THREADS": str(THREADS)}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stderr}{row}: the worker failed.")
    return Cost.from_plain(json.loads(done.stdout.splitlines()[-1]))


def rows() -> list[Row]:
    """What is measured: Base first, and every method once for each architecture it allows."""
    found: list[Row] = []
    for architecture in ARCHITECTURES:
        nodes = [m for m in applicable("node-classification", architecture) if m not in LEFT_OUT]
        links = [m for m in applicable("link-prediction", architecture) if m not in nodes]
        found += [Row("node-classification", architecture, m) for m in (*nodes, *VARIANTS)]
        found += [Row("link-prediction", architecture, m) for m in ("base", *links)]
    return found


def section(path: Path = RESULTS) -> str:
    """As Markdown."""
    if not path.exists():
        return (
            "Not measured yet: run `python -m benchmarks.method_costs`, then "
            "`python -m benchmarks.real_tables`."
        )
    plain = json.loads(path.read_text())
    costs = [Cost.from_plain(cost) for cost in plain["costs"]]
    return join(
        f"`{plain['command']}`: {', '.join(f'{k} {v}' for k, v in plain['machine'].items())}.",
        costs_table(costs),
        noise(costs),
    )


def noise(costs: Sequence[Cost]) -> str:
    """How far first stages that are Base's own are from 1, and what else ran."""
    base = {(c.row, c.round): c.seconds[0] for c in costs if c.row.method == "base"}
    found = [
        c.seconds[0] / base[c.row.base, c.round]
        for c in costs
        if len(c.seconds) > 1 and c.row.method not in OWN_FIRST_STAGE
    ]
    return (
        "How sure this is: the first of two stages is Base's own (but for "
        f"{' and '.join(title_of(method) for method in OWN_FIRST_STAGE)}), so it would "
        f"be 1.00 on a quiet machine, and was {min(found):.2f} to {max(found):.2f}. Other "
        f"processes took {max(c.others for c in costs):.0%} of the machine at most."
    )


def costs_table(costs: Sequence[Cost]) -> str:
    """An update of each stage, and the peak, over Base's of the same round."""
    by_key = {(c.row, c.round): c for c in costs}
    lines = []
    for row in dict.fromkeys(c.row for c in costs):
        mine = [c for c in costs if c.row == row]
        bases = [by_key[row.base, c.round] for c in mine]
        updates = [
            Spread.of([c.seconds[k] / b.seconds[0] for c, b in zip(mine, bases, strict=True)])
            for k in range(len(mine[0].seconds))
        ]
        memory = Spread.of([c.peak / b.peak for c, b in zip(mine, bases, strict=True)])
        absolute = Spread.of([c.peak * MIB for c in mine])
        links = ", links" if row.task == "link-prediction" else ""
        lines.append(
            [
                f"{title_of(row.method)}, {row.architecture}{links}",
                ", then ".join(spread.text() for spread in updates),
                memory.text(),
                absolute.text(0),
            ]
        )
    heading = ("method", "an update of each stage / Base's", "memory / Base's", "peak, MiB")
    return markdown_table(heading, lines)


def kept(here: Mapping[str, str]) -> list[Cost]:
    """What was measured before, if by this code on such a machine: one table, one tree."""
    empty: dict[str, Any] = {"machine": here, "costs": []}
    plain = json.loads(RESULTS.read_text()) if RESULTS.exists() else empty
    if plain["machine"] != here:
        raise SystemExit(
            f"{RESULTS.name} was measured by another revision or on another machine: pass --fresh "
            "to measure all of it anew."
        )
    return [Cost.from_plain(cost) for cost in plain["costs"]]


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
        plain, number, nodes = json.loads(options.worker)
        print(json.dumps(asdict(measure(Row(**plain), number, nodes))))
        return
    if options.quick:
        print(costs_table([in_process(row, 0, 4_000) for row in rows()]))
        return
    here = describe()
    costs = [] if options.fresh else kept(here)
    done = {(c.row, c.round) for c in costs}
    for number in range(options.rounds):
        for row in rows():
            if (row, number) in done:
                continue
            costs.append(in_process(row, number, None))
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
