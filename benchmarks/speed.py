"""Time and memory of an epoch on a graph of ogbn-arxiv's size, ours against PyG's layers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from tuneup.report.table import markdown_table
from tuneup.runtime import tune_malloc

from .harness import (
    ARXIV_NODES,
    MIB,
    THREADS,
    Benchmark,
    Case,
    Clock,
    Found,
    Record,
    Spread,
    epoch_seconds,
    goal,
    goals,
    join,
    memory_available,
    peak_bytes,
    peak_resident,
    settle,
)
from .models import GOWALLA_NODES, WIDTH, Epoch, edges_of, load, trainer

QUICK_NODES, REHEARSAL_NODES = 4_000, 2_000
TOP_OPERATORS = 15
LOSS_TOLERANCE = 1e-4
DENSE = ("aten::mm", "aten::addmm", "aten::addmm_")
NAMES = {
    "ours": "tuneup",
    "pyg-edge-index": "PyG on `edge_index`",
    "pyg-adj-t": "PyG on `adj_t`",
    "bare-products": "bare matrix products",
}
Goals = Callable[[Record], list[list[str]]]
Write = Callable[[Record], str]
USUAL: Case = {
    "architecture": "sage",
    "variant": "ours",
    "malloc": "raised",
    "supervision": "labelled",
    "alpha": 0.0,
    "nodes": ARXIV_NODES,
    "warmup": 2,
    "epochs": 3,
    "profile": False,
    "problem": "nodes",
}
"""A case, where nothing else is said: three layers of width 256, 5 % of the nodes in the loss."""


def size(quick: bool, problem: str = "nodes") -> int:
    """Nodes of the graph; of recommendation in proportion."""
    nodes: int = QUICK_NODES if quick else ARXIV_NODES
    return nodes if problem == "nodes" else nodes * GOWALLA_NODES // ARXIV_NODES


def memory_needed(case: Case) -> int:
    """Bytes to be on the safe side: more than any measured peak at this size."""
    nodes: int = case["nodes"]
    if case["variant"] == "pyg-edge-index":
        factor = 7 if case["architecture"] == "gat" else 4
        return (2 * edges_of(case) + nodes) * 4 * WIDTH * factor
    return nodes * 4 * WIDTH * 18


def compared(architecture: str, quick: bool) -> list[Case]:
    """Ours and PyG's, each under both mallocs: ours as used first, then its profile."""
    ours = {**USUAL, "architecture": architecture, "nodes": size(quick)}
    cases = [ours, {**ours, "profile": True}, {**ours, "malloc": "default"}]
    for variant in ("pyg-edge-index", "pyg-adj-t"):
        cases += [{**ours, "variant": variant, "malloc": m} for m in ("default", "raised")]
    return cases


def attention(quick: bool) -> list[Case]:
    """GAT is about memory: two epochs show it, on the largest graph that memory has room for."""
    ours = {**USUAL, "architecture": "gat", "nodes": size(quick), "warmup": 1, "epochs": 1}
    plain = {**ours, "malloc": "default"}
    cases = [ours, plain, {**plain, "variant": "pyg-edge-index"}]
    room, needed = int(0.9 * memory_available()), max(map(memory_needed, cases))
    if needed <= room:
        return cases
    nodes = int(ours["nodes"]) * room // needed // 10_000 * 10_000
    print(f"{needed / 2**30:.1f} GiB may be needed: going down to {nodes:,} nodes for all.")
    return [{**case, "nodes": nodes} for case in cases]


def second_stage(quick: bool) -> list[Case]:
    """All nodes supervised, on all and on half of the edges: close, so more epochs are timed."""
    whole = {**USUAL, "supervision": "all", "nodes": size(quick), "epochs": 7}
    return [whole, {**whole, "alpha": 0.5}]


def recommendation(quick: bool) -> list[Case]:
    """A GCN's epoch at gowalla's size, against the same written naively."""
    ours = {**USUAL, "architecture": "gcn", "problem": "pairs", "nodes": size(quick, "pairs")}
    naive = {**ours, "variant": "pyg-edge-index"}
    return [ours, {**ours, "malloc": "default"}, {**naive, "malloc": "default"}, naive]


