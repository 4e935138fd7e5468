"""Whether selecting on cold copies, with the dial, gives more than release 0.1 selected.

python -m benchmarks.selection                          # node classification: dblp, CS, Computers
python -m benchmarks.selection --task link-prediction   # links on dblp
python -m benchmarks.selection --task recommendation    # gowalla
python -m benchmarks.real_tables                        # into benchmarks/README.md

Everything but the selection is as in ``tuneup bench run``: graphs, splits, schedules and seeds.
Base and the choice of release 0.1 (by transductive validation, and Base wherever it validates
better) are its records.  The new runs validate on four copies, and a dial selects between stage 2
and Base.  Stage 2 is that of ``tuneup fit`` (a share of its own for each node, and the graph itself
too), or drops a share of 0.75 as in the paper (``--stage-2 alpha-0.75``).  What has a record is not
run again; a stopped run is resumed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, get_args

import torch

from tuneup.bench.experiments import PROBLEMS
from tuneup.bench.presets import folder_of
from tuneup.bench.records import RunRecord
from tuneup.evaluation import Gain, paired_gain
from tuneup.files import write_atomic
from tuneup.metrics import NodeScores, read_scores, write_scores
from tuneup.names import Alpha, Architecture, TaskName
from tuneup.report.table import markdown_table
from tuneup.report.words import setting_label
from tuneup.runtime import tune_malloc
from tuneup.workflow.fit import fit
from tuneup.workflow.options import FitOptions
from tuneup.workflow.problems import Problem

from .records import ROOT
from .sections import join

RESULTS = ROOT / "benchmarks" / "results"
FOLDER = RESULTS / "selection"
RUNS = ROOT / "runs" / "selection"
GRAPHS: Mapping[TaskName, Sequence[str]] = {
    "node-classification": ("dblp", "CS", "Computers"),
    "link-prediction": ("dblp",),
    "recommendation": ("gowalla",),
}
ARCHITECTURES: Sequence[Architecture] = ("sage", "gcn")
SEEDS: Mapping[TaskName, Sequence[int]] = {
    "node-classification": range(3),
    "link-prediction": range(3),
    "recommendation": range(1),
}
STAGE_2: Mapping[str, tuple[Alpha, bool]] = {
    "default": ("graded", True),
    "alpha-0.75": (0.75, False),
}
"""Share of edges that stage 2 drops, and whether it is trained on the graph itself too."""
NO_EDGE = "no edge"


@dataclass(frozen=True)
class Run:
    """One training with the new selection."""

    task: TaskName
    dataset: str
    architecture: Architecture
    seed: int
    stage_2: str

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.task}-{self.dataset}-{self.architecture}-{self.stage_2}-{self.seed}"

    def recorded(self, method: str) -> RunRecord | None:
        """The run of the paper's tables with this seed."""
        folder = folder_of(RESULTS, self.task, "short")
        path = folder / f"{self.dataset}-{self.architecture}-{method}-{self.seed}.json"
        return RunRecord.read(path) if path.exists() else None

    def scores_of_release(self, method: str) -> dict[str, NodeScores]:
        """Scores by setting of what release 0.1 returned: of TuneUp, its guard's choice."""
        folder = folder_of(RESULTS, self.task, "short")
        path = folder / f"{self.dataset}-{self.architecture}-{method}-{self.seed}.parquet"
        return {scores.setting: scores for scores in read_scores(path)}

    def problem(self) -> Problem:
        """That of the tables, with the settings that were chosen there, and the new selection."""
        base = self.recorded("base")
        assert base is not None, "the tables have Base"
        config: Mapping[str, Any] = base.config
        shared = {str(name): config[name] for name in ("dropout", "l2") if name in config}
        made = PROBLEMS[self.task](self.dataset, self.architecture, "short", shared)
        task: Any = made.task
        task = replace(task, selection="balanced")
        first, second = (
            replace(plan, validate_every=None)
            for plan in (made.setup.pretrain, made.setup.finetune)
        )
        return replace(made, setup=replace(made.setup, task=task, pretrain=first, finetune=second))

    def make(self) -> None:
        """Train and write down the scores and the dial."""
        problem = self.problem()
        alpha, whole = STAGE_2[self.stage_2]
        options = FitOptions(alpha=alpha, whole=whole, seed=self.seed)
        result = fit(problem, options, checkpoints=RUNS / self.name).result
        record = result.record
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name, model in (("stage-2", result.copy(1)), ("dial", result.best())):
            write_scores(FOLDER / f"{self.name}-{name}.parquet", [*problem.score(model).values()])
        assert record.dial is not None
        told = {"dial": record.dial.to_json(), "epochs": [len(s.epochs) for s in record.stages]}
        write_atomic(FOLDER / f"{self.name}.json", json.dumps(told, indent=1) + "\n")
        print(self.name, record.dial.chosen, result, flush=True)

    @property
    def is_recorded(self) -> bool:
        """Whether it was made."""
        return (FOLDER / f"{self.name}.json").exists()

    def scores(self, name: str) -> dict[str, NodeScores]:
        """Scores by setting of the new run's model."""
        return {s.setting: s for s in read_scores(FOLDER / f"{self.name}-{name}.parquet")}

    @property
    def weight(self) -> float:
        """Where the dial was set."""
        return float(json.loads((FOLDER / f"{self.name}.json").read_text())["dial"]["chosen"])


