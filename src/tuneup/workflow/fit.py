"""From a user's tables to trained models: the problem, both stages, and training on everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tuneup.data import EdgeSplit, Graph, InteractionSplit, NodeSplit
from tuneup.errors import DivergenceError, InputError
from tuneup.methods import METHODS, run
from tuneup.methods.curricula import ALPHAS, FromCurriculum
from tuneup.names import Alpha, TaskName
from tuneup.tables import Shares, TableGraph, TablePairs
from tuneup.tasks import Task, has_diverged
from tuneup.train import Callback, Checkpoints, Progress, Result, TrainingRecord

from .options import FitOptions
from .outcome import Outcome
from .problems import Problem, link_problem, node_problem, pair_problem, with_identities
from .search import Axes, Budget, Point, Searched, search

Split = NodeSplit | EdgeSplit | InteractionSplit

CANDIDATES: Sequence[Alpha] = (*ALPHAS, "graded")
"""What ``--alpha auto`` tries: the paper's shares, and one for each node."""

SEARCHED: Mapping[TaskName, Axes] = {
    "node-classification": {"architecture": ("sage", "gcn", "gat"), "dropout": (0.5, 0.2)},
    "link-prediction": {"architecture": ("sage", "gcn"), "dropout": (0.0, 0.3)},
    "recommendation": {"architecture": ("gcn", "sage")},
}
"""What a search on validation tries, each task's default first."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """Tables that were read, with the split that training will respect.

    Args:
        tables: of a graph, or of users and items.
        split: of its nodes, edges or pairs.
        everything: whether all that is known trains, and nothing validates.
    """

    tables: TableGraph | TablePairs
    split: Split
    everything: bool = False

    @classmethod
    def of(cls, tables: TableGraph | TablePairs, shares: Shares, seed: int) -> Loaded:
        """With the split of a column, or else a seeded one, or one by time."""
        if isinstance(tables, TablePairs):
            return cls(tables, tables.split(shares, seed))
        split = tables.split(shares, seed)
        return cls(_with_inputs(tables.with_split(split), split), split)

    @property
    def task(self) -> TaskName:
        """What is learned."""
        if isinstance(self.split, InteractionSplit):
            return "recommendation"
        return "node-classification" if isinstance(self.split, NodeSplit) else "link-prediction"

    @property
    def facts(self) -> dict[str, str]:
        """How many nodes, edges or pairs train, validate, are tested and are new, for a report."""
        split: Any = self.split
        unit = {"recommendation": "pairs", "link-prediction": "edges"}.get(self.task, "nodes")
        parts = {"train": split.train, "validate": split.validation, "test": split.test}
        counts = {f"{unit} to {word} on": _count(part) for word, part in parts.items()}
        counts[f"{'users' if unit == 'pairs' else 'nodes'} held out as new"] = split.new.numel()
        return {name: f"{count:,}" for name, count in counts.items() if count}

    def problem(self, options: FitOptions) -> Problem:
        """What a method is trained on and evaluated in."""
        if self.task != "node-classification" and options.class_weights:
            raise InputError(
                f"--class-weights is for node classification; got {self.task}: leave it out."
            )
        tables, split, everything = self.tables, self.split, self.everything
        if isinstance(tables, TablePairs):
            assert isinstance(split, InteractionSplit)
            return pair_problem(tables.interactions, split, options, everything=everything)
        graph, learned = tables.graph, not tables.plan.width
        if isinstance(split, EdgeSplit):
            return link_problem(graph, split, options, learned=learned, everything=everything)
        assert isinstance(split, NodeSplit)
        problem = node_problem(graph, split, options, learned=learned, everything=everything)
        return replace(problem, classes=tuple(map(str, tables.classes)))

    def with_everything(self) -> Loaded:
        """The same tables, with a split in which everything trains and all nodes are known."""
        tables, none = self.tables, torch.empty(0, dtype=torch.long)
        if isinstance(tables, TablePairs):
            no_pair = tables.interactions.take(none)
            split = InteractionSplit(tables.interactions, no_pair, no_pair)
            return Loaded(tables, split, everything=True)
        assert not isinstance(self.split, InteractionSplit)
        whole = _everything(tables.bare, self.split)
        return Loaded(_with_inputs(tables, whole), whole, everything=True)


def fit(
    problem: Problem,
    options: FitOptions,
    *,
    checkpoints: Checkpoints | Path | None = None,
    callback: Callback | None = None,
) -> Outcome:
    """Train both stages; the outcome scores every model and the simple ones in every setting.

    For alpha "auto", stage 1 is trained once and stage 2 for each of :data:`CANDIDATES`.  The alpha
    whose result validates best is selected, the first of equals; one that diverges is left out.

    Args:
        problem: of the same options.
        options: of the model and its training.
        checkpoints: where stages are stored; with those of a search, its Base is stage 1.
        callback: called after every epoch; candidates for alpha are stages 2, 3, ...
    """
    store = Checkpoints.of(checkpoints)

    def train(alpha: Alpha, callback: Callback | None, control: bool = False) -> Result:
        return run(
            METHODS["tuneup"],
            problem.setup,
            settings=FromCurriculum("tuneup", alpha, options.whole),
            seed=options.seed,
            checkpoints=store,
            callback=callback,
            final="dial" if options.interpolate else "best",
            control=control,
        )

    def train_candidate(number: int, point: Point) -> Result:
        def call(progress: Progress) -> None:
            stage = 1 if progress.stage == 1 else number + 1
            assert callback is not None
            callback(replace(progress, stage=stage, stages=1 + len(CANDIDATES)))

        result = train(point["alpha"], call if callback else None)
        first, second = result.record.stages
        record.stages = [first, *record.stages[1:], replace(second, stage=number)]
        return result

    if options.alpha == "auto":
        record = TrainingRecord(options.seed, problem.task.metric)
        found = search({"alpha": CANDIDATES}, train_candidate)
        result, alpha = found.result, found.point["alpha"]
        if options.control:
            result = train(alpha, None, control=True)  # all but the control is stored
        return Outcome(problem, result, alpha, record, found.trials)
    result = train(options.alpha, callback, options.control)
    return Outcome(problem, result, options.alpha, result.record)


def search_settings(
    loaded: Loaded,
    options: FitOptions,
    budget: Budget,
    *,
    checkpoints: Checkpoints | Path | None = None,
) -> tuple[FitOptions, Searched]:
    """The options with the architecture and dropout whose Base validates best."""
    axes, store = SEARCHED[loaded.task], Checkpoints.of(checkpoints)

    def train_base(number: int, point: Point) -> Result:
        return run(
            METHODS["base"],
            loaded.problem(replace(options, **point)).setup,
            seed=options.seed,
            checkpoints=store,
        )

    found = search(axes, train_base, budget)
    return replace(options, **found.point), found


@dataclass(frozen=True, eq=False)
class Refit:
    """A model that learned from everything.

    Args:
        loaded: the tables, with inputs of all nodes, and the split in which everything trains.
        task: with all labels, edges or pairs.
        model: trained on it, without validation.
        examples: labels, edges or pairs that it learned from.
        epochs: of stage 1, and of stage 2 unless the result is Base.
        weight: share of stage 2's weights.
    """

    loaded: Loaded
    task: Task[Any]
    model: nn.Module
    examples: int
    epochs: tuple[int, ...]
    weight: float

    def to_json(self) -> dict[str, Any]:
        """What a report says of it, in plain values."""
        return {"examples": self.examples, "epochs": [*self.epochs], "weight": self.weight}


def refit(loaded: Loaded, options: FitOptions, outcome: Outcome) -> Refit:
    """Train from the beginning on all labels, edges or pairs, without validation.

    Each stage runs for as many epochs as the finished run's best state had, with the same seed,
    alpha and share of stage 2's weights.  How good the model is cannot be measured: nothing is left
    to measure it on.

    Args:
        loaded: what the finished run was trained on.
        options: of that run.
        outcome: the finished run.
    """
    whole = loaded.with_everything()
    setup, record = whole.problem(options).setup, outcome.result.record
    weight = record.weight
    stages = record.stages[: 2 if weight else 1]
    epochs = [stage.best_epoch for stage in stages]
    first, second = (
        replace(schedule, epochs=count, validate_every=count, patience=None)
        for schedule, count in zip(
            (setup.pretrain, setup.finetune), (epochs[0], epochs[-1]), strict=True
        )
    )
    found = run(
        METHODS["tuneup" if weight else "base"],
        replace(setup, pretrain=first, finetune=second),
        settings=FromCurriculum("tuneup", outcome.alpha, options.whole) if weight else None,
        seed=record.seed,
    )
    model = found.interpolate(weight) if weight else found.best()
    if has_diverged(*model.parameters()):
        raise DivergenceError(
            "The model diverged in the last epoch of training on all labels: save the model that "
            "was selected instead (leave out --refit), or try a lower learning rate."
        )
    ran = tuple(len(stage.epochs) for stage in found.record.stages)
    return Refit(whole, setup.task, model, _count(whole.split.train), ran, weight)


def _with_inputs(tables: TableGraph, split: NodeSplit | EdgeSplit) -> TableGraph:
    """With identities of the nodes, where no column can be a feature."""
    if tables.plan.width:
        return tables
    return replace(tables, bare=with_identities(tables.bare, split))


def _everything(graph: Graph, split: NodeSplit | EdgeSplit) -> NodeSplit | EdgeSplit:
    nodes, none = torch.arange(graph.num_nodes), torch.empty(0, dtype=torch.long)
    if isinstance(split, NodeSplit):
        assert graph.y is not None
        labelled = (graph.y >= 0).nonzero()[:, 0]
        return NodeSplit(nodes, none, labelled, none, none, split.seed)
    once = graph.adjacency.row < graph.adjacency.col
    edges = torch.stack([graph.adjacency.row[once], graph.adjacency.col[once]])
    no_edge = none.new_empty(2, 0)
    return EdgeSplit(nodes, none, edges, no_edge, no_edge, no_edge, no_edge, split.seed)


def _count(part: Any) -> int:
    """How many nodes ``[n]``, edges ``[2, n]`` or pairs."""
    return int(part.shape[-1]) if isinstance(part, torch.Tensor) else len(part)
