"""How pairs are scored for a ranking: optimistically by the tile, exactly by the pair.

A ranking asks for tiles of scores that are never too low, drops the candidates that cannot be among
the best even so, and asks for the scores of the pairs that are left.

Any scorer can be tiled: its tiles are exact.  A matrix product rounds differently when its shape
changes, and near-ties would then change places with the chunk size; so they have one padded shape.

Inner products are bounded.  In the basis of the candidates' principal directions let p be the first
few coordinates of a vector and q the rest.  Then by Cauchy and Schwarz::

    p_s . p_c - |q_s| |q_c|  <=  z_s . z_c  <=  p_s . p_c + |q_s| |q_c|

which is a product of few columns, and close, as trained embeddings have few directions that matter.
What the rounding of any step may take away is added, so that no bound is too low.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from tuneup.graph.csr import rows_of
from tuneup.graph.kernels import sampled_product

Span = tuple[int, int]

_UNIT = 2.0**-24
"""Relative rounding of a float32."""
_SHORTENED = 2.0**-5
"""More than a product loses where torch may round its factors to bfloat16, which a vector may be
three times: by itself, as a direction, and in its new coordinates."""
_LARGE = 1e18
"""Beyond such numbers squares of lengths overflow."""
_TINY = 1e-18
"""Its square is more than underflow loses."""
_CACHE = 1 << 22
"""Bytes of bounds that are read again soon after they were written."""
_FEWEST = (30, 62, 126)
"""How many directions to try; two columns more make a multiple of 32."""
_PROBES = (64, 4096)
"""Sources and candidates that show how many pairs the bounds of some directions leave."""
_SURVIVOR = 8000
"""What it costs to score and merge such a pair: as much as so many columns of another's bound."""


class Scorer(Protocol):
    """Scores of some sources against some candidates, from their embeddings."""

    @property
    def tile(self) -> tuple[int, int]:
        """How many sources and candidates are scored at a time."""

    def __call__(self, sources: Tensor, candidates: Tensor, out: Tensor) -> None:
        """Write the scores of ``[s, d]`` against ``[c, d]`` into ``out [s, c]``."""


@dataclass(frozen=True)
class InnerProduct:
    """``z_s . z_c``: bounded, so that few pairs are scored; tiles are only what it begins with."""

    tile: tuple[int, int] = (256, 4096)

    def __call__(self, sources: Tensor, candidates: Tensor, out: Tensor) -> None:
        """One matrix product."""
        torch.mm(sources, candidates.t(), out=out)


INNER_PRODUCT = InnerProduct()


class Group(Protocol):
    """Some of the sources, against all candidates in the order in which they are met."""

    def optimistic(self, span: Span) -> Tensor:
        """Scores ``[s, c]`` against a span of candidates, none below the pair's own."""

    def slack(self, span: Span) -> Tensor | float:
        """By how much they may be above it ``[s, c]``."""

    def scores(self, rowptr: Tensor, place: Tensor, optimistic: Tensor) -> Tensor:
        """Scores of the pairs that are listed for each source ``[E]``, from the tiles'."""


class Scoring(Protocol):
    """All that one ranking scores."""

    @property
    def rounds(self) -> Sequence[Sequence[Span]]:
        """Spans of candidates as they are met; after each round the floor rises."""

    @property
    def order(self) -> Tensor | None:
        """Which candidate is met at a place; ``None``: they are met by their ids."""

    def rows(self, budget: int) -> int:
        """How many sources to rank at a time."""

    def group(self, rows: slice) -> Group:
        """Some of the sources."""


def scoring(scorer: Scorer, sources: Tensor, candidates: Tensor, k: int) -> Scoring:
    """Bounds for inner products of numbers that can be squared, tiles for all else."""
    plain = type(scorer) is InnerProduct  # a kind of it may score otherwise
    if plain and all(_is_moderate(z) for z in (sources, candidates)):
        return Bounded(sources, candidates, k, scorer.tile[1])
    return Tiled(scorer, sources, candidates)


def _is_moderate(z: Tensor) -> bool:
    return not z.numel() or float(z.abs().amax()) * z.shape[1] ** 0.5 < _LARGE


