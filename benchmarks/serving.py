"""The time of one answer about one new node, beside that of the bare layers on its field.

The bare layers are the model's own, on blocks and features that were cut out before: what is left
when finding the field costs nothing.  Both are timed in turn.  Ten fields are cut out at a time,
more than a cache holds, so that neither finds its features there, and the least of three rounds
counts.  Times are the thread's own processor time, which on an idle machine is the wall clock's.
What a request allocates is measured on a graph and on ten disjoint copies of it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from tuneup.data import Graph, arxiv_size_graph, block_graph
from tuneup.graph import Adjacency, adjacency_from, receptive_field
from tuneup.names import Architecture
from tuneup.nn import Encoder, Plan
from tuneup.report.table import markdown_table
from tuneup.runtime import tune_malloc
from tuneup.serve import Predictor
from tuneup.serve.arrivals import read_arrivals

from .harness import ARXIV_EDGES, ARXIV_NODES, Benchmark, Case, Clock, Found, Record, join
from .models import CLASSES, FEATURES, LAYERS, SEED, WIDTH

EDGES, TOGETHER, ROUNDS, INSERTED, COPIES = 10, 10, 3, 2, 10
GOAL = 3.0

Work = Callable[[], object]


def cases(quick: bool) -> list[Case]:
    """Every architecture on one graph, then what a request allocates on two sizes of graph."""
    nodes, count = (4_000, 20) if quick else (ARXIV_NODES, 200)
    found: list[Case] = [
        {"architecture": name, "nodes": nodes, "requests": count} for name in get_args(Architecture)
    ]
    return found + [{"copies": copies} for copies in (1, COPIES)]


def measure(case: Case) -> Found:
    """Seconds of an answer and of the bare layers, or bytes of a request."""
    torch.set_num_threads(1)
    tune_malloc()
    if "copies" in case:
        return allocated(case["copies"])
    nodes = case["nodes"]
    graph = arxiv_size_graph(SEED) if nodes == ARXIV_NODES else scaled(nodes, FEATURES)
    asked = requests(nodes, case["requests"], FEATURES)
    return compare(model(case["architecture"], FEATURES), graph, asked)


@dataclass(frozen=True, eq=False)
class Request:
    """A new node."""

    x: Tensor
    neighbours: list[int]


def requests(num_nodes: int, count: int, width: int) -> list[Request]:
    """New nodes with ten edges to nodes drawn uniformly."""
    generator = torch.Generator().manual_seed(SEED)
    return [
        Request(
            torch.randn(1, width, generator=generator),
            torch.randint(0, num_nodes, (EDGES,), generator=generator).unique().tolist(),
        )
        for _ in range(count)
    ]


def model(architecture: Architecture, width: int) -> Encoder:
    """Three layers, like those of the other benchmarks."""
    torch.manual_seed(SEED)
    return Encoder(width, CLASSES, architecture=architecture, width=WIDTH, num_layers=LAYERS).eval()


def scaled(nodes: int, width: int) -> Graph:
    """A graph of another size with the same mean degree."""
    edges = round(nodes * ARXIV_EDGES / ARXIV_NODES)
    return block_graph(nodes, edges, CLASSES, width, seed=SEED)


def served(encoder: Encoder, graph: Graph) -> Predictor:
    """Through the folder, as a user would."""
    with tempfile.TemporaryDirectory() as place:
        return Predictor.load(Predictor(encoder, graph).save(Path(place) / "model"))


def compare(encoder: Encoder, graph: Graph, asked: list[Request]) -> Found:
    """Seconds of our answer and of the bare layers, request by request."""
    predictor, ours, bare, begun = served(encoder, graph), [], [], Clock.now()
    for start in range(0, len(asked), TOGETHER):
        part = asked[start : start + TOGETHER]
        plans = [cut_out(predictor, request) for request in part]
        layers: list[Work] = [partial(encoder.run, plan) for plan in plans]
        answers: list[Work] = [partial(predictor.predict_new, r.x, [r.neighbours]) for r in part]
        with torch.no_grad():
            for work in (*layers, *answers):  # the weights of messages count as cut out too
                work()
            rounds = [
                [(clocked(a), clocked(b)) for a, b in zip(answers, layers, strict=True)]
                for _ in range(ROUNDS)
            ]
        for times in zip(*rounds, strict=True):
            ours.append(least([first for first, _ in times]))
            bare.append(least([second for _, second in times]))
    others = begun.others_until(Clock.now())
    gaps = [gap(predictor, encoder, graph, request) for request in asked[:INSERTED]]
    return {
        "ours": statistics.median(own for _, own in ours),
        "layers": statistics.median(own for _, own in bare),
        "ours_wall": statistics.median(wall for wall, _ in ours),
        "layers_wall": statistics.median(wall for wall, _ in bare),
        "difference": max(gaps),
        "others": others,
    }


def least(times: list[tuple[float, float]]) -> tuple[float, float]:
    """The fastest of some rounds, by either clock: what no neighbour interrupted."""
    return min(wall for wall, _ in times), min(own for _, own in times)


def clocked(work: Work) -> tuple[float, float]:
    """Seconds, and seconds of this thread's processor, which neighbours cannot lengthen."""
    wall, own = time.perf_counter(), time.thread_time()
    work()
    return time.perf_counter() - wall, time.thread_time() - own


