"""What methods are called where people read of them, and in which order they stand there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .registry import METHODS

PAPER_TITLES: Mapping[str, str] = {
    "base": "Base",
    "dropedge": "DropEdge",
    "localaug": "LocalAug",
    "coldbrew": "ColdBrew",
    "graphlessnn": "GraphLessNN",
    "rawls-gcn": "RAWLS-GCN",
    "tail-gnn": "Tail-GNN",
    "without-curriculum": "TuneUp w/o curriculum",
    "without-pseudo-labels": "TuneUp w/o pseudo-labels",
    "without-syn-tails": "TuneUp w/o syn-tails",
    "tuneup": "TuneUp",
}
"""Rows of the paper's tables, in their order, by the names that they have here."""
ROWS = tuple(PAPER_TITLES)


def title_of(method: str) -> str:
    """What the paper calls a method, or what it calls itself."""
    own = METHODS[method].title if method in METHODS else ""
    return PAPER_TITLES.get(method) or own or method


def in_order(names: Iterable[str]) -> list[str]:
    """Methods as the paper orders them: Base first, others of our own last."""
    return sorted(names, key=lambda name: (ROWS.index(name) if name in ROWS else len(ROWS), name))
