"""Load and verify a saved model: no file is trusted before it is checked, and none is executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from tuneup.errors import ArtefactError
from tuneup.graph import Adjacency, Features, SparseMatrix
from tuneup.nn import Model
from tuneup.runtime import out_of_memory
from tuneup.tables import IdMap

from .artefact import KIND, NEW_USER, Artefact, not_finite, read_object, seal, sha256
from .blueprint import first_line
from .schema import FORMATS, Config, GraphSizes, parse_config, sealed_files, shortened

_MISFITS = (
    *(SafetensorError, RuntimeError, ArithmeticError, AssertionError, AttributeError),
    *(LookupError, TypeError, ValueError),
)
"""What libraries raise for valid files that do not belong together."""


def load_artefact(
    folder: Path | str, module: nn.Module | None = None, allow: Sequence[str] = ()
) -> tuple[Artefact, Tensor | None]:
    """An artefact, and the input of a new user if it is a recommender.

    Args:
        folder: of the artefact.
        module: the user's own, or a ``Model`` around it, to take the weights; a copy of it does.
        allow: packages that the class of such a module may be imported from.

    Raises:
        ArtefactError: If it is missing, damaged, incomplete or of a newer format.
    """
    with explained(folder):
        place = Path(folder)
        config = parse_config(_config(place))
        for name in sealed_files(config.task):  # other files may have changed
            path = place / name
            if not path.is_file():
                raise ArtefactError(f"{name} is missing; copy the folder again")
            if sha256(path) != config.files[name]:
                raise ArtefactError(
                    f"{name} is damaged: its checksum is wrong; copy the folder again"
                )
        weights = _tensors(place / "weights.safetensors")
        new_user = weights.pop(NEW_USER, None)
        if (new_user is not None) != (config.task == "recommendation"):
            problem = f"{NEW_USER} does not fit the task {config.task}"
            raise ArtefactError(f"weights.safetensors: {problem}")
        model = _model(config, weights, module, allow)
        tensors = _tensors(place / "graph.safetensors")
        ids, items = _ids(place, config)
        artefact = Artefact(
            config,
            model,
            _adjacency(tensors, config.graph),
            ids,
            items,
            _features(tensors, config.graph),
            read_object(place / "metrics.json"),
        )
        return artefact, new_user


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


def _config(place: Path) -> dict[str, Any]:
    """The configuration of a folder, of a known format and as it was written."""
    path = place / "config.json"
    if not path.is_file():
        there = "there is no such folder"
        if place.exists():
            there = "there is no config.json in it" if place.is_dir() else "it is a file"
        raise ArtefactError(f"{there}; a saved model is a folder with a config.json")
    config = read_object(path)
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
    _check_weights(
        {names[name]: each for name, each in model.state_dict().items()}, weights, builder
    )
    model.load_state_dict({name: weights[names[name]] for name in names}, assign=True)
    model.eval().requires_grad_(False)
    return model


def _check_weights(
    expected: Mapping[str, Tensor], found: Mapping[str, Tensor], builder: str
) -> None:
    """Refuse weights that are not those of a model, by the first tensor that differs.

    Args:
        expected: those of the model, perhaps on the meta device.
        found: those of the file.
        builder: what the model is built from.
    """
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
    kinds = {tensor.dtype for tensor in found.values() if tensor.is_floating_point()}
    if len(kinds) > 1:
        raise ArtefactError("weights.safetensors mixes numbers of different precision")


def _tensors(path: Path) -> dict[str, Tensor]:
    tensors = load_file(path)
    wrong = not_finite(tensors)
    if wrong is not None:
        raise ArtefactError(
            f"{path.name}: tensor {wrong!r} holds NaN or infinite numbers; train and save the "
            "model again"
        )
    return tensors


def _ids(place: Path, config: Config) -> tuple[IdMap, IdMap | None]:
    nodes, users = config.graph.nodes, config.model.users
    if config.task == "recommendation":
        ids = _id_map(place / "users.parquet", "user")
        items = _id_map(place / "items.parquet", "item")
        if len(ids) != users or len(items) != nodes - users:
            raise ArtefactError("there are not as many ids as users and items")
        return ids, items
    ids = _id_map(place / "ids.parquet", "node")
    if len(ids) != nodes:
        raise ArtefactError("there are not as many ids as nodes")
    return ids, None


def _id_map(path: Path, kind: str) -> IdMap:
    """The ids in a Parquet file with the columns ``id`` and ``number``."""
    try:
        frame = pl.read_parquet(path)
        if frame.columns != ["id", "number"]:
            raise ArtefactError(f"{path.name} has columns {frame.columns}, not id and number")
        if not np.array_equal(frame["number"].to_numpy(), np.arange(len(frame))):
            raise ArtefactError(f"{path.name} does not number its ids 0, 1, 2, ...")
        return IdMap(frame["id"], kind)
    except pl.exceptions.PolarsError as error:
        raise ArtefactError(f"{path.name} is not a Parquet file") from error


def _adjacency(tensors: dict[str, Tensor], sizes: GraphSizes) -> Adjacency:
    rowptr, col = (_part(tensors, name) for name in ("rowptr", "col"))
    _check_rows("edges", rowptr, col, sizes.nodes, sizes.nodes)
    weight = tensors.get("weight")
    if weight is not None and not (weight.shape == col.shape and bool((weight > 0).all())):
        raise ArtefactError("the edges have weights that are not a number above 0 for each")
    return Adjacency(rowptr, col, sizes.nodes, sizes.undirected, weight=weight)


def _features(tensors: dict[str, Tensor], sizes: GraphSizes) -> Features | None:
    if sizes.layout == "none":
        return None
    if sizes.layout == "dense":
        x = _part(tensors, "x")
        if x.shape != (sizes.nodes, sizes.features):
            raise ArtefactError("the features have another shape than config.json says")
        return x
    rowptr, col, value = (_part(tensors, f"x.{part}") for part in ("rowptr", "col", "value"))
    _check_rows("features", rowptr, col, sizes.nodes, sizes.features)
    if value.shape != col.shape:
        raise ArtefactError("the sparse features have more places than values")
    return SparseMatrix(rowptr, col, value, sizes.features)


def _part(tensors: dict[str, Tensor], name: str) -> Tensor:
    if name not in tensors:
        raise ArtefactError(f"graph.safetensors has no tensor {name!r}, which config.json implies")
    return tensors[name]


def _check_rows(name: str, rowptr: Tensor, col: Tensor, rows: int, cols: int) -> None:
    """Refuse compressed rows with an index out of range: the kernels do not check indices."""
    shaped = rowptr.shape == (rows + 1,) and col.dim() == 1
    if not shaped or rowptr.dtype != torch.long or col.dtype != torch.long:
        raise ArtefactError(f"the {name} are not rows of {rows:,} nodes")
    ordered = (
        int(rowptr[0]) == 0 and int(rowptr[-1]) == col.numel() and bool((rowptr.diff() >= 0).all())
    )
    inside = not col.numel() or (int(col.min()) >= 0 and int(col.max()) < cols)
    if not ordered or not inside:
        raise ArtefactError(f"the {name} contain an invalid node")
