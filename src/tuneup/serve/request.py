"""What is asked, checked before any work is done: ids, features, edges, and tables of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Adjacency
from tuneup.tables import IdMap, NewRows, Table, frame_of

from .answers import ClassAnswers, RankingAnswers
from .arrivals import Arrivals, Ints, arrivals

if TYPE_CHECKING:
    from .predictor import Predictor

OnUnknown = Literal["error", "skip"]
"""What to do about ids that a model does not know: refuse the question, or answer the others."""

IdList = Sequence[Any] | pl.Series | Tensor | np.ndarray[Any, Any]
"""Ids as users have them: a list, a column, an array."""

Neighbours = Sequence[IdList]
"""For each new node the known nodes that it has an edge with, none included."""

Between = Sequence[tuple[int, int]]
"""Edges between new nodes, by their rows: source, then target."""

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


def id_list(values: IdList) -> list[Any]:
    """Ids as a list of Python's values."""
    if isinstance(values, str | bytes):
        raise InputError(f"Ids come as a list; got the single text {values!r}.")
    if isinstance(values, Tensor | np.ndarray):
        return list(values.tolist())
    return list(values)


def id_series(values: IdList, *, strict: bool = False) -> pl.Series:
    """Ids as a column; ``strict`` refuses a list of several types."""
    if isinstance(values, pl.Series):
        return values.alias("id")
    listed = id_list(values)
    try:
        return pl.Series("id", listed, strict=strict)
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise InputError(f"Ids must be single values of one type ({error}).") from error


def id_map(values: IdList | None, count: int, kind: str) -> IdMap:
    """Ids for ``count`` things; without any, these are called 0, 1, 2, ..."""
    if values is None:
        return IdMap(pl.Series("id", np.arange(count)), kind)
    found = id_series(values, strict=True)
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
        raise InputError(f"The model knows no {known.kind} {names}{more}; {_known(known)}.")
    return found


def _known(known: IdMap) -> str:
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
    frame = table.frame
    for name, kind in frame.schema.items():
        if not kind.is_numeric():
            raise table.error(
                f"holds {kind}, and no feature plan says how to read it: give columns of numbers, "
                "in the order of the features.",
                column=name,
            )
        if frame[name].null_count():
            row = int(frame[name].is_null().arg_max() or 0)
            raise table.error("no number here, and features must be numbers.", row, name)
    return torch.from_numpy(frame.to_numpy().astype(np.float32))


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
    """The edges of ``count`` new nodes; ``first`` is the number of the first known id."""
    if targets is not None and graph.undirected:
        raise InputError("targets are for directed graphs: here an edge goes both ways.")
    return arrivals(
        graph,
        _lists(known, first, count, neighbours, "neighbours"),
        targets=None if targets is None else _lists(known, first, count, targets, "targets"),
        between=_between(count, between),
    )


def _lists(known: IdMap, first: int, count: int, given: Neighbours, name: str) -> list[Ints]:
    if isinstance(given, str) or len(given) != count:
        raise InputError(
            f"{name} must be {count} lists of ids, one a new node, empty for a node without edges; "
            f"got {len(given)}."
        )
    listed: list[list[Any]] = []
    for row, each in enumerate(given):
        try:
            listed.append(id_list(each))
        except (InputError, TypeError) as error:
            raise InputError(
                f"{name} of new node {row} must be a list of ids; got {each!r}."
            ) from error
    try:
        found = numbers_of(known, id_series([id for each in listed for id in each])) + first
    except InputError:
        for row, each in enumerate(listed):
            try:
                numbers_of(known, id_series(each))
            except InputError as error:
                raise InputError(f"{name} of new node {row}: {error}") from error
        raise
    return np.split(found, np.cumsum([len(each) for each in listed])[:-1]) if count else []


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


def ask(
    predictor: Predictor,
    ids: Sequence[str] | NewRows | None,
    k: int,
    *,
    on_unknown: OnUnknown = "error",
) -> ClassAnswers | RankingAnswers:
    """Answers about known nodes, by the model's task.

    Args:
        predictor: the model.
        ids: as texts, or as rows of a table; ``None`` asks about all nodes.
        k: how many candidates to rank.
        on_unknown: "skip" names unknown ids in the answer's ``skipped``; "error" refuses them.
    """
    known = predictor.ids
    if isinstance(ids, NewRows):
        wanted = ids.ids[0]
        _unknown_rows(known, ids, 0, on_unknown)  # refused by row and column
    elif ids is None:
        wanted = known.values
    else:
        wanted = _typed(known, pl.Series("id", list(ids), dtype=pl.String))
    if predictor.task == "node-classification":
        return predictor.predict(wanted, on_unknown=on_unknown)
    if predictor.task == "link-prediction":
        return predictor.links(wanted, k, on_unknown=on_unknown)
    return predictor.recommend(wanted, k, on_unknown=on_unknown)


