"""ReLU that works in place both ways."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def relu_(h: Tensor) -> Tensor:
    """``max(h, 0)`` in place; on the way back, the gradient is masked in place too.

    That needs a gradient that no one else reads, such as a layer's gradient of its input.
    """
    if torch.compiler.is_compiling():  # a compiler finds this for itself
        return torch.relu_(h)
    return _ReLU.apply(h)  # type: ignore[no-any-return, no-untyped-call]


class _ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor) -> Tensor:
        h = h.relu_()
        ctx.mark_dirty(h)
        ctx.save_for_backward(h)
        return h

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (h,) = ctx.saved_tensors
        masked: Tensor = torch.ops.aten.threshold_backward.grad_input(grad, h, 0, grad_input=grad)
        return masked
