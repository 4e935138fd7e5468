"""Recommendation on gowalla: one architecture, method and seed per run, resumable.

    TUNEUP_DATA=... python -m benchmarks.gowalla --architecture gcn --method tuneup
    TUNEUP_DATA=... python -m benchmarks.gowalla --preset paper --l2-output 0.001

prints recall@50 beside the paper's number, popularity and item co-occurrence, and writes a record
to ``benchmarks/results/recommendation``.  A run that was stopped goes on from its checkpoint in
``runs``; TuneUp's first stage is the Base run of the same settings, trained once.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, get_args

import torch
from torch import nn

from tuneup.bench.records import record_of
from tuneup.curriculum import CURRICULA, Curriculum, Schedule
from tuneup.data import Interactions, InteractionSplit, load_dataset, split_interactions
from tuneup.errors import TuneupError
from tuneup.evaluation import RecommendationSetting, co_occurrence, popularity
from tuneup.metrics import NodeScores
from tuneup.names import Architecture
from tuneup.nn import Encoder, InnerProduct, LightGCN, Model, UserItemVectors
from tuneup.runtime import tune_malloc
from tuneup.tasks import L2, Recommendation
from tuneup.train import Checkpoints, Progress, Result, SlowModule, train

from .records import ROOT

RESULTS = ROOT / "benchmarks" / "results" / "recommendation"
RUNS = ROOT / "runs" / "gowalla"
METHODS = [name for name in CURRICULA if name != "without-pseudo-labels"]  # TuneUp has none here
METRICS = ("recall@50", "recall@20", "ndcg@20", "ndcg@50")
PAPER = {
    ("sage", "base"): 0.0847,
    ("sage", "dropedge"): 0.0827,
    ("sage", "tuneup"): 0.1025,
    ("sage", "without-curriculum"): 0.0834,
    ("sage", "without-syn-tails"): 0.0847,
    ("gcn", "base"): 0.0901,
    ("gcn", "dropedge"): 0.0814,
    ("gcn", "tuneup"): 0.1094,
    ("gcn", "without-curriculum"): 0.0857,
    ("gcn", "without-syn-tails"): 0.0904,
    ("sage-max", "base"): 0.0858,
    ("sage-max", "tuneup"): 0.1055,
    ("sage-sum", "base"): 0.0761,
    ("sage-sum", "tuneup"): 0.1028,
    ("gat", "base"): 0.0803,
    ("gat", "tuneup"): 0.0822,
}
"""recall@50, from the paper's recsys_table and gnn_model_table."""

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
GROUPS = {"0": (0, 0), "1-3": (1, 3), "4-8": (4, 8), "9+": (9, 1 << 40)}
"""Users by their number of training pairs."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gowalla")
    names = (*get_args(Architecture), "lightgcn")
    parser.add_argument("--architecture", choices=names, default="gcn")
    parser.add_argument("--method", choices=METHODS, default="tuneup")
    parser.add_argument("--preset", choices=list(PRESETS), default="short")
    parser.add_argument("--alpha", type=float, default=0.5)
    parser.add_argument("--l2-input", type=float, default=0.0)
    parser.add_argument("--l2-output", type=float, default=0.0)
    parser.add_argument("--width", type=int, default=64, help="of the learned embeddings")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--std", type=float, default=0.1, help="of the initial embeddings")
    parser.add_argument(
        "--weights-lr",
        type=float,
        nargs="+",
        default=[1.0],
        help="learning rate of the encoder's weights, as a share of the embeddings'; two numbers: "
        "in stage 1 and in stage 2",
    )
    parser.add_argument(
        "--shared", action="store_true", help="inputs with a part that all users, or items, share"
    )
    parser.add_argument(
        "--unknown", action="store_true", help="a learned input in common for nodes without edges"
    )
    parser.add_argument("--orthogonal", action="store_true", help="initial weights")
    parser.add_argument("--epochs", type=int, nargs=2, help="of stage 1 and 2, if not the preset's")
    parser.add_argument(
        "--milestones", type=int, nargs="*", help="of stage 1's learning rate, if not the preset's"
    )
    parser.add_argument(
        "--finetune-milestones", type=int, nargs="*", help="of stage 2's (default: none)"
    )
    parser.add_argument("--lr", type=float, nargs=2, help="of stage 1 and 2, if not the preset's")
    parser.add_argument(
        "--patience", type=int, nargs=2, help="of stage 1 and 2 in epochs, if not the preset's"
    )
    parser.add_argument("--batch-size", type=int, help="positives per update (default: all)")
    parser.add_argument("--negatives", type=int, default=1, help="of each positive")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="of torch (default: its own choice)")
    return parser.parse_args(arguments)


def schedules(options: argparse.Namespace) -> list[Schedule]:
    """The preset's, with what the command line changes."""
    found = list(PRESETS[options.preset])
    for k, milestones in enumerate((options.milestones, options.finetune_milestones)):
        if milestones is not None:
            found[k] = replace(found[k], milestones=tuple(milestones))
    for k, stage in enumerate(found):
        if options.epochs:
            kept = tuple(m for m in stage.milestones if m < options.epochs[k])
            found[k] = replace(found[k], epochs=options.epochs[k], milestones=kept)
        if options.lr:
            found[k] = replace(found[k], lr=options.lr[k])
        if options.patience:
            found[k] = replace(found[k], patience=options.patience[k])
    return found


