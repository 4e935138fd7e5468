"""What is stored of a run's stages, and how a run resumes from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tuneup.errors import CheckpointError
from tuneup.tasks import PseudoLabels

from .checkpoints import Entry
from .optimizers import replay
from .result import StageRecord
from .selection import copy_state, put_state

if TYPE_CHECKING:
    from .loop import Run


def finished_entry(run: Run, index: int) -> Entry:
    """A stage that has ended: the modules it trained, its pseudo-labels and its record."""
    tensors: dict[str, Tensor] = {}
    for name in run.curriculum[index].trains:
        tensors |= _within(f"module/{name}", copy_state(run.modules[name]))
    if index in run.pseudo:
        tensors |= _within("pseudo", vars(run.pseudo[index]))
    return Entry(tensors, {"record": run.record.stages[index].to_json()})


def progress_entry(run: Run, index: int) -> Entry:
    """A stage between two updates: everything that it needs to go on exactly."""
    finished = finished_entry(run, index)
    tensors = finished.tensors | _within("best", run.best)
    optimizers: dict[str, Any] = {}
    for name, optimizer in run.optimizers.items():
        state, optimizers[name] = _pack_optimizer(optimizer)
        tensors |= _within(f"optimizer/{name}", state)
    plain = {"epoch": run.epoch, "step": run.step, "optimizers": optimizers, "done": run.done}
    if run.scaler is not None:
        plain["scaler"] = run.scaler.state_dict()
    return Entry(tensors, finished.plain | plain)


def use_finished(run: Run, index: int, entry: Entry) -> None:
    """Go to the end of a stage."""
    _restore(run, index, entry)
    run.states.append(copy_state(run.modules[run.curriculum[index].module]))


def use_progress(run: Run, index: int, entry: Entry) -> None:
    """Go to where a stage was saved."""
    _restore(run, index, entry)
    run.best = _below("best", entry.tensors)
    run.epoch, run.step = entry.plain["epoch"], entry.plain["step"]
    run.done = [(loss, size) for loss, size in entry.plain.get("done", [])]
    run.make_optimizers(run.curriculum[index])
    if run.annealing is not None:
        replay(run.annealing, (epoch.score for epoch in run.record.stages[index].epochs))
    if run.scaler is not None:
        run.scaler.load_state_dict(entry.plain["scaler"])
    for name, optimizer in run.optimizers.items():
        state = _below(f"optimizer/{name}", entry.tensors)
        _unpack_optimizer(optimizer, state, entry.plain["optimizers"][name])


def _restore(run: Run, index: int, entry: Entry) -> None:
    try:
        record = StageRecord.from_json(entry.plain["record"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"The checkpoint of stage {index + 1} is damaged ({type(error).__name__}: {error}). "
            "Use another folder, or train with fresh=True."
        ) from error
    for name in run.curriculum[index].trains:
        put_state(run.modules[name], _below(f"module/{name}", entry.tensors))
    labels = _below("pseudo", entry.tensors)
    if labels:
        device = run.task.graph.device
        run.pseudo[index] = PseudoLabels(**{k: t.to(device) for k, t in labels.items()})
    run.record.stages.append(record)


def _within(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}/"
    return {k.removeprefix(start): t for k, t in tensors.items() if k.startswith(start)}


def _pack_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as tensors by ``parameter/name`` and the rest as JSON."""
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {}
    for index, entry in state["state"].items():
        for name, value in entry.items():
            held = tensors if isinstance(value, Tensor) else plain
            held[f"{index}/{name}"] = value
    return tensors, {"state": plain, "groups": state["param_groups"]}


def _unpack_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], plain: dict[str, Any]
) -> None:
    state: dict[int, dict[str, Any]] = {}
    for key, value in [*tensors.items(), *plain["state"].items()]:
        index, name = key.split("/", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": plain["groups"]})
