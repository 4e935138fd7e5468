"""Forged tails: head nodes that keep only a few of their links, as a pure function."""

from __future__ import annotations

from dataclasses import replace

import torch

from tuneup.errors import InputError

from . import csr
from .adjacency import Adjacency
from .dropping import edge_draws
from .hashing import HASH_BITS, fold_key, uniform

_COUNTS = 0x666F726765
"""Keeps the draws of how many links stay apart from those of which ("forge" in ASCII)."""


def forge_tails(graph: Adjacency, k: int, seed: int, stage: int, step: int) -> Adjacency:
    """Every node with more than ``k`` incoming links keeps ``uniform{1..k}`` of them, at random.

    Each node chooses for itself, so the answer is directed.  Nodes with at most ``k`` links keep
    theirs.  Senders keep the degrees of the graph, as a true tail's neighbours have theirs.
    """
    if k < 1:
        raise InputError(f"a forged tail keeps 1 to k links; got k = {k}.")
    key = fold_key(seed, stage, step)
    ids, degree = graph.global_ids, graph.rowptr.diff()
    heads = (degree > k).nonzero().view(-1)
    kept = 1 + (uniform(ids[heads], fold_key(_COUNTS, key)) * k).long()
    pointer, entries = csr.take_rows(graph.rowptr, heads)
    number = csr.rows_of(pointer, entries.numel())
    draws = edge_draws(ids[heads][number], ids[graph.col[entries]], key, symmetric=False)
    # One sort: by row, then by as many bits of the draw as there is room for.
    room = min(HASH_BITS, 62 - heads.numel().bit_length())
    order = torch.argsort((number << room) | (draws >> (HASH_BITS - room)), stable=True)
    rank = torch.arange(entries.numel(), device=graph.device) - pointer[number]
    keep = torch.ones_like(graph.col, dtype=torch.bool)
    keep[entries[order]] = rank < kept[number]  # sorted by row: the n-th entry is of the n-th's row
    return replace(graph.directed.thin(keep), degrees=graph.degree)
