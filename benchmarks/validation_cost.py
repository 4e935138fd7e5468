"""What validation on cold copies adds to the processor time of training.

    python -m benchmarks.validation_cost

The demo's problems, 120 epochs of Base: with one validation at the end, and with validation on all
copies as often as the task asks for.  In turns, in one process; the median of the ratios.
"""

from __future__ import annotations

import time
from statistics import median
from typing import get_args

import torch

from tuneup.curriculum import Schedule
from tuneup.methods import METHODS, run
from tuneup.names import TaskName
from tuneup.runtime import tune_malloc
from tuneup.workflow.demo import demo_problem
from tuneup.workflow.problems import Problem

EPOCHS, ROUNDS = 120, 3


def seconds(problem: Problem, validate_every: int | None) -> float:
    """Processor time of one run of Base."""
    schedule = Schedule(EPOCHS, 0.01, validate_every)
    start = time.process_time()
    run(METHODS["base"], problem.scheduled(schedule, schedule).setup)
    return time.process_time() - start


def main() -> None:
    """A line for each task."""
    torch.set_num_threads(1)
    tune_malloc()
    for task in get_args(TaskName):
        problem = demo_problem(task, 0, "sage")
        seconds(problem, EPOCHS)  # what is made once
        ratios = [seconds(problem, None) / seconds(problem, EPOCHS) for _ in range(ROUNDS)]
        every = problem.task.validation_interval
        print(f"{task}: every {every} epochs, +{100 * (median(ratios) - 1):.0f} %")


if __name__ == "__main__":
    main()
