"""A trained model as a folder of open files with checksums; nothing in it is a pickle.

config.json          format, task, architecture, sizes, label names, feature plan, checksums
weights.safetensors  the parameters, and the input of a new user; model.safetensors for model hubs
graph.safetensors    the edges in compressed rows, and the nodes' features or identities
ids.parquet          the user's ids; users.parquet and items.parquet of a recommender
metrics.json         what was measured
README.md            the model card
config.json.sig      HMAC-SHA256 of config.json, where it was signed with a key
report.html, log.jsonl, scores-*.parquet   of the training, where they were given

Answers do not depend on the model card and the files of the training, which may be edited or
removed. No file is trusted before it is checked, and none is executed. Checksums tell of damage,
but whoever changes a file can change them too; a signature vouches for all files with a checksum.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialise
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from tuneup import __version__
from tuneup.errors import ArtefactError, InputError
from tuneup.files import atomic_folder
from tuneup.graph import Adjacency, Features, SparseMatrix
from tuneup.nn import Model, UserItemVectors
from tuneup.runtime import out_of_memory
from tuneup.tables import IdMap

from .config import (
    FORMATS,
    HUB_WEIGHTS,
    Blueprint,
    Config,
    GraphSizes,
    as_json,
    parse_config,
    sealed_files,
    shortened,
)
from .modules import first_line

KIND = "tuneup artefact"
"""What every config.json of ours says of itself."""

SIGNATURE = "config.json.sig"

_SHORTEST_KEY = 16
"""Bytes."""

_WITHOUT_WEIGHTS = {
    "gat": "attention, which learns its own weights,",
    "sage-max": "a maximum over neighbours",
}

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
        blueprint, labels, x = self.blueprint, self.config.labels, self.x
        encoder, known, task = blueprint.encoder, blueprint.known, blueprint.task
        if self.adjacency.num_nodes == 0:
            raise InputError("A model without a single node cannot answer.")
        if x is not None and known is None and encoder and encoder.in_channels != x.shape[1]:
            raise InputError(
                f"The model reads {encoder.in_channels} features, the graph has {x.shape[1]}."
            )
        if x is not None and known is not None and (isinstance(x, Tensor) or x.shape[1] != known):
            raise InputError(
                f"The model learned inputs of {known} nodes: it is used with the graph whose x "
                "holds their identities, made by identities."
            )
        self._check_precision()
        if encoder is not None and encoder.architecture in _WITHOUT_WEIGHTS:
            self.adjacency.refuse_weights(_WITHOUT_WEIGHTS[encoder.architecture])
        if task == "link-prediction" and not self.adjacency.undirected:
            raise InputError("Link prediction ranks neighbours: the graph must be undirected.")
        if labels and len(labels) != blueprint.out_channels:
            raise InputError(f"{len(labels)} label names for {blueprint.out_channels} classes.")
        if not any(all(type(name) is kind for name in labels) for kind in (str, int)):
            raise InputError("Label names must all be texts, or all be whole numbers.")
        if self.config.temperature is not None and task != "node-classification":
            raise InputError(
                f"temperature: got {self.config.temperature} for {task}; expected none, as only "
                "node classification has probabilities."
            )

    def _check_precision(self) -> None:
        """Refuse a model of our own that cannot compute in the precision of its tensors."""
        if self.blueprint.module is not None:
            return
        tensors = self.model.state_dict().values()
        kinds = {each.dtype for each in tensors if each.is_floating_point()}
        if isinstance(self.x, Tensor):
            kinds.add(self.x.dtype)
        if len(kinds) > 1 or not kinds <= {torch.float16, torch.float32, torch.float64}:
            names = ", ".join(sorted(map(str, kinds)))
            raise InputError(
                f"precision: got {names} in the weights and features of one model; expected one of "
                "torch.float16, float32 and float64: use model.float() and x.float()."
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
        sign_key: bytes | None = None,
        hub: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write the folder, whole or not at all; arguments as for :meth:`Predictor.save`.

        ``hub`` is the front matter of the model card for a model hub, in its own layout.
        """
        needed = sealed_files(self.blueprint.task, hub=hub is not None)
        metrics = as_json(self.metrics, "metrics")
        weights = self._weights()
        wrong = _not_finite(weights)
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
            (place / needed[-1]).write_bytes(serialise(weights))
            (place / "graph.safetensors").write_bytes(serialise(self._graph()))
            ids = {"ids": self.ids, "items": None}
            if self.items is not None:
                ids = {"users": self.ids, "items": self.items}
            for name, known in ids.items():
                if known is not None:
                    frame = pl.DataFrame({"id": known.values, "number": np.arange(len(known))})
                    frame.write_parquet(place / f"{name}.parquet")
            (place / "metrics.json").write_text(metrics, encoding="utf-8")
            card = model_card(config, self.metrics)
            if hub is not None:
                card = f"---\n{as_json(hub, 'front matter')}\n---\n\n{card}"  # JSON is YAML too
            (place / "README.md").write_text(card, encoding="utf-8")
            config["files"] = {name: sha256(place / name) for name in needed}
            config["extras"] = sorted({path.name for path in place.iterdir()} - {*needed})
            config["checksum"] = seal(config)
            text = as_json(config, "config") + "\n"
            (place / "config.json").write_text(text, encoding="utf-8")
            if sign_key is not None:
                (place / SIGNATURE).write_text(_signature(sign_key, text.encode()))
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
            tensors |= {f"x.{part}": getattr(self.x, part) for part in ("rowptr", "col", "value")}
        elif self.x is not None:
            tensors["x"] = self.x
        return {name: _standalone(tensor) for name, tensor in tensors.items()}


