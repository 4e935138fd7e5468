"""What is asked about new nodes, checked in full before any work is done."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tuneup.errors import InputError
from tuneup.graph import Adjacency

from .arrivals import Arrivals, Ints, arrivals
from .ids import IdList, Ids, ids_of

Neighbours = Sequence[IdList]
"""For each new node the known nodes that it has an edge with, none included."""

Between = Sequence[tuple[int, int]]
"""Edges between new nodes, by their rows: source, then target."""


def read_arrivals(
    known: Ids,
    first: int,
    graph: Adjacency,
    count: int,
    neighbours: Neighbours,
    *,
    targets: Neighbours | None = None,
    between: Between | None = None,
) -> Arrivals:
    """The edges of ``count`` new nodes; ``first`` is the number of the first known id."""
    if targets is not None and graph.undirected:
        raise InputError("targets are for directed graphs: here an edge goes both ways.")
    return arrivals(
        graph.num_nodes,
        _lists(known, first, count, neighbours, "neighbours"),
        undirected=graph.undirected,
        targets=None if targets is None else _lists(known, first, count, targets, "targets"),
        between=_between(count, between),
    )


def _lists(known: Ids, first: int, count: int, given: Neighbours, name: str) -> list[Ints]:
    if isinstance(given, str) or len(given) != count:
        raise InputError(
            f"{name} must be {count} lists of ids, one a new node, empty for a node without edges; "
            f"got {len(given)}."
        )
    lists = []
    for row, each in enumerate(given):
        try:
            lists.append(known.numbers(each) + first)
        except InputError as error:
            raise InputError(f"{name} of new node {row}: {error}") from error
        except TypeError as error:
            raise InputError(
                f"{name} of new node {row} must be a list of ids; got {each!r}."
            ) from error
    return lists


def _between(count: int, given: Between | None) -> Ints | None:
    if given is None or not len(given):
        return None
    pairs = np.asarray(given)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise InputError("between must be pairs of rows of new nodes, like [(0, 1)].")
    wrong = (pairs < 0) | (pairs >= count)
    if wrong.any():
        pair = tuple(pairs[wrong.any(1)][0].tolist())
        raise InputError(f"between names the new nodes {pair}; there are rows 0..{count - 1}.")
    return pairs.T.astype(np.int64)


def new_ids(given: IdList | None, count: int, known: Ids) -> pl.Series:
    """What new nodes are called in answers; without names their rows."""
    if given is None:
        return pl.Series("id", np.arange(count))
    named = ids_of(given, count, f"new {known.kind}").values
    taken = [value for value in named.to_list() if value in known]
    if taken:
        raise InputError(
            f"The model knows {known.kind} {taken[0]!r} already: ask about it by its id, or give "
            "the new one another."
        )
    return named
