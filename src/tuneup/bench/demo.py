"""The demo: Base and TuneUp on a graph made from a seed, evaluated in every setting."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tuneup.bench.records import versions, write_pseudo_labels
from tuneup.curriculum import Schedule, tuneup
from tuneup.data import Graph, split_nodes
from tuneup.evaluation import evaluate, head_tail, node_settings
from tuneup.files import ensure_writable, write_atomic
from tuneup.metrics import NodeScores, write_scores
from tuneup.nn import Encoder
from tuneup.tasks import NodeClassification
from tuneup.training import Result, train
from tuneup.training.result import Callback

PRETRAIN = Schedule(epochs=200, lr=0.001, validate_every=2, patience=60)
FINETUNE = Schedule(epochs=100, lr=0.001, validate_every=2, patience=40)
WIDTH = 128
DROPOUT = 0.5
LABELLED = 0.02


@dataclass(frozen=True, eq=False)
class Demo:
    """One demo run and its scores by setting."""

    graph: Graph
    task: NodeClassification
    result: Result
    base: Mapping[str, NodeScores]
    tuneup: Mapping[str, NodeScores]

    def metrics(self) -> dict[str, Any]:
        """Everything that the closing table shows, and how the training went."""
        scores = {"base": self.base, "tuneup": self.tuneup}
        return {
            "graph": repr(self.graph),
            "scores": {
                method: {
                    name: {group: asdict(mean) for group, mean in head_tail(score).items()}
                    for name, score in settings.items()
                }
                for method, settings in scores.items()
            },
            "training": self.result.record.to_json(),
            "versions": versions(),
        }


def run_demo(
    graph: Graph,
    *,
    seed: int = 0,
    alpha: float = 0.5,
    architecture: str = "sage",
    pretrain: Schedule = PRETRAIN,
    finetune: Schedule = FINETUNE,
    callback: Callback | None = None,
) -> Demo:
    """Train both stages once: Base is the best state of stage 1, TuneUp that of the whole run."""
    split = split_nodes(graph.num_nodes, labelled=LABELLED, y=graph.y)
    settings = node_settings(graph, split)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Encoder(
            graph.num_features,
            graph.num_classes,
            architecture=architecture,  # type: ignore[arg-type]
            width=WIDTH,
            dropout=DROPOUT,
        )
    task = NodeClassification.from_split(graph, split)
    stages = tuneup(alpha, pretrain, finetune)
    result = train(model, task, stages, seed=seed, callback=callback)
    base = evaluate(result.load(0), settings)
    return Demo(graph, task, result, base, evaluate(result.load(result.record.winner), settings))


def write_demo(demo: Demo, folder: Path, draw: Callable[[Path], None]) -> list[Path]:
    """Metrics, per-node scores and the figure: all of them, or none and the folder as it was."""
    ensure_writable(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as temporary:
        scratch = Path(temporary)
        draw(scratch / "degrees.png")
        for method in ("base", "tuneup"):
            write_scores(scratch / f"scores-{method}.parquet", [*getattr(demo, method).values()])
        write_atomic(scratch / "metrics.json", json.dumps(demo.metrics(), indent=1) + "\n")
        write_pseudo_labels(scratch / "pseudo-labels.parquet", demo.result, demo.task)
        return [path.replace(folder / path.name) for path in sorted(scratch.iterdir())]
