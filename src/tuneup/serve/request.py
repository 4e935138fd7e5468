"""Questions that come as tables: known ids, or new nodes or users with their edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tuneup.errors import InputError
from tuneup.tables import IdMap, NewRows

from .answers import ClassAnswers, RankingAnswers
from .arrivals import Ints, OnUnknown, example_of, positions

if TYPE_CHECKING:
    from .predictor import Predictor


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
    rank = predictor.links if predictor.task == "link-prediction" else predictor.recommend
    return rank(wanted, k, on_unknown=on_unknown)


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
    graph, recommends = predictor.model.graph, predictor.task == "recommendation"
    if edges is not None and graph.weight is not None:
        raise InputError(
            "--edges: the edges of this model have weights, and tables of new edges have none; "
            "give them in Python, as predict_new(x, [{id: weight}])."
        )
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
        use = np.ones(len(edges.ids[0]), dtype=np.bool_)
        for end, ids in enumerate(edges.ids):
            unknown = _unknown_rows(predictor.candidates, edges, end, on_unknown, rows[end])
            skipped |= dict.fromkeys(ids.filter(unknown).to_list())
            use &= ~unknown
        _refuse_old_edges(edges, use & (rows[0] < 0) & (rows[1] < 0))
        texts = [edges.texts(end) for end in (0, 1)]
        for edge in np.flatnonzero(use).tolist():
            source, target = int(rows[0][edge]), int(rows[1][edge])
            if source >= 0 and target >= 0:
                between.append((source, target))
            elif target >= 0:
                neighbours[target].append(texts[0][edge])
            else:
                (neighbours if graph.undirected else targets)[source].append(texts[1][edge])
    ids = _typed(predictor.ids, new)
    reads = predictor.model.num_features is not None
    x = nodes.features if nodes is not None and reads else None
    answers: ClassAnswers | RankingAnswers
    if recommends:
        answers = predictor.recommend_new(neighbours, k, ids=ids)
    elif predictor.task == "link-prediction":
        answers = predictor.links_new(x, neighbours, k, between=between, ids=ids)
    else:
        sent = None if graph.undirected else targets
        answers = predictor.predict_new(x, neighbours, targets=sent, between=between, ids=ids)
    return replace(answers, skipped=tuple(skipped))


def _new_ids(predictor: Predictor, nodes: NewRows | None, edges: NewRows | None) -> pl.Series:
    """Ids of new nodes or users as texts: those with a row, then those that only edges name."""
    known, recommends = predictor.ids, predictor.task == "recommendation"
    found = []
    if nodes is not None:
        found.append(_new_only(known, nodes))
    if edges is not None and recommends:
        found.append(_new_only(known, edges))
    elif edges is not None and predictor.model.num_features is None:
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


def _new_only(known: IdMap, rows: NewRows) -> pl.Series:
    """The ids of some rows as texts; refuses those that the model knows."""
    found = positions(known, rows.ids[0]) >= 0
    if found.any():
        row = int(found.argmax())
        raise rows.table.error(
            f"the model knows {known.kind} {rows.ids[0][row]!r} already: ask about it with --ids, "
            "or give the new one another id.",
            row,
            rows.columns[0],
        )
    return rows.ids[0].cast(pl.String)


def _unknown_rows(
    known: IdMap, rows: NewRows, column: int, on_unknown: OnUnknown, new: Ints | None = None
) -> NDArray[np.bool_]:
    """Marks rows whose id is neither known nor, where ``new`` is not -1, a new one's."""
    found = positions(known, rows.ids[column]) < 0
    if new is not None:
        found &= new < 0
    if found.any() and on_unknown == "error":
        row = int(found.argmax())
        also = "" if new is None or known.kind == "item" else ", nor is there a new one of that id"
        raise rows.table.error(
            f"the model knows no {known.kind} {rows.ids[column][row]!r}{also}; "
            f"{example_of(known)}. Skip such ids with --skip-unknown.",
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


def _typed(known: IdMap, texts: pl.Series) -> pl.Series:
    """Ids in the type of the known ones, if all of them can be written so; else as texts."""
    typed = texts.cast(known.values.dtype, strict=False)
    return typed if bool((typed.cast(pl.String) == texts).fill_null(False).all()) else texts
