"""Digests that identify a finished stage by everything that decides its weights.

The digest of stage k covers, as structured data, the stages up to k, the task, the seed, the
optimiser and scheduler, the modules that these stages can read (classes, settings and initial
weights) and :data:`TRAINING_VERSION`.  Two runs whose digests of stage k are equal have the same
weights after it, so one of them can use what the other has stored.

Functions and classes are identified by module and qualified name, with the arguments that were
bound to them.  Code is not read: a changed function of the same name gives the same digest.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tuneup.curriculum import Curriculum
from tuneup.tasks import Task

TRAINING_VERSION = 1
"""Raise it with every change that makes training give other weights: stored stages expire."""

_MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))
"""What torch itself keeps on every module: mode, hooks and the like."""


def stage_digests(
    modules: Mapping[str, nn.Module],
    task: Task[Any],
    curriculum: Curriculum,
    seed: int,
    optimizer: Any,
    scheduler: Any = None,
) -> tuple[str, ...]:
    """Digest of each stage, in order.

    A digest has the form ``settings-weights``; its second part covers the initial weights alone, so
    runs that differ in nothing else can be recognised.
    """
    device = task.graph.device.type
    run = {
        "version": TRAINING_VERSION,
        "task": [name_of(type(task)), task.metric, task.digest()],
        "seed": seed,
        "optimizer": describe(optimizer),
        "scheduler": describe(scheduler),
        "autocast": torch.is_autocast_enabled(device) and str(torch.get_autocast_dtype(device)),
    }
    built = {name: describe_module(module) for name, module in modules.items()}
    weights = {name: digest_of(module.state_dict()) for name, module in modules.items()}
    digests = []
    for count in range(1, len(curriculum) + 1):
        names = modules_read(curriculum, count - 1, modules)
        settings = {
            **run,
            "stages": describe(curriculum[:count]),
            "modules": {name: built[name] for name in names},
        }
        initial = {name: weights[name] for name in names}
        digests.append(f"{_hash(settings)[:20]}-{_hash(initial)[:12]}")
    return tuple(digests)


def modules_read(
    curriculum: Curriculum, index: int, modules: Mapping[str, nn.Module]
) -> tuple[str, ...]:
    """Names of the modules that a stage may read: all but those that only later stages train."""
    trained = {name for stage in curriculum[: index + 1] for name in stage.trains}
    later = {name for stage in curriculum[index + 1 :] for name in stage.trains} - trained
    return tuple(name for name in modules if name not in later)


def describe(value: Any) -> Any:
    """A JSON value for settings: the same in every process, different for different settings.

    Dataclasses are described by the fields that they are compared by.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, np.generic):
        return describe(value.item())
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Path | torch.dtype | torch.device):
        return str(value)
    if isinstance(value, Tensor):
        return {"tensor": digest_of({"": value})}
    if isinstance(value, nn.Module):
        return {"module": describe_module(value), "weights": digest_of(value.state_dict())}
    if isinstance(value, partial):
        return {"call": describe(value.func), "with": describe([value.args, value.keywords])}
    if is_dataclass(value) and not isinstance(value, type):
        compared = {f.name: describe(getattr(value, f.name)) for f in fields(value) if f.compare}
        return {"class": name_of(type(value)), **compared}
    if isinstance(value, Mapping):
        return {str(key): describe(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [describe(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted((describe(each) for each in value), key=json.dumps)
    if isinstance(value, MethodType):
        return {"method": name_of(value), "of": describe(value.__self__)}
    if isinstance(value, FunctionType):
        return _describe_function(value)
    if hasattr(value, "__qualname__"):
        return name_of(value)
    return {"class": name_of(type(value)), **_plain_attributes(value)}


def text_of(description: Any) -> str:
    """A description for people: ``Schedule(epochs=300, lr=0.001, ...)``."""
    if isinstance(description, dict):
        name = str(description.get("class", "")).rsplit(".", 1)[-1]
        rest = ((key, value) for key, value in description.items() if key != "class")
        return f"{name}({', '.join(f'{key}={text_of(value)}' for key, value in rest)})"
    if isinstance(description, list):
        return f"({', '.join(map(text_of, description))})"
    return str(description)


def _describe_function(function: FunctionType) -> Any:
    """Name, defaults and the variables of enclosing functions that it uses."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    bound = [function.__defaults__, function.__kwdefaults__, cells]
    name = name_of(function)
    if name.endswith("<lambda>"):  # a name that many share
        lines = [place for place in function.__code__.co_positions() if None not in place]
        name = f"{name} at {max(lines) if lines else function.__code__.co_firstlineno}"
    return {"function": name, "with": describe(bound)} if any(bound) else name


def describe_module(module: nn.Module) -> list[Any]:
    """Name, class and plain settings of every submodule, and the parameters that are frozen.

    A module lists attributes that only change how it is read, not how it is trained, in
    ``reading_settings``; they are left out.
    """
    parts = [
        [name, name_of(type(part)), {} if _is_wrapper(part) else _plain_attributes(part)]
        for name, part in module.named_modules()
    ]
    shapes = [
        [name, str(tensor.dtype), list(tensor.shape)]
        for name, tensor in module.state_dict().items()
        if isinstance(tensor, Tensor)
    ]
    frozen = [name for name, each in module.named_parameters() if not each.requires_grad]
    return [parts, shapes, frozen]


def name_of(thing: Any) -> str:
    """``module.qualname``; of this library ``tuneup.qualname``, so that files may be renamed."""
    room = str(thing.__module__)
    return f"{'tuneup' if room.split('.')[0] == 'tuneup' else room}.{thing.__qualname__}"


def _is_wrapper(module: nn.Module) -> bool:
    """Whether a module only runs another one: its attributes are no settings of training."""
    return type(module).__module__.startswith(("torch.nn.parallel", "torch._dynamo"))


def _plain_attributes(thing: Any) -> dict[str, Any]:
    """Those that are settings: numbers, texts, functions, and collections of these."""
    skipped = _MODULE_ATTRIBUTES if isinstance(thing, nn.Module) else frozenset()
    skipped |= frozenset(getattr(thing, "reading_settings", ()))
    return {
        name: describe(value)
        for name, value in sorted(getattr(thing, "__dict__", {}).items())
        if name not in skipped and _is_plain(value)
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return bool(value) and all(isinstance(k, str) and _is_plain(v) for k, v in value.items())
    if is_dataclass(value) or isinstance(
        value, partial | FunctionType | BuiltinFunctionType | type
    ):
        return True
    return value is None or isinstance(value, bool | int | float | str | np.generic)


def digest_of(tensors: Mapping[str, Any]) -> str:
    """Hex digest of the names, types, shapes and bytes of tensors."""
    found = hashlib.sha256()
    for name, tensor in tensors.items():
        if isinstance(tensor, Tensor):  # a state may hold others' own kinds of state
            plain = tensor.detach().cpu().contiguous()
            found.update(f"{name} {plain.dtype} {tuple(plain.shape)} ".encode())
            found.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