def ask_new(
    predictor: Predictor,
    nodes: NewRows | None,
    edges: NewRows | None,
    k: int,
    *,
    on_unknown: OnUnknown = "error",
) -> ClassAnswers | RankingAnswers:
    """Answers about nodes that the model does not know.

    Args:
        predictor: the model.
        nodes: a row a new node: its id and its features. New users of a recommender need no row
            unless they have no item, nor do new nodes of a model that reads no features unless
            they have no edge.
        edges: source and target, or user and item; an end is the id of a new or a known node.
        k: how many candidates to rank.
        on_unknown: "skip" leaves out edges with an end that is neither new nor known, and names
            these ends in the answer's ``skipped``; "error" refuses them.
    """
    known, undirected = predictor.candidates, predictor.model.artefact.adjacency.undirected
    recommends = predictor.task == "recommendation"
    new = _new_ids(predictor, nodes, edges)
    neighbours: list[list[str]] = [[] for _ in range(len(new))]
    targets: list[list[str]] = [[] for _ in range(len(new))]
    between: list[tuple[int, int]] = []
    skipped: dict[Any, None] = {}
    if edges is not None:
        row_of = IdMap(new)
        rows = [positions(row_of, ends) for ends in edges.ids]
        if recommends:  # an item is never a new user, whatever its id
            rows[1][:] = -1
        unknown = [_unknown_rows(known, edges, end, on_unknown, rows[end]) for end in (0, 1)]
        for ends, strays in zip(edges.ids, unknown, strict=True):
            skipped |= dict.fromkeys(ends.filter(strays).to_list())
        use = ~(unknown[0] | unknown[1])
        _refuse_old_edges(edges, use & (rows[0] < 0) & (rows[1] < 0))
        texts = [ends.cast(pl.String).to_list() for ends in edges.ids]
        for edge in np.flatnonzero(use).tolist():
            source, target = int(rows[0][edge]), int(rows[1][edge])
            if source >= 0 and target >= 0:
                between.append((source, target))
            elif target >= 0:
                neighbours[target].append(texts[0][edge])
            else:
                (neighbours if undirected else targets)[source].append(texts[1][edge])
    ids = _typed(predictor.ids, new)
    learned = predictor.model.unknown is not None
    x = None if nodes is None or learned else nodes.features
    answers: ClassAnswers | RankingAnswers
    if recommends:
        answers = predictor.recommend_new(neighbours, k, ids=ids)
    elif predictor.task == "link-prediction":
        answers = predictor.links_new(x, neighbours, k, between=between, ids=ids)
    else:
        sent = None if undirected else targets
        answers = predictor.predict_new(x, neighbours, targets=sent, between=between, ids=ids)
    return replace(answers, skipped=tuple(skipped))


def _new_ids(predictor: Predictor, nodes: NewRows | None, edges: NewRows | None) -> pl.Series:
    """Ids of new nodes or users as texts: those with a row, then those that only edges name."""
    known, recommends = predictor.ids, predictor.task == "recommendation"
    found = []
    if nodes is not None:
        _refuse_known(known, nodes)
        found.append(nodes.ids[0].cast(pl.String))
    if edges is not None and recommends:
        _refuse_known(known, edges)
        found.append(edges.ids[0].cast(pl.String))
    elif edges is not None and predictor.model.unknown is not None:
        ends = pl.concat([ends.cast(pl.String).alias("id") for ends in edges.ids])
        unknown = ends.filter(positions(known, ends) < 0)
        if nodes is None and not len(unknown):
            raise edges.table.error(
                "the model knows both ends of every edge: new nodes need new ids."
            )
        found.append(unknown)
    if not found and recommends:
        raise InputError("New users come with --edges (user, item), or --nodes if they have none.")
    if not found:
        raise InputError("New nodes need rows with their features: give --nodes.")
    return pl.concat([each.alias("id") for each in found]).unique(maintain_order=True)


def _unknown_rows(
    known: IdMap, rows: NewRows, column: int, on_unknown: OnUnknown, new: Ints | None = None
) -> NDArray[np.bool_]:
    """Marks rows whose id in a column is neither known nor, where ``new`` is not -1, a new one's.

    Raises:
        InputError: If there is one and it is not to be skipped.
    """
    found = positions(known, rows.ids[column]) < 0
    if new is not None:
        found &= new < 0
    if found.any() and on_unknown == "error":
        row = int(found.argmax())
        also = "" if new is None or known.kind == "item" else ", nor is there a new one of that id"
        raise rows.table.error(
            f"the model knows no {known.kind} {rows.ids[column][row]!r}{also}; {_known(known)}. "
            "Skip such ids with --skip-unknown.",
            row,
            rows.columns[column],
        )
    return found


def _refuse_old_edges(edges: NewRows, old: NDArray[np.bool_]) -> None:
    if old.any():
        row = int(old.argmax())
        first, second = (repr(str(ends[row])) for ends in edges.ids)
        raise edges.table.error(
            f"joins {first} and {second}, which the model both knows: leave out edges without a "
            "new node, as they are not added to its graph.",
            row,
        )


def _refuse_known(known: IdMap, rows: NewRows) -> None:
    found = positions(known, rows.ids[0]) >= 0
    if found.any():
        row = int(found.argmax())
        raise rows.table.error(
            f"the model knows {known.kind} {rows.ids[0][row]!r} already: ask about it with --ids, "
            "or give the new one another id.",
            row,
            rows.columns[0],
        )


def _typed(known: IdMap, texts: pl.Series) -> pl.Series:
    """Ids in the type of the known ones, if all of them can be written so; else as texts."""
    typed = texts.cast(known.values.dtype, strict=False)
    return typed if bool((typed.cast(pl.String) == texts).fill_null(False).all()) else texts
