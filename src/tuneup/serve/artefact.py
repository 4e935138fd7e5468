"""A trained model as a folder: everything that a prediction needs, open, checked and never pickled.

config.json          format, task, architecture, sizes, label names, feature plan, checksums
weights.safetensors  the parameters, and the input of a new user
graph.safetensors    the edges in compressed rows, and the features of the nodes, or who they are
ids.parquet          the user's ids; users.parquet and items.parquet of a recommender
metrics.json         what was measured
README.md            the model card
report.html, log.jsonl, scores-*.parquet   of the training, where they were given

Answers do not depend on the files of the last two lines: they may be edited or removed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as serialise
from torch import Tensor

from tuneup import __version__
from tuneup.errors import InputError
from tuneup.files import atomic_folder
from tuneup.graph import Adjacency, Features, SparseMatrix
from tuneup.metrics import Temperature
from tuneup.nn import Model, UserItemVectors

from .blueprint import Blueprint
from .card import model_card
from .ids import Ids
from .seals import KIND, as_json, is_artefact, kept, sealed, sealed_files, sha256
from .tensors import not_finite

FORMATS = (1, 2)
"""Raised when the meaning of a file changes; a newer format is refused by name.

2: the features say who each node is, and the weights hold what it enters with.  A model of nodes
with features is still written as 1, which every version reads.
"""

NEW_USER = "serving.new_user"
"""Name of the mean trained user embedding among the weights."""


@dataclass(frozen=True, eq=False)
class Artefact:
    """A trained model with all that it needs to answer.

    Args:
        blueprint: what the model is built from.
        model: trained.
        adjacency: the graph that messages flow along when predicting.
        ids: of the nodes, or of a recommender's users.
        items: ids of a recommender's items.
        x: features of the nodes, or who they are (:func:`tuneup.graph.identities`); a recommender
            has none.
        labels: name of each class, a text or a number.
        metrics: what was measured, by name, in values that JSON has.
        plan: how columns become features, as plain values.
        name: what the model is called.
        columns: what the columns of its tables were called, by what they hold: "id", "source", ...
        temperature: what the outputs of a classifier are divided by before the softmax; ``None`` if
            nothing was fitted, which means 1.
    """

    blueprint: Blueprint
    model: Model
    adjacency: Adjacency
    ids: Ids
    items: Ids | None = None
    x: Features | None = None
    labels: tuple[str | int, ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    plan: Any = None
    name: str = "model"
    columns: Mapping[str, str] = field(default_factory=dict)
    temperature: Temperature | None = None

    def __post_init__(self) -> None:
        if self.adjacency.num_nodes == 0:
            raise InputError("A model without a single node cannot be saved.")
        encoder = self.blueprint.encoder
        self._check_inputs()
        if self.blueprint.task == "link-prediction" and not self.adjacency.undirected:
            raise InputError("Link prediction ranks neighbours: the graph must be undirected.")
        classes = encoder.out_channels if encoder is not None else 0
        if self.labels and len(self.labels) != classes:
            raise InputError(f"{len(self.labels)} label names for {classes} classes.")
        if not any(all(type(name) is kind for name in self.labels) for kind in (str, int)):
            raise InputError("Label names must all be texts, or all be whole numbers.")
        if self.temperature is not None and self.blueprint.task != "node-classification":
            raise InputError(
                f"temperature: got {self.temperature} for {self.blueprint.task}; expected none, as "
                "only node classification has probabilities."
            )

    def _check_inputs(self) -> None:
        encoder, known, x = self.blueprint.encoder, self.blueprint.known, self.x
        if x is None or encoder is None:
            return
        if known is None and encoder.in_channels != x.shape[1]:
            raise InputError(
                f"The model reads {encoder.in_channels} features, the graph has {x.shape[1]}."
            )
        if known is not None and (isinstance(x, Tensor) or x.shape[1] != known):
            raise InputError(
                f"The model learned inputs of {known} nodes: it is saved with the graph whose x "
                "says who these are, made by identities."
            )

    @property
    def class_names(self) -> tuple[str | int, ...]:
        """Name of each class; 0, 1, 2, ... if none were given."""
        encoder = self.blueprint.encoder
        return self.labels or tuple(range(encoder.out_channels if encoder else 0))

    def to(self, device: torch.device | str) -> Artefact:
        """The same artefact with its tensors on another device."""
        x = None if self.x is None else self.x.to(device)
        adjacency = self.adjacency.to(device)
        return replace(self, model=self.model.to(device), adjacency=adjacency, x=x)

    def save(
        self,
        folder: Path | str,
        *,
        extras: Sequence[Path | str] = (),
        write_extras: Callable[[Path], object] | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write the folder, whole or not at all.

        Args:
            folder: must not exist yet, or be empty.
            extras: further files to be copied in: a report, a log, scores.
            write_extras: called with the folder, to write further files into it.
            overwrite: whether a saved model that is there gives way; other folders never do.
        """
        metrics = as_json(self.metrics, "metrics")
        weights = self._weights()
        wrong = not_finite(weights)
        if wrong is not None:
            raise InputError(
                f"The model cannot be saved: tensor {wrong!r} of its weights holds NaN or infinite "
                "numbers; train it again, with a lower learning rate."
            )
        config = {"kind": KIND, "tuneup": __version__, **self._config()}
        self._check_extras([Path(extra) for extra in extras])
        replace = overwrite and is_artefact(Path(folder))
        with atomic_folder(folder, replace=replace) as place:
            # Not `save_file`, whose files only their owner may read, whatever the umask.
            (place / "weights.safetensors").write_bytes(serialise(weights))
            (place / "graph.safetensors").write_bytes(serialise(self._graph()))
            for file, ids in self._ids().items():
                ids.write(place / file)
            (place / "metrics.json").write_text(metrics, encoding="utf-8")
            (place / "README.md").write_text(model_card(config, self.metrics), encoding="utf-8")
            for path in map(Path, extras):
                shutil.copyfile(path, place / path.name)
            if write_extras is not None:
                write_extras(place)
            needed = sealed_files(self.blueprint.task)
            config["files"] = {name: sha256(place / name) for name in needed}
            config["extras"] = sorted({path.name for path in place.iterdir()} - {*needed})
            (place / "config.json").write_text(sealed(config), encoding="utf-8")
        return Path(folder)

    def _check_extras(self, extras: Sequence[Path]) -> None:
        own = {"config.json", "README.md", *sealed_files(self.blueprint.task)}
        for path in extras:
            if not path.is_file():
                raise InputError(f"There is no file {path} to be saved with the model.")
            if path.name in own:
                raise InputError(f"A saved model has a {path.name} of its own: rename {path}.")
            if [other.name for other in extras].count(path.name) > 1:
                raise InputError(f"Two files to be saved with the model are called {path.name}.")

    def _config(self) -> dict[str, Any]:
        layout = "none" if self.x is None else "dense" if isinstance(self.x, Tensor) else "sparse"
        return {
            "format": FORMATS[0 if self.blueprint.known is None else 1],
            "name": self.name,
            "task": self.blueprint.task,
            "model": self.blueprint.to_json(),
            "graph": {
                "nodes": self.adjacency.num_nodes,
                "edges": self.adjacency.num_edges,
                "undirected": self.adjacency.undirected,
                "features": 0 if self.x is None else self.x.shape[1],
                "layout": layout,
            },
            "labels": list(self.labels),
            "plan": json.loads(as_json(self.plan, "plan")),
            # Of no meaning to a model: versions that do not know it read past it.
            "columns": dict(self.columns),
            **({} if self.temperature is None else {"temperature": asdict(self.temperature)}),
        }

    def _weights(self) -> dict[str, Tensor]:
        state = self.model.state_dict()
        weights = {self.blueprint.on_disk(name): tensor for name, tensor in state.items()}
        if isinstance(self.model.inputs, UserItemVectors):
            weights[NEW_USER] = self.model.inputs.mean_user(self.adjacency).detach()
        return {name: kept(tensor) for name, tensor in weights.items()}

    def _graph(self) -> dict[str, Tensor]:
        tensors = {"rowptr": self.adjacency.rowptr, "col": self.adjacency.col}
        if isinstance(self.x, SparseMatrix):
            for part in ("rowptr", "col", "value"):
                tensors[f"x.{part}"] = getattr(self.x, part)
        elif self.x is not None:
            tensors["x"] = self.x
        return {name: kept(tensor) for name, tensor in tensors.items()}

    def _ids(self) -> dict[str, Ids]:
        if self.items is None:
            return {"ids.parquet": self.ids}
        return {"users.parquet": self.ids, "items.parquet": self.items}
