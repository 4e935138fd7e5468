"""What callers ask about: ids, features and edges, checked and turned into numbers and tensors.

New nodes and their edges are laid over a graph that stays as it is. Nodes with edges between them
arrive together, in one *world* of an :class:`~tuneup.graph.Overlay`; all others arrive alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Adjacency, Overlay, Rows
from tuneup.tables import IdMap, Table, frame_of

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

OnUnknown = Literal["error", "skip"]
"""What to do about ids that a model does not know: refuse the question, or answer the others."""

IdList = Sequence[Any] | pl.Series | Tensor | np.ndarray[Any, Any]
"""Ids as users have them: a list, a column, an array."""

Neighbours = Sequence[IdList | Mapping[Any, float]]
"""For each new node the known nodes that it has an edge with, none included; where edges have
weights, a mapping of such nodes to weights."""

Between = Sequence[tuple[int, int] | tuple[int, int, float]]
"""Edges between new nodes, by their rows: source, target and, where edges have them, weight."""

FeatureRows = Any
"""Rows of features, a tensor or an array, or of columns that a feature reader turns into features:
a frame of polars or pandas, or a :class:`~tuneup.tables.Table`."""

_SHOWN = 3
"""Unknown ids that a message names."""


class FeatureReader(Protocol):
    """Turns rows of columns into rows of features, as :class:`tuneup.tables.FeaturePlan` does.

    An artefact keeps the JSON that a reader gives of itself and never looks inside. Whoever loads
    the artefact says who can read that JSON::

        Predictor(model, graph, plan=plan).save("model")
        Predictor.load("model", read_plan=FeaturePlan.from_json)

    Without one, features are given as numbers: a tensor, an array, or a frame whose columns are all
    numbers in the order of the features.
    """

    def to_json(self) -> Any:
        """Plain values from which the reader can be made again."""

    def apply(self, frame: Table | pl.DataFrame) -> Tensor:
        """Features ``[rows, d]``; raises InputError where a row cannot be read."""


PlanReader = Callable[[Any], FeatureReader]
"""Makes a feature reader from the JSON that its ``to_json`` gave."""


def id_series(values: IdList, *, strict: bool = False) -> pl.Series:
    """Ids as a column; ``strict`` refuses a list of several types."""
    if isinstance(values, pl.Series):
        return values.alias("id")
    try:
        return pl.Series("id", _listed(values), strict=strict)
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise InputError(f"Ids must be single values of one type ({error}).") from error


def _listed(values: IdList) -> list[Any]:
    if isinstance(values, str | bytes):
        raise InputError(f"Ids come as a list; got the single text {values!r}.")
    return list(values.tolist() if isinstance(values, Tensor | np.ndarray) else values)


def id_map(values: IdList | None, count: int, kind: str) -> IdMap:
    """Ids for ``count`` things; without any, these are called 0, 1, 2, ..."""
    found = pl.Series("id", np.arange(count)) if values is None else id_series(values, strict=True)
    if len(found) != count:
        raise InputError(f"{len(found)} {kind} ids for {count} {kind}s.")
    return IdMap(found, kind)


def positions(known: IdMap, ids: pl.Series) -> Ints:
    """The number of each id; -1 where it is not known."""
    if ids.dtype.is_nested() or ids.dtype == pl.Object:
        raise InputError(f"A {known.kind} id must be a single value; got {ids.dtype}.")
    found: Ints = known.positions(ids).numpy()
    return found


def numbers_of(known: IdMap, ids: pl.Series) -> Ints:
    """The number of each id; refuses those that are not known, by name."""
    found = positions(known, ids)
    if (found < 0).any():
        unknown = ids.filter(found < 0).to_list()
        names = ", ".join(map(repr, unknown[:_SHOWN]))
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        raise InputError(f"The model knows no {known.kind} {names}{more}; {example_of(known)}.")
    return found


def example_of(known: IdMap) -> str:
    """How many ids a model knows and what they look like, for messages."""
    return f"it knows {len(known):,}, like {known[0]!r} ({known.values.dtype})"


def names_of_new(given: IdList | None, count: int, known: IdMap) -> pl.Series:
    """What new nodes are called in answers; without names their rows."""
    if given is None:
        return pl.Series("id", np.arange(count))
    named = id_map(given, count, f"new {known.kind}").values
    taken = named.filter(positions(known, named) >= 0)
    if len(taken):
        raise InputError(
            f"The model knows {known.kind} {taken[0]!r} already: ask about it by its id, or give "
            "the new one another."
        )
    return named


def read_features(x: FeatureRows, width: int, plan: FeatureReader | None) -> Tensor:
    """Features ``[m, width]`` of new nodes, checked."""
    found: Tensor
    if not isinstance(x, Tensor | np.ndarray):
        rows = x if isinstance(x, Table) else frame_of(x)
        found = _numbers(rows) if plan is None else plan.apply(rows)
    elif isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.floating):
        found = torch.from_numpy(x.astype(np.float32))  # a copy: arrays may be read-only
    else:
        found = torch.tensor(x) if isinstance(x, np.ndarray) else x
    if found.dim() != 2 or found.shape[1] != width:
        raise InputError(
            f"The model reads {width} features a node, x of shape [nodes, {width}]; got "
            f"{list(found.shape)}."
        )
    if found.dtype == torch.bool or found.is_complex():
        raise InputError(f"Features must be numbers; got {found.dtype}.")
    found = found.float()
    if not torch.isfinite(found).all():
        row, column = (~torch.isfinite(found)).nonzero()[0].tolist()
        raise InputError(f"Feature {column} of new node {row} is {found[row, column]}: not finite.")
    return found


def _numbers(rows: Table | pl.DataFrame) -> Tensor:
    table = rows if isinstance(rows, Table) else Table.of(rows)
    for name, kind in table.frame.schema.items():
        if not kind.is_numeric():
            raise table.error(
                f"holds {kind}, and no feature plan says how to read it: give columns of numbers, "
                "in the order of the features.",
                column=name,
            )
        missing = table.frame[name].is_null()
        if missing.any():
            row = int(missing.arg_max() or 0)
            raise table.error("no number here, and features must be numbers.", row, name)
    return torch.from_numpy(table.frame.to_numpy().astype(np.float32))


@dataclass(frozen=True, eq=False)
class Arrivals:
    """New nodes, as nodes of an overlay.

    Args:
        overlay: the graph with the new nodes and edges in it, on the CPU.
        nodes: which of its nodes are new ``[m]``; new node i has number N + i in its world.
        weight: of the overlay's added entries, if the graph has edge weights.
    """

    overlay: Overlay
    nodes: Tensor
    weight: Tensor | None = None

    @property
    def degree(self) -> Ints:
        """Number of senders of each new node ``[m]``."""
        found: Ints = self.overlay.degree(self.nodes).numpy()
        return found

    def old_neighbours(self) -> Rows:
        """The numbers of the old nodes that each new node receives from."""
        senders = self.overlay.take(self.nodes)
        number = self.overlay.number(senders.col)
        return senders.select(number < self.overlay.base.num_nodes, number)


Entries = tuple[Ints, Ints, Floats]
"""Ends of some edges ``[n]``, of which at least one is a new node, and weights (1 if none)."""


def read_arrivals(
    known: IdMap,
    first: int,
    graph: Adjacency,
    count: int,
    neighbours: Neighbours,
    *,
    targets: Neighbours | None = None,
    between: Between | None = None,
) -> Arrivals:
    """New nodes and their edges, checked; repeated edges count once.

    Args:
        known: ids that neighbours are given by.
        first: number of the first of them in the graph.
        graph: the old nodes.
        count: of new nodes.
        neighbours: old nodes that each new node receives from; if undirected, also sends to.
        targets: old nodes that each new node sends to, in a directed graph.
        between: edges between new nodes, by row.
    """
    old, weighted, pairs = graph.num_nodes, graph.weight is not None, None
    new, other, weight = _edges_to(known, count, neighbours, "neighbours", weighted)
    parts = [(new + old, other + first, weight)]  # receivers, senders
    if targets is not None:
        if graph.undirected:
            raise InputError("targets are for directed graphs: here an edge goes both ways.")
        new, other, weight = _edges_to(known, count, targets, "targets", weighted)
        parts.append((other + first, new + old, weight))
    if between is not None and len(between):
        source, target, weight = pairs = _between(count, between, weighted)
        proper = source != target
        parts.append((target[proper] + old, source[proper] + old, weight[proper]))
    if graph.undirected:
        parts += [(sender, receiver, weight) for receiver, sender, weight in parts]
    receiver, sender, weight = (np.concatenate(side) for side in zip(*parts, strict=True))
    world, span = _worlds(count, pairs), old + count
    # An old receiver is seen by the sender's world, a new one by its own, which is the same.
    key = world[np.maximum(receiver, sender) - old] * span + receiver
    order = np.lexsort((sender, key))
    key, sender, weight = key[order], sender[order], weight[order]
    fresh, first_of_row = (np.ones(key.size, dtype=np.bool_) for _ in range(2))
    first_of_row[1:] = key[1:] != key[:-1]
    fresh[1:] = first_of_row[1:] | (sender[1:] != sender[:-1])
    if weighted and (~fresh[1:] & (weight[1:] != weight[:-1])).any():
        raise InputError("An edge of a new node is given twice, with different weights: give one.")
    key, sender, weight, first_of_row = (
        each[fresh] for each in (key, sender, weight, first_of_row)
    )
    start = first_of_row.nonzero()[0]
    nodes = torch.from_numpy(world * span + np.arange(old, span))
    receivers, rowptr, col, gained = map(
        torch.from_numpy, (key[first_of_row], np.append(start, key.size), sender, weight)
    )
    worlds = int(world.max()) + 1 if count else 0
    overlay = Overlay(graph.neighbours, span, worlds, receivers, Rows(rowptr, col))
    return Arrivals(overlay, nodes, gained if weighted else None)


def _edges_to(known: IdMap, count: int, given: Neighbours, name: str, weighted: bool) -> Entries:
    """New nodes by row, the positions of the known ids that each lists, and weights."""
    if isinstance(given, str) or len(given) != count:
        raise InputError(
            f"{name} must be {count} lists of ids, one a new node, empty for a node without edges; "
            f"got {len(given)}."
        )
    lists: list[list[Any]] = []
    weights: list[Any] = []
    for row, each in enumerate(given):
        try:
            lists.append(_listed(list(each) if isinstance(each, Mapping) else each))
        except (InputError, TypeError) as error:
            raise InputError(
                f"{name} of new node {row} must be a list of ids; got {each!r}."
            ) from error
        if isinstance(each, Mapping):
            weights += each.values()
        if lists[-1] and weighted != isinstance(each, Mapping):
            raise InputError(
                f"{name} of new node {row}: {_weights_wanted('{id: weight}', weighted)}"
            )
    try:
        found = numbers_of(known, id_series([id for each in lists for id in each]))
    except InputError:
        for row, listed in enumerate(lists):
            try:
                numbers_of(known, id_series(listed))
            except InputError as error:
                raise InputError(f"{name} of new node {row}: {error}") from error
        raise
    lengths = np.array([len(each) for each in lists], dtype=np.int64)
    new = np.repeat(np.arange(count), lengths)
    return new, found, _weights(weights, name) if weighted else _ones(found)


def _between(count: int, given: Between, weighted: bool) -> Entries:
    """Sources, targets and weights of edges between new nodes."""
    try:
        table = np.asarray(given)
    except ValueError:  # rows of several lengths
        table = np.empty(0)
    columns = table.shape[1] if table.ndim == 2 else 0
    if columns == (2 if weighted else 3):
        wanted = _weights_wanted("(source, target, weight)", weighted)
        raise InputError(f"between: {wanted}")
    numbers = table.dtype.kind in ("iuf" if weighted else "iu")
    if columns != 2 + weighted or not numbers or (table[:, :2] % 1).any():
        raise InputError("between must be pairs of rows of new nodes, like [(0, 1)].")
    pairs = table[:, :2].astype(np.int64)
    wrong = (pairs < 0) | (pairs >= count)
    if wrong.any():
        pair = tuple(pairs[wrong.any(1)][0].tolist())
        raise InputError(f"between names the new nodes {pair}; there are rows 0..{count - 1}.")
    source, target = pairs.T
    return source, target, _weights(table[:, 2], "between") if weighted else _ones(source)


def _ones(ends: Ints) -> Floats:
    return np.ones(ends.size, dtype=np.float32)


def _weights_wanted(form: str, weighted: bool) -> str:
    if weighted:
        return f"the edges of this model have weights; expected {form}, got none."
    return "got edge weights, and the edges of this model have none: give ids alone."


def _weights(values: Iterable[Any], name: str) -> Floats:
    try:
        found: Floats = np.asarray(list(values), dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: edge weights must be numbers ({error}).") from error
    if not (np.isfinite(found) & (found > 0)).all():
        raise InputError(f"{name}: edge weights must be finite and above 0.")
    return found


def _worlds(count: int, between: Entries | None) -> Ints:
    """A number for each group of new nodes that edges connect, in the order of first members."""
    if between is None:
        return np.arange(count)
    from scipy.sparse import coo_array  # slow to import
    from scipy.sparse.csgraph import connected_components

    source, target, weight = between
    edges = coo_array((np.ones(weight.size), (source, target)), (count, count))
    found: Ints = connected_components(edges, directed=False)[1].astype(np.int64)
    return found
