"""Questions as tables: which ids, or which new rows with which edges; the task says the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuneup.errors import InputError
from tuneup.tables import NewRows

from .answers import Classes, Rankings
from .ids import Ids, OnUnknown
from .predictor import Predictor

Answers = Classes | Rankings


def ask(
    predictor: Predictor,
    ids: Sequence[str] | NewRows | None,
    k: int,
    *,
    on_unknown: OnUnknown = "error",
) -> Answers:
    """Answers about known nodes whose ids are written as text; about all of them without any."""
    if isinstance(ids, NewRows):
        wanted: Any = predictor.ids.parse(ids.texts(0))
        _strays(predictor.ids, ids, 0, wanted, on_unknown)  # refused by row and column
    else:
        wanted = predictor.ids.values if ids is None else predictor.ids.parse(ids)
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
) -> Answers:
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
    if predictor.task == "recommendation":
        return _new_users(predictor, nodes, edges, k, on_unknown)
    learned = predictor.model.unknown is not None
    features = None if nodes is None or learned else nodes.features
    if nodes is not None:
        texts, ids = nodes.texts(), _named(predictor.ids, nodes)
        if learned and edges is not None:  # who has no row needs none
            texts = list(dict.fromkeys([*texts, *_unknown_ends(predictor.ids, edges)]))
            ids = _alike(predictor.ids, texts)
    elif learned and edges is not None:
        texts, ids = _ends(predictor.ids, edges)
    else:
        raise InputError("New nodes need rows with their features: give --nodes.")
    found = _sorted_edges(predictor, texts, edges, on_unknown)
    answers: Answers
    if predictor.task == "node-classification":
        directed = not predictor.model.artefact.adjacency.undirected
        answers = predictor.predict_new(
            features,
            found.neighbours,
            targets=found.targets if directed else None,
            between=found.between,
            ids=ids,
        )
    else:
        answers = predictor.links_new(features, found.neighbours, k, between=found.between, ids=ids)
    return replace(answers, skipped=tuple(found.skipped))


def _ends(known: Ids, edges: NewRows) -> tuple[list[str], list[Any]]:
    """Ends of edges that the model does not know, as texts and as ids: the new nodes."""
    new = _unknown_ends(known, edges)
    if not new:
        raise edges.table.error("the model knows both ends of every edge: new nodes need new ids.")
    return new, _alike(known, new)


def _unknown_ends(known: Ids, edges: NewRows) -> list[str]:
    ends = list(dict.fromkeys([*edges.texts(0), *edges.texts(1)]))
    return [text for text, id in zip(ends, known.parse(ends), strict=True) if id not in known]


@dataclass(eq=False)
class _Edges:
    """The edges of new nodes, by row."""

    neighbours: list[list[Any]]
    targets: list[list[Any]]
    between: list[tuple[int, int]] = field(default_factory=list)
    skipped: dict[Any, None] = field(default_factory=dict)


def _sorted_edges(
    predictor: Predictor, new: list[str], edges: NewRows | None, on_unknown: OnUnknown
) -> _Edges:
    found = _Edges([[] for _ in new], [[] for _ in new])
    if edges is None:
        return found
    row_of = {text: row for row, text in enumerate(new)}
    ends = [[row_of.get(text) for text in edges.texts(end)] for end in (0, 1)]
    known = [predictor.ids.parse(edges.texts(end)) for end in (0, 1)]
    strays: set[int] = set()
    for end in (0, 1):
        rows = _strays(predictor.ids, edges, end, known[end], on_unknown, ends[end])
        strays |= set(rows)
        found.skipped |= {known[end][row]: None for row in rows}
    undirected = predictor.model.artefact.adjacency.undirected
    for row, (source, target) in enumerate(zip(*ends, strict=True)):
        if row in strays:
            continue
        if source is not None and target is not None:
            found.between.append((source, target))
        elif target is not None:
            found.neighbours[target].append(known[0][row])
        elif source is not None:
            (found.neighbours if undirected else found.targets)[source].append(known[1][row])
        else:
            first, second = (repr(edges.texts(end)[row]) for end in (0, 1))
            raise edges.table.error(
                f"joins {first} and {second}, which the model both knows: leave out edges without "
                "a new node, as they are not added to its graph.",
                row,
            )
    return found


def _new_users(
    predictor: Predictor,
    nodes: NewRows | None,
    edges: NewRows | None,
    k: int,
    on_unknown: OnUnknown,
) -> Rankings:
    skipped: dict[Any, None] = {}
    items: dict[str, list[Any]] = {}
    for rows in (nodes, edges):
        if rows is not None:
            _named(predictor.ids, rows)  # refuses one that is known
            items |= {user: [] for user in rows.texts()}
    if edges is not None:
        things = predictor.candidates.parse(edges.texts(1))
        strays = set(_strays(predictor.candidates, edges, 1, things, on_unknown))
        for row, (user, item) in enumerate(zip(edges.texts(), things, strict=True)):
            if row in strays:
                skipped[item] = None
            else:
                items[user].append(item)
    if not items:
        raise InputError("New users come with --edges (user, item), or --nodes if they have none.")
    names = _alike(predictor.ids, list(items))
    answers = predictor.recommend_new(list(items.values()), k, ids=names)
    return replace(answers, skipped=tuple(skipped))


def _strays(
    known: Ids,
    rows: NewRows,
    column: int,
    values: Sequence[Any],
    on_unknown: OnUnknown,
    new: Sequence[object] | None = None,
) -> list[int]:
    """Rows whose id in a column is neither known nor, where ``new`` has a value, that of a new one.

    Raises:
        InputError: If there is one and it is not to be skipped.
    """
    found = [
        row
        for row, value in enumerate(values)
        if value not in known and (new is None or new[row] is None)
    ]
    if found and on_unknown == "error":
        also = "" if new is None else ", nor is there a new one of that id"
        raise rows.table.error(
            f"the model knows no {known.kind} {values[found[0]]!r}{also}; it knows {len(known):,}, "
            f"like {known.values[0]!r} ({known.values.dtype}). Skip such ids with --skip-unknown.",
            found[0],
            rows.columns[column],
        )
    return found


def _named(known: Ids, rows: NewRows) -> list[Any]:
    """New ids in the type of the known ones, if all of them can have it; a known one is refused."""
    texts = rows.texts()
    parsed = known.parse(texts)
    for row, value in enumerate(parsed):
        if value in known:
            raise rows.table.error(
                f"the model knows {known.kind} {value!r} already: ask about it with --ids, or give "
                "the new one another id.",
                row,
                rows.columns[0],
            )
    return _alike(known, texts)


def _alike(known: Ids, texts: list[str]) -> list[Any]:
    """Ids in the type of the known ones, if all of them can have it."""
    parsed = known.parse(texts)
    return parsed if len(set(map(type, parsed))) == 1 else texts
