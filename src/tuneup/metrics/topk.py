"""Exact top-k of every source over all candidates, in bounded memory and with stable bits.

Scores are computed in tiles of one fixed, padded shape: a matrix product rounds differently when
its shape changes, and near-ties would then change places with the chunk size.  The memory budget
only sets how many tiles are alive at once.  Candidates are ranked by score, then by the smaller id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Rows

DEFAULT_BUDGET = 1 << 27
"""Bytes of scores that may be alive at once."""

_LEAST = -(1 << 63)
_SEGMENT = 32
_POOL_BYTES = 64
"""What a candidate costs while it waits to be merged."""


class Scorer(Protocol):
    """Scores of some sources against some candidates, from their embeddings."""

    @property
    def tile(self) -> tuple[int, int]:
        """How many sources and candidates are scored at a time."""

    def __call__(self, sources: Tensor, candidates: Tensor, out: Tensor) -> None:
        """Write the scores of ``[s, d]`` against ``[c, d]`` into ``out [s, c]``."""


@dataclass(frozen=True)
class InnerProduct:
    """``z_s . z_c``."""

    tile: tuple[int, int] = (256, 4096)

    def __call__(self, sources: Tensor, candidates: Tensor, out: Tensor) -> None:
        """One matrix product."""
        torch.mm(sources, candidates.t(), out=out)


INNER_PRODUCT = InnerProduct()


@dataclass(frozen=True, eq=False)
class TopK:
    """The best candidates of each source, best first.

    ``ids [n, k]`` and ``scores [n, k]``; -1 and -inf where a source has fewer than k candidates.
    """

    ids: Tensor
    scores: Tensor


@torch.no_grad()
def top_k(
    sources: Tensor,
    candidates: Tensor,
    k: int,
    *,
    known: Rows | None = None,
    scorer: Scorer = INNER_PRODUCT,
    budget: int = DEFAULT_BUDGET,
) -> TopK:
    """The ``k`` best candidates of every source, none of them known.

    Args:
        sources: embeddings ``[n, d]``.
        candidates: embeddings ``[m, d]``; a candidate's id is its row.
        k: how many to keep.
        known: candidates of each source that must not be ranked.
        scorer: how a pair is scored; the inner product by default.
        budget: bytes of scores that may be alive at once; it never changes the result.
    """
    _check(sources, candidates, k, known)
    height, width = scorer.tile
    if height < 1 or width < 1 or width % _SEGMENT:
        raise InputError(f"A scorer's tile has a width divisible by {_SEGMENT}; got {scorer.tile}.")
    padded = _pad(candidates.float(), width)
    group = max(1, budget // (height * width * 4)) * height
    ids = torch.full((sources.shape[0], k), -1, dtype=torch.long, device=sources.device)
    scores = torch.full((sources.shape[0], k), -torch.inf, device=sources.device)
    for start in range(0, sources.shape[0], group):
        stop = min(start + group, sources.shape[0])
        block = _pad(sources[start:stop].float(), height)
        cut = _cut(known, start, stop)
        keys = _rank(block, padded, candidates.shape[0], k, cut, scorer, budget // _POOL_BYTES)
        ids[start:stop], scores[start:stop] = _unpack(keys[: stop - start])
    return TopK(ids, scores)


def _check(sources: Tensor, candidates: Tensor, k: int, known: Rows | None) -> None:
    if k < 1:
        raise InputError(f"k must be 1 or more; got {k}.")
    if known is not None and known.rowptr.numel() != sources.shape[0] + 1:
        raise InputError(
            f"known must list candidates for {sources.shape[0]} sources; it does for "
            f"{known.rowptr.numel() - 1}."
        )
    for name, found in (("sources", sources), ("candidates", candidates)):
        if not torch.isfinite(found).all():
            row = int((~torch.isfinite(found)).any(1).nonzero()[0])
            raise InputError(f"{name}: the embedding in row {row} is not finite; nothing to rank.")


def _pad(rows: Tensor, multiple: int) -> Tensor:
    """Rows of zeros added until their number is a multiple."""
    missing = -rows.shape[0] % multiple
    return torch.nn.functional.pad(rows, (0, 0, 0, missing)).contiguous()


def _cut(known: Rows | None, start: int, stop: int) -> tuple[Tensor, Tensor] | None:
    """Row (from ``start``) and candidate of each known pair of some sources."""
    if known is None:
        return None
    bounds = known.rowptr[start : stop + 1]
    row = torch.arange(stop - start, device=bounds.device).repeat_interleave(bounds.diff())
    return row, known.col[int(bounds[0]) : int(bounds[-1])]


def _rank(
    block: Tensor,
    padded: Tensor,
    num_candidates: int,
    k: int,
    known: tuple[Tensor, Tensor] | None,
    scorer: Scorer,
    most: int,
) -> Tensor:
    """Sortable keys ``[s, k]`` of the best candidates of a group of sources."""
    height, width = scorer.tile
    scores = torch.empty(block.shape[0], width, device=block.device)
    keys = torch.full((block.shape[0], k), _LEAST, dtype=torch.long, device=block.device)
    floor = torch.full((block.shape[0],), -torch.inf, device=block.device)
    for start in range(0, padded.shape[0], width):
        tile = padded[start : start + width]
        for row in range(0, block.shape[0], height):
            scorer(block[row : row + height], tile, scores[row : row + height])
        if start + width > num_candidates:
            scores[:, num_candidates - start :] = -torch.inf
        if known is not None:
            here = (known[1] >= start) & (known[1] < start + width)
            scores[known[0][here], known[1][here] - start] = -torch.inf
        if start == 0:
            floor = _first_floor(scores, k)
            survivors = (scores >= floor[:, None]) & (scores > -torch.inf)
        else:  # candidates come in the order of their ids: of equals, the ones held are first
            survivors = scores > floor[:, None]
        keys = _merge(keys, scores, survivors, start, most)
        held = _unpack(keys[:, -1:])[1][:, 0]
        floor = torch.maximum(floor, held) if start else held
    return keys


def _first_floor(scores: Tensor, k: int) -> Tensor:
    """A number per row that at least k scores reach, if there are k: cheap, and never too high.

    The k-th largest of the maxima of disjoint segments will do.
    """
    maxima = scores.view(scores.shape[0], -1, _SEGMENT).amax(2)
    if k > maxima.shape[1]:
        return scores.topk(min(k, scores.shape[1]), dim=1).values[:, -1]
    return maxima.topk(k, dim=1).values[:, -1]


def _merge(keys: Tensor, scores: Tensor, survivors: Tensor, offset: int, most: int) -> Tensor:
    """The k best of those held and those that survived; at most ``most`` of them at a time."""
    count = survivors.sum(1)
    rows, longest = keys.shape[0], int(count.max())
    if longest == 0:
        return keys
    if rows > 1 and rows * longest > most:
        halves = (slice(None, rows // 2), slice(rows // 2, None))
        parts = [_merge(keys[h], scores[h], survivors[h], offset, most) for h in halves]
        return torch.cat(parts)
    row, col = survivors.nonzero(as_tuple=True)
    first = count.cumsum(0) - count
    position = torch.arange(row.numel(), device=row.device) - first[row]
    pool = torch.full((rows, longest), _LEAST, dtype=torch.long, device=keys.device)
    pool[row, position] = _pack(scores[row, col], col + offset)
    return torch.cat([keys, pool], 1).topk(keys.shape[1], dim=1).values


def _pack(scores: Tensor, ids: Tensor) -> Tensor:
    """One int64 per pair that sorts by score, then by the smaller id."""
    bits = (scores + 0.0).view(torch.int32)  # adding 0 makes -0 and 0 equal
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.long() << 32) | (0xFFFFFFFF - ids)


def _unpack(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Ids and scores, the inverse of :func:`_pack`; -1 and -inf for a place that stayed empty."""
    empty = keys == _LEAST
    ids = (0xFFFFFFFF - (keys & 0xFFFFFFFF)).masked_fill_(empty, -1)
    ordered = (keys >> 32).to(torch.int32)
    bits = ordered ^ ((ordered >> 31) & 0x7FFFFFFF)
    return ids, bits.view(torch.float32).masked_fill(empty, -torch.inf)
