"""Training again on everything that is known, for the epochs that validation selected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from tuneup.data import EdgeSplit, Graph, Interactions, InteractionSplit, NodeSplit
from tuneup.errors import DivergenceError
from tuneup.methods import METHODS, run
from tuneup.methods.curricula import FromCurriculum
from tuneup.names import Alpha
from tuneup.tables import TablePairs
from tuneup.tasks import Task
from tuneup.tasks.base import has_diverged
from tuneup.train import Result
from tuneup.train.result import Callback

from .fit import Loaded
from .options import FitOptions
from .problems import with_identities


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


def refit(
    loaded: Loaded,
    options: FitOptions,
    result: Result,
    alpha: Alpha,
    *,
    callback: Callback | None = None,
) -> Refit:
    """Train from the beginning on all labels, edges or pairs, with nothing kept for validation.

    Each stage runs for as many epochs as the finished run's best state had, with the same seed,
    alpha and share of stage 2's weights.  How good the model is cannot be measured: nothing is left
    to measure it on.

    Args:
        loaded: what the finished run was trained on.
        options: of that run.
        result: the finished run.
        alpha: share of edges that its stage 2 dropped.
        callback: called after every epoch.
    """
    whole = on_everything(loaded)
    setup = whole.problem(options).setup
    weight = result.record.weight
    stages = result.record.stages[: 2 if weight else 1]
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
        settings=FromCurriculum("tuneup", alpha, options.whole) if weight else None,
        seed=result.record.seed,
        callback=callback,
    )
    model = found.interpolate(weight) if weight else found.best()
    if has_diverged(*model.parameters()):
        raise DivergenceError(
            "The model diverged in the last epoch of training on all labels: save the model that "
            "was selected instead (leave out --refit), or try a lower learning rate."
        )
    ran = tuple(len(stage.epochs) for stage in found.record.stages)
    return Refit(whole, setup.task, model, _examples(whole), ran, weight)


def on_everything(loaded: Loaded) -> Loaded:
    """The same tables, with a split in which everything trains and all nodes are known."""
    tables, empty = loaded.tables, torch.empty(0, dtype=torch.long)
    if isinstance(tables, TablePairs):
        none = tables.interactions.take(empty)
        split = InteractionSplit(tables.interactions, none, none)
        return Loaded(tables, split, everything=True)
    assert not isinstance(loaded.split, InteractionSplit)
    whole = _whole(tables.bare, loaded.split)
    if not tables.plan.width:
        tables = replace(tables, bare=with_identities(tables.bare, whole))
    return Loaded(tables, whole, everything=True)


def _whole(graph: Graph, split: NodeSplit | EdgeSplit) -> NodeSplit | EdgeSplit:
    nodes, none = torch.arange(graph.num_nodes), torch.empty(0, dtype=torch.long)
    if isinstance(split, NodeSplit):
        assert graph.y is not None
        labelled = (graph.y >= 0).nonzero()[:, 0]
        return NodeSplit(nodes, none, labelled, none, none, split.seed)
    once = graph.adjacency.row < graph.adjacency.col
    edges = torch.stack([graph.adjacency.row[once], graph.adjacency.col[once]])
    no_edge = none.new_empty(2, 0)
    return EdgeSplit(nodes, none, edges, no_edge, no_edge, no_edge, no_edge, split.seed)


def _examples(loaded: Loaded) -> int:
    train: Any = loaded.split.train
    if isinstance(train, Interactions):
        return len(train)
    count: int = train.shape[-1]
    return count
