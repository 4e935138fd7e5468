"""The one-call form: a PyG model, PyG's data, and nothing to inherit from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from tuneup import curriculum
from tuneup.curriculum import Curriculum, OptimizerFactory, Schedule
from tuneup.errors import InputError
from tuneup.graph import DropEdge
from tuneup.tasks import task_of
from tuneup.training import Checkpoints, Result, SchedulerFactory, adam, train
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
        val_data: Any = None,
        *,
        checkpoints: Checkpoints | Path | str | None = None,
        callback: Callback | None = None,
        optimizer: OptimizerFactory = adam,
        scheduler: SchedulerFactory | None = None,
    ) -> Result:
        """Train ``model`` in place on ``data`` and leave it in the state that validates best.

        Args:
            model: any module called as ``model(x, edge_index)``, or our own ``Encoder``; for links,
                a :class:`tuneup.nn.LinkModel` around one, and for recommendation a
                :class:`tuneup.nn.Recommender`.
            data: a PyG ``Data`` with ``x``, ``edge_index``, ``y``, ``train_mask`` and ``val_mask``
                (nodes are classified), the training part of ``RandomLinkSplit`` (links are
                predicted), a ``HeteroData`` of users and items (items are recommended), or a task.
            val_data: the validation part of ``RandomLinkSplit``: see :func:`tuneup.tasks.link_task`
                and :func:`tuneup.tasks.pair_task`.
            checkpoints: a folder; a run that was killed goes on from there, and a finished one is
                answered at once. It is told apart by model, data, schedules and seed, not by the
                weights the model starts with: several of these need several folders.
            callback: told about every epoch, by a :class:`tuneup.training.Progress`.
            optimizer: makes the optimiser from parameters, learning rate and weight decay.
            scheduler: makes a torch learning-rate scheduler from each stage's optimiser; it is
                stepped once an epoch.
        """
        return train(
            model,
            task_of(data, val_data),
            self.stages,
            seed=self.seed,
            checkpoints=checkpoints,
            callback=callback,
            optimizer=optimizer,
            scheduler=scheduler,
        )


def fit(
    model: nn.Module,
    data: Any,
    val_data: Any = None,
    *,
    alpha: float = 0.5,
    pretrain: Schedule | None = None,
    finetune: Schedule | None = None,
    seed: int = 0,
    checkpoints: Checkpoints | Path | str | None = None,
    callback: Callback | None = None,
    optimizer: OptimizerFactory = adam,
    scheduler: SchedulerFactory | None = None,
) -> Result:
    """``TuneUp(alpha, ...).fit(model, data, ...)``: the shortest way in."""
    usual = Schedule(patience=100)
    method = TuneUp(alpha, pretrain or usual, finetune or usual, seed)
    return method.fit(
        model,
        data,
        val_data,
        checkpoints=checkpoints,
        callback=callback,
        optimizer=optimizer,
        scheduler=scheduler,
    )
