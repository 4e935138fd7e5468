"""Time and memory of every method relative to Base, on a graph of ogbn-arxiv's size.

Methods that classify nodes are measured at that; those that do not, at link prediction, against
Base there.  A stage has five updates: the first prepares what the others reuse, the last is
followed by validation, and those between are timed.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import median

import torch

from tuneup.bench.presets import VARIANTS, applicable
from tuneup.bench.problems import split_problem
from tuneup.curriculum import Schedule
from tuneup.data import Graph, arxiv_size_graph, block_graph
from tuneup.methods import Setup, method_named, run, title_of
from tuneup.methods.local_aug import LocalAug
from tuneup.report.table import markdown_table
from tuneup.runtime import tune_malloc
from tuneup.train import DEFAULTS, Progress
from tuneup.workflow.options import FitOptions

from .harness import (
    MIB,
    THREADS,
    Benchmark,
    Case,
    Clock,
    Found,
    Record,
    join,
    peak_bytes,
    peak_resident,
    settle,
)

UPDATES, QUICK_NODES = 5, 4_000
LEFT_OUT = ("without-pseudo-labels",)  # TuneUp, in time and memory
OWN_FIRST_STAGE = ("localaug", "nodedup-tuneup")
"""Methods of two stages, the first of which is not Base's."""


def cases(quick: bool) -> list[Case]:
    """Base first, and every method once for each architecture that it allows."""
    found: list[Case] = []
    for architecture in ("sage", "gcn"):
        nodes = [m for m in applicable("node-classification", architecture) if m not in LEFT_OUT]
        links = [m for m in applicable("link-prediction", architecture) if m not in nodes]
        rows = [("node-classification", method) for method in (*nodes, *VARIANTS)]
        rows += [("link-prediction", method) for method in ("base", *links)]
        found += [{"task": t, "architecture": architecture, "method": m} for t, m in rows]
    return [{**case, "nodes": QUICK_NODES} for case in found] if quick else found


def setup_of(case: Case, graph: Graph) -> Setup:
    """A few updates a stage on a graph."""
    task, architecture = case["task"], case["architecture"]
    options = FitOptions(architecture, width=256, dropout=0.0, select="transductive")
    defaults = replace(DEFAULTS[task], architecture=architecture, embedding=64, l2=0.0)
    brief = Schedule(epochs=UPDATES, validate_every=UPDATES)
    problem = split_problem(task, graph, options, defaults, labelled=0.1)
    return problem.scheduled(brief, brief).setup


def measure(case: Case) -> Found:
    """Train a method for a few updates."""
    torch.set_num_threads(THREADS)
    tune_malloc()
    nodes = case.get("nodes")
    graph = block_graph(nodes, 7 * nodes, 40, 128) if nodes else arxiv_size_graph(0)
    setup, method = setup_of(case, graph), method_named(case["method"])
    settings = method.settings
    if isinstance(settings, LocalAug):
        settings = replace(settings, generator=replace(settings.generator, epochs=50))
    clock: dict[int, list[float]] = {}

    def tell(progress: Progress) -> None:
        clock.setdefault(progress.stage, []).append(time.perf_counter())

    before, start = settle(), Clock.now()
    run(method, setup, settings=settings, callback=tell)
    others = start.others_until(Clock.now())
    seconds = [median(b - a for a, b in pairwise(times[:-1])) for times in clock.values()]
    return {"seconds": seconds, "peak": peak_resident() - before, "others": others}


def report(record: Record) -> str:
    """An update of each stage, and the peak, over Base's of the same round."""
    lines, first = [], list[float]()
    for case, rounds in record.found:
        base = record.case(**{**case, "method": "base"})
        updates = [
            record.ratio(case, base, partial(_update, stage))
            for stage in range(len(rounds[0]["seconds"]))
        ]
        if len(updates) > 1 and case["method"] not in OWN_FIRST_STAGE:
            first.append(updates[0].median)
        links = ", links" if case["task"] == "link-prediction" else ""
        lines.append(
            [
                f"{title_of(case['method'])}, {case['architecture']}{links}",
                ", then ".join(spread.text() for spread in updates),
                record.ratio(case, base, peak_bytes).text(),
                record.spread(case, peak_bytes).text(0, MIB),
            ]
        )
    heading = ("method", "an update of each stage / Base's", "memory / Base's", "peak, MiB")
    titles = " and ".join(map(title_of, OWN_FIRST_STAGE))
    return join(
        markdown_table(heading, lines),
        f"The first of two stages is Base's own (but for {titles}), so it would be 1.00 on a quiet "
        f"machine, and was {min(first):.2f} to {max(first):.2f}.",
    )


def _update(stage: int, found: Found) -> float:
    """Seconds of a stage's update; Base has one stage."""
    seconds: list[float] = found["seconds"]
    return seconds[min(stage, len(seconds) - 1)]


BENCHMARK = Benchmark("method-costs", "What a method costs", cases, measure, report, rounds=3)
