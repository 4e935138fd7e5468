"""A list of nodes for each of some nodes, in compressed rows."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from .csr import take_rows


@dataclass(frozen=True, eq=False)
class Rows:
    """A list of candidates per source: row pointer ``[n + 1]`` and ids ``[E]``."""

    rowptr: Tensor
    col: Tensor

    @property
    def count(self) -> Tensor:
        """Length of each list ``[n]``."""
        return self.rowptr.diff()


def take_lists(rows: Rows, chosen: Tensor) -> Rows:
    """The lists of the ``chosen`` sources, in that order."""
    rowptr, entries = take_rows(rows.rowptr, chosen)
    return Rows(rowptr, rows.col[entries])
