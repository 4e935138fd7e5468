"""The one-call form: a PyG model, a PyG ``Data``, and nothing to inherit from."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tuneup import curriculum
from tuneup.curriculum import Curriculum, OptimizerFactory, Schedule
from tuneup.data import Graph, graph_from
from tuneup.errors import InputError
from tuneup.graph import DropEdge
from tuneup.tasks import NodeClassification
from tuneup.training import Checkpoints, Result, adam, train
from tuneup.training.result import Callback


@dataclass(frozen=True)
class TuneUp:
    """Train a GNN as usual, then fine-tune it on synthetic tail nodes.

    Args:
        alpha: share of edges to drop in stage 2; the paper chooses among 0.25, 0.5 and 0.75.
        pretrain: schedule of stage 1.
        finetune: schedule of stage 2.
        seed: of every draw.
    """

    alpha: float = 0.5
    pretrain: Schedule = field(default_factory=lambda: Schedule(patience=100))
    finetune: Schedule = field(default_factory=lambda: Schedule(patience=100))
    seed: int = 0

    def __post_init__(self) -> None:
        DropEdge(self.alpha)  # refuses a bad alpha here, not after stage 1
        for name in ("pretrain", "finetune"):
            if not isinstance(getattr(self, name), Schedule):
                raise InputError(f"{name} must be a Schedule; got {getattr(self, name)!r}.")

    @property
    def stages(self) -> Curriculum:
        """The curriculum that this stands for."""
        return curriculum.tuneup(self.alpha, self.pretrain, self.finetune)

    def fit(
        self,
        model: nn.Module,
        data: Any,
        *,
        checkpoints: Checkpoints | Path | str | None = None,
        callback: Callback | None = None,
        optimizer: OptimizerFactory = adam,
    ) -> Result:
        """Train ``model`` in place on ``data`` and leave it in the state that validates best.

        Args:
            model: any module called as ``model(x, edge_index)``, or our own ``Encoder``.
            data: a PyG ``Data`` with ``x``, ``edge_index``, ``y``, ``train_mask`` and ``val_mask``.
            checkpoints: a folder; a run that was killed goes on from there, and a finished one is
                answered at once. It is told apart by model, data, schedules and seed, not by the
                weights the model starts with: several of these need several folders.
            callback: told about every epoch, by a :class:`tuneup.training.Progress`.
            optimizer: makes the optimiser from parameters, learning rate and weight decay.
        """
        return train(
            model,
            node_task(data),
            self.stages,
            seed=self.seed,
            checkpoints=checkpoints,
            callback=callback,
            optimizer=optimizer,
        )


def fit(
    model: nn.Module,
    data: Any,
    *,
    alpha: float = 0.5,
    seed: int = 0,
    checkpoints: Checkpoints | Path | str | None = None,
    callback: Callback | None = None,
) -> Result:
    """``TuneUp(alpha, seed=seed).fit(model, data)``: the shortest way in."""
    method = TuneUp(alpha=alpha, seed=seed)
    return method.fit(model, data, checkpoints=checkpoints, callback=callback)


def node_task(data: Any) -> NodeClassification:
    """The node-classification task of a PyG ``Data`` with masks."""
    if isinstance(data, Graph):
        raise InputError("A tuneup Graph has no masks: use NodeClassification(graph, train, val).")
    for name in ("edge_weight", "edge_attr"):
        if getattr(data, name, None) is not None:
            raise InputError(
                f"{type(data).__name__} has {name}, which would be ignored: tuneup's graphs have "
                f"no edge weights or features. Remove it (del data.{name}) to train without."
            )
    graph = graph_from(data, name=type(data).__name__)
    loops, repeated = graph.adjacency.num_self_loops, graph.adjacency.num_duplicates
    if loops or repeated:
        warnings.warn(
            f"edge_index has {loops} self-loops and {repeated} repeated edges; training leaves "
            "them out. Predict without them too (torch_geometric.utils.remove_self_loops, "
            "coalesce), or the model sees a graph that it was not validated on.",
            stacklevel=3,
        )
    return NodeClassification(graph, _mask(data, "train_mask"), _mask(data, "val_mask"))


def _mask(data: Any, name: str) -> Tensor:
    mask = getattr(data, name, None)
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.dim() != 1:
        raise InputError(
            f"{type(data).__name__}.{name} must be a boolean tensor with one entry per node; got "
            f"{_kind(mask)}. torch_geometric.transforms.RandomNodeSplit makes both masks."
        )
    if not mask.any():
        raise InputError(f"{type(data).__name__}.{name} marks no node at all.")
    return mask.nonzero().view(-1)


def _kind(mask: Any) -> str:
    """What was found in a mask's place, in a few words."""
    if mask is None:
        return "nothing"
    if not isinstance(mask, Tensor):
        return type(mask).__name__
    hint = ": choose one split, as in mask[:, 0]" if mask.dim() == 2 else ""
    return f"{mask.dtype} of shape {list(mask.shape)}{hint}"
