"""What validation on cold copies adds to the processor time of training.

The demo's problems, 120 epochs of Base: with one validation at the end, and with validation on all
copies as often as the task asks for, in turns in one process.
"""

from __future__ import annotations

import time
from typing import get_args

import torch

from tuneup.curriculum import Schedule
from tuneup.methods import METHODS, run
from tuneup.names import TaskName
from tuneup.report.table import markdown_table
from tuneup.runtime import tune_malloc
from tuneup.workflow.demo import demo_problem
from tuneup.workflow.problems import Problem

from .harness import Benchmark, Case, Found, Record

EPOCHS = 120


def cases(quick: bool) -> list[Case]:
    """One for each task."""
    return [
        {"task": task, "epochs": EPOCHS // 10 if quick else EPOCHS} for task in get_args(TaskName)
    ]


def measure(case: Case) -> Found:
    """Processor seconds without and with validation on cold copies."""
    torch.set_num_threads(1)
    tune_malloc()
    problem, epochs = demo_problem(case["task"], 0, "sage"), case["epochs"]
    seconds(problem, epochs, epochs)  # what is made once
    plain, cold = seconds(problem, epochs, epochs), seconds(problem, epochs, None)
    return {"plain": plain, "cold": cold, "every": problem.task.validation_interval}


def seconds(problem: Problem, epochs: int, validate_every: int | None) -> float:
    """Processor time of one run of Base."""
    schedule = Schedule(epochs, 0.01, validate_every)
    start = time.process_time()
    run(METHODS["base"], problem.scheduled(schedule, schedule).setup)
    return time.process_time() - start


def report(record: Record) -> str:
    """The share of training time."""
    rows = [
        [
            case["task"],
            f"{rounds[0]['every']}",
            record.spread(case, lambda found: found["cold"] / found["plain"] - 1).text(0, 100),
        ]
        for case, rounds in record.found
    ]
    return markdown_table(["task", "validates every", "added time, %"], rows)


BENCHMARK = Benchmark("validation", "Validation on cold copies", cases, measure, report, rounds=3)
