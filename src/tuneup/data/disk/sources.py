"""What a graph folder is written from: tables of edges and of nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import polars as pl
from torch import Tensor

from .engine import Scan

Dtype = Literal["float32", "float16"]
"""How dense features are stored."""


@dataclass(frozen=True)
class EdgeSource:
    """A table of edges.

    Args:
        scan: its files.
        source: column that edges begin in.
        target: column that they end in.
    """

    scan: Scan
    source: str
    target: str


class Encoder(Protocol):
    """Makes features of columns."""

    @property
    def width(self) -> int:
        """Numbers per node."""

    @property
    def plan(self) -> str:
        """The encoder as JSON, which the header keeps."""

    @property
    def blank(self) -> Tensor:
        """Features of a node about which nothing is known ``[width]``."""

    def __call__(self, frame: pl.DataFrame) -> Tensor:
        """Features ``[rows, width]``."""


@dataclass(frozen=True)
class NodeSource:
    """A table of nodes.

    Args:
        scan: its files.
        id: column of ids.
        label: column of classes.
        split: column that says train, validation or test.
        features: columns that features are made of.
        fit: makes the encoder by a sample of the rows that training knows, in their own types.
        shares: of a seeded split of labelled nodes: train, validation and new; without a column.
        seed: of the split.
    """

    scan: Scan
    id: str
    label: str | None = None
    split: str | None = None
    features: tuple[str, ...] = ()
    fit: Callable[[pl.DataFrame], Encoder] | None = None
    shares: tuple[float, float, float] | None = None
    seed: int = 0
