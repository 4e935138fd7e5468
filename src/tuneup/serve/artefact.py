"""A trained model as a folder of open files with checksums; nothing in it is a pickle.

config.json          format, task, architecture, sizes, label names, feature plan, checksums
weights.safetensors  the parameters, and the input of a new user
graph.safetensors    the edges in compressed rows, and the nodes' features or identities
ids.parquet          the user's ids; users.parquet and items.parquet of a recommender
metrics.json         what was measured
README.md            the model card
report.html, log.jsonl, scores-*.parquet   of the training, where they were given

Answers do not depend on the files of the last two lines: they may be edited or removed.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors.torch import save as serialise
from torch import Tensor

from tuneup import __version__
from tuneup.data import Graph, Interactions, graph_from, interactions_from
from tuneup.errors import ArtefactError, InputError
from tuneup.files import atomic_folder
from tuneup.graph import Adjacency, Features, SparseMatrix
from tuneup.nn import Model, UserItemVectors
from tuneup.tables import IdMap

from .blueprint import Blueprint
from .schema import Config, as_json, sealed_files

KIND = "tuneup artefact"
"""What every config.json of ours says of itself."""

NEW_USER = "serving.new_user"
"""Name of the mean trained user embedding among the weights."""


@dataclass(frozen=True, eq=False)
class Artefact:
    """A trained model with all that it needs to answer.

    Args:
        config: what config.json says of it.
        model: trained.
        adjacency: the graph that messages flow along when predicting.
        ids: of the nodes, or of a recommender's users.
        items: ids of a recommender's items.
        x: features of the nodes, or their identities (:func:`tuneup.graph.identities`); a
            recommender has none.
        metrics: what was measured, by name, in values that JSON has.
    """

    config: Config
    model: Model
    adjacency: Adjacency
    ids: IdMap
    items: IdMap | None = None
    x: Features | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.adjacency.num_nodes == 0:
            raise InputError("A model without a single node cannot answer.")
        self._check_inputs()
        task, labels = self.blueprint.task, self.config.labels
        if task == "link-prediction" and not self.adjacency.undirected:
            raise InputError("Link prediction ranks neighbours: the graph must be undirected.")
        if labels and len(labels) != self.blueprint.out_channels:
            raise InputError(
                f"{len(labels)} label names for {self.blueprint.out_channels} classes."
            )
        if not any(all(type(name) is kind for name in labels) for kind in (str, int)):
            raise InputError("Label names must all be texts, or all be whole numbers.")
        if self.config.temperature is not None and task != "node-classification":
            raise InputError(
                f"temperature: got {self.config.temperature} for {task}; expected none, as only "
                "node classification has probabilities."
            )

    def _check_inputs(self) -> None:
        encoder, known, x = self.blueprint.encoder, self.blueprint.known, self.x
        if x is None:
            return
        if known is None and encoder is not None and encoder.in_channels != x.shape[1]:
            raise InputError(
                f"The model reads {encoder.in_channels} features, the graph has {x.shape[1]}."
            )
        if known is not None and (isinstance(x, Tensor) or x.shape[1] != known):
            raise InputError(
                f"The model learned inputs of {known} nodes: it is used with the graph whose x "
                "holds their identities, made by identities."
            )

    @property
    def blueprint(self) -> Blueprint:
        """What the model is built from."""
        return self.config.model

    @property
    def class_names(self) -> tuple[str | int, ...]:
        """Name of each class; 0, 1, 2, ... if none were given."""
        return tuple(self.config.labels or range(self.blueprint.out_channels))

    def to(self, device: torch.device | str) -> Artefact:
        """The same artefact with its tensors on another device."""
        x = None if self.x is None else self.x.to(device)
        adjacency = self.adjacency.to(device)
        return replace(self, model=self.model.to(device), adjacency=adjacency, x=x)

    def save(
        self,
        folder: Path | str,
        *,
        write_extras: Callable[[Path], object] | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write the folder, whole or not at all; arguments as for :meth:`Predictor.save`."""
        metrics = as_json(self.metrics, "metrics")
        weights = self._weights()
        wrong = not_finite(weights)
        if wrong is not None:
            raise InputError(
                f"The model cannot be saved: tensor {wrong!r} of its weights holds NaN or infinite "
                "numbers; train it again, with a lower learning rate."
            )
        config = {"kind": KIND, "tuneup": __version__, **self.config.to_json()}
        replace = overwrite and is_artefact(Path(folder))
        with atomic_folder(folder, replace=replace) as place:
            if write_extras is not None:
                write_extras(place)  # first: it cannot replace a file of the model
            # `save_file` ignores the umask: only the owner could read its files.
            (place / "weights.safetensors").write_bytes(serialise(weights))
            (place / "graph.safetensors").write_bytes(serialise(self._graph()))
            for file, ids in self._ids().items():
                frame = pl.DataFrame({"id": ids.values, "number": np.arange(len(ids))})
                frame.write_parquet(place / file)
            (place / "metrics.json").write_text(metrics, encoding="utf-8")
            (place / "README.md").write_text(model_card(config, self.metrics), encoding="utf-8")
            needed = sealed_files(self.blueprint.task)
            config["files"] = {name: sha256(place / name) for name in needed}
            config["extras"] = sorted({path.name for path in place.iterdir()} - {*needed})
            config["checksum"] = seal(config)
            text = as_json(config, "config") + "\n"
            (place / "config.json").write_text(text, encoding="utf-8")
        return Path(folder)

    def _weights(self) -> dict[str, Tensor]:
        weights: dict[str, Tensor] = {}
        for name, tensor in self.model.state_dict().items():
            if not isinstance(tensor, Tensor):
                raise InputError(
                    f"The model cannot be saved: its state {name!r} is a {type(tensor).__name__}, "
                    "and only tensors are saved; make it an argument of its class."
                )
            weights[self.blueprint.on_disk(name)] = tensor
        if isinstance(self.model.inputs, UserItemVectors):
            weights[NEW_USER] = self.model.inputs.mean_user(self.adjacency)
        return {name: _standalone(tensor) for name, tensor in weights.items()}

    def _graph(self) -> dict[str, Tensor]:
        tensors = {"rowptr": self.adjacency.rowptr, "col": self.adjacency.col}
        if self.adjacency.weight is not None:
            tensors["weight"] = self.adjacency.weight
        if isinstance(self.x, SparseMatrix):
            for part in ("rowptr", "col", "value"):
                tensors[f"x.{part}"] = getattr(self.x, part)
        elif self.x is not None:
            tensors["x"] = self.x
        return {name: _standalone(tensor) for name, tensor in tensors.items()}

    def _ids(self) -> dict[str, IdMap]:
        if self.items is None:
            return {"ids.parquet": self.ids}
        return {"users.parquet": self.ids, "items.parquet": self.items}