def ranking(quick: bool) -> list[Case]:
    """The 50 best items of all users, against the bare matrix products."""
    ours = {**USUAL, "architecture": "gcn", "problem": "ranking", "warmup": 1}
    ours["nodes"] = size(quick, "ranking")
    return [ours, {**ours, "variant": "bare-products"}]


def measure(case: Case) -> Found:
    """Load the graph, build the model, warm up, time, and read the peak of memory."""
    torch.set_num_threads(THREADS)
    if case["malloc"] == "raised" and not tune_malloc():
        raise SystemExit("malloc's thresholds cannot be raised: this needs glibc")
    toy = {**case, "nodes": REHEARSAL_NODES}
    trainer(toy, load(toy))(0)  # libraries load lazily, and are not the model's memory
    inputs = load(case)
    before = settle()
    epoch = trainer(case, inputs)
    first, *warm = [timed(epoch, step) for step in range(case["warmup"])]
    start = Clock.now()
    steps, operators = range(case["warmup"], case["warmup"] + case["epochs"]), dict[str, float]()
    if case["profile"]:
        runs, operators = profiled(epoch, steps)
    else:
        runs = [timed(epoch, step) for step in steps]
    return {
        "first": first[0],
        "seconds": [seconds for seconds, _ in runs],
        "losses": [loss for _, loss in (first, *warm, *runs)],
        "peak": peak_resident() - before,
        "others": start.others_until(Clock.now()),
        "operators": operators,
    }


def timed(epoch: Epoch, step: int) -> tuple[float, float]:
    """Seconds and loss of one epoch."""
    start = time.perf_counter()
    loss = epoch(step)
    return time.perf_counter() - start, loss


def profiled(epoch: Epoch, steps: range) -> tuple[list[tuple[float, float]], dict[str, float]]:
    """The same under torch's profiler, with each operator's own seconds an epoch."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        runs = [timed(epoch, step) for step in steps]
    events = sorted(profiler.key_averages(), key=lambda event: -event.self_cpu_time_total)
    seconds = {event.key: event.self_cpu_time_total / 1e6 / len(steps) for event in events}
    shown = dict(list(seconds.items())[:TOP_OPERATORS])
    return runs, {**shown, "others": sum(seconds.values()) - sum(shown.values())}


def loss_gap(record: Record) -> float:
    """Largest difference between two losses of the same epoch."""
    runs = [found["losses"] for found in record.everything]
    return max((max(epoch) - min(epoch) for epoch in zip(*runs, strict=True)), default=0.0)


def same_loss(record: Record) -> None:
    """Stop at once where two variants do not compute the same."""
    if (gap := loss_gap(record)) > LOSS_TOLERANCE:
        raise SystemExit(f"losses of two variants differ by {gap:.2g}.")


def named(case: Case) -> str:
    """A variant with its malloc."""
    as_used = (case["variant"], case["malloc"]) == ("ours", "raised")
    return f"{NAMES[case['variant']]}, {case['malloc']} malloc{', as used' * as_used}"


def variants_table(record: Record) -> str:
    """Time and memory of every case."""
    rows = [
        [
            named(case),
            record.spread(case, epoch_seconds).text(),
            record.spread(case, lambda found: found["first"]).text(),
            record.spread(case, peak_bytes).text(0, MIB),
        ]
        for case, _ in record.found
        if not case["profile"]
    ]
    heading = ("", "epoch, s", "first epoch, s", "peak memory, MiB")
    return markdown_table(heading, rows)


def memory_goals(variant: str, bound: float) -> Goals:
    """Our memory over PyG's: each malloc by itself, and ours as used against the default."""

    def make(record: Record) -> list[list[str]]:
        rows = []
        for ours, theirs in (("default",) * 2, ("raised",) * 2, ("raised", "default")):
            if record.has(variant=variant, malloc=theirs):
                mine = record.case(variant="ours", malloc=ours, profile=False)
                other = record.case(variant=variant, malloc=theirs)
                ratio = record.ratio(mine, other, peak_bytes)
                rows.append(goal(f"memory: {named(mine)} / {named(other)}", ratio, bound))
        return rows

    return make


