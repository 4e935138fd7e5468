"""An epoch in several updates: which supervised things each of them reads."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph.hashing import fold_key, uniform

from .base import Moment

_BATCHES = 0x62617463686573
"""Keeps these draws apart from those of edges ("batches" in ASCII)."""


def check_batch_size(size: int | None) -> None:
    """Refuse a size that leaves an update without anything to learn from."""
    if size is not None and size < 1:
        raise InputError(f"batch_size must be 1 or more, or None; got {size}.")


def batch_indices(
    count: int, size: int, moment: Moment, device: torch.device | str = "cpu"
) -> Iterator[Tensor]:
    """Each of ``0 .. count - 1`` once, ``size`` at a time, in an order of this epoch's own."""
    index = torch.arange(count, device=device)
    order = uniform(index, fold_key(_BATCHES, *moment)).argsort()
    yield from order.split(size)