def cut_out(predictor: Predictor, request: Request) -> Plan:
    """The field of a new node as blocks with their own features."""
    graph, x = predictor.model.graph, predictor.model.inputs
    assert isinstance(x, Tensor)
    arrived = read_arrivals(predictor.ids, 0, graph, 1, [request.neighbours])
    field = receptive_field(arrived.overlay, arrived.nodes, LAYERS)
    return Plan(torch.cat([request.x, x.index_select(0, field.nodes[1:])]), field.blocks)


def gap(predictor: Predictor, encoder: Encoder, graph: Graph, request: Request) -> float:
    """Largest difference to the whole model on the whole graph with the node in it.

    Relative to the size of the output where that is above 1.
    """
    ours = predictor.outputs_new(request.x, [request.neighbours])[0]
    assert isinstance(graph.x, Tensor)
    with torch.no_grad():
        whole = encoder(torch.cat([graph.x, request.x]), inserted(graph.adjacency, request))[-1]
    return float(((ours - whole).abs() / whole.abs().clamp(min=1)).max())


def inserted(graph: Adjacency, request: Request) -> Adjacency:
    """The graph with one node more, built from scratch."""
    source = torch.tensor(request.neighbours)
    edges = torch.stack([source, torch.full_like(source, graph.num_nodes)])
    every = torch.cat([graph.edge_index, edges], 1)
    return adjacency_from(every, graph.num_nodes + 1, undirected=True)


def allocated(copies: int, nodes: int = 100_000, width: int = 16) -> Found:
    """Bytes and seconds of requests on a graph, and on as many disjoint copies of it.

    All edges lead into the first copy: the fields are the same, the graph is not.
    """
    one = scaled(nodes, width)
    assert isinstance(one.x, Tensor)
    shift = torch.arange(copies)[:, None] * nodes
    edges = torch.stack([(row + shift).flatten() for row in one.adjacency.edge_index])
    adjacency = adjacency_from(edges, copies * nodes, undirected=True)
    predictor = served(model("gcn", width), Graph(adjacency, one.x.repeat(copies, 1)))
    asked = requests(nodes, 20, width)
    answer = [partial(predictor.predict_new, r.x, [r.neighbours]) for r in asked]
    for ask in answer:
        ask()
    seconds = statistics.median(clocked(ask)[1] for ask in answer for _ in range(5))
    tracemalloc.start()
    for ask in answer:
        ask()
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for ask in answer:
            ask()
    events = profiler.key_averages()
    total = sum(max(0, event.self_cpu_memory_usage) for event in events)
    return {
        "nodes": adjacency.num_nodes,
        "torch_bytes": total // len(answer),
        "numpy_peak_bytes": held,
        "seconds_processor": seconds,
    }


def report(record: Record) -> str:
    """The times, and the allocations."""
    timed = [(case, rounds) for case, rounds in record.found if "architecture" in case]
    rows, worst = [], 0.0
    for case, rounds in timed:
        ratio = record.spread(case, lambda found: found["ours"] / found["layers"])
        worst = max(worst, ratio.median)
        rows.append(
            [
                case["architecture"],
                record.spread(case, lambda found: found["ours"]).text(2, 1e3),
                record.spread(case, lambda found: found["layers"]).text(2, 1e3),
                ratio.text(),
                f"{max(found['difference'] for found in rounds.values()):.1e}",
            ]
        )
    heading = ("one new node, 10 edges", "answer, ms", "bare layers, ms", "ratio", "difference")
    sizes = [
        [
            f"{found['nodes']:,}",
            f"{found['torch_bytes']:,}",
            f"{found['numpy_peak_bytes']:,}",
            f"{1e3 * found['seconds_processor']:.2f}",
        ]
        for case, rounds in record.found
        if "copies" in case
        for found in [rounds[0]]
    ]
    second = ("nodes of the graph", "torch, bytes a request", "numpy, peak bytes", "processor, ms")
    verdict = "reached" if worst <= GOAL else "**missed**"
    return join(
        markdown_table(heading, rows),
        f"Goal: a ratio of at most {GOAL:g}. The largest is {worst:.2f}: {verdict}.",
        markdown_table(second, sizes),
    )


BENCHMARK = Benchmark("serving", "One new node", cases, measure, report, rounds=1)
