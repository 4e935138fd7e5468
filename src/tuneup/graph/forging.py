"""Forged tails: head nodes that keep only a few of their links, as a pure function."""

from __future__ import annotations

import torch

from tuneup.errors import InputError

from .adjacency import Adjacency
from .dropping import edge_draws
from .hashing import fold_key, uniform

_COUNTS = 0x666F726765
"""Keeps the draws of how many links stay apart from those of which ("forge" in ASCII)."""


def forge_tails(graph: Adjacency, k: int, seed: int, stage: int, step: int) -> Adjacency:
    """Every node with more than ``k`` incoming links keeps ``uniform{1..k}`` of them, at random.

    Each node chooses for itself, so the answer is directed.  Nodes with at most ``k`` links keep
    theirs.
    """
    if k < 1:
        raise InputError(f"a forged tail keeps 1 to k links; got k = {k}.")
    key = fold_key(seed, stage, step)
    ids, degree = graph.global_ids, graph.rowptr.diff()
    draw = uniform(ids[: graph.num_rows], fold_key(_COUNTS, key))
    kept = torch.where(degree > k, 1 + (draw * k).long(), degree)
    # Links of a row in the order of their draws: the first ``kept`` of them stay.
    draws = edge_draws(ids[graph.row], ids[graph.col], key, symmetric=False)
    order = torch.argsort(draws)
    order = order[torch.argsort(graph.row[order], stable=True)]
    rank = torch.arange(graph.num_entries, device=graph.device) - graph.rowptr[graph.row]
    keep = torch.zeros_like(graph.row, dtype=torch.bool)
    keep[order] = rank < kept[graph.row]  # sorted by row, so the k-th of them is in the k-th's row
    return graph.directed.thin(keep)
