"""From a trained model and its data to a folder, in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from tuneup.data import Graph, Interactions
from tuneup.errors import InputError
from tuneup.metrics import Temperature
from tuneup.nn import Model

from .artefact import Artefact
from .blueprint import Blueprint, as_model
from .ids import IdList, ids_of
from .plan import Plan


def save_artefact(
    folder: Path | str,
    model: nn.Module,
    data: Graph | Interactions,
    *,
    ids: IdList | None = None,
    items: IdList | None = None,
    labels: Sequence[str | int] = (),
    metrics: Mapping[str, Any] | None = None,
    plan: Plan | None = None,
    extras: Sequence[Path | str] = (),
    write_extras: Callable[[Path], object] | None = None,
    name: str | None = None,
    columns: Mapping[str, str] | None = None,
    temperature: Temperature | None = None,
    overwrite: bool = False,
) -> Path:
    """Save a trained model with all that it needs to answer; its kind says the task.

    Args:
        folder: must not exist yet, or be empty, or give way if ``overwrite``.
        model: a ``Model``, or an ``Encoder`` that classifies nodes.
        data: what predictions are made on: all edges that are known by then.  Where users of a
            recommender have pairs here but had none in training, call ``fill_untrained`` of its
            inputs with the training graph first.
        ids: the user's ids of nodes, or of users; by default 0, 1, 2, ...
        items: those of a recommender's items.
        labels: name of each class.
        metrics: what was measured; "overall", "tail" and "head" are shown in the model card.
        plan: how columns become features.
        extras: further files to be copied in under their own names: a report, a log, scores.
        write_extras: called with the folder, to write further files into it.
        name: what to call the model.
        columns: what the columns of its tables were called, by what they hold ("id", "source",
            "target", "user", "item"): `tuneup predict` looks for these first.
        temperature: of a classifier: what its outputs are divided by so that their softmax is
            calibrated, as ``NodeClassification.temperature(model)`` finds it on validation nodes.
        overwrite: whether a saved model that is there gives way; other folders never do.
    """
    parts = {
        "labels": tuple(labels),
        "metrics": metrics or {},
        "plan": None if plan is None else plan.to_json(),
        "name": name or data.name,
        "columns": columns or {},
        "temperature": temperature,
    }
    model = as_model(model)
    blueprint = Blueprint.of(model)
    if isinstance(data, Interactions):
        made = _with_pairs(blueprint, model, data, ids, items, parts)
    else:
        made = _with_features(blueprint, model, data, ids, items, parts)
    return made.save(folder, extras=extras, write_extras=write_extras, overwrite=overwrite)


def _with_pairs(
    blueprint: Blueprint,
    model: Model,
    data: Interactions,
    ids: IdList | None,
    items: IdList | None,
    parts: dict[str, Any],
) -> Artefact:
    if blueprint.task != "recommendation":
        raise InputError(f"A {type(model).__name__} is saved with its Graph; got {data!r}.")
    known = (blueprint.users, blueprint.items)
    if known != (data.num_users, data.num_items):
        raise InputError(f"The model knows {known} users and items, but the data are {data!r}.")
    users, goods = ids_of(ids, data.num_users, "user"), ids_of(items, data.num_items, "item")
    return Artefact(blueprint, model, data.adjacency(), users, goods, **parts)


def _with_features(
    blueprint: Blueprint,
    model: Model,
    data: Graph,
    ids: IdList | None,
    items: IdList | None,
    parts: dict[str, Any],
) -> Artefact:
    if data.multi_label:
        raise InputError(f"{data.name}: got several classes a node; expected one to save a model.")
    if blueprint.task == "recommendation":
        raise InputError(f"A recommender is saved with its Interactions; got {data!r}.")
    if items is not None:
        raise InputError("Only a recommender has items; its nodes have ids.")
    nodes = ids_of(ids, data.num_nodes, "node")
    return Artefact(blueprint, model, data.adjacency, nodes, x=data.x, **parts)