class Gowalla:
    """The split, the task and the model of one command line."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        data = load_dataset("gowalla")
        assert isinstance(data, Interactions)
        self.split: InteractionSplit = split_interactions(data)
        penalty = L2(options.l2_input, options.l2_output)
        self.task = Recommendation(
            self.split.train,
            self.split.validation,
            penalty,
            batch_size=options.batch_size,
            negatives=options.negatives,
        )

    def model(self) -> Model:
        """A fresh model, a function of the seed."""
        options, train_pairs = self.options, self.split.train
        torch.manual_seed(options.seed)
        encoder: nn.Module = LightGCN(options.layers)
        if options.architecture != "lightgcn":
            encoder = Encoder(
                options.width,
                options.hidden,
                architecture=options.architecture,
                width=options.hidden,
                num_layers=options.layers,
                dropout=options.dropout,
                orthogonal=options.orthogonal,
            )
        inputs = UserItemVectors(
            train_pairs.num_users,
            train_pairs.num_items,
            options.width,
            std=options.std,
            shared=options.shared,
            unknown=options.unknown,
        )
        return Model(inputs, encoder, InnerProduct())

    def train(self, method: str, curriculum: Curriculum) -> Result:
        """One run, or what is left of it."""
        model = self.model()
        stages = tuple(
            replace(stage, optimizer=SlowModule(model.encoder, rate))
            for stage, rate in zip(curriculum, rates(self.options), strict=False)
        )
        print(f"{self.options.architecture}, {method}:", flush=True)
        return train(
            model,
            self.task,
            stages,
            seed=self.options.seed,
            checkpoints=Checkpoints(RUNS / "stages", 10),
            callback=show,
        )

    def evaluate(self, result: Result, stage: int, fallback: bool = False) -> list[NodeScores]:
        """All metrics of one stage's best state."""
        setting = RecommendationSetting(self.task, self.split, popularity_fallback=fallback)
        return setting.scores(result.load(stage), METRICS)


def variant(options: argparse.Namespace, curriculum: Curriculum) -> str:
    """A short name for everything that changes the result but architecture, method and seed."""
    # The curriculum says these:
    given = ("preset", "epochs", "lr", "milestones", "finetune_milestones", "patience", "alpha")
    apart = ("architecture", "method", "seed", "threads", *given)
    kept = {key: value for key, value in vars(options).items() if key not in apart}
    if options.negatives == 1:
        del kept["negatives"]  # as runs are named that were recorded before there was a choice
    kept["weights_lr"] = rates(options)[: len(curriculum)]  # Base has no second stage
    text = repr((options.architecture, options.seed, kept, _text(curriculum)))
    return f"{options.preset}-{zlib.crc32(text.encode()):08x}"


