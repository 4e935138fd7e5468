"""Checks of the tensors of a saved model."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tuneup.errors import ArtefactError


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Name of the first tensor with NaN or infinite numbers."""
    for name, tensor in tensors.items():
        if tensor.numel() and tensor.is_floating_point() and not _is_finite(tensor):
            return name
    return None


def check_weights(expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> None:
    """Refuse weights that are not those of a model, by the first tensor that differs.

    Args:
        expected: those of the model, on the meta device.
        found: those of the file.
    """
    for name in [*expected, *found]:
        if name not in found or name not in expected:
            has = "no" if name in expected else "a"
            raise ArtefactError(
                f"weights.safetensors has {has} tensor {name!r}, unlike the model in config.json"
            )
    for name, tensor in expected.items():
        if tensor.shape != found[name].shape:
            raise ArtefactError(
                f"weights.safetensors: {name!r} has shape {list(found[name].shape)}, config.json "
                f"says {list(tensor.shape)}"
            )
        if tensor.is_floating_point() != found[name].is_floating_point():
            raise ArtefactError(f"weights.safetensors: {name!r} holds {found[name].dtype}")
    kinds = {tensor.dtype for tensor in found.values() if tensor.is_floating_point()}
    if len(kinds) > 1:
        raise ArtefactError("weights.safetensors mixes numbers of different precision")


def _is_finite(tensor: Tensor) -> bool:
    """Without a mask of the size of the tensor: both ends of the range are NaN if any number is."""
    return all(bool(torch.isfinite(end)) for end in torch.aminmax(tensor.detach()))


def check_rows(name: str, rowptr: Tensor, col: Tensor, rows: int, cols: int) -> None:
    """Refuse compressed rows with an index out of range: the kernels do not check indices."""
    shaped = rowptr.shape == (rows + 1,) and col.dim() == 1
    if not shaped or rowptr.dtype != torch.long or col.dtype != torch.long:
        raise ArtefactError(f"the {name} are not rows of {rows:,} nodes")
    ordered = (
        int(rowptr[0]) == 0 and int(rowptr[-1]) == col.numel() and bool((rowptr.diff() >= 0).all())
    )
    inside = not col.numel() or (int(col.min()) >= 0 and int(col.max()) < cols)
    if not ordered or not inside:
        raise ArtefactError(f"the {name} lead outside of the graph")
