"""What link prediction and recommendation share: the penalty, and the negatives of BPR."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Adjacency
from tuneup.graph.hashing import fold_key, uniform

from .base import Moment

_TAG = 0x6E65676174697665
"""Keeps these draws apart from those of edges."""

_ATTEMPTS = 64
"""Rounds of rejection before the few that are left are drawn from an explicit list."""


@dataclass(frozen=True)
class L2:
    """Weights of ``mean over triples of 1/2 (|e_s|^2 + |e_t|^2 + |e_n|^2)``.

    Where a pair has several negatives, ``|e_n|^2`` is their mean.

    Args:
        input: on the learned input embeddings.
        output: on the output embeddings.
    """

    input: float = 0.0
    output: float = 0.0

    def __post_init__(self) -> None:
        if self.input < 0 or self.output < 0:
            raise InputError(f"L2 weights must not be negative; got {self.input}, {self.output}.")


@dataclass(frozen=True, eq=False)
class NegativeSampler:
    """Draws uniform candidates ``first .. first + count - 1`` for sources of a training graph.

    Never the source itself, never one of its training neighbours.  Held-out edges may be drawn:
    refusing them would tell training which they are.
    """

    graph: Adjacency
    first: int
    count: int

    def __post_init__(self) -> None:
        inside = (self.graph.col >= self.first) & (self.graph.col < self.first + self.count)
        taken = torch.zeros(self.graph.num_rows, dtype=torch.long, device=self.graph.device)
        taken.index_add_(0, self.graph.row, inside.long())
        taken[self.first : self.first + self.count] += 1  # the node itself
        full = (taken >= self.count) & (self.graph.degree > 0)
        if full.any():
            raise InputError(
                f"Node {int(full.nonzero()[0])} is connected to all {self.count} candidates: no "
                "negative can be drawn for it. Remove it, or some of its edges."
            )

    @cached_property
    def _taken(self) -> Tensor:
        """Ascending keys of all pairs (source, neighbour): rows and columns are sorted."""
        return self.graph.row * self.graph.num_nodes + self.graph.col

    def draw(self, sources: Tensor, moment: Moment, number: Tensor | None = None) -> Tensor:
        """One negative per source ``[T]``, a pure function of the moment.

        ``number [T]`` says which draw is whose, by default 0, 1, 2, ...: a slice of a batch draws
        what the batch draws for it.
        """
        drawn = torch.empty_like(sources)
        left = torch.arange(sources.numel(), device=sources.device)
        number = left if number is None else number
        for attempt in range(_ATTEMPTS):
            share = uniform(number[left], fold_key(_TAG, *moment, attempt))
            drawn[left] = self.first + (share * self.count).long()
            left = left[self._is_taken(sources[left], drawn[left])]
            if left.numel() == 0:
                return drawn
        last = uniform(number[left], fold_key(_TAG, *moment, _ATTEMPTS)).tolist()
        for k, share in zip(left.tolist(), last, strict=True):
            free = self._free(int(sources[k]))  # of a source that knows nearly every candidate
            drawn[k] = free[int(share * free.numel())]
        return drawn

    def _is_taken(self, sources: Tensor, candidates: Tensor) -> Tensor:
        wanted = sources * self.graph.num_nodes + candidates
        place = torch.searchsorted(self._taken, wanted).clamp_(max=max(0, self._taken.numel() - 1))
        found = self._taken[place] == wanted if self._taken.numel() else wanted < 0
        return found | (sources == candidates)

    def _free(self, source: int) -> Tensor:
        candidates = torch.arange(self.first, self.first + self.count, device=self.graph.device)
        return candidates[~self._is_taken(torch.full_like(candidates, source), candidates)]
