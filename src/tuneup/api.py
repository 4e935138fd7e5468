"""The one-call form: a PyG model, PyG's data, and nothing to inherit from."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tuneup import curriculum
from tuneup.curriculum import Curriculum, OptimizerFactory, Schedule
from tuneup.errors import InputError
from tuneup.graph import DropEdge
from tuneup.names import Alpha, Selection, TaskName
from tuneup.tasks import ClassWeights, Task, check_selection, task_of
from tuneup.train import (
    DEFAULTS,
    Callback,
    Checkpoints,
    ProgressBar,
    Result,
    SchedulerFactory,
    adam,
    both,
    train,
)


@dataclass(frozen=True)
class TuneUp:
    """Train a GNN as usual, then fine-tune it on synthetic tail nodes.

    Example::

        method = tuneup.TuneUp(alpha=0.5, pretrain=tuneup.Schedule(epochs=20))
        result = method.fit(model, data)  # data: a PyG Data with masks

    Args:
        alpha: share of edges to drop in stage 2; the paper chooses among 0.25, 0.5 and 0.75. By
            default "graded": every node draws a share of its own for each update.
        whole: whether stage 2 is also trained on the graph itself, and not on synthetic tails alone
            as in the paper.
        pretrain: schedule of stage 1; by default that of the task (:data:`tuneup.train.DEFAULTS`).
        finetune: schedule of stage 2; likewise.
        seed: random seed of every draw.
        select: what early stopping, the best epoch and the result are selected by: the validation
            nodes as they are ("transductive", as in the paper), without 30, 60 and 90 % of their
            edges ("cold"), or the mean over all four ("balanced"). By default "balanced", or a
            task's own selection if ``fit`` is given a task.
        interpolate: whether averages of the weights of Base and stage 2 are candidates for the
            result (see :meth:`tuneup.train.Result.interpolate`), or these two alone.
    """

    alpha: Alpha = "graded"
    pretrain: Schedule | None = None
    finetune: Schedule | None = None
    seed: int = 0
    select: Selection | None = None
    interpolate: bool = True
    whole: bool = True

    def __post_init__(self) -> None:
        DropEdge(self.alpha)  # refuses a bad alpha here, not after stage 1
        for name in ("pretrain", "finetune"):
            if not isinstance(getattr(self, name), Schedule | None):
                raise InputError(f"{name} must be a Schedule; got {getattr(self, name)!r}.")
        if self.select is not None:
            check_selection(self.select)

    def stages(
        self, task: TaskName = "node-classification", select: Selection = "balanced"
    ) -> Curriculum:
        """The curriculum that this stands for, with the defaults of a task and a selection."""
        first, second = DEFAULTS[task].schedules(select=self.select or select)
        schedules = self.pretrain or first, self.finetune or second
        return curriculum.tuneup(self.alpha, *schedules, whole=self.whole)

    def fit(
        self,
        model: nn.Module,
        data: Any,
        val_data: Any = None,
        *,
        metric: str | None = None,
        class_weights: ClassWeights = None,
        control: bool = False,
        checkpoints: Checkpoints | Path | str | None = None,
        fresh: bool = False,
        callback: Callback | None = None,
        verbose: bool = False,
        device: torch.device | str | None = None,
        optimizer: OptimizerFactory = adam,
        scheduler: SchedulerFactory | None = None,
        batch_size: int | None = None,
        num_neighbors: Sequence[int] | None = None,
    ) -> Result:
        """Train ``model`` in place on ``data`` and leave it in the state that validates best.

        Args:
            model: any module called as ``model(x, edge_index)``, or our own ``Encoder``; for links,
                a :class:`tuneup.nn.Model` around one, with a head that scores pairs.
            data: a PyG ``Data`` with ``x``, ``edge_index``, ``y``, ``train_mask`` and ``val_mask``
                (nodes are classified), the training part of ``RandomLinkSplit`` (links are
                predicted), a ``HeteroData`` of users and items (items are recommended), or a task.
            val_data: the validation part of ``RandomLinkSplit``: see :func:`tuneup.tasks.link_task`
                and :func:`tuneup.tasks.pair_task`.
            metric: validation score of early stopping and selection, like "macro-f1", "auroc" or
                "ndcg@20": one of :data:`tuneup.metrics.METRICS`; by default the task's own.
            class_weights: "balanced" or a weight for each class ``[C]`` in the loss of node
                classification.
            control: also train a copy of Base on without dropping, for as many epochs as stage 2
                had: a gain over it is not one of longer training. It is ``Result.control``.
            checkpoints: a folder, for any number of runs; a run that was killed is resumed from it,
                and a finished one returns its stored result. A run is found by its model and the
                weights that it starts with (``torch.manual_seed`` before it is built), data,
                schedules and seed: see :func:`tuneup.train.train`.
            fresh: train again although the result is stored, as after a change of your own code.
            callback: called after every epoch with a :class:`tuneup.train.Progress`.
            verbose: whether to show a progress bar.
            device: "cpu", "cuda" or "mps", to which the model and a copy of the data are moved;
                ``None``: where they are.
            optimizer: makes the optimiser from parameters, learning rate and weight decay.
            scheduler: makes a torch learning-rate scheduler from each stage's optimiser; it is
                stepped once an epoch.
            batch_size: supervised nodes or pairs per update; by default all of them.
            num_neighbors: neighbours that a batch reads of a node, for each layer from the outputs
                back, such as [15, 10]; -1: all of them. By default an update is a pass over the
                whole graph.
        """
        if device is not None:
            model.to(_device(device))
            data, val_data = _on_device(data, device), _on_device(val_data, device)
        task = task_of(data, val_data, metric=metric, class_weights=class_weights)
        select = self.select or (task.selection if isinstance(data, Task) else "balanced")
        if select != task.selection:
            task = replace(task, selection=select)  # type: ignore[type-var]
        with ExitStack() as stack:
            return train(
                model,
                task,
                self.stages(task.kind, task.selection),
                seed=self.seed,
                checkpoints=checkpoints,
                fresh=fresh,
                callback=both(callback, stack.enter_context(ProgressBar()) if verbose else None),
                optimizer=optimizer,
                scheduler=scheduler,
                final="dial" if self.interpolate else "best",
                control=control,
                batch_size=batch_size,
                num_neighbors=num_neighbors,
            )


def fit(
    model: nn.Module,
    data: Any,
    val_data: Any = None,
    *,
    alpha: Alpha = "graded",
    pretrain: Schedule | None = None,
    finetune: Schedule | None = None,
    seed: int = 0,
    select: Selection | None = None,
    interpolate: bool = True,
    whole: bool = True,
    metric: str | None = None,
    class_weights: ClassWeights = None,
    control: bool = False,
    checkpoints: Checkpoints | Path | str | None = None,
    fresh: bool = False,
    callback: Callback | None = None,
    verbose: bool = False,
    device: torch.device | str | None = None,
    optimizer: OptimizerFactory = adam,
    scheduler: SchedulerFactory | None = None,
    batch_size: int | None = None,
    num_neighbors: Sequence[int] | None = None,
) -> Result:
    """``TuneUp(alpha, ...).fit(model, data, ...)``: the shortest way in.

    Example::

        model = tuneup.Encoder(data.num_features, 4, width=32)  # or any PyG module
        schedule = tuneup.Schedule(epochs=20)
        result = tuneup.fit(model, data, pretrain=schedule, finetune=schedule)
        logits = model(data.x, data.edge_index)  # the model is in its best state

    Arguments are those of :class:`TuneUp` and :meth:`TuneUp.fit`.
    """
    method = TuneUp(alpha, pretrain, finetune, seed, select, interpolate, whole)
    return method.fit(
        model,
        data,
        val_data,
        metric=metric,
        class_weights=class_weights,
        control=control,
        checkpoints=checkpoints,
        fresh=fresh,
        callback=callback,
        verbose=verbose,
        device=device,
        optimizer=optimizer,
        scheduler=scheduler,
        batch_size=batch_size,
        num_neighbors=num_neighbors,
    )


def _device(name: torch.device | str) -> torch.device:
    """The device, if this machine has it."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device: got {name!r}; it cannot be used here ({reason}).") from error
    return device


def _on_device(data: Any, device: torch.device | str) -> Any:
    """A copy of PyG's data on a device; the caller's own stays where it is."""
    if isinstance(data, Task):
        if data.graph.device.type != torch.device(device).type:
            raise InputError(
                f"device: the task is on {data.graph.device}; make it from data on {device}."
            )
        return data
    return copy(data).to(device) if hasattr(data, "to") else data
