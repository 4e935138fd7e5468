"""Accuracy, one node at a time."""

import torch
from torch import Tensor

from tuneup.errors import InputError


def correct(logits: Tensor, y: Tensor) -> Tensor:
    """Whether each node's most likely class is its label.

        correct_v = 1 if argmax_c logits_{v,c} = y_v else 0

    The mean of the result is the accuracy. Of tied classes the first is the prediction.

    Args:
        logits: float ``[n, num_classes]``; any increasing function of the class probabilities.
        y: int64 ``[n]``, labels in ``0 .. num_classes - 1``.

    Returns:
        float32 ``[n]``, 0 or 1 per node.
    """
    if logits.dim() != 2 or y.shape != logits.shape[:1]:
        raise InputError(
            f"logits must be [n, num_classes] and y [n], "
            f"got {list(logits.shape)} and {list(y.shape)}"
        )
    if y.is_floating_point() or y.dtype == torch.bool:
        raise InputError(f"y must hold integer class ids, got {y.dtype}")
    if y.numel() == 0:
        return torch.zeros(0, dtype=torch.float32, device=logits.device)
    num_classes = logits.shape[1]
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= num_classes:
        # An unlabelled node (often -1) would otherwise count as a wrong prediction.
        raise InputError(
            f"y must lie in 0..{num_classes - 1}, got values from {low} to {high}; "
            "pass labelled nodes only"
        )
    if bool(torch.isnan(logits).any()):
        raise InputError("logits hold NaN: the model has diverged or its input features hold NaN")
    return (logits.argmax(dim=1) == y).to(torch.float32)
