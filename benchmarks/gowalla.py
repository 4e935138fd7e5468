"""Recommendation on gowalla: one architecture, method and seed per run, resumable.

    TUNEUP_DATA=... python -m benchmarks.gowalla --architecture gcn --method tuneup
    TUNEUP_DATA=... python -m benchmarks.gowalla --preset paper --l2-output 0.001

prints recall@50 beside the paper's number, popularity and item co-occurrence, and writes a record
to ``benchmarks/results/recommendation``.  A run that was stopped goes on from its checkpoint in
``runs``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import torch
from torch import nn

from tuneup.bench.records import record_of
from tuneup.curriculum import CURRICULA, Schedule
from tuneup.data.interactions import split_interactions
from tuneup.data.item_lists import load_gowalla
from tuneup.evaluation.edge_settings import RecommendationSetting
from tuneup.evaluation.floors import co_occurrence, popularity
from tuneup.names import Architecture
from tuneup.nn import Encoder
from tuneup.nn.lightgcn import LightGCN
from tuneup.nn.recommender import Recommender
from tuneup.runtime import tune_malloc
from tuneup.tasks.recommendation import L2, Recommendation
from tuneup.training import Checkpoints, Progress, train

RESULTS = Path(__file__).parent / "results" / "recommendation"
PAPER = {
    ("sage", "base"): 0.0847,
    ("sage", "tuneup"): 0.1025,
    ("gcn", "base"): 0.0901,
    ("gcn", "tuneup"): 0.1094,
    ("sage-max", "base"): 0.0858,
    ("sage-max", "tuneup"): 0.1055,
    ("sage-sum", "base"): 0.0761,
    ("sage-sum", "tuneup"): 0.1028,
    ("gat", "base"): 0.0803,
    ("gat", "tuneup"): 0.0822,
}
"""recall@50, from the paper's gnn_model_table."""

PRESETS = {
    "paper": (
        Schedule(epochs=2000, lr=0.001, milestones=(1000, 1500), validate_every=10),
        Schedule(epochs=500, lr=0.0001, validate_every=10),
    ),
    "short": (
        Schedule(epochs=400, lr=0.01, milestones=(250, 350), validate_every=10, patience=60),
        Schedule(epochs=100, lr=0.001, validate_every=10, patience=40),
    ),
}


def encoder(architecture: str, width: int, hidden: int, dropout: float) -> nn.Module:
    """One of the five, or LightGCN."""
    if architecture == "lightgcn":
        return LightGCN()
    return Encoder(
        width,
        hidden,
        architecture=architecture,  # type: ignore[arg-type]
        width=hidden,
        dropout=dropout,
    )


def show(told: Progress) -> None:
    """One line a validation."""
    if told.score is not None:
        print(
            f"stage {told.stage} epoch {told.epoch}: loss {told.loss:.4f}, "
            f"{told.metric} {told.score:.4f} (best {told.best:.4f})",
            flush=True,
        )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gowalla")
    names = (*get_args(Architecture), "lightgcn")
    parser.add_argument("--architecture", choices=names, default="gcn")
    parser.add_argument("--method", choices=list(CURRICULA), default="tuneup")
    parser.add_argument("--preset", choices=list(PRESETS), default="short")
    parser.add_argument("--alpha", type=float, default=0.5)
    parser.add_argument("--l2-input", type=float, default=0.0)
    parser.add_argument("--l2-output", type=float, default=0.0)
    parser.add_argument("--width", type=int, default=64, help="of the learned embeddings")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--std", type=float, default=0.1, help="of the initial embeddings")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, evaluate, compare, record."""
    options = parse(arguments)
    tune_malloc()
    data = load_gowalla()
    split = split_interactions(data)
    penalty = L2(options.l2_input, options.l2_output)
    task = Recommendation(split.train, split.validation, penalty)
    torch.manual_seed(options.seed)
    below = encoder(options.architecture, options.width, options.hidden, options.dropout)
    model = Recommender(data.num_users, data.num_items, below, options.width, options.std)
    curriculum = CURRICULA[options.method](options.alpha, *PRESETS[options.preset])
    label = "-".join(f"{value}" for value in vars(options).values())
    folder = Checkpoints(Path("runs") / f"gowalla-{label}", every=10)
    result = train(model, task, curriculum, seed=options.seed, checkpoints=folder, callback=show)
    scores = RecommendationSetting(task, split).score(result.model)
    print(f"{options.architecture} {options.method}: recall@50 {scores.mean():.4f}")
    print(f"  users without a training pair: {scores.select(scores.degree == 0).mean():.4f}")
    print(f"  paper: {PAPER.get((options.architecture, options.method), 'not reported')}")
    for floor in (popularity, co_occurrence):
        print(f"  {floor.__name__.replace('_', '-')}: {floor(split).mean():.4f}")
    record_of(
        result,
        {"transductive": scores},
        dataset="gowalla",
        task="recommendation",
        architecture=options.architecture,
        method=options.method,
        config={**vars(options), "schedules": [asdict(s) for s in PRESETS[options.preset]]},
    ).write(RESULTS, [scores])


if __name__ == "__main__":
    main()