def _text(thing: Any) -> str:
    """A curriculum as text, as it is in the names of the recorded runs."""
    if is_dataclass(thing) and not isinstance(thing, type):
        shown = [each.name for each in fields(thing) if each.repr]
        inner = ", ".join(f"{name}={_text(getattr(thing, name))}" for name in shown)
        return f"{type(thing).__name__}({inner})"
    if isinstance(thing, tuple):
        return f"({', '.join(map(_text, thing))})"
    if hasattr(thing, "__qualname__"):
        return f"{thing.__module__}.{thing.__qualname__}"
    return repr(thing)


def rates(options: argparse.Namespace) -> list[float]:
    """Of the encoder's weights in stage 1 and in stage 2."""
    first, *others = options.weights_lr
    return [first, *(others or [first])][:2]


def show(told: Progress) -> None:
    """One line a validation."""
    if told.score is not None:
        print(
            f"stage {told.stage} epoch {told.epoch}: loss {told.loss:.4f}, "
            f"{told.metric} {told.score:.4f} (best {told.best:.4f})",
            flush=True,
        )


def by_degree(scores: NodeScores) -> dict[str, float]:
    """Mean score of users by their number of training pairs."""
    return {
        name: float(scores.select((scores.degree >= low) & (scores.degree <= high)).mean())
        for name, (low, high) in GROUPS.items()
    }


def run(options: argparse.Namespace) -> None:
    """Train, evaluate, compare, record."""
    bench = Gowalla(options)
    curriculum = CURRICULA[options.method](options.alpha, *schedules(options))
    result = bench.train(options.method, curriculum)
    winner = result.record.winner
    scores = bench.evaluate(result, winner)
    helped = bench.evaluate(result, winner, fallback=True)[0]
    key = (options.architecture, options.method)
    print(f"{' '.join(key)}: recall@50 {scores[0].mean():.4f}, paper {PAPER.get(key, 'no number')}")
    print(f"  by training pairs: {text(by_degree(scores[0]))}")
    print(f"  with popularity for users without pairs: {helped.mean():.4f}")
    floors = {
        "popularity": popularity(bench.split).mean(),
        "item co-occurrence": co_occurrence(bench.split).mean(),
    }
    for name, mean in floors.items():
        print(f"  {name} alone: {mean:.4f}")
    record = record_of(
        result,
        {"transductive": scores[0]},
        dataset="gowalla",
        task="recommendation",
        architecture=options.architecture,
        method=options.method,
        config={**vars(options), "schedules": [asdict(stage) for stage in schedules(options)]},
        variant=variant(options, curriculum),
    )
    record.test.update({found.metric: float(found.mean()) for found in scores})
    record.settings["popularity-fallback"] = float(helped.mean())
    record.settings.update(floors)
    for stage in range(len(result.states)):
        found = scores[0] if stage == winner else bench.evaluate(result, stage)[0]
        record.stages[stage]["test"] = float(found.mean())
        record.stages[stage]["by_degree"] = by_degree(found)
        print(f"  stage {stage + 1}: {found.mean():.4f} ({text(by_degree(found))})")
    record.write(RESULTS, [scores[0]])


def text(groups: dict[str, float]) -> str:
    """``0: 0.0141, 1-3: ...``."""
    return ", ".join(f"{name}: {mean:.4f}" for name, mean in groups.items())


def main(arguments: Sequence[str] | None = None) -> None:
    """One run from the command line."""
    options = parse(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    tune_malloc()
    try:
        run(options)
    except TuneupError as error:
        raise SystemExit(f"Error: {error}") from error


if __name__ == "__main__":
    main()
