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
import pickle
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property, partial
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
        "task": [name_of(type(task)), task.metric, task.digest(), _own_fields(task)],
        "seed": seed,
        "optimizer": describe(optimizer),
        "scheduler": describe(scheduler),
        "autocast": torch.is_autocast_enabled(device) and str(torch.get_autocast_dtype(device)),
    }
    built = {name: describe_module(module) for name, module in modules.items()}
    weights = {name: _weights(module) for name, module in modules.items()}
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

    Objects of other packages are described by all of their attributes, dataclasses by the fields
    that they are compared by or that they show.
    """
    return _describe(value, ())


def _describe(value: Any, above: tuple[int, ...]) -> Any:
    """The same, ``above`` being the ids of the objects that hold it: a cycle ends there."""
    if id(value) in above:
        return "cycle"
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
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        bits = hashlib.sha256(value.tobytes()).hexdigest()
        return {"array": bits, "type": str(value.dtype), "shape": [*value.shape]}
    inner = partial(_describe, above=(*above, id(value)))
    if isinstance(value, nn.Module):
        return {"module": describe_module(value), "weights": _weights(value)}
    if isinstance(value, partial):
        return {"call": inner(value.func), "with": inner([value.args, value.keywords])}
    if is_dataclass(value) and not isinstance(value, type):
        shown = (f.name for f in fields(value) if f.compare or f.repr)
        return {
            "class": name_of(type(value)),
            **{name: inner(getattr(value, name)) for name in shown},
        }
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: inner(each) for key, each in value.items()}
        return _sorted([inner(key), inner(each)] for key, each in value.items())
    if isinstance(value, list | tuple):
        return [inner(each) for each in value]
    if isinstance(value, set | frozenset):
        return _sorted(map(inner, value))
    if isinstance(value, MethodType):
        return {"method": name_of(value), "of": inner(value.__self__)}
    if isinstance(value, FunctionType):
        return _describe_function(value, inner)
    if hasattr(value, "__qualname__"):
        return name_of(value)
    return {"class": name_of(type(value)), **_attributes(value, inner)}


def _sorted(descriptions: Iterable[Any]) -> list[Any]:
    return sorted(descriptions, key=partial(json.dumps, sort_keys=True))


def text_of(description: Any) -> str:
    """A description for people: ``Schedule(epochs=300, lr=0.001, ...)``."""
    if isinstance(description, dict):
        name = str(description.get("class", "")).rsplit(".", 1)[-1]
        rest = ((key, value) for key, value in description.items() if key != "class")
        return f"{name}({', '.join(f'{key}={text_of(value)}' for key, value in rest)})"
    if isinstance(description, list):
        return f"({', '.join(map(text_of, description))})"
    return str(description)


def _describe_function(function: FunctionType, inner: Callable[[Any], Any]) -> Any:
    """Name, defaults and the variables of enclosing functions that it uses."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    bound = [function.__defaults__, function.__kwdefaults__, cells]
    name = name_of(function)
    if name.endswith("<lambda>"):  # a name that many share
        lines = [place for place in function.__code__.co_positions() if None not in place]
        name = f"{name} at {max(lines) if lines else function.__code__.co_firstlineno}"
    return {"function": name, "with": inner(bound)} if any(bound) else name


def describe_module(module: nn.Module) -> list[Any]:
    """Name, class, settings and hooks of every submodule; shapes, and what is tied or frozen.

    A module lists attributes that only change how it is read, not how it is trained, in
    ``reading_settings``; they are left out.
    """
    inner = partial(_describe, above=(id(module),))
    parts = [
        [name, name_of(type(part)), {} if _is_wrapper(part) else _attributes(part, inner)]
        for name, part in module.named_modules()
    ]
    hooks = [
        [name, inner(hook)]
        for name, part in module.named_modules()
        if not _is_wrapper(part)
        for hook in (*part._forward_pre_hooks.values(), *part._forward_hooks.values())
    ]
    shapes = [
        [name, str(tensor.dtype), list(tensor.shape)]
        for name, tensor in module.state_dict().items()
        if isinstance(tensor, Tensor)
    ]
    named = [*module.named_parameters(remove_duplicate=False)]
    first = {id(each): name for name, each in reversed(named)}
    tied = [[name, first[id(each)]] for name, each in named if first[id(each)] != name]
    frozen = [name for name, each in named if not each.requires_grad]
    return [parts, hooks, shapes, tied, frozen]


def _weights(module: nn.Module) -> str:
    """Digest of parameters and buffers, also of those that a state leaves out."""
    return digest_of({**dict(module.named_buffers()), **module.state_dict()})


def name_of(thing: Any) -> str:
    """``module.qualname``; of this library ``tuneup.qualname``, so that files may be renamed."""
    room = str(thing.__module__)
    if room == "__main__":  # every program has one
        room = f"__main__ of {Path(getattr(sys.modules[room], '__file__', None) or '').name}"
    return f"{'tuneup' if room.split('.')[0] == 'tuneup' else room}.{thing.__qualname__}"


def _is_wrapper(module: nn.Module) -> bool:
    """Whether a module only runs another one: its attributes are no settings of training."""
    return type(module).__module__.startswith(("torch.nn.parallel", "torch._dynamo"))


def _own_fields(task: Task[Any]) -> Any:
    """Attributes that a user's task adds to one of ours, whose digest does not cover them."""
    kind = type(task)
    ours = next(each for each in kind.__mro__ if _is_library(each))
    known = {each.name for each in fields(ours)} if is_dataclass(ours) else set()
    return {
        name: describe(value)
        for name, value in sorted(vars(task).items())
        if kind is not ours
        and name not in known
        and not isinstance(getattr(kind, name, None), cached_property)
    }


def _is_library(kind: type) -> bool:
    return kind.__module__.split(".")[0] in ("torch", "torch_geometric", "tuneup")


def _attributes(thing: Any, inner: Callable[[Any], Any]) -> dict[str, Any]:
    """All of an object's attributes; of a library's modules its settings, the rest being caches."""
    held = dict(getattr(thing, "__dict__", {}))
    slots = [name for each in type(thing).__mro__ for name in getattr(each, "__slots__", ())]
    held |= {name: getattr(thing, name) for name in slots if hasattr(thing, name)}
    skipped = frozenset(getattr(thing, "reading_settings", ()))
    plain_only = False
    if isinstance(thing, nn.Module):
        skipped |= _MODULE_ATTRIBUTES
        plain_only = _is_library(type(thing))
    elif not held:
        return {"state": _pickled(thing)}
    return {
        name: inner(value)
        for name, value in sorted(held.items())
        if name not in skipped and (not plain_only or _is_plain(value))
    }


def _pickled(thing: Any) -> str:
    """Digest of what pickle would write, of an object without attributes; it is never read."""
    try:
        return hashlib.sha256(pickle.dumps(thing)).hexdigest()
    except Exception:  # a handle, a lock: nothing that decides training
        return ""


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
            found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
            for part in _dense_parts(tensor.detach().cpu()):
                plain = part.contiguous().reshape(-1)
                found.update(plain.view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def _dense_parts(tensor: Tensor) -> tuple[Tensor, ...]:
    if tensor.layout == torch.strided:
        return (tensor,)
    whole = tensor.to_sparse_coo().coalesce()
    return whole.indices(), whole.values()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
