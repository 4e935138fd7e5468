"""Whether TuneUp's gain on Computers grows with the number of labels.

python -m benchmarks.labels              # Base and TuneUp with 10 % of the nodes labelled, not 2 %
python -m benchmarks.labels --dry-run    # what would be trained
python -m benchmarks.real_tables         # into benchmarks/README.md

Everything but that share is as in ``tuneup bench run --task node-classification``: the same split
seed, schedules, grids and numbers of trials.  What was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import torch

from tuneup.bench.cells import describe_plan
from tuneup.bench.experiments import experiment, node_problem
from tuneup.bench.presets import LABELLED, USUAL
from tuneup.bench.suite import Suite
from tuneup.bench.tables import Block
from tuneup.names import Architecture, TaskName
from tuneup.report.table import markdown_table
from tuneup.runtime import tune_malloc

from .records import ROOT
from .sections import join, unmeasured

DATASET = "Computers"
TASK: TaskName = "node-classification"
SHARE = 0.1
SEEDS = range(3)
RESULTS = ROOT / "benchmarks" / "results"
RUNS = ROOT / "runs" / "bench"
FOLDERS = {LABELLED: RESULTS / TASK, SHARE: RESULTS / f"{TASK}-labelled-{100 * SHARE:g}"}
"""Of the records, by the share of labelled nodes; the first one's are the paper's tables'."""


def suite(architecture: Architecture) -> Suite:
    """Base and TuneUp with more labels."""
    usual = experiment(
        DATASET,
        TASK,
        architecture,
        results=RESULTS,
        runs=RUNS,
        methods=("base", "tuneup"),
        seeds=SEEDS,
    )
    return replace(
        usual,
        problem=lambda shared: node_problem(DATASET, architecture, "short", shared, SHARE),
        results=FOLDERS[SHARE],
        config={**usual.config, "labelled": SHARE},
    )


def section() -> str:
    """A row for each architecture and share: Base, TuneUp and the interval of the gain."""
    found = {
        (architecture, share): Block(folder, DATASET, TASK, architecture)
        for architecture in USUAL
        for share, folder in FOLDERS.items()
    }
    if not all(block.records.get("tuneup") for block in found.values()):
        return unmeasured("benchmarks.labels", "benchmarks.real_tables")
    settings = next(iter(found.values())).settings
    rows = [
        [
            f"{architecture}, {100 * share:g} %",
            str(len(block.seeds)),
            *(cell(block, setting) for setting in settings),
        ]
        for (architecture, share), block in found.items()
    ]
    intro = (
        f"`python -m benchmarks.labels`: accuracy of Base → TuneUp on {DATASET} in %, with the "
        "95 % interval of the gain over nodes and seeds. Rows of "
        f"{100 * LABELLED:g} % are those of the tables above; with {100 * SHARE:g} %, dropout and "
        "alpha were chosen anew, by as many trials. Half of the labels are for the loss and half "
        "for validation."
    )
    return join(intro, markdown_table((f"{DATASET}, labelled", "seeds", *settings), rows))


def cell(block: Block, setting: str) -> str:
    """``81.4 → 82.0 (-0.1, +1.3)``: Base, TuneUp and the interval of the gain."""
    base, tuned = (
        fmean(record.settings[setting] for record in block.records[method])
        for method in ("base", "tuneup")
    )
    gain = block.gain("base", "tuneup", setting)
    assert gain is not None, "both have records"
    return f"{100 * base:.1f} → {100 * tuned:.1f} ({100 * gain.low:+.1f}, {100 * gain.high:+.1f})"


def main(arguments: Sequence[str] | None = None) -> None:
    """All runs that have no record yet."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.labels",
        description=f"Base and TuneUp on {DATASET} with {100 * SHARE:g} % of the nodes labelled in "
        f"place of {100 * LABELLED:g} %, for SAGE and GCN. What has a record is not run again.",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be trained")
    parser.add_argument("--fresh", action="store_true", help="remove the records first")
    options = parser.parse_args(arguments)
    suites = [suite(architecture) for architecture in USUAL]
    if options.dry_run:
        print(*describe_plan(suites, options.fresh), sep="\n")
        return
    torch.set_num_threads(1)  # as in the tables: a result belongs to a thread count
    tune_malloc()
    for each in suites:
        if options.fresh:
            each.forget()
        each.run_all()


if __name__ == "__main__":
    main()
