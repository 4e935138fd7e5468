"""Loading a saved model: every file that an answer depends on is verified, and none is executed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from tuneup.errors import ArtefactError
from tuneup.graph import Adjacency, Features, SparseMatrix
from tuneup.nn import Model
from tuneup.runtime import out_of_memory

from .artefact import FORMATS, NEW_USER, Artefact
from .ids import Ids, read_ids
from .schema import Config, GraphSizes, parse_config, shortened
from .seals import KIND, read_object, seal, sealed_files, sha256
from .tensors import check_rows, check_weights, not_finite

_MISFITS = (
    *(SafetensorError, RuntimeError, ArithmeticError, AssertionError, AttributeError),
    *(LookupError, TypeError, ValueError),
)
"""What libraries raise for files that are whole, but do not belong together."""


def load_artefact(folder: Path | str) -> tuple[Artefact, Tensor | None]:
    """An artefact, and the input of a new user if it is a recommender.

    Raises:
        ArtefactError: If it is missing, damaged, incomplete or of a newer format.
    """
    with explained(folder):
        place = Path(folder)
        config = parse_config(read_config(place))
        _check_files(place, config)
        return _read(place, config)


@contextmanager
def explained(folder: Path | str) -> Iterator[None]:
    """Turn what goes wrong in the block into an :class:`ArtefactError` that names the folder."""
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
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        problem, cause = f"its files do not fit each other ({reason.rstrip('.')})", error
    raise ArtefactError(f"The model in {folder} cannot be used: {problem}.") from cause


def read_config(place: Path) -> dict[str, Any]:
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


def _check_files(place: Path, config: Config) -> None:
    """Compare what answers are computed from with its checksums; other files may have changed."""
    for name in sealed_files(config.task):
        path = place / name
        if not path.is_file():
            raise ArtefactError(f"{name} is missing; copy the folder again")
        if sha256(path) != config.files[name]:
            raise ArtefactError(f"{name} is damaged: its checksum is wrong; copy the folder again")


def _read(place: Path, config: Config) -> tuple[Artefact, Tensor | None]:
    weights = _tensors(place / "weights.safetensors")
    new_user = weights.pop(NEW_USER, None)
    if (new_user is not None) != (config.task == "recommendation"):
        raise ArtefactError(f"weights.safetensors: {NEW_USER} does not fit the task {config.task}")
    model = _model(config, weights)
    tensors = _tensors(place / "graph.safetensors")
    adjacency = _adjacency(tensors, config.graph)
    ids, items = _ids(place, config)
    artefact = Artefact(
        config.blueprint,
        model,
        adjacency,
        ids,
        items,
        _features(tensors, config.graph),
        config.labels,
        read_object(place / "metrics.json"),
        config.plan,
        config.name,
        config.columns,
        config.temperature,
    )
    return artefact, new_user


def _model(config: Config, weights: dict[str, Tensor]) -> Model:
    """Build the model, which the number of its tensors bounds, and put its weights in."""
    encoder = config.blueprint.encoder
    if encoder is not None and encoder.num_layers > len(weights):
        raise ArtefactError(
            f"config.json: model.encoder.num_layers must be at most {len(weights)}, the number of "
            f"tensors in weights.safetensors; got {encoder.num_layers}"
        )
    model = config.blueprint.build()
    names = {name: config.blueprint.on_disk(name) for name in model.state_dict()}
    check_weights({names[name]: each for name, each in model.state_dict().items()}, weights)
    model.load_state_dict({name: weights[names[name]] for name in names}, assign=True)
    model.eval().requires_grad_(False)
    return model


def _tensors(path: Path) -> dict[str, Tensor]:
    tensors = load_file(path)
    wrong = not_finite(tensors)
    if wrong is not None:
        raise ArtefactError(
            f"{path.name}: tensor {wrong!r} holds NaN or infinite numbers; train and save the "
            "model again"
        )
    return tensors


def _ids(place: Path, config: Config) -> tuple[Ids, Ids | None]:
    nodes, users = config.graph.nodes, config.blueprint.users
    if config.task == "recommendation":
        ids = read_ids(place / "users.parquet", "user")
        items = read_ids(place / "items.parquet", "item")
        if len(ids) != users or len(items) != nodes - users:
            raise ArtefactError("there are not as many ids as users and items")
        return ids, items
    ids = read_ids(place / "ids.parquet", "node")
    if len(ids) != nodes:
        raise ArtefactError("there are not as many ids as nodes")
    return ids, None


def _adjacency(tensors: dict[str, Tensor], sizes: GraphSizes) -> Adjacency:
    rowptr, col = (_part(tensors, name) for name in ("rowptr", "col"))
    check_rows("edges", rowptr, col, sizes.nodes, sizes.nodes)
    return Adjacency(rowptr, col, sizes.nodes, sizes.undirected)


def _features(tensors: dict[str, Tensor], sizes: GraphSizes) -> Features | None:
    if sizes.layout == "none":
        return None
    if sizes.layout == "dense":
        x = _part(tensors, "x")
        if x.shape != (sizes.nodes, sizes.features):
            raise ArtefactError("the features have another shape than config.json says")
        return x
    rowptr, col, value = (_part(tensors, f"x.{part}") for part in ("rowptr", "col", "value"))
    check_rows("features", rowptr, col, sizes.nodes, sizes.features)
    if value.shape != col.shape:
        raise ArtefactError("the sparse features have more places than values")
    return SparseMatrix(rowptr, col, value, sizes.features)


def _part(tensors: dict[str, Tensor], name: str) -> Tensor:
    if name not in tensors:
        raise ArtefactError(f"graph.safetensors has no tensor {name!r}, which config.json implies")
    return tensors[name]
