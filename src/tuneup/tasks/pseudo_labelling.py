"""Pseudo-labels: the base model's best guesses on nodes that have neighbours but no label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import adjacency_from


@dataclass(frozen=True, eq=False)
class PseudoLabels:
    """Nodes ``[n]``, the label each was given ``[n]`` and its probability ``[n]``.

    Of nodes with any number of classes, ``y`` is ``[n, C]`` of 0 and 1, and the confidence the mean
    over classes.  Of nodes with one class, ``[n, C]`` are soft targets, such as probabilities.
    """

    nodes: Tensor
    y: Tensor
    confidence: Tensor

    def __len__(self) -> int:
        return self.nodes.numel()

    def __repr__(self) -> str:
        mean = float(self.confidence.mean()) if len(self) else float("nan")
        return f"PseudoLabels({len(self):,} nodes, mean confidence {mean:.3f})"


def pseudo_labels(
    logits: Tensor, graph: Any, known: Tensor, *, multi_label: bool = False
) -> PseudoLabels:
    """Label every node that receives an edge and is not ``known`` with its most probable class.

    Example: in a training loop of your own::

        known = train_mask | val_mask
        labels = tuneup.pseudo_labels(model(x, edge_index), edge_index, known)
        sure = labels.confidence > 0.9  # TuneUp itself takes them all

    Args:
        logits: class scores ``[N, K]`` of the base model on the full graph.
        graph: its ``edge_index``, ``Data`` or :class:`~tuneup.graph.Adjacency`.
        known: nodes that must not get a pseudo-label, boolean ``[N]``: those with a true label,
            and the validation nodes.
        multi_label: whether every class is decided by itself: given where its logit is above 0.
    """
    if logits.dim() != 2 or not logits.is_floating_point():
        raise InputError(
            f"logits must be class scores [N, K], floating point; got {logits.dtype} of shape "
            f"{list(logits.shape)}."
        )
    mask = isinstance(known, Tensor) and known.dtype == torch.bool
    if not mask or known.shape != logits.shape[:1]:
        got = f"{known.dtype} of shape {list(known.shape)}" if isinstance(known, Tensor) else known
        raise InputError(
            f"known must be a boolean mask over the {logits.shape[0]} nodes; got {got}."
        )
    if not torch.isfinite(logits).all():
        row = int((~torch.isfinite(logits)).any(1).nonzero()[0])
        raise InputError(f"logits of node {row} are not all finite: the model has diverged.")
    degree = adjacency_from(graph, logits.shape[0]).degree
    nodes = ((degree > 0) & ~known).nonzero().view(-1)
    logits = logits.detach()[nodes]
    if multi_label:
        confidence = logits.abs().sigmoid().mean(1)
        return PseudoLabels(nodes, (logits > 0).float(), confidence)
    confidence, y = logits.softmax(1).max(1)
    return PseudoLabels(nodes, y, confidence)