def time_goals(variant: str, bound: float, aim: float = 0.0) -> Goals:
    """PyG's epoch over ours as used, under either malloc."""

    def make(record: Record) -> list[list[str]]:
        ours = record.case(variant="ours", malloc="raised", profile=False)
        rows = []
        for malloc in ("default", "raised"):
            other = record.case(variant=variant, malloc=malloc)
            what = f"epoch: {named(other)} / tuneup"
            ratio = record.ratio(other, ours, epoch_seconds)
            rows.append(goal(what, ratio, bound, aim, at_least=True))
        return rows

    return make


def loss_goals(record: Record) -> list[list[str]]:
    """Whether everyone computed the same thing."""
    gap = loss_gap(record)
    verdict = "yes" if gap <= LOSS_TOLERANCE else "**missed**"
    return [["largest difference of two losses", f"{gap:.1e}", f"≤ {LOSS_TOLERANCE:g}", verdict]]


def ranking_goals(record: Record) -> list[list[str]]:
    """The exact ranking against the products it cannot do without, and its memory."""
    (ours, rounds), (bare, _) = record.found
    memory = Spread.of([peak_bytes(found) / 1e6 for found in rounds.values()])
    return [
        goal("ranking: tuneup / bare products", record.ratio(ours, bare, epoch_seconds), 2.5),
        goal("memory above the embeddings, MB", memory, 1000.0),
    ]


def operators_text(record: Record) -> str:
    """How far from the limit our epoch is: what dense products take, and the largest operators."""
    case = record.case(variant="ours", malloc="raised", profile=True)

    def dense(found: Found) -> float:
        operators = found["operators"]
        return float(sum(operators.get(name, 0.0) for name in DENSE) / sum(operators.values()))

    operators = list(record.of(case)[0]["operators"].items())
    top = ", ".join(f"`{name}` {seconds:.2f} s" for name, seconds in operators[:6])
    return (
        f"Dense matrix products take {record.spread(case, dense).text(0, 100.0)} % of tuneup's "
        f"epoch under torch's profiler. The largest operators, self time an epoch: {top}."
    )


def report(*makes: Goals, more: Write = lambda record: "") -> Write:
    """Times and memory of every case, then goals."""

    def write(record: Record) -> str:
        rows = [row for make in makes for row in make(record)]
        return join(variants_table(record), goals(*rows), more(record))

    return write


def report_second_stage(record: Record) -> str:
    """An epoch on half of the edges, dropping included, over one on all of them."""
    (whole, _), (dropped, _) = record.found
    names = (("whole graph", whole), ("alpha 0.5, dropping included", dropped))
    rows = [
        [name, record.spread(c, epoch_seconds).text(), record.spread(c, peak_bytes).text(0, MIB)]
        for name, c in names
    ]
    ratio = record.ratio(dropped, whole, epoch_seconds)
    heading = ("all nodes supervised", "epoch, s", "peak memory, MiB")
    return join(
        markdown_table(heading, rows), goals(goal("epoch: alpha 0.5 / whole graph", ratio, 1.0))
    )


CHECKED: dict[str, Any] = {"check": same_loss, "memory": memory_needed}
COMPARED = report(
    time_goals("pyg-edge-index", 6, 8),
    time_goals("pyg-adj-t", 2.5, 3.5),
    memory_goals("pyg-adj-t", 1.0),
    memory_goals("pyg-edge-index", 0.5),
    loss_goals,
    more=operators_text,
)
ATTENTION = report(memory_goals("pyg-edge-index", 0.25), loss_goals)
ITEMS = report(time_goals("pyg-edge-index", 3.0), loss_goals)
BENCHMARKS: Sequence[Benchmark] = (
    Benchmark("sage", "SAGE, stage 1", partial(compared, "sage"), measure, COMPARED, **CHECKED),
    Benchmark("gcn", "GCN, stage 1", partial(compared, "gcn"), measure, COMPARED, **CHECKED),
    Benchmark("gat", "GAT, memory", attention, measure, ATTENTION, **CHECKED),
    Benchmark("stage2", "SAGE, stage 2", second_stage, measure, report_second_stage),
    Benchmark(
        "recommendation",
        "Recommendation, GCN",
        recommendation,
        measure,
        ITEMS,
        check=same_loss,
    ),
    Benchmark("ranking", "Exact ranking, top 50", ranking, measure, report(ranking_goals)),
)
