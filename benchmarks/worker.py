"""One measurement in a process of its own: a case comes in as JSON, a measurement goes out.

python -m benchmarks.worker '{"architecture": "sage", "variant": "ours", "nodes": 4000}'
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from dataclasses import asdict, replace
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from tuneup.runtime import tune_malloc

from . import pairs, variants
from .case import THREADS, Case, Measurement
from .machine import Clock, peak_resident, settle
from .variants import Epoch

REHEARSAL_NODES = 2_000
TOP_OPERATORS = 15


def measure(case: Case) -> Measurement:
    """Load the graph, build the model, warm up, time, and read the peak of memory."""
    torch.set_num_threads(THREADS)
    if case.malloc == "raised" and not tune_malloc():
        raise SystemExit("malloc's thresholds cannot be raised: this needs glibc")
    rehearse(case)
    inputs = problem(case).load(case)
    before = settle()
    epoch = problem(case).trainer(case, inputs)
    first, *warm = [timed(epoch, step) for step in range(case.warmup)]
    start = Clock.now()
    steps = range(case.warmup, case.warmup + case.epochs)
    runs, operators = profiled(epoch, steps) if case.profile else (timed_all(epoch, steps), {})
    others = start.others_until(Clock.now())
    return Measurement(
        first=first[0],
        seconds=[seconds for seconds, _ in runs],
        losses=[loss for _, loss in (first, *warm, *runs)],
        peak=peak_resident() - before,
        others=others,
        operators=operators,
    )


def rehearse(case: Case) -> None:
    """One epoch on a toy graph: libraries load lazily, and are not the model's memory."""
    toy = replace(case, nodes=REHEARSAL_NODES)
    problem(toy).trainer(toy, problem(toy).load(toy))(0)


def problem(case: Case) -> Any:
    """The module that loads and trains a case's problem."""
    return variants if case.problem == "nodes" else pairs


def timed(epoch: Epoch, step: int) -> tuple[float, float]:
    """Seconds and loss of one epoch."""
    start = time.perf_counter()
    loss = epoch(step)
    return time.perf_counter() - start, loss


def timed_all(epoch: Epoch, steps: range) -> list[tuple[float, float]]:
    """Seconds and loss of each epoch."""
    return [timed(epoch, step) for step in steps]


def profiled(epoch: Epoch, steps: range) -> tuple[list[tuple[float, float]], dict[str, float]]:
    """The same under torch's profiler, with each operator's own seconds an epoch."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        runs = timed_all(epoch, steps)
    events = sorted(profiler.key_averages(), key=lambda event: -event.self_cpu_time_total)
    seconds = {event.key: event.self_cpu_time_total / 1e6 / len(steps) for event in events}
    shown = dict(list(seconds.items())[:TOP_OPERATORS])
    return runs, {**shown, "others": sum(seconds.values()) - sum(shown.values())}


def main() -> None:
    """Measure the case on the command line."""
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
    print(json.dumps(asdict(measure(Case(**json.loads(sys.argv[1]))))))


if __name__ == "__main__":
    main()
