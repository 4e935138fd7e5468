"""A run as flat tensors plus JSON, and back; and the fingerprint that tells two runs apart."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tuneup.tasks import PseudoLabels, Task

from .record import State, TrainingRecord

if TYPE_CHECKING:
    from .loop import Run


Fingerprint = dict[str, str]
"""A digest of each part of what decides the course of a run."""


def copy_state(module: nn.Module) -> State:
    """Parameters and buffers, detached from what training goes on to change."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def put_state(module: nn.Module, state: State) -> None:
    """Load a state; autocast, which keeps casts of weights, does not see them change by itself."""
    module.load_state_dict(state)
    torch.clear_autocast_cache()


def describe(thing: Any) -> str:
    """A stable text for settings: like ``repr``, but functions by name and not by address."""
    if is_dataclass(thing) and not isinstance(thing, type):
        shown = [entry.name for entry in fields(thing) if entry.repr]
        inner = ", ".join(f"{name}={describe(getattr(thing, name))}" for name in shown)
        return f"{type(thing).__name__}({inner})"
    if isinstance(thing, tuple | list):
        return f"({', '.join(map(describe, thing))})"
    if isinstance(thing, partial):
        parts = (thing.func, thing.args, tuple(thing.keywords.items()))
        return f"partial{describe(parts)}"
    if hasattr(thing, "__qualname__"):
        return f"{thing.__module__}.{thing.__qualname__}{_body(thing)}"
    return _without_address(repr(thing))


_LIBRARIES = ("torch", "torch_geometric", "tuneup")
"""Told apart by their settings alone: an upgrade should not orphan every checkpoint."""


def _body(thing: Any) -> str:
    """What a user's own function does: two of one name are not the same."""
    code = getattr(thing, "__code__", None)
    if code is None or thing.__module__.split(".")[0] in _LIBRARIES:
        return ""
    cells = [cell.cell_contents for cell in thing.__closure__ or ()]
    settings = (thing.__defaults__, thing.__kwdefaults__, cells)
    return f"#{_short((_compiled(code) + describe(settings)).encode())}"


def _without_address(text: str) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def fingerprint(
    modules: Mapping[str, nn.Module],
    task: Task[Any],
    curriculum: Any,
    seed: int,
    factory: Any,
    scheduler: Any = None,
) -> Fingerprint:
    """Marks what decides the course of a run, part by part; not the weights it starts with."""
    built = {
        name: (
            [settings_of(part) for part in module.named_modules()],
            [(key, tuple(value.shape)) for key, value in module.state_dict().items()],
        )
        for name, module in modules.items()
    }
    parts = {
        "model": built,
        "task or data": (type(task).__name__, task.metric, task.digest()),
        "curriculum": describe(curriculum),
        "seed": seed,
        "optimizer": describe(factory),
    }
    if scheduler is not None:
        parts["scheduler"] = describe(scheduler)
    return {name: _short(repr(part).encode()) for name, part in parts.items()}


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def settings_of(part: tuple[str, nn.Module]) -> tuple[Any, ...]:
    """A submodule's class and plain attributes: a share of dropout, an aggregation by name.

    Shapes alone would not tell a mean from a sum, and many modules leave such things out of their
    ``repr``.
    """
    name, module = part
    plain = {
        key: describe(value)
        for key, value in vars(module).items()
        if isinstance(value, bool | int | float | str | tuple) and key != "training"
    }
    shown = _without_address(repr(module).splitlines()[0])
    return name, type(module).__qualname__, shown, sorted(plain.items(), key=str), _code(module)


def _code(module: nn.Module) -> str:
    """What the forward pass of a user's own class does: constants in it are settings too.

    The compiled form, so that comments and line breaks may change.
    """
    kind = type(module)
    if kind.__module__.split(".")[0] in _LIBRARIES:
        return ""
    code = getattr(kind.forward, "__code__", None)
    if code is None:
        return ""
    defaults = (kind.forward.__defaults__, kind.forward.__kwdefaults__)
    return _short((_compiled(code) + describe(defaults)).encode())


def _compiled(code: CodeType) -> str:
    """Instructions, names and constants; the first constant is the docstring, or nothing."""
    return repr((code.co_code, code.co_names, [_constant(each) for each in code.co_consts[1:]]))


def _constant(value: object) -> str:
    if isinstance(value, CodeType):
        return _compiled(value)
    if isinstance(value, frozenset):  # whose order differs from process to process
        return f"frozenset({sorted(map(_constant, value))})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, value))})"
    return describe(value)


def pack(run: Run) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything that a resumed run needs to go on exactly."""
    tensors: dict[str, Tensor] = {}
    for name, module in run.modules.items():
        tensors |= _under(f"module/{name}", copy_state(module))
    for index, state in enumerate(run.states):
        tensors |= _under(f"state/{index}", state)
    tensors |= _under("best", run.best)
    for index, labels in run.pseudo.items():
        tensors |= _under(f"pseudo/{index}", vars(labels))
    optimizers: dict[str, Any] = {}
    for name, optimizer in run.optimizers.items():
        held, optimizers[name] = _split_optimizer(optimizer)
        tensors |= _under(f"optimizer/{name}", held)
    plain = {
        "epoch": run.epoch,
        "step": run.step,
        "record": run.record.to_json(),
        "states": len(run.states),
        "pseudo": list(run.pseudo),
        "optimizers": optimizers,
    }
    return tensors, plain


def unpack(run: Run, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
    """Put a run back to where :func:`pack` was called."""
    for name, module in run.modules.items():
        put_state(module, _taken("module", name, tensors))
    run.states = [_taken("state", str(k), tensors) for k in range(plain["states"])]
    run.best = {k.removeprefix("best/"): t for k, t in tensors.items() if k.startswith("best/")}
    device = run.task.graph.device
    run.pseudo = {}
    for index in plain["pseudo"]:
        parts = _taken("pseudo", str(index), tensors)
        run.pseudo[index] = PseudoLabels(**{key: t.to(device) for key, t in parts.items()})
    run.record = TrainingRecord.from_json(plain["record"])
    run.epoch, run.step = plain["epoch"], plain["step"]
    run.make_optimizers(run.curriculum[len(run.record.stages) - 1])
    if run.annealing is not None:
        run.annealing.replay(run.record.stages[-1].epochs)
    for name, optimizer in run.optimizers.items():
        held = _taken("optimizer", name, tensors)
        _join_optimizer(optimizer, held, plain["optimizers"][name])


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _taken(kind: str, name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    prefix = f"{kind}/{name}/"
    return {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}


def _split_optimizer(
    optimizer: torch.optim.Optimizer,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as tensors by ``parameter/name`` and the rest as JSON."""
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {}
    for index, entry in state["state"].items():
        for name, value in entry.items():
            if isinstance(value, Tensor):
                tensors[f"{index}/{name}"] = value
            else:
                plain[f"{index}/{name}"] = value
    return tensors, {"state": plain, "groups": state["param_groups"]}


def _join_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], plain: dict[str, Any]
) -> None:
    state: dict[int, dict[str, Any]] = {}
    for key, value in [*tensors.items(), *plain["state"].items()]:
        index, name = key.split("/", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": plain["groups"]})
