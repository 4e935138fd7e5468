"""What a store holds of a run's stages, and how a run goes on from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from tuneup.errors import CheckpointError
from tuneup.tasks import PseudoLabels

from .checkpoint import Entry
from .record import StageRecord
from .state import below, copy_state, pack_optimizer, put_state, under, unpack_optimizer

if TYPE_CHECKING:
    from .loop import Run


def finished_entry(run: Run, index: int) -> Entry:
    """A stage that has ended: the modules it trained, its pseudo-labels and its record."""
    tensors: dict[str, Tensor] = {}
    for name in run.curriculum[index].trains:
        tensors |= under(f"module/{name}", copy_state(run.modules[name]))
    if index in run.pseudo:
        tensors |= under("pseudo", vars(run.pseudo[index]))
    return Entry(tensors, {"record": run.record.stages[index].to_json()})


def progress_entry(run: Run, index: int) -> Entry:
    """A stage between two epochs: everything that it needs to go on exactly."""
    finished = finished_entry(run, index)
    tensors = finished.tensors | under("best", run.best)
    optimizers: dict[str, Any] = {}
    for name, optimizer in run.optimizers.items():
        held, optimizers[name] = pack_optimizer(optimizer)
        tensors |= under(f"optimizer/{name}", held)
    plain = {"epoch": run.epoch, "step": run.step, "optimizers": optimizers}
    return Entry(tensors, finished.plain | plain)


def use_finished(run: Run, index: int, entry: Entry) -> None:
    """Go to the end of a stage."""
    stage = run.curriculum[index]
    _restore(run, index, entry)
    run.states.append(copy_state(run.modules[stage.module]))


def use_progress(run: Run, index: int, entry: Entry) -> None:
    """Go to where a stage was saved."""
    _restore(run, index, entry)
    run.best = below("best", entry.tensors)
    run.epoch, run.step = entry.plain["epoch"], entry.plain["step"]
    run.make_optimizers(run.curriculum[index])
    if run.annealing is not None:
        run.annealing.replay(run.record.stages[index].epochs)
    for name, optimizer in run.optimizers.items():
        held = below(f"optimizer/{name}", entry.tensors)
        unpack_optimizer(optimizer, held, entry.plain["optimizers"][name])


def _restore(run: Run, index: int, entry: Entry) -> None:
    try:
        record = StageRecord.from_json({**entry.plain["record"], "stage": index})
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"The checkpoint of stage {index + 1} is damaged ({type(error).__name__}: {error}). "
            "Use another folder, or train with fresh=True."
        ) from error
    for name in run.curriculum[index].trains:
        put_state(run.modules[name], below(f"module/{name}", entry.tensors))
    labels = below("pseudo", entry.tensors)
    if labels:
        device = run.task.graph.device
        run.pseudo[index] = PseudoLabels(**{k: t.to(device) for k, t in labels.items()})
    run.record.stages.append(record)
