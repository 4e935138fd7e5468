"""Exact top-k of every source over all candidates, in bounded memory and with stable bits.

Candidates are ranked by score, then by the smaller id.  Scores are computed in tiles of one fixed,
padded shape: a matrix product rounds differently when its shape changes, and near-ties would then
change places with the number of sources.  After the first tile, few candidates reach the k-th best
score so far; only these are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Rows
from tuneup.graph.csr import rowptr_of, rows_of

_EMPTY = -(1 << 63)
_LOWEST = torch.finfo(torch.float32).min
_SEGMENT = 32


@dataclass(frozen=True, eq=False)
class TopK:
    """The best candidates of each source, best first.

    ``ids [n, k]`` and ``scores [n, k]``; -1 and -inf where a source has fewer than k candidates.
    """

    ids: Tensor
    scores: Tensor


class Scorer(Protocol):
    """Scores of some sources against some candidates, from their embeddings."""

    @property
    def tile(self) -> tuple[int, int]:
        """How many sources and candidates are scored at a time."""

    def __call__(self, sources: Tensor, candidates: Tensor, out: Tensor) -> None:
        """Write the scores of ``[s, d]`` against ``[c, d]`` into ``out [s, c]``."""


@dataclass(frozen=True)
class InnerProductScorer:
    """``z_s . z_c``."""

    tile: tuple[int, int] = (128, 4096)

    def __call__(self, sources: Tensor, candidates: Tensor, out: Tensor) -> None:
        """One matrix product."""
        torch.mm(sources, candidates.t(), out=out)


INNER_PRODUCT = InnerProductScorer()


@torch.no_grad()
def top_k(
    sources: Tensor,
    candidates: Tensor,
    k: int,
    *,
    known: Rows | None = None,
    scorer: Scorer = INNER_PRODUCT,
) -> TopK:
    """The ``k`` best candidates of every source, none of them known.

    Args:
        sources: embeddings ``[n, d]``.
        candidates: embeddings ``[m, d]``; a candidate's id is its row.
        k: how many to rank.
        known: candidates of each source that must not be ranked.
        scorer: how a pair is scored; the inner product by default.
    """
    sources, candidates = sources.float(), candidates.float()
    _check(sources, candidates, k, known, scorer.tile)
    height, width = scorer.tile
    padded = _pad(sources, height), _pad(candidates, width)
    out = sources.new_empty(scorer.tile)
    keys = torch.full((sources.shape[0], k), _EMPTY, device=sources.device)
    with torch.autocast(sources.device.type, enabled=False):  # exact by float32
        for top in range(0, sources.shape[0], height):
            best = _Best(keys[top : top + height])
            masked = _pairs(known, slice(top, min(top + height, sources.shape[0])))
            for left in range(0, candidates.shape[0], width):
                scorer(padded[0][top : top + height], padded[1][left : left + width], out)
                best.update(out[: len(best.keys), : candidates.shape[0] - left], left, masked)
    return _unpack(keys)


def top_k_dense(scores: Tensor, k: int, *, known: Rows | None = None) -> TopK:
    """The ``k`` best columns of every row, none of them known.

    Args:
        scores: float ``[n, m]``; overwritten where columns are known.
        k: how many to rank.
        known: columns of each row that must not be ranked.
    """
    best = _Best(torch.full((scores.shape[0], k), _EMPTY, device=scores.device))
    masked, width = _pairs(known, slice(0, scores.shape[0])), INNER_PRODUCT.tile[1]
    for left in range(0, scores.shape[1], width):
        best.update(scores[:, left : left + width], left, masked)
    return _unpack(best.keys)


def _check(
    sources: Tensor, candidates: Tensor, k: int, known: Rows | None, tile: tuple[int, int]
) -> None:
    if k < 1:
        raise InputError(f"k must be 1 or more; got {k}.")
    if min(tile) < 1:
        raise InputError(f"A scorer's tile is 1 by 1 or larger; got {tile}.")
    if known is not None and known.num_nodes != sources.shape[0]:
        raise InputError(
            f"known must list candidates for {sources.shape[0]} sources; it does for "
            f"{known.num_nodes}."
        )
    for name, found in (("sources", sources), ("candidates", candidates)):
        if not torch.isfinite(found).all():
            row = int((~torch.isfinite(found)).any(1).nonzero()[0])
            raise InputError(f"{name}: the embedding in row {row} is not finite; nothing to rank.")


def _pad(rows: Tensor, multiple: int) -> Tensor:
    """Rows of zeros added until their number is a multiple."""
    return F.pad(rows, (0, 0, 0, -rows.shape[0] % multiple)).contiguous()


def _pairs(known: Rows | None, rows: slice) -> tuple[Tensor, Tensor] | None:
    """Row (from the first of these) and column of every known pair of some sources."""
    if known is None:
        return None
    bounds = known.rowptr[rows.start : rows.stop + 1]
    col = known.col[int(bounds[0]) : int(bounds[-1])]
    return rows_of(bounds, col.numel()), col


@dataclass(eq=False)
class _Best:
    """The best so far of some sources; candidates come by ascending ids.

    ``keys [s, k]`` sort by score, then by the smaller id; ``floor [s]`` is what others must reach.
    """

    keys: Tensor
    floor: Tensor | None = None

    def update(self, scores: Tensor, offset: int, known: tuple[Tensor, Tensor] | None) -> None:
        """Rank ``scores [s, c]`` of candidates ``offset, offset + 1, ...`` too."""
        if known is not None:
            here = (known[1] >= offset) & (known[1] < offset + scores.shape[1])
            scores[known[0][here], known[1][here] - offset] = -torch.inf
        if self.floor is None:
            self.floor = _first_floor(scores, self.keys.shape[1]).clamp_(min=_LOWEST)
        row, col = (scores >= self.floor[:, None]).nonzero(as_tuple=True)
        if not row.numel():
            return
        rowptr = rowptr_of(row, len(scores))
        pool = self.keys.new_full((len(scores), int(rowptr.diff().max())), _EMPTY)
        place = torch.arange(row.numel(), device=row.device) - rowptr[row]
        pool[row, place] = _pack(scores[row, col], col + offset)
        pool = torch.cat([self.keys, pool], 1)
        self.keys.copy_(pool.topk(self.keys.shape[1], dim=1).values)
        # Of equals, those that were there first are ranked: others must be above the last.
        last = _unpack(self.keys[:, -1:]).scores[:, 0].clamp_(min=_LOWEST)
        self.floor = last.nextafter(last.new_tensor(torch.inf))


def _first_floor(scores: Tensor, k: int) -> Tensor:
    """A number per row that at least k scores reach, if there are k: cheap, and never too high.

    The k-th largest of the maxima of disjoint segments will do.
    """
    segments = scores.shape[1] // _SEGMENT
    if k > segments:
        return scores.topk(min(k, scores.shape[1]), dim=1).values[:, -1]
    maxima: Tensor = scores[:, : segments * _SEGMENT].unflatten(1, (_SEGMENT, segments)).amax(1)
    return maxima.topk(k, dim=1).values[:, -1]


def _pack(scores: Tensor, ids: Tensor) -> Tensor:
    """One int64 per pair that sorts by score, then by the smaller id."""
    bits = (scores + 0.0).view(torch.int32)  # adding 0 makes -0 and 0 equal
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.long() << 32) | (0xFFFFFFFF - ids)


def _unpack(keys: Tensor) -> TopK:
    """The inverse of :func:`_pack`; -1 and -inf for a place that stayed empty."""
    empty = keys == _EMPTY
    ids = (0xFFFFFFFF - (keys & 0xFFFFFFFF)).masked_fill_(empty, -1)
    ordered = (keys >> 32).to(torch.int32)
    bits = ordered ^ ((ordered >> 31) & 0x7FFFFFFF)
    return TopK(ids, bits.view(torch.float32).masked_fill(empty, -torch.inf))
