"""Exact top-k of every source over all candidates, in bounded memory and with stable bits.

Candidates are ranked by score, then by the smaller id.  A tile of scores that are never too low
(:mod:`.scoring`) leaves few candidates of a source that can be among its best; these are scored
and merged with the ones that are held.  The memory budget only sets how many sources are ranked at
a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Rows
from tuneup.graph.csr import rowptr_of, rows_of

from .scoring import INNER_PRODUCT, Group, Scorer, Span, scoring

DEFAULT_BUDGET = 1 << 27
"""Bytes of scores that may be alive at once."""

_LEAST = -(1 << 63)
_LOWEST = torch.finfo(torch.float32).min
_SEGMENT = 32
_POOL_BYTES = 128
"""What a candidate costs while it waits to be merged."""
_PATIENCE = 4
"""How many times k survivors a source may have waiting, on average, before a merge pays."""


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
    sources, candidates = sources.float(), candidates.float()
    _check(sources, candidates, k, known)
    if min(scorer.tile) < 1:
        raise InputError(f"A scorer's tile is 1 by 1 or larger; got {scorer.tile}.")
    with torch.autocast(sources.device.type, enabled=False):  # exact by float32
        return _ranked(sources, candidates, k, known, scorer, budget)


def _ranked(
    sources: Tensor, candidates: Tensor, k: int, known: Rows | None, scorer: Scorer, budget: int
) -> TopK:
    pairs = scoring(scorer, sources, candidates, k)
    place = None if pairs.order is None else pairs.order.argsort()
    ids = torch.full((sources.shape[0], k), -1, dtype=torch.long, device=sources.device)
    scores = torch.full((sources.shape[0], k), -torch.inf, device=sources.device)
    step = pairs.rows(budget)
    for start in range(0, sources.shape[0], step):
        rows = slice(start, min(start + step, sources.shape[0]))
        keys = torch.full((rows.stop - start, k), _LEAST, device=sources.device)
        best = _Best(pairs.group(rows), pairs.order, keys, most=budget // _POOL_BYTES)
        cut = _cut(known, rows, place)
        for spans in pairs.rounds:
            best.meet(spans, cut)
        ids[rows], scores[rows] = _unpack(best.keys)
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


def _cut(known: Rows | None, rows: slice, place: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """Row (from the first of these) and place of every known pair of some sources."""
    if known is None:
        return None
    bounds = known.rowptr[rows.start : rows.stop + 1]
    col = known.col[int(bounds[0]) : int(bounds[-1])]
    return rows_of(bounds, col.numel()), col if place is None else place[col]


_Found = tuple[Tensor, Tensor, Tensor]
"""Row, place and optimistic score of some survivors."""


@dataclass(eq=False)
class _Best:
    """The best so far of a group of sources.

    Args:
        group: what they are scored by.
        order: the id of the candidate at each place.
        keys: of the k to keep, which sort by score, then by the smaller id ``[s, k]``.
        most: survivors that may wait to be merged.
    """

    group: Group
    order: Tensor | None
    keys: Tensor
    most: int
    floor: Tensor | None = None
    """a score below which nothing is among the best ``[s]``"""

    def meet(self, spans: Sequence[Span], known: tuple[Tensor, Tensor] | None) -> None:
        """Candidates at some places; the floor rises when all, or many survivors, have been met."""
        waiting: list[_Found] = []
        enough = min(self.most, _PATIENCE * self.keys.numel())
        for span in spans:
            scores = self.group.optimistic(span)
            if known is not None:
                here = (known[1] >= span[0]) & (known[1] < span[1])
                scores[known[0][here], known[1][here] - span[0]] = -torch.inf
            if self.floor is None:
                self.floor = _first_floor(scores - self.group.slack(span), self.keys.shape[1])
            for found in self._survivors(scores, span[0]):
                waiting.append(found)
                if sum(row.numel() for row, _, _ in waiting) > enough:
                    self._merge(waiting)
        self._merge(waiting)

    def _survivors(self, scores: Tensor, offset: int) -> Iterator[_Found]:
        """Who reaches the floor; those that are known have -inf, and never do."""
        assert self.floor is not None
        survive = scores >= self.floor.clamp(min=_LOWEST)[:, None]
        few = scores.numel() <= self.most or int(survive.count_nonzero()) <= self.most
        step = len(scores) if few else max(1, self.most // scores.shape[1])
        for start in range(0, len(scores), step):
            row, col = survive[start : start + step].nonzero(as_tuple=True)
            yield row + start, col + offset, scores[row + start, col]

    def _merge(self, waiting: list[_Found]) -> None:
        """Score those that wait, and keep the best of them and of those held."""
        if not waiting:
            return
        row, place, optimistic = (torch.cat(parts) for parts in zip(*waiting, strict=True))
        if len(waiting) > 1:
            row, by_row = row.sort(stable=True)
            place, optimistic = place[by_row], optimistic[by_row]
        waiting.clear()
        rowptr = rowptr_of(row, len(self.keys))
        found = self.group.scores(rowptr, place, optimistic)
        keys = _pack(found, place if self.order is None else self.order[place])
        position = torch.arange(row.numel(), device=row.device) - rowptr[row]
        longest = int(rowptr.diff().max())
        step = max(1, self.most // max(1, longest))
        for start in range(0, len(self.keys), step):
            held = self.keys[start : start + step]
            here = slice(*rowptr[[start, start + len(held)]].tolist())
            pool = held.new_full((len(held), longest), _LEAST)
            pool[row[here] - start, position[here]] = keys[here]
            held[:] = torch.cat([held, pool], 1).topk(held.shape[1], dim=1).values
        self.floor = _unpack(self.keys[:, -1:])[1][:, 0]
        if self.order is None:  # candidates come by their ids: of equals, the ones held are first
            self.floor = self.floor.nextafter(self.floor.new_tensor(torch.inf))


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


def _unpack(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Ids and scores, the inverse of :func:`_pack`; -1 and -inf for a place that stayed empty."""
    empty = keys == _LEAST
    ids = (0xFFFFFFFF - (keys & 0xFFFFFFFF)).masked_fill_(empty, -1)
    ordered = (keys >> 32).to(torch.int32)
    bits = ordered ^ ((ordered >> 31) & 0x7FFFFFFF)
    return ids, bits.view(torch.float32).masked_fill(empty, -torch.inf)