def read_data(data: Any) -> Graph | Interactions:
    """What a model answers on, from tuneup's own data or from PyG's."""
    if isinstance(data, Graph | Interactions):
        return data
    kinds = getattr(data, "edge_types", None)  # not by its class: importing PyG takes seconds
    if kinds is not None:
        kinds = [kind for kind in kinds if not kind[1].startswith("rev_") and kind[0] != kind[2]]
        if len(kinds) != 1 or len(data.node_types) != 2:
            raise InputError(
                f"data: got a HeteroData with nodes {data.node_types} and edges {data.edge_types}; "
                "expected users and items and one kind of edge between them. For other models, "
                "data.to_homogeneous() gives a Data."
            )
        users, items = (int(data[side].num_nodes) for side in kinds[0][::2])
        edges = data[kinds[0]].edge_index
        return interactions_from(edges[0], edges[1], users, items, "model")
    for name in ("edge_weight", "edge_attr"):
        if getattr(data, name, None) is not None:
            raise InputError(
                f"data.{name} would be ignored: a predictor reads no weights or features of edges. "
                f"Remove it (del data.{name}) to predict without."
            )
    graph = graph_from(data, name="model")
    loops, repeated = graph.adjacency.num_self_loops, graph.adjacency.num_duplicates
    if loops or repeated:
        warnings.warn(
            f"data.edge_index has {loops} self-loops and {repeated} repeated edges; they are left "
            "out, as in training with tuneup.",
            stacklevel=3,
        )
    return graph


@torch.no_grad()
def width_of_outputs(model: Model, x: Any, adjacency: Any) -> int:
    """Width of the outputs of a module that is not ours, from one pass."""
    z = model(x, adjacency)
    if not isinstance(z, Tensor) or z.dim() != 2 or not z.is_floating_point():
        found = f"{z.dtype} of shape {list(z.shape)}" if isinstance(z, Tensor) else type(z).__name__
        raise InputError(
            f"{type(model.encoder).__name__}(x, edge_index) must return numbers [nodes, width]; "
            f"got {found}."
        )
    return z.shape[1]


def model_card(config: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """What a model is and is not good for, as a page of Markdown that needs no expert."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # only saving needs it

    numbers = {name: value for name, value in metrics.items() if type(value) in (int, float)}
    groups = [name for name in ("overall", "tail", "head") if name in numbers]
    names = [*groups, *sorted(set(numbers) - set(groups))]
    floors, heading = metrics.get("floors"), metrics.get("metric")
    environment = Environment(
        loader=PackageLoader("tuneup.serve", ""),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = _escaped
    return environment.get_template("model_card.md.jinja").render(
        config,
        direction="undirected" if config["graph"]["undirected"] else "directed",
        scores=[(name, numbers[name]) for name in names],
        compares=len(groups) > 1,
        heading=heading if isinstance(heading, str) else "score",
        floors=floors if isinstance(floors, Mapping) else {},
    )


def _escaped(value: object) -> str:
    """A value as one line of plain Markdown text."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", " ".join(str(value).split()))


def is_artefact(folder: Path) -> bool:
    """Whether a folder says that it is a saved model, damaged or not."""
    try:
        return read_object(folder / "config.json").get("kind") == KIND
    except (OSError, ArtefactError):
        return False


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        ArtefactError: If there is none; RecursionError is one of the ways to fail.
    """
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ArtefactError(f"{path.name} is damaged; copy the folder again") from error
    if not isinstance(found, dict):
        raise ArtefactError(f"{path.name} is damaged: it holds no JSON object")
    return found


def checked_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a class as they come back from JSON."""
    found: dict[str, Any] = json.loads(as_json(dict(arguments), "arguments"))
    return found


def sha256(path: Path) -> str:
    """Checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(config: Mapping[str, Any]) -> str:
    """Checksum of a configuration, whatever its layout."""
    plain = {key: value for key, value in config.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Name of the first tensor with NaN or infinite numbers."""
    for name, tensor in tensors.items():
        if not tensor.numel() or not tensor.is_floating_point():
            continue
        # Without a mask of its size: both ends of the range are NaN if any number is.
        if not all(bool(torch.isfinite(end)) for end in torch.aminmax(tensor)):
            return name
    return None


def _standalone(tensor: Tensor) -> Tensor:
    """A tensor as it is written: its own memory, on the CPU."""
    return tensor.detach().cpu().contiguous().clone()
