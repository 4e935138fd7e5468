"""Base, DropEdge, TuneUp and its ablations on real graphs, in every setting.

    TUNEUP_DATA=... python -m benchmarks.real_graphs run            # all, resumes where it stopped
    TUNEUP_DATA=... python -m benchmarks.real_graphs run dblp sage  # one dataset and architecture
    python -m benchmarks.real_tables                                # into benchmarks/README.md

2 % of the nodes labelled, half for the loss and half for validation.  Dropout (0 or 0.5) is chosen
once per graph and architecture on Base, alpha (0.25, 0.5 or 0.75) per method, both on training
seed 0's validation accuracy; the test nodes are never looked at.  A finished run is a record in
``benchmarks/results/node-classification``; a run that has one is not run again.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from itertools import product
from pathlib import Path

import torch

from tuneup.bench.records import RunRecord, record_of
from tuneup.curriculum import CURRICULA, Schedule
from tuneup.data import load_benchmark, split_nodes
from tuneup.evaluation import evaluate, node_settings
from tuneup.nn import Encoder
from tuneup.runtime import tune_malloc
from tuneup.tasks import NodeClassification
from tuneup.training import Result, train

RESULTS = Path(__file__).parent / "results" / "node-classification"
DATASETS = ("dblp", "Computers", "CS")
ARCHITECTURES = ("sage", "gcn")
SEEDS = range(5)
ALPHAS = (0.25, 0.5, 0.75)
DROPOUTS = (0.0, 0.5)
WITHOUT_ALPHA = ("base", "without-syn-tails")
SLOW = (
    Schedule(epochs=300, lr=0.001, validate_every=2, patience=60),
    Schedule(epochs=150, lr=0.001, validate_every=2, patience=40),
)
# Computers has ten times dblp's edges, CS four times its features: a faster rate for these.
FAST = (
    Schedule(epochs=300, lr=0.005, validate_every=4, patience=40),
    Schedule(epochs=150, lr=0.001, validate_every=4, patience=40),
)
SCHEDULES = {"dblp": SLOW, "Computers": FAST, "CS": FAST}
"""Of stage 1 and stage 2; the same for every method."""


class Bench:
    """One dataset and architecture: the same split, task and settings for every run."""

    def __init__(self, dataset: str, architecture: str) -> None:
        self.dataset, self.architecture = dataset, architecture
        graph = load_benchmark(dataset)
        split = split_nodes(graph.num_nodes, labelled=0.02, y=graph.y)
        self.graph = graph
        self.task = NodeClassification.from_split(graph, split)
        self.settings = node_settings(graph, split)
        self.schedules = SCHEDULES[dataset]
        self.bases: dict[tuple[int, float], Result] = {}

    def train(self, method: str, seed: int, dropout: float, alpha: float) -> Result:
        """One run; stage 1 is the Base run of the seed wherever there are two."""
        torch.manual_seed(seed)
        model = Encoder(
            self.graph.num_features,
            self.graph.num_classes,
            architecture=self.architecture,  # type: ignore[arg-type]
            dropout=dropout,
        )
        curriculum = CURRICULA[method](alpha, *self.schedules)
        if len(curriculum) == 1 and method != "base":
            return train(model, self.task, curriculum, seed=seed)
        key = (seed, dropout)
        if key not in self.bases:
            base = CURRICULA["base"](alpha, *self.schedules)
            self.bases[key] = train(model, self.task, base, seed=seed)
        if method == "base":
            return self.bases[key]
        return train(model, self.task, curriculum, seed=seed, after=self.bases[key])

    def choose_dropout(self) -> float:
        """The better of two on Base's validation accuracy."""
        return max(DROPOUTS, key=lambda share: best_score(self.train("base", 0, share, 0.5)))

    def choose_alpha(self, method: str, dropout: float) -> float:
        """The best of three on the method's validation accuracy, of its last stage."""
        if method in WITHOUT_ALPHA:
            return 0.0
        return max(ALPHAS, key=lambda alpha: best_score(self.train(method, 0, dropout, alpha)))

    def run_all(self) -> None:
        """Every method and seed that has no record yet."""
        missing = [
            (method, seed)
            for method, seed in product(CURRICULA, SEEDS)
            if not (RESULTS / f"{self._name(method, seed)}.json").exists()
        ]
        if not missing:
            return
        dropout = self._known("dropout", "base")
        dropout = self.choose_dropout() if dropout is None else dropout
        for method in dict.fromkeys(method for method, _ in missing):
            alpha = self._known("alpha", method)
            alpha = self.choose_alpha(method, dropout) if alpha is None else alpha
            for seed in (seed for name, seed in missing if name == method):
                self._run(method, seed, dropout, alpha)

    def _run(self, method: str, seed: int, dropout: float, alpha: float) -> None:
        result = self.train(method, seed, dropout, alpha)
        scores = evaluate(result.copy(result.record.winner), self.settings)
        record = record_of(
            result,
            scores,
            dataset=self.dataset,
            task="node-classification",
            architecture=self.architecture,
            method=method,
            config={
                "dropout": dropout,
                "alpha": alpha,
                "width": 256,
                "layers": 3,
                "labelled": 0.02,
                "split_seed": 0,
                "pretrain": asdict(self.schedules[0]),
                "finetune": asdict(self.schedules[1]),
            },
        )
        if result.record.winner == 0 and len(result.states) == 2:
            second = {
                k: float(v.mean()) for k, v in evaluate(result.copy(1), self.settings).items()
            }
            record.stages[1]["settings"] = second
        record.write(RESULTS, scores.values())
        means = "  ".join(f"{name} {value:.4f}" for name, value in record.settings.items())
        print(f"{record.name}: {record.seconds:.0f} s  alpha {alpha}  {means}", flush=True)

    def _name(self, method: str, seed: int) -> str:
        return f"{self.dataset}-{self.architecture}-{method}-{seed}"

    def _known(self, option: str, method: str) -> float | None:
        """What an earlier, interrupted call chose."""
        for path in RESULTS.glob(f"{self.dataset}-{self.architecture}-{method}-*.json"):
            value: float = RunRecord.read(path).config[option]
            return value
        return None


def best_score(result: Result) -> float:
    """Validation score of the last stage."""
    return result.record.stages[-1].best_score


def main(arguments: list[str]) -> None:
    """``run [dataset [architecture]]``."""
    if arguments[:1] != ["run"]:
        raise SystemExit(__doc__)
    torch.set_num_threads(1)  # two such processes use two cores better than one process does
    tune_malloc()
    datasets = (arguments[1],) if len(arguments) > 1 else DATASETS
    architectures = (arguments[2],) if len(arguments) > 2 else ARCHITECTURES
    for dataset, architecture in product(datasets, architectures):
        Bench(dataset, architecture).run_all()


if __name__ == "__main__":
    main(sys.argv[1:])
