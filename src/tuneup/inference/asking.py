"""Questions as tables: which ids, or which new rows with which edges; the task says the call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tuneup.errors import InputError

from .answers import Classes, Rankings
from .predictor import Predictor

Answers = Classes | Rankings


def ask(predictor: Predictor, ids: Iterable[str] | None, k: int) -> Answers:
    """Answers about known nodes whose ids are written as text; about all of them without any."""
    wanted = predictor.ids.values if ids is None else predictor.ids.parse(ids)
    if predictor.task == "node-classification":
        return predictor.predict(wanted)
    if predictor.task == "link-prediction":
        return predictor.links(wanted, k)
    return predictor.recommend(wanted, k)


def ask_new(
    predictor: Predictor, nodes: pl.DataFrame | None, edges: pl.DataFrame | None, k: int
) -> Answers:
    """Answers about nodes that the model does not know.

    Args:
        predictor: the model.
        nodes: a row a new node: its id in the column ``id``, or else in the first one, and its
            features. New users of a recommender need no row unless they have no item, nor do new
            nodes of a model that reads no features unless they have no edge.
        edges: source and target, or user and item, in the first two columns; an end is the id of a
            new or a known node.
        k: how many candidates to rank.
    """
    if predictor.task == "recommendation":
        return _new_users(predictor, nodes, edges, k)
    ids, features = _new_nodes(predictor, nodes, edges)
    found = _sorted_edges(predictor, ids, edges)
    if predictor.task == "node-classification":
        directed = not predictor.model.artefact.adjacency.undirected
        return predictor.predict_new(
            features,
            found.neighbours,
            targets=found.targets if directed else None,
            between=found.between,
            ids=_named(predictor, ids),
        )
    return predictor.links_new(
        features, found.neighbours, k, between=found.between, ids=_named(predictor, ids)
    )


def _new_nodes(
    predictor: Predictor, nodes: pl.DataFrame | None, edges: pl.DataFrame | None
) -> tuple[list[str], pl.DataFrame | None]:
    """Ids of new nodes, and their features if the model reads any."""
    learned = predictor.model.unknown is not None
    if nodes is not None:
        name = _id_column(nodes)
        return _texts(nodes[name]), None if learned else nodes.drop(name)
    if not learned or edges is None:
        raise InputError("New nodes need rows with their features: give --nodes.")
    ends = list(dict.fromkeys(end for pair in _pairs(edges) for end in pair))
    parsed = zip(ends, predictor.ids.parse(ends), strict=True)
    new = [text for text, value in parsed if value not in predictor.ids]
    if not new:
        raise InputError("The model knows both ends of every edge: new ones need new ids.")
    return new, None


@dataclass(eq=False)
class _Edges:
    """The edges of new nodes, by row."""

    neighbours: list[list[Any]]
    targets: list[list[Any]]
    between: list[tuple[int, int]] = field(default_factory=list)


def _sorted_edges(predictor: Predictor, ids: list[str], edges: pl.DataFrame | None) -> _Edges:
    found = _Edges([[] for _ in ids], [[] for _ in ids])
    if edges is None:
        return found
    row_of = {text: row for row, text in enumerate(ids)}
    undirected = predictor.model.artefact.adjacency.undirected
    for number, (source, target) in enumerate(_pairs(edges), 1):
        if source in row_of and target in row_of:
            found.between.append((row_of[source], row_of[target]))
        elif target in row_of:
            found.neighbours[row_of[target]] += predictor.candidates.parse([source])
        elif source in row_of:
            lists = found.neighbours if undirected else found.targets
            lists[row_of[source]] += predictor.candidates.parse([target])
        else:
            raise InputError(
                f"Edge {number} joins {source!r} and {target!r}, neither of which is a new node."
            )
    return found


def _new_users(
    predictor: Predictor, nodes: pl.DataFrame | None, edges: pl.DataFrame | None, k: int
) -> Rankings:
    pairs = [] if edges is None else _pairs(edges)
    listed = [] if nodes is None else _texts(nodes[_id_column(nodes)])
    items: dict[str, list[Any]] = {user: [] for user in listed}
    for user, item in pairs:
        items.setdefault(user, []).extend(predictor.candidates.parse([item]))
    if not items:
        raise InputError("New users come with --edges (user, item), or --nodes if they have none.")
    return predictor.recommend_new(list(items.values()), k, ids=_named(predictor, list(items)))


def _named(predictor: Predictor, texts: list[str]) -> list[Any]:
    """New ids in the type of the known ones, if all of them can have it."""
    parsed = predictor.ids.parse(texts)
    return parsed if len(set(map(type, parsed))) == 1 else texts


def _id_column(frame: pl.DataFrame) -> str:
    if not frame.width:
        raise InputError("The table of new nodes has no column.")
    return "id" if "id" in frame.columns else frame.columns[0]


def _pairs(edges: pl.DataFrame) -> list[tuple[str, str]]:
    if edges.width < 2:
        raise InputError(f"Edges are in two columns; found {edges.columns}.")
    first, second = (_texts(edges[name]) for name in edges.columns[:2])
    return list(zip(first, second, strict=True))


def _texts(ids: pl.Series) -> list[str]:
    if ids.null_count():
        row = int(ids.is_null().arg_true()[0]) + 1
        raise InputError(f"Column {ids.name!r} has no id in row {row}.")
    texts: list[str] = ids.cast(pl.String).to_list()
    return texts