def runs(task: TaskName, dataset: str, architecture: Architecture, stage_2: str) -> list[Run]:
    """One for each seed."""
    return [Run(task, dataset, architecture, seed, stage_2) for seed in SEEDS[task]]


def section() -> str:
    """A table for each task and stage 2; what was not run says how to."""
    return join(*(part(task, stage_2) for task in GRAPHS for stage_2 in STAGE_2))


def part(task: TaskName, stage_2: str) -> str:
    """Base, the choice of 0.1, stage 2 and the dial, with the dial's gain over Base."""
    rows: list[list[str]] = []
    above = below = cells = 0
    for dataset in GRAPHS[task]:
        for architecture in ARCHITECTURES:
            found = runs(task, dataset, architecture, stage_2)
            mine = [run for run in found if run.is_recorded]
            if mine:
                for row, gain in lines(mine):
                    rows.append([f"{dataset}, {architecture}", *row])
                    if row[0] != NO_EDGE:
                        cells += 1
                        above += gain.absolute > 0
                        below += gain.high < 0
    option = "" if stage_2 == "default" else f" --stage-2 {stage_2}"
    command = f"python -m benchmarks.selection --task {task}{option}"
    heading = f"### {task.replace('-', ' ').capitalize()}, stage 2: {stage_2}"
    if not rows:
        return join(heading, f"Not measured yet: run `{command}`.")
    head = ["graph", "setting", "seeds", "Base", "0.1", "stage 2", "dial", "w", "dial - Base"]
    said = (
        f"`{command}`: the dial's mean is above Base's in {above} of {cells} cells, and clearly "
        f"below it in {below}. The interval is that of 95 % over nodes and seeds."
    )
    return join(heading, said, markdown_table(head, rows, (0, 1)))


def lines(mine: Sequence[Run]) -> Iterator[tuple[list[str], Gain]]:
    """A row for each setting, and one for the nodes without an edge in the first."""
    found = {
        "Base": [run.scores_of_release("base") for run in mine],
        "0.1": [run.scores_of_release("tuneup") for run in mine],
        "stage 2": [run.scores("stage-2") for run in mine],
        "dial": [run.scores("dial") for run in mine],
    }
    weights = ", ".join(f"{run.weight:g}" for run in mine)
    for setting in found["dial"][0]:
        by_model = {
            name: [each[setting] for each in own]
            for name, own in found.items()
            if setting in own[0]
        }
        groups = {setting_label(setting): by_model}
        alone = {name: [s.select(s.degree == 0) for s in own] for name, own in by_model.items()}
        if len(alone["dial"][0]) and setting == "transductive":
            groups[NO_EDGE] = alone
        for label, own in groups.items():
            if "Base" not in own:
                continue
            gain = paired_gain(own["Base"], own["dial"], flips=None)
            means = [f"{100 * fmean(s.mean() for s in each):.1f}" for each in own.values()]
            ends = f"{100 * gain.absolute:+.1f} ({100 * gain.low:+.1f}, {100 * gain.high:+.1f})"
            bold = f"**{ends}**" if gain.low > 0 or gain.high < 0 else ends
            yield [label, str(len(mine)), *means, weights, bold], gain


def main(arguments: Sequence[str] | None = None) -> None:
    """All runs that have no record yet."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selection", description=__doc__)
    parser.add_argument("--task", choices=get_args(TaskName), default="node-classification")
    parser.add_argument("--stage-2", choices=STAGE_2, default="default")
    parser.add_argument("--dataset", help="only this graph")
    parser.add_argument("--architecture", choices=ARCHITECTURES)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # as in the tables: a result belongs to a thread count
    tune_malloc()
    for dataset in GRAPHS[options.task]:
        for architecture in ARCHITECTURES:
            if options.dataset in (None, dataset) and options.architecture in (None, architecture):
                for run in runs(options.task, dataset, architecture, options.stage_2):
                    if not run.is_recorded:
                        run.make()


if __name__ == "__main__":
    main()
