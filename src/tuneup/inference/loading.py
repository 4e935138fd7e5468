"""Reading an artefact: every byte is checked before it is believed, and none is ever run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from tuneup.errors import ArtefactError, InputError
from tuneup.graph import Features
from tuneup.graph.oneway import OneWay, forward_matrix
from tuneup.metrics import Temperature

from .artefact import FORMATS, NEW_USER, Artefact
from .blueprint import Blueprint
from .ids import Ids, read_ids
from .seals import KIND, seal, sha256


def load_artefact(folder: Path | str) -> tuple[Artefact, Tensor | None]:
    """An artefact, and the input of a new user if it is a recommender.

    Raises:
        ArtefactError: If it is missing, damaged, incomplete or of a newer format.
    """
    place = Path(folder)
    try:
        config = read_config(place)
        _check_files(place, config["files"])
        return _read(place, config)
    except ArtefactError as error:
        raise ArtefactError(f"The model in {folder} cannot be used: {error}.") from error
    except (OSError, SafetensorError, InputError, KeyError, TypeError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ArtefactError(
            f"The model in {folder} cannot be used: its files do not fit each other ({reason})."
        ) from error


def read_config(place: Path) -> dict[str, Any]:
    """The checked configuration of a folder."""
    path = place / "config.json"
    if not path.is_file():
        there = "there is no config.json in it" if place.is_dir() else "there is no such folder"
        raise ArtefactError(f"{there}; a saved model is a folder with a config.json")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtefactError("config.json is damaged; copy the folder again") from error
    if not isinstance(config, dict) or config.get("kind") != KIND:
        raise ArtefactError("config.json does not describe a model that tuneup saved")
    version = config.get("format")
    if isinstance(version, int) and version > FORMATS[-1]:
        raise ArtefactError(
            f"it has format {version}, written by tuneup {config.get('tuneup')}; this version "
            f"reads formats up to {FORMATS[-1]}: upgrade tuneup"
        )
    if config.get("checksum") != seal(config) or version not in FORMATS:
        raise ArtefactError("config.json was changed after it was written; copy the folder again")
    return config


def _check_files(place: Path, files: dict[str, str]) -> None:
    for name, checksum in files.items():
        path = place / name
        if path.parent != place or not path.is_file():
            raise ArtefactError(f"{name} is missing; copy the folder again")
        if sha256(path) != checksum:
            raise ArtefactError(f"{name} is damaged: its checksum is wrong; copy the folder again")


def _read(place: Path, config: dict[str, Any]) -> tuple[Artefact, Tensor | None]:
    blueprint = Blueprint.from_json(config["model"])
    model = blueprint.build()
    weights = load_file(place / "weights.safetensors")
    new_user = weights.pop(NEW_USER, None)
    model.load_state_dict(weights, assign=True)
    model.eval().requires_grad_(False)
    tensors, sizes = load_file(place / "graph.safetensors"), config["graph"]
    adjacency = _adjacency(tensors, sizes)
    ids, items = _ids(place, blueprint)
    if len(ids) + (len(items) if items is not None else 0) != adjacency.num_nodes:
        raise ArtefactError("there are not as many ids as nodes")
    artefact = Artefact(
        blueprint,
        model,
        adjacency,
        ids,
        items,
        _features(tensors, sizes),
        tuple(config["labels"]),
        json.loads((place / "metrics.json").read_text(encoding="utf-8")),
        config["plan"],
        config["name"],
        config.get("columns", {}),  # earlier versions wrote none
        Temperature(**config["temperature"]) if "temperature" in config else None,
    )
    return artefact, new_user


def _ids(place: Path, blueprint: Blueprint) -> tuple[Ids, Ids | None]:
    if blueprint.task == "recommendation":
        return read_ids(place / "users.parquet", "user"), read_ids(place / "items.parquet", "item")
    return read_ids(place / "ids.parquet", "node"), None


def _adjacency(tensors: dict[str, Tensor], sizes: dict[str, Any]) -> OneWay:
    rowptr, col, nodes = tensors["rowptr"], tensors["col"], sizes["nodes"]
    _check_rows("edges", rowptr, col, nodes, nodes)
    return OneWay(rowptr, col, nodes, sizes["undirected"])


def _features(tensors: dict[str, Tensor], sizes: dict[str, Any]) -> Features | None:
    nodes, width = sizes["nodes"], sizes["features"]
    if sizes["layout"] == "none":
        return None
    if sizes["layout"] == "dense":
        if tensors["x"].shape != (nodes, width):
            raise ArtefactError("the features have another shape than config.json says")
        return tensors["x"]
    rowptr, col, value = (tensors[f"x.{part}"] for part in ("rowptr", "col", "value"))
    _check_rows("features", rowptr, col, nodes, width)
    if value.shape != col.shape:
        raise ArtefactError("the sparse features have more places than values")
    return forward_matrix(rowptr, col, value, width)


def _check_rows(name: str, rowptr: Tensor, col: Tensor, rows: int, cols: int) -> None:
    """The kernels trust an index: one that leads outside would read foreign memory."""
    shaped = rowptr.shape == (rows + 1,) and col.dim() == 1
    if not shaped or rowptr.dtype != torch.long or col.dtype != torch.long:
        raise ArtefactError(f"the {name} are not rows of {rows:,} nodes")
    ordered = (
        int(rowptr[0]) == 0 and int(rowptr[-1]) == col.numel() and bool((rowptr.diff() >= 0).all())
    )
    inside = not col.numel() or (int(col.min()) >= 0 and int(col.max()) < cols)
    if not ordered or not inside:
        raise ArtefactError(f"the {name} lead outside of the graph")
