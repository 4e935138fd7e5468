"""Optimisers and learning-rate schedulers of a stage, and a step that refuses infinite gradients.

A scheduler's state follows from the epochs so far and their scores, which a run's record holds: a
resumed run replays them, and nothing of it has to be stored.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from tuneup.curriculum import Curriculum, OptimizerFactory
from tuneup.errors import InputError

if TYPE_CHECKING:
    from .ranks import Ranks

SchedulerFactory = Callable[[torch.optim.Optimizer], LRScheduler]
"""Makes a scheduler for a stage's fresh optimiser."""


class RowAdam(torch.optim.Adam):
    """Adam that changes only the rows that a sparse gradient names.

    Rows that an update does not read keep their vectors and their moments.
    """

    def __init__(self, parameters: Iterable[Any], lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(parameters, lr=lr, weight_decay=weight_decay)
        # Not an own `step`, within which torch's would run all hooks once more.
        self.register_step_pre_hook(_rows_first)

    @torch.no_grad()
    def step_rows(self, group: dict[str, Any], parameter: Parameter, grad: Tensor) -> None:
        """One step on the rows that a sparse gradient names."""
        grad = grad.coalesce()
        rows, found = grad.indices()[0], grad.values()
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        count, (beta1, beta2) = float(state["step"]), group["betas"]
        if group["weight_decay"]:
            found = found.add(parameter[rows], alpha=group["weight_decay"])
        mean = state["exp_avg"][rows].lerp_(found, 1 - beta1)
        square = state["exp_avg_sq"][rows].mul_(beta2).addcmul_(found, found, value=1 - beta2)
        state["exp_avg"][rows], state["exp_avg_sq"][rows] = mean, square
        scale = square.sqrt_().div_((1 - beta2**count) ** 0.5).add_(group["eps"])
        parameter[rows] -= mean.div_(scale).mul_(group["lr"] / (1 - beta1**count))


def _rows_first(optimizer: Any, args: Any, keywords: Any) -> None:
    """Step the parameters with sparse gradients, which torch's Adam then passes over."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and parameter.grad.is_sparse:
                optimizer.step_rows(group, parameter, parameter.grad)
                parameter.grad = None


def adam(parameters: Iterable[Parameter], lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """The paper's optimiser."""
    return RowAdam(parameters, lr=lr, weight_decay=weight_decay)


class SlowModule:
    """Adam whose learning rate is smaller for the parameters of one module.

    The weights of an encoder over learned embeddings see every node, the embeddings their own
    alone: at one rate the weights run ahead and undo a penalty on the embeddings by scale.

    Args:
        module: whose parameters are slow.
        rate: share of the learning rate that they get, 0 to 1.
    """

    def __init__(self, module: nn.Module, rate: float) -> None:
        if not 0.0 <= rate <= 1.0:
            raise InputError(f"rate is a share of the learning rate, 0 to 1; got {rate}.")
        self.module = module
        self.rate = rate

    def __repr__(self) -> str:
        return f"SlowModule({self.rate})"

    def __call__(
        self, parameters: Iterable[Parameter], lr: float, weight_decay: float
    ) -> torch.optim.Optimizer:
        """Two groups of parameters, or one."""
        groups: tuple[list[Parameter], list[Parameter]] = ([], [])
        slow = {id(parameter) for parameter in self.module.parameters()}
        for parameter in parameters:
            groups[id(parameter) in slow].append(parameter)
        rates = (lr, lr * self.rate)
        settings = [
            {"params": group, "lr": own} for group, own in zip(groups, rates, strict=True) if group
        ]
        return RowAdam(settings, lr=lr, weight_decay=weight_decay)


def check_factories(
    curriculum: Curriculum, optimizer: OptimizerFactory, scheduler: SchedulerFactory | None
) -> None:
    """Refuse what makes no optimiser or scheduler, and two plans for one learning rate."""
    if not callable(optimizer):
        raise InputError(
            f"optimizer: got {type(optimizer).__name__}; expected a class like torch.optim.AdamW, "
            "or a function of parameters, learning rate and weight decay. Every stage makes its "
            "own."
        )
    if scheduler is None:
        return
    if not callable(scheduler):
        raise InputError(
            f"scheduler: got {type(scheduler).__name__}; expected a function of the optimiser, "
            "like functools.partial(torch.optim.lr_scheduler.StepLR, step_size=30). Every stage "
            "makes its own."
        )
    for index, stage in enumerate(curriculum):
        if stage.schedule.milestones:
            raise InputError(
                f"Stage {index + 1} has milestones and a scheduler, which would both set the "
                "learning rate: leave out Schedule(milestones=...)."
            )


def make_optimizer(
    factory: OptimizerFactory, module: nn.Module, lr: float, weight_decay: float
) -> torch.optim.Optimizer:
    """A fresh optimiser of the module's trainable parameters.

    A class of torch's may be the factory, though its third argument is another.
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


def make_scheduler(factory: SchedulerFactory, optimizer: torch.optim.Optimizer) -> LRScheduler:
    """A scheduler for a fresh optimiser."""
    for group in optimizer.param_groups:
        del group["initial_lr"]  # a scheduler sets its own
    scheduler = factory(optimizer)
    if not isinstance(scheduler, LRScheduler):
        raise InputError(
            "scheduler must make a torch.optim.lr_scheduler.LRScheduler from an optimiser; "
            f"got {scheduler!r}."
        )
    if isinstance(scheduler, ReduceLROnPlateau) and scheduler.mode != "max":
        raise InputError(
            "A validation score is the better the higher it is: make the scheduler with "
            'ReduceLROnPlateau(optimizer, mode="max").'
        )
    return scheduler


def step_scheduler(scheduler: LRScheduler, score: float | None) -> None:
    """End an epoch; ``score`` is its validation, if there was one."""
    if not isinstance(scheduler, ReduceLROnPlateau):
        scheduler.step()
    elif score is not None:
        scheduler.step(score)


def replay(scheduler: LRScheduler, scores: Iterable[float | None]) -> None:
    """Go to where epochs of these scores led."""
    with warnings.catch_warnings():
        # The updates were made by an earlier process.
        warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step")
        for score in scores:
            step_scheduler(scheduler, score)


def make_scaler(device: torch.device) -> torch.amp.GradScaler | None:
    """A scaler of losses where training runs in float16 autocast, whose small gradients vanish."""
    kind = device.type
    half = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.float16
    return torch.amp.GradScaler(kind) if half else None


def _numbers_of(optimizer: torch.optim.Optimizer, parameter: Parameter) -> Tensor:
    """The gradient as a dense tensor: of a sparse one its rows, if the optimiser takes it so."""
    grad = parameter.grad
    assert grad is not None
    if not grad.is_sparse:
        return grad
    if isinstance(optimizer, RowAdam | torch.optim.SparseAdam):
        parameter.grad = grad.coalesce()
        return parameter.grad._values()
    parameter.grad = grad.to_dense()
    return parameter.grad


class NotFiniteError(ArithmeticError):
    """The loss or a gradient is infinite or not a number; nothing has been changed."""


def step(
    optimizer: torch.optim.Optimizer,
    loss: Tensor,
    factor: float | None,
    clip: float | None = None,
    scaler: torch.amp.GradScaler | None = None,
    ranks: Ranks | None = None,
) -> float:
    """One step; the loss as a number.

    Gradients are taken for the optimiser's own parameters only: an adversary's step leaves none
    on the module it works against.  A step that is refused leaves none at all.

    Args:
        optimizer: of the parameters.
        loss: to minimise.
        factor: of the initial learning rate; ``None``: the learning rate is left as it is.
        clip: greatest norm of all gradients together.
        scaler: of the loss, in float16: a step whose gradients overflow is left out, and the next
            one is scaled by half as much.
        ranks: processes whose losses and gradients are added up, if there are several.

    Raises:
        NotFiniteError: if the loss or a gradient is not finite, scaled or not.
    """
    several = ranks is not None and ranks.several
    value = float(ranks.add(loss.detach().clone()) if ranks and several else loss.detach())
    if not math.isfinite(value):
        raise NotFiniteError(f"the loss is {value}")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    optimizer.zero_grad(set_to_none=True)
    scaled = loss if scaler is None else scaler.scale(loss)
    if scaled.requires_grad or not several:  # a rank without an example has no gradient
        scaled.backward(inputs=parameters)  # through the hooks that data-parallel wrappers set
    if ranks is not None:
        ranks.add_gradients(parameters)
    if scaler is not None:
        scaler.unscale_(optimizer)
    grads = [_numbers_of(optimizer, p) for p in parameters if p.grad is not None]
    norm = nn.utils.get_total_norm(grads)
    if not torch.isfinite(norm):
        optimizer.zero_grad(set_to_none=True)
        if scaler is not None and scaler.get_scale() > 1:
            scaler.update(scaler.get_scale() / 2)
            return value
        raise NotFiniteError(f"the loss is {value:g} but a gradient is not finite")
    if clip is not None:
        for grad in grads:
            grad.mul_((clip / (norm + 1e-6)).clamp(max=1.0))
    if factor is not None:
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()
    optimizer.zero_grad(set_to_none=True)
    torch.clear_autocast_cache()  # a run inside one autocast would go on with the old weights
    return value
