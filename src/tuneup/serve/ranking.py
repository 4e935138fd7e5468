"""The best candidates by a model's scores, known ones excluded."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tuneup.graph import Rows
from tuneup.metrics.scoring import INNER_PRODUCT, Scorer
from tuneup.metrics.topk import TopK, top_k
from tuneup.nn import HadamardMLP, Model
from tuneup.nn.heads import HadamardScorer

from .arrivals import Arrivals, Ints, ranges
from .field import OldGraph


def rank(model: Model, sources: Tensor, candidates: Tensor, k: int, known: Rows) -> TopK:
    """The ``k`` best candidates of each source but those that are known."""
    here = Rows(known.rowptr.to(sources.device), known.col.to(sources.device))
    return top_k(sources, candidates, k, known=here, scorer=_scorer(model))


def _scorer(model: Model) -> Scorer:
    """How a model scores two embeddings."""
    return HadamardScorer(model.head) if isinstance(model.head, HadamardMLP) else INNER_PRODUCT


def known_to_old(graph: OldGraph, nodes: Ints, first: int) -> Rows:
    """Neighbours of some nodes as candidates, which begin at node ``first``, and the node itself.

    A node is no candidate of its own; a user is none at all.
    """
    start = graph.rowptr[nodes]
    rowptr, entries = ranges(start, graph.rowptr[nodes + 1] - start)
    listed = graph.col[entries] - first
    if first == 0:
        listed = np.insert(listed, rowptr[1:], nodes)
        rowptr = rowptr + np.arange(rowptr.size)
    return Rows(torch.from_numpy(rowptr), torch.from_numpy(listed))


def known_to_new(arrivals: Arrivals, first: int) -> Rows:
    """The old neighbours of each new node as candidates, which begin at node ``first``."""
    rowptr, entries = ranges(*arrivals.gains(arrivals.new_keys))
    sender = arrivals.sender[entries]
    old = sender < arrivals.num_old
    before = np.concatenate([[0], np.cumsum(old)])
    return Rows(torch.from_numpy(before[rowptr]), torch.from_numpy(sender[old] - first))