class Tiled:
    """Any scorer, in tiles of one fixed, padded shape."""

    order = None

    def __init__(self, scorer: Scorer, sources: Tensor, candidates: Tensor) -> None:
        self.scorer = scorer
        self.sources = sources
        self.candidates = _pad(candidates, scorer.tile[1])
        self.rounds = [[span] for span in _spans(candidates.shape[0], scorer.tile[1])]

    def rows(self, budget: int) -> int:
        """As many as have tiles within the budget."""
        height, width = self.scorer.tile
        return max(1, budget // (height * width * 4)) * height

    def group(self, rows: slice) -> Group:
        """Some of the sources."""
        return _TiledGroup(self, self.sources[rows])


@dataclass(frozen=True, eq=False)
class _TiledGroup:
    of: Tiled
    sources: Tensor

    @cached_property
    def _padded(self) -> Tensor:
        return _pad(self.sources, self.of.scorer.tile[0])

    @cached_property
    def _out(self) -> Tensor:
        return self._padded.new_empty(self._padded.shape[0], self.of.scorer.tile[1])

    def optimistic(self, span: Span) -> Tensor:
        """The scores themselves."""
        height, width = self.of.scorer.tile
        tile = self.of.candidates[span[0] : span[0] + width]
        for row in range(0, self._padded.shape[0], height):
            part = slice(row, row + height)
            self.of.scorer(self._padded[part], tile, self._out[part])
        return self._out[: self.sources.shape[0], : span[1] - span[0]]

    def slack(self, span: Span) -> Tensor | float:
        """None."""
        return 0.0

    def scores(self, rowptr: Tensor, place: Tensor, optimistic: Tensor) -> Tensor:
        """They are known."""
        return optimistic


class Bounded:
    """Inner products, from bounds in few dimensions; candidates are met longest first."""

    order: Tensor | None

    def __init__(self, sources: Tensor, candidates: Tensor, k: int, width: int) -> None:
        self.sources = sources
        self.basis = _basis(sources, candidates, k) if _pays(sources, candidates) else None
        self.rounding = 8 * sources.shape[1] * _UNIT
        if _may_shorten():
            self.rounding += _SHORTENED
        columns = self.columns(candidates)
        self.order = columns[:, -1].argsort(descending=True, stable=True)
        self.candidates = candidates.index_select(0, self.order)
        self.bounds = columns.index_select(0, self.order)
        # The longest lead the lists: they raise the floor, and all others are met in one round.
        spans = _spans(candidates.shape[0], width)
        self.rounds = [part for part in (spans[:1], spans[1:]) if part]
        self.width = width

    def columns(self, z: Tensor) -> Tensor:
        """A vector's first coordinates, the length of the rest, and its own ``[n, few + 2]``."""
        length = torch.linalg.vector_norm(z, dim=1, keepdim=True)
        if self.basis is None:
            return torch.cat([z, torch.zeros_like(length), length.clamp_(min=_TINY)], 1)
        basis, few = self.basis
        turned = z @ basis
        rest = torch.linalg.vector_norm(turned[:, few:], dim=1, keepdim=True)
        return torch.cat([turned[:, :few], rest, length.clamp_(min=_TINY)], 1)

    def rows(self, budget: int) -> int:
        """As many as leave their bounds in the cache."""
        return max(1, min(budget, _CACHE) // (4 * self.width))

    def group(self, rows: slice) -> Group:
        """Some of the sources."""
        columns = self.columns(self.sources[rows])
        columns[:, -1].mul_(self.rounding).clamp_(min=_TINY)
        return _BoundedGroup(self, self.sources[rows], columns)


@dataclass(frozen=True, eq=False)
class _BoundedGroup:
    of: Bounded
    sources: Tensor
    columns: Tensor

    def optimistic(self, span: Span) -> Tensor:
        """Upper bounds."""
        return self.columns @ self.of.bounds[slice(*span)].t()

    def slack(self, span: Span) -> Tensor | float:
        """What bounds add to the first coordinates' product, up and down."""
        return 2.0 * (self.columns[:, -2:] @ self.of.bounds[slice(*span), -2:].t())

    def scores(self, rowptr: Tensor, place: Tensor, optimistic: Tensor) -> Tensor:
        """Products pair by pair: the same bits in whatever company."""
        row = rows_of(rowptr, place.numel())
        return sampled_product(rowptr, place, row, self.sources, self.of.candidates)


def _may_shorten() -> bool:
    """Whether a float32 product may be computed from shorter factors."""
    try:
        return torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:  # there are newer switches, one a backend, and one of them was used
        return True


def _pays(sources: Tensor, candidates: Tensor) -> bool:
    """Whether turning the vectors costs less than the columns that it may save."""
    width = sources.shape[1]
    return width > _FEWEST[0] and min(sources.shape[0], candidates.shape[0]) > 4 * width


def _basis(sources: Tensor, candidates: Tensor, k: int) -> tuple[Tensor, int] | None:
    """Orthonormal directions ``[d, d]``, and how many of the first to bound by; ``None``: by all.

    Few make a bound cheap, and loose where vectors differ in length: what counts is how many pairs
    are left to be scored, of some sources and candidates.  The ranking is the same with any number.
    """
    gram = (candidates.t() @ candidates).cpu().double()
    basis = torch.linalg.eigh(gram).eigenvectors.flip(1).to(candidates)  # the largest first
    some, others = (
        _spread(z, count) @ basis for z, count in zip((sources, candidates), _PROBES, strict=True)
    )
    best = max(1, min(k, len(candidates)) * len(others) // len(candidates))
    floor = (some @ others.t()).topk(best, dim=1).values[:, -1:]
    cost = {basis.shape[1]: basis.shape[1] + _SURVIVOR * best / len(others)}
    for few in (few for few in _FEWEST if few < basis.shape[1]):
        rest = [torch.linalg.vector_norm(z[:, few:], dim=1) for z in (some, others)]
        left = some[:, :few] @ others[:, :few].t() + torch.outer(*rest) >= floor
        cost[few] = few + _SURVIVOR * float(left.float().mean())
    fewest = min(cost, key=lambda few: cost[few])
    return None if fewest == basis.shape[1] else (basis, fewest)


def _spread(rows: Tensor, count: int) -> Tensor:
    """So many of them, or all, evenly spread."""
    return rows[:: -(-rows.shape[0] // count)]


def _pad(rows: Tensor, multiple: int) -> Tensor:
    """Rows of zeros added until their number is a multiple."""
    return F.pad(rows, (0, 0, 0, -rows.shape[0] % multiple)).contiguous()


def _spans(count: int, width: int) -> list[Span]:
    return [(start, min(start + width, count)) for start in range(0, count, width)]
