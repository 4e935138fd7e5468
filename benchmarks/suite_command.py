"""The command line of the suites: what to run, and whether what is recorded goes first."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import product

import torch

from tuneup.errors import TuneupError
from tuneup.runtime import tune_malloc

from .suite import Suite


def command(
    program: str,
    arguments: Sequence[str] | None,
    make: Callable[[str, str], Suite],
    datasets: Sequence[str],
    architectures: Sequence[str],
) -> None:
    """``run [dataset [architecture]] [--fresh]``: one suite after the other."""
    parser = argparse.ArgumentParser(
        prog=program,
        description="Run what has no record yet; needs TUNEUP_DATA, the folder of the real graphs.",
    )
    parser.add_argument("action", choices=["run"])
    parser.add_argument("dataset", nargs="?", choices=datasets, help="all, if none is named")
    parser.add_argument("architecture", nargs="?", choices=architectures, help="likewise")
    parser.add_argument(
        "--fresh", action="store_true", help="remove the records of these first, to run all anew"
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # two such processes use two cores better than one process does
    tune_malloc()
    chosen = [options.dataset] if options.dataset else datasets
    kinds = [options.architecture] if options.architecture else architectures
    try:
        for dataset, architecture in product(chosen, kinds):
            suite = make(dataset, architecture)
            if options.fresh:
                suite.forget()
            suite.run_all()
    except TuneupError as error:
        raise SystemExit(f"Error: {error}") from error
