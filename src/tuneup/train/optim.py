"""Optimisers, and a step that refuses to apply what is not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from tuneup.curriculum import OptimizerFactory
from tuneup.errors import InputError


def adam(parameters: Iterable[Parameter], lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """The paper's optimiser."""
    return torch.optim.Adam(parameters, lr=lr, weight_decay=weight_decay)


class SlowModule:
    """Adam whose learning rate is smaller for the parameters of one module.

    The weights of an encoder over learned embeddings see every node, the embeddings their own
    alone: at one rate the weights run ahead and undo a penalty on the embeddings by scale.
    """

    def __init__(self, module: nn.Module, rate: float) -> None:
        if not 0.0 <= rate <= 1.0:
            raise InputError(f"rate is a share of the learning rate, 0 to 1; got {rate}.")
        self.slow = {id(parameter) for parameter in module.parameters()}
        self.rate = rate

    def __repr__(self) -> str:
        return f"SlowModule({self.rate})"  # a part of a run's fingerprint

    def __call__(
        self, parameters: Iterable[Parameter], lr: float, weight_decay: float
    ) -> torch.optim.Optimizer:
        """Two groups of parameters, or one."""
        groups: tuple[list[Parameter], list[Parameter]] = ([], [])
        for parameter in parameters:
            groups[id(parameter) in self.slow].append(parameter)
        rates = (lr, lr * self.rate)
        settings = [
            {"params": group, "lr": own} for group, own in zip(groups, rates, strict=True) if group
        ]
        return torch.optim.Adam(settings, lr=lr, weight_decay=weight_decay)


def make_optimizer(
    factory: OptimizerFactory, module: nn.Module, lr: float, weight_decay: float
) -> torch.optim.Optimizer:
    """A fresh optimiser over what the module lets be trained.

    A class of torch's is as good as a function, though it takes other things third.
    """
    trained = [p for p in module.parameters() if p.requires_grad]
    if isinstance(factory.func if isinstance(factory, partial) else factory, type):
        optimizer = factory(trained, lr=lr, weight_decay=weight_decay)  # type: ignore[call-arg]
    else:
        optimizer = factory(trained, lr, weight_decay)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(f"optimizer must make a torch optimiser; it made {optimizer!r}.")
    for group in optimizer.param_groups:
        group.setdefault("initial_lr", group["lr"])
    return optimizer


class NotFiniteError(ArithmeticError):
    """The loss or a gradient is infinite or not a number; nothing has been changed."""


def step(optimizer: torch.optim.Optimizer, loss: Tensor, factor: float | None) -> float:
    """One step with the learning rate scaled by ``factor``, if any; the loss as a number.

    Gradients are taken for the optimiser's own parameters only: an adversary's step leaves none
    on the module it works against.  A step that is refused leaves none at all.
    """
    value = float(loss.detach())
    if not math.isfinite(value):
        raise NotFiniteError(f"the loss is {value}")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    optimizer.zero_grad(set_to_none=True)
    loss.backward(inputs=parameters)  # through the hooks that data-parallel wrappers set
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if not torch.isfinite(norm):
        optimizer.zero_grad(set_to_none=True)
        raise NotFiniteError(f"the loss is {value:g} but a gradient is not finite")
    if factor is not None:
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    torch.clear_autocast_cache()  # a run inside one autocast would go on with the old weights
    return value
