"""A new model folder from an old one: with what has arrived, or with the graph of new tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor

from tuneup.data import Graph, Interactions, interactions_from
from tuneup.errors import InputError
from tuneup.graph import Features, SparseMatrix, sparse_features, take_features
from tuneup.graph.features import stack_features
from tuneup.nn import Model, NodeVectors, UserItemVectors
from tuneup.serve import Predictor
from tuneup.tables import FeaturePlan, TablePairs, TableRequest, read_tables

from .engine import Engine, folder_version
from .live import Live
from .parts import Parts

_SEALED = (
    *("config.json", "weights.safetensors", "graph.safetensors", "ids.parquet", "users.parquet"),
    *("items.parquet", "metrics.json", "README.md", "model.safetensors", "config.json.sig"),
)


@dataclass(frozen=True)
class Folded:
    """What became of a model: nodes (or users) and edges before and after, and notes."""

    folder: Path
    nodes: tuple[int, int]
    edges: tuple[int, int]
    notes: tuple[str, ...] = ()


def compact(model: Path, live: Path, out: Path, *, overwrite: bool = False) -> Folded:
    """Fold what has arrived into a new model folder; the database stays as it is.

    A server that takes the new folder passes over what it has already.

    Args:
        model: folder of the model that was served.
        live: database of what has arrived.
        out: the new folder.
        overwrite: whether a saved model in its place is replaced.
    """
    if not live.is_file():
        raise InputError(f"{live}: there is no such database; tuneup serve --live makes one.")
    predictor = Predictor.load(model, read_plan=FeaturePlan.from_json)
    engine = Engine(predictor, folder_version(model), model)
    grown = Live(engine, live)
    parts, growing = engine.parts, grown.growing
    adjacency = growing.adjacency()
    gone = sorted(growing.removed)
    keep = torch.ones(adjacency.num_nodes, dtype=torch.bool)
    keep[gone] = False
    names = pl.Series("id", growing.added_names, dtype=pl.String)
    if parts.ids.values.dtype.is_integer():
        whole = names.cast(parts.ids.values.dtype, strict=False)
        names = names if whole.null_count() else whole
    every = [parts.ids.values.alias("id"), names]
    if every[0].dtype != every[1].dtype:
        every = [each.cast(pl.String) for each in every]
    ids = pl.concat(every)
    if parts.task == "recommendation":
        return _folded_pairs(
            parts, growing.added, adjacency.edge_index, ids, keep, model, out, overwrite
        )
    assert parts.x is not None
    x = _stacked(parts.x, growing.added, isinstance(parts.model.inputs, NodeVectors))
    kept = keep.nonzero().view(-1)
    graph = Graph(adjacency.induce(kept), take_features(x, kept), name=parts.name)
    graph = replace(graph, adjacency=replace(graph.adjacency, ids=None))
    ids = ids.filter(pl.Series(keep.numpy()))
    return _save(parts, parts.model, graph, ids, None, model, out, overwrite, ())


def _stacked(old: Features, added: Tensor, learned: bool) -> Features:
    """Features of old and added nodes; an added one has no identity."""
    if learned:
        assert isinstance(old, SparseMatrix)
        rowptr = torch.cat([old.rowptr, old.rowptr[-1:].expand(len(added))])
        return SparseMatrix(rowptr, old.col, old.value, old.shape[1])
    if not len(added):
        return old
    return stack_features(old, added if isinstance(old, Tensor) else sparse_features(added))


def _folded_pairs(
    parts: Parts,
    added: Tensor,
    edges: Tensor,
    ids: pl.Series,
    keep: Tensor,
    model: Path,
    out: Path,
    overwrite: bool,
) -> Folded:
    """Users come before items: added ones move between, with the vector of a new user."""
    users, items = len(parts.ids), len(parts.predictor.candidates)
    inputs = parts.model.inputs
    assert isinstance(inputs, UserItemVectors)
    kept = torch.cat([keep[:users], keep[users + items :]])
    place = torch.full((len(keep),), -1)
    order = torch.cat([torch.arange(users), torch.arange(users + items, len(keep))])[kept]
    place[order] = torch.arange(len(order))
    place[users : users + items] = torch.arange(items)
    user, item = edges[1], edges[0]
    pairs = (user < users) | (user >= users + items)
    user, item = place[user[pairs]], place[item[pairs]]
    shared = inputs.shared.detach()[0] if inputs.shared is not None else 0.0
    vectors = torch.cat([inputs.vectors.detach()[:users], added - shared])[kept]
    renewed = UserItemVectors(
        len(order),
        items,
        inputs.vectors.shape[1],
        shared=inputs.shared is not None,
        unknown=inputs.unknown is not None,
    )
    state = {**inputs.state_dict(), "vectors": torch.cat([vectors, inputs.vectors[users:]])}
    renewed.load_state_dict(state)
    data = interactions_from(user, item, len(order), items, parts.name)
    ids = ids.filter(pl.Series(kept.numpy()))
    whole = Model(renewed, parts.model.encoder, parts.model.head)
    return _save(
        parts, whole, data, ids, parts.predictor.candidates.values, model, out, overwrite, ()
    )


def refresh(model: Path, tables: TableRequest, out: Path, *, overwrite: bool = False) -> Folded:
    """Renew the graph of a model from tables, without training.

    The weights, the feature plan, the classes and what was measured stay; nodes that the model was
    not trained on enter as new ones do.

    Args:
        model: folder of the model.
        tables: edges and nodes, or pairs, as for ``tuneup fit``.
        out: the new folder.
        overwrite: whether a saved model in its place is replaced.
    """
    predictor = Predictor.load(model, read_plan=FeaturePlan.from_json)
    parts = Parts.of(predictor)
    parts.graph.refuse_weights("tuneup refresh")
    columns = predictor.model.artefact.config.columns
    named: dict[str, Any] = {
        role: columns[role]
        for role in ("source", "target", "user", "item", "id")
        if role in columns and getattr(tables, role) is None and _fits(role, parts, tables)
    }
    if parts.task != "recommendation":
        named["directed"] = not parts.graph.undirected
    plan = predictor.plan if isinstance(predictor.plan, FeaturePlan) else None
    learned = isinstance(parts.model.inputs, NodeVectors)
    reads = parts.task != "recommendation" and not learned
    if reads and (plan is None or not tables.nodes):
        raise InputError(
            "The model reads features: pass --nodes with the columns that it was trained with."
            if plan is not None
            else "The model has no plan that reads columns of tables: make a Predictor in Python."
        )
    task = "link-prediction" if parts.task == "node-classification" else parts.task
    features = plan.inputs if plan is not None and reads else ()
    asked = replace(tables, task=task, features=features, **named)
    found = read_tables(asked)
    notes = found.notes
    if isinstance(found, TablePairs):
        return _refreshed_pairs(parts, found, model, out, overwrite)
    if learned:
        x: Features = _identities(parts, found.ids.values)
    else:
        assert plan is not None
        assert found.raw is not None
        x = plan.apply(found.raw.table)
        if found.added:
            x = torch.cat([x, plan.blanks(found.added)])
    graph = Graph(found.bare.adjacency, x, name=parts.name)
    return _save(parts, parts.model, graph, found.ids.values, None, model, out, overwrite, notes)


def _fits(role: str, parts: Parts, tables: TableRequest) -> bool:
    return role != "id" or bool(tables.nodes)


def _identities(parts: Parts, ids: pl.Series) -> SparseMatrix:
    """Rows of identities of the nodes of a table, empty for those that training did not know."""
    old = parts.x
    assert isinstance(old, SparseMatrix)
    number = parts.ids.positions(ids)
    count = torch.where(number >= 0, old.rowptr.diff()[number.clamp(min=0)], 0)
    rowptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
    entry = old.rowptr[number[count > 0]]
    return SparseMatrix(rowptr, old.col[entry], old.value[entry], old.shape[1])


def _refreshed_pairs(
    parts: Parts, found: TablePairs, model: Path, out: Path, overwrite: bool
) -> Folded:
    inputs, pairs = parts.model.inputs, found.interactions
    assert isinstance(inputs, UserItemVectors)
    known = parts.predictor.candidates.positions(found.items.values)
    if bool((known < 0).any()):
        new = found.items.values.filter(pl.Series((known < 0).numpy()))
        some = ", ".join(map(repr, new.head(3).to_list()))
        raise InputError(
            f"The model knows no item {some} ({len(new):,} in all): it has no vector for a new "
            "item. Leave them out, or train again with tuneup fit."
        )
    users = parts.ids.positions(found.users.values)
    shared = inputs.shared.detach()[0] if inputs.shared is not None else 0.0
    assert parts.new_user is not None
    vectors = inputs.vectors.detach()
    blank = (parts.new_user - shared).expand(len(users), -1)
    own = torch.where((users >= 0)[:, None], vectors[users.clamp(min=0)], blank)
    items = len(parts.predictor.candidates)
    width = vectors.shape[1]
    renewed = UserItemVectors(
        len(users),
        items,
        width,
        shared=inputs.shared is not None,
        unknown=inputs.unknown is not None,
    )
    renewed.load_state_dict(
        {**inputs.state_dict(), "vectors": torch.cat([own, vectors[len(parts.ids) :]])}
    )
    data = interactions_from(pairs.user, known[pairs.item], len(users), items, parts.name)
    whole = Model(renewed, parts.model.encoder, parts.model.head)
    names = found.users.values, parts.predictor.candidates.values
    return _save(parts, whole, data, *names, model, out, overwrite, found.notes)


def _save(
    parts: Parts,
    module: Model,
    data: Graph | Interactions,
    ids: pl.Series,
    items: pl.Series | None,
    model: Path,
    out: Path,
    overwrite: bool,
    notes: tuple[str, ...],
) -> Folded:
    artefact = parts.predictor.model.artefact
    labels = artefact.config.labels
    renewed = Predictor(
        module,
        data,
        ids=ids,
        items=items,
        labels=labels,
        plan=parts.predictor.plan,
        temperature=artefact.config.temperature,
        metrics=artefact.metrics,
        name=parts.name,
        columns=artefact.config.columns,
    )
    renewed.save(out, write_extras=_copies(model), overwrite=overwrite)
    after = Parts.of(renewed)
    return Folded(
        out,
        (len(parts.ids), len(after.ids)),
        (parts.graph.num_edges, after.graph.num_edges),
        notes,
    )


def _copies(model: Path) -> Callable[[Path], Any]:
    """Copies what training left beside the model: report, log, scores."""
    extras = {
        path.name: path.read_bytes()
        for path in sorted(model.iterdir())
        if path.is_file() and path.name not in _SEALED
    }

    def write(folder: Path) -> None:
        for name, data in extras.items():
            (folder / name).write_bytes(data)

    return write
