"""A stage as flat tensors plus JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .record import State


def copy_state(module: nn.Module) -> State:
    """Parameters and buffers, detached from what training goes on to change."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def put_state(module: nn.Module, state: State) -> None:
    """Load a state; autocast, which keeps casts of weights, does not see them change by itself."""
    module.load_state_dict(state)
    torch.clear_autocast_cache()


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with a prefix before each name."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of :func:`under`: those of that prefix."""
    start = f"{prefix}/"
    return {k.removeprefix(start): t for k, t in tensors.items() if k.startswith(start)}


def pack_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
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


def unpack_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], plain: dict[str, Any]
) -> None:
    """The inverse of :func:`pack_optimizer`."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in [*tensors.items(), *plain["state"].items()]:
        index, name = key.split("/", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": plain["groups"]})