def _standalone(tensor: Tensor) -> Tensor:
    """A tensor as it is written: its own memory, on the CPU."""
    return tensor.detach().cpu().contiguous().clone()


def model_card(config: Mapping[str, Any], metrics: Mapping[str, Any]) -> str:
    """What a model is and is not good for, as a page of Markdown that needs no expert."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # only saving needs it

    numbers = {name: value for name, value in metrics.items() if type(value) in (int, float)}
    groups = [name for name in ("overall", "tail", "head") if name in numbers]
    floors, heading = metrics.get("floors"), metrics.get("metric")
    environment = Environment(
        loader=PackageLoader("tuneup.serve", ""),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = lambda value: re.sub(
        r"([\\`*_{}\[\]<>#|])", r"\\\1", " ".join(str(value).split())
    )
    return environment.get_template("model_card.md.jinja").render(
        config,
        direction="undirected" if config["graph"]["undirected"] else "directed",
        scores=[(name, numbers[name]) for name in [*groups, *sorted(set(numbers) - set(groups))]],
        compares=len(groups) > 1,
        heading=heading if isinstance(heading, str) else "score",
        floors=floors if isinstance(floors, Mapping) else {},
    )


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
    return _object(path.read_bytes(), path.name)


def _object(text: bytes, name: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtefactError(f"{name} is damaged; copy the folder again") from error
    if not isinstance(found, dict):
        raise ArtefactError(f"{name} is damaged: it holds no JSON object")
    return found


def sha256(path: Path) -> str:
    """Checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(config: Mapping[str, Any]) -> str:
    """Checksum of a configuration, whatever its layout."""
    plain = {key: value for key, value in config.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Name of the first tensor with NaN or infinite numbers."""
    for name, tensor in tensors.items():
        if not tensor.numel() or not tensor.is_floating_point():
            continue
        # Without a mask of its size: both ends of the range are NaN if any number is.
        if not all(bool(torch.isfinite(end)) for end in torch.aminmax(tensor)):
            return name
    return None


def check_key(name: str, key: bytes | None) -> None:
    """Refuse what is no key to sign with."""
    if key is None:
        return
    if not isinstance(key, bytes) or len(key) < _SHORTEST_KEY:
        found = f"{len(key)} bytes" if isinstance(key, bytes) else f"a {type(key).__name__}"
        raise InputError(
            f"{name}: got {found}; expected at least {_SHORTEST_KEY} random bytes, as "
            "secrets.token_bytes(32) makes them."
        )


def _signature(key: bytes, config: bytes) -> str:
    return hmac.new(key, config, "sha256").hexdigest()


def _verify(place: Path, config: bytes, key: bytes) -> None:
    """Refuse a folder whose config.json, with the checksums in it, was not signed with this key."""
    path = place / SIGNATURE
    if not path.is_file():
        raise ArtefactError(f"it is not signed: there is no {SIGNATURE}; ask for a signed folder")
    expected = _signature(key, config).encode()
    if not hmac.compare_digest(expected, path.read_bytes().strip()):
        raise ArtefactError(
            f"{SIGNATURE} is not by this key: the folder was changed or signed with another; ask "
            "for a signed folder"
        )


_MISFITS = (
    *(SafetensorError, RuntimeError, ArithmeticError, AssertionError, AttributeError),
    *(LookupError, TypeError, ValueError),
)
"""What libraries raise for valid files that do not belong together."""


@contextmanager
def explained(folder: Path | str) -> Iterator[None]:
    """Turn errors in the block into an :class:`ArtefactError` that names the folder."""
    cause: Exception
    try:
        yield
        return
    except ArtefactError as error:
        problem, cause = str(error), error
    except OSError as error:
        problem, cause = f"{Path(error.filename or folder).name}: {error.strerror or error}", error
    except _MISFITS as error:
        if out_of_memory(error):
            raise
        reason = first_line(error).rstrip(".")
        problem, cause = f"its files do not fit each other ({reason})", error
    raise ArtefactError(f"The model in {folder} cannot be used: {problem}.") from cause


def load_artefact(
    folder: Path | str,
    module: nn.Module | None = None,
    allow: Sequence[str] = (),
    verify_key: bytes | None = None,
) -> Artefact:
    """Read a folder and verify it, as :meth:`Predictor.load`; inside of :func:`explained`."""
    place = Path(folder)
    config = parse_config(_read_config(place, verify_key))
    needed = sealed_files(config.task, hub=HUB_WEIGHTS in config.files)
    for name in needed:  # other files may have changed
        path = place / name
        if not path.is_file():
            raise ArtefactError(f"{name} is missing; copy the folder again")
        if sha256(path) != config.files[name]:
            raise ArtefactError(f"{name} is damaged: its checksum is wrong; copy the folder again")
    weights = _tensors(place / needed[-1])
    if (weights.pop(NEW_USER, None) is not None) != (config.task == "recommendation"):
        problem = f"{NEW_USER} does not fit the task {config.task}"
        raise ArtefactError(f"weights.safetensors: {problem}")
    model = _model(config, weights, module, allow)
    tensors, sizes = _tensors(place / "graph.safetensors"), config.graph
    if config.task == "recommendation":
        ids = _id_map(place / "users.parquet", "user", config.model.users)
        items = _id_map(place / "items.parquet", "item", sizes.nodes - config.model.users)
    else:
        ids, items = _id_map(place / "ids.parquet", "node", sizes.nodes), None
    adjacency, x = _adjacency(tensors, sizes), _features(tensors, sizes)
    metrics = read_object(place / "metrics.json")
    return Artefact(config, model, adjacency, ids, items, x, metrics)


def _read_config(place: Path, verify_key: bytes | None) -> dict[str, Any]:
    """The configuration of a folder, of a known format and as it was written."""
    path = place / "config.json"
    if not path.is_file():
        there = "there is no such folder"
        if place.exists():
            there = "there is no config.json in it" if place.is_dir() else "it is a file"
        raise ArtefactError(f"{there}; a saved model is a folder with a config.json")
    text = path.read_bytes()
    if verify_key is not None:
        _verify(place, text, verify_key)
    config = _object(text, path.name)
    if config.get("kind") != KIND:
        raise ArtefactError("config.json does not describe a model that tuneup saved")
    version = config.get("format")
    if type(version) is int and version > FORMATS[-1]:
        writer = shortened(config.get("tuneup")).strip("'")
        raise ArtefactError(
            f"it has format {shortened(version)}, written by tuneup {writer}; this version reads "
            f"formats up to {FORMATS[-1]}: upgrade tuneup"
        )
    if config.get("checksum") != seal(config) or version not in FORMATS:
        raise ArtefactError("config.json was changed after it was written; copy the folder again")
    return config


def _model(
    config: Config, weights: dict[str, Tensor], module: nn.Module | None, allow: Sequence[str]
) -> Model:
    """The model with its weights; its size is checked before it is built."""
    blueprint = config.model
    layers = 0 if blueprint.encoder is None else blueprint.encoder.num_layers
    if layers > len(weights):
        raise ArtefactError(
            f"config.json: model.encoder.num_layers must be at most {len(weights)}, the number of "
            f"tensors in weights.safetensors; got {layers}"
        )
    if blueprint.module is None:
        if module is not None:
            raise ArtefactError("it holds a model of tuneup's own: load it without model=")
        model, builder = blueprint.build(), "config.json"
    elif module is None:
        model, builder = blueprint.build(blueprint.module.build(allow)), blueprint.module.path
    else:
        encoder = module.encoder if isinstance(module, Model) else module
        model, builder = blueprint.build(deepcopy(encoder)), f"the {type(encoder).__name__} given"
    names = {name: blueprint.on_disk(name) for name in model.state_dict()}
    expected = {names[name]: each for name, each in model.state_dict().items()}
    _check_weights(expected, weights, builder)
    model.load_state_dict({name: weights[names[name]] for name in names}, assign=True)
    model.eval().requires_grad_(False)
    return model


def _check_weights(
    expected: Mapping[str, Tensor], found: Mapping[str, Tensor], builder: str
) -> None:
    """Refuse weights that are not those of a model, by the first tensor that differs."""
    for name in [*expected, *found]:
        if name not in found or name not in expected:
            has = "no" if name in expected else "a"
            raise ArtefactError(
                f"weights.safetensors has {has} tensor {name!r}, unlike the model in {builder}"
            )
    for name, tensor in expected.items():
        if is_lazy(tensor):  # it takes its shape from the file
            continue
        if tensor.shape != found[name].shape:
            raise ArtefactError(
                f"weights.safetensors: {name!r} has shape {list(found[name].shape)}, {builder} "
                f"says {list(tensor.shape)}"
            )
        if tensor.is_floating_point() != found[name].is_floating_point():
            raise ArtefactError(f"weights.safetensors: {name!r} holds {found[name].dtype}")


def _tensors(path: Path) -> dict[str, Tensor]:
    tensors = load_file(path)
    wrong = _not_finite(tensors)
    if wrong is not None:
        raise ArtefactError(
            f"{path.name}: tensor {wrong!r} holds NaN or infinite numbers; train and save the "
            "model again"
        )
    return tensors


def _id_map(path: Path, kind: str, count: int) -> IdMap:
    """The ids in a Parquet file with the columns ``id`` and ``number``."""
    try:
        frame = pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise ArtefactError(f"{path.name} is not a Parquet file") from error
    if frame.columns != ["id", "number"]:
        raise ArtefactError(f"{path.name} has columns {frame.columns}, not id and number")
    if not np.array_equal(frame["number"].to_numpy(), np.arange(len(frame))):
        raise ArtefactError(f"{path.name} does not number its ids 0, 1, 2, ...")
    if len(frame) != count:
        raise ArtefactError(f"{path.name} has {len(frame):,} ids for {count:,} {kind}s")
    try:
        return IdMap(frame["id"], kind)
    except pl.exceptions.PolarsError as error:
        raise ArtefactError(f"{path.name} holds no ids ({first_line(error)})") from error


def _adjacency(tensors: dict[str, Tensor], sizes: GraphSizes) -> Adjacency:
    rowptr, col = _rows(tensors, "", "edges", sizes.nodes, sizes.nodes)
    weight = _part(tensors, "weight", torch.float32, col.shape) if sizes.weighted else None
    if weight is not None and not bool((weight > 0).all()):
        raise ArtefactError("graph.safetensors: 'weight' must hold numbers above 0")
    return Adjacency(rowptr, col, sizes.nodes, sizes.undirected, weight=weight)


def _features(tensors: dict[str, Tensor], sizes: GraphSizes) -> Features | None:
    if sizes.layout == "none":
        return None
    if sizes.layout == "dense":
        return _part(tensors, "x", None, (sizes.nodes, sizes.features))
    rowptr, col = _rows(tensors, "x.", "features", sizes.nodes, sizes.features)
    value = _part(tensors, "x.value", None, col.shape)
    return SparseMatrix(rowptr, col, value, sizes.features)


def _part(
    tensors: dict[str, Tensor],
    name: str,
    dtype: torch.dtype | None,
    shape: Sequence[int] | None = None,
) -> Tensor:
    """A tensor of the graph of this type (of any floating one if ``None``) and shape."""
    if name not in tensors:
        raise ArtefactError(f"graph.safetensors has no tensor {name!r}, which config.json implies")
    found = tensors[name]
    if found.dtype != dtype if dtype else not found.is_floating_point():
        kind = dtype or "floating point numbers"
        raise ArtefactError(f"graph.safetensors: {name!r} holds {found.dtype}, not {kind}")
    if shape is not None and tuple(found.shape) != tuple(shape):
        raise ArtefactError(
            f"graph.safetensors: {name!r} has shape {list(found.shape)}, not {list(shape)}"
        )
    return found


def _rows(
    tensors: dict[str, Tensor], prefix: str, what: str, rows: int, cols: int
) -> tuple[Tensor, Tensor]:
    """Row pointer and columns; an index out of range is refused, as the kernels check none."""
    rowptr = _part(tensors, f"{prefix}rowptr", torch.long, (rows + 1,))
    col = _part(tensors, f"{prefix}col", torch.long)
    ordered = col.dim() == 1 and int(rowptr[0]) == 0 and int(rowptr[-1]) == col.numel()
    inside = not col.numel() or (int(col.min()) >= 0 and int(col.max()) < cols)
    if not ordered or not inside or bool((rowptr.diff() < 0).any()):
        raise ArtefactError(f"the {what} contain an invalid node")
    return rowptr, col
