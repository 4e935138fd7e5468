"""The structure of config.json: checked by type and range before anything is built from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from reprlib import Repr
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from tuneup.errors import ArtefactError
from tuneup.metrics import Temperature
from tuneup.names import TaskName

from .blueprint import Blueprint
from .seals import sealed_files

LARGEST = 2**40
"""Sizes above this are refused, so that their products stay within what a tensor may have."""

MOST_LAYERS = 1000
"""Of LightGCN, whose layers have no weights that would tell how many there are."""

_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict = 2, 3, 3


@dataclass(frozen=True)
class GraphSizes:
    """What config.json says of the graph."""

    nodes: int
    edges: int
    undirected: bool
    features: int
    layout: Literal["none", "dense", "sparse"]


@dataclass(frozen=True)
class Config:
    """What a model is read from, apart from its files."""

    name: str
    task: TaskName
    graph: GraphSizes
    blueprint: Blueprint
    labels: tuple[str | int, ...]
    plan: Any
    columns: Mapping[str, str]
    files: Mapping[str, str]
    temperature: Temperature | None = None


def shortened(value: Any) -> str:
    """A value as a message shows it, in one short line."""
    return _SHORT.repr(value)


def parse_config(plain: Mapping[str, Any]) -> Config:
    """Read and check a configuration; keys that this version does not know are ignored.

    Raises:
        ArtefactError: If a value is missing, has another type, or is out of range.
    """
    task = _value(plain, "task", TaskName)
    files = _texts(plain, "files")
    for name in sealed_files(task):
        if name not in files:
            raise ArtefactError(f"config.json: files has no checksum of {name}")
    config = Config(
        _value(plain, "name", str),
        task,
        _made(GraphSizes, _value(plain, "graph", dict), "graph"),
        _made(Blueprint, _value(plain, "model", dict), "model"),
        tuple(_labels(_value(plain, "labels", list))),
        _value(plain, "plan", Any),
        _texts(plain, "columns") if "columns" in plain else {},
        files,
        _temperature(plain),
    )
    _check_task(config)
    return config


def _temperature(plain: Mapping[str, Any]) -> Temperature | None:
    """What calibrates a classifier's probabilities; models of before have none."""
    if "temperature" not in plain:
        return None
    return _made(Temperature, _value(plain, "temperature", dict), "temperature")


def _check_task(config: Config) -> None:
    """What a task needs of the rest."""
    model, graph = config.blueprint, config.graph
    recommends = config.task == "recommendation"
    wrong = None
    if model.task != config.task:
        wrong = f"model.task is {model.task}, but task is {config.task}"
    elif recommends != (graph.layout == "none"):
        wrong = f"graph.layout {graph.layout!r} does not fit the task {config.task}"
    elif recommends and not graph.undirected:
        wrong = "graph.undirected must be true for recommendation"
    elif recommends and model.users + model.items != graph.nodes:
        wrong = f"model.users and model.items do not add up to the {graph.nodes:,} nodes"
    elif recommends and model.encoder is not None and model.encoder.in_channels != model.width:
        wrong = "model.encoder.in_channels differs from model.width"
    elif recommends and model.known is not None:
        wrong = "model.known is for models of nodes"
    elif model.layers > MOST_LAYERS:
        wrong = f"model.layers must be at most {MOST_LAYERS}; got {model.layers}"
    elif not recommends and (model.users or model.items):
        wrong = "model.users and model.items are for recommendation"
    elif config.task == "link-prediction" and model.decoder_width < 1:
        wrong = "model.decoder_width must be 1 or more"
    elif model.encoder is None and not recommends:
        wrong = f"model.encoder must not be null for {config.task}"
    elif model.encoder is not None:
        sizes = ("in_channels", "out_channels", "width", "heads", "num_layers")
        empty = [name for name in sizes if getattr(model.encoder, name) < 1]
        wrong = f"model.encoder.{empty[0]} must be 1 or more" if empty else None
    if wrong:
        raise ArtefactError(f"config.json: {wrong}")


Made = TypeVar("Made")


def _made(kind: type[Made], plain: Mapping[str, Any], where: str) -> Made:
    """A dataclass of plain values, each checked by the type of its field."""
    hints, members = get_type_hints(kind), {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    unknown = [name for name in plain if name not in members]
    if unknown:
        raise ArtefactError(
            f"config.json: {where} has the unknown key {shortened(unknown[0])}; upgrade tuneup"
        )
    needed = {name for name, each in members.items() if not _is_optional(each)}
    return kind(
        **{
            name: _value(plain, name, hints[name], where)
            for name in members
            if name in plain or name in needed
        }
    )


def _is_optional(member: Field[Any]) -> bool:
    return member.default is not MISSING or member.default_factory is not MISSING


def _value(plain: Mapping[str, Any], name: str, kind: Any, where: str = "") -> Any:
    """The value of a key, checked; objects become dataclasses where the type is one."""
    path = f"{where}.{name}" if where else name
    if name not in plain:
        raise ArtefactError(f"config.json: {path} is missing")
    value = plain[name]
    if get_origin(kind) is UnionType:
        if value is None and NoneType in get_args(kind):
            return None
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if isinstance(kind, type) and is_dataclass(kind):
        if isinstance(value, dict):
            return _made(kind, value, path)
        raise _expected(path, "an object", value)
    expected = _problem(kind, value)
    if expected is not None:
        raise _expected(path, expected, value)
    return value


def _problem(kind: Any, value: Any) -> str | None:
    """What was expected, if a value is not of a kind."""
    if get_origin(kind) is Literal:
        names = get_args(kind)
        fits = isinstance(value, str) and value in names
        expected = f"one of {', '.join(map(str, names))}"
    elif kind is int:
        fits = type(value) is int and 0 <= value <= LARGEST
        expected = f"a whole number from 0 to {LARGEST}"
    elif kind is float:
        fits = type(value) in (int, float) and abs(value) <= LARGEST and math.isfinite(value)
        expected = "a finite number"
    else:
        fits = kind is Any or type(value) is kind
        expected = {bool: "true or false", str: "a text", dict: "an object", list: "a list"}.get(
            kind, ""
        )
    return None if fits else expected


def _texts(plain: Mapping[str, Any], name: str) -> dict[str, str]:
    found: dict[str, str] = _value(plain, name, dict)
    for key in found:
        _value(found, key, str, name)
    return found


def _labels(found: list[Any]) -> list[str | int]:
    if any(type(label) not in (str, int) for label in found):
        raise _expected("labels", "a list of texts or of whole numbers", found)
    return found


def _expected(path: str, expected: str, value: Any) -> ArtefactError:
    return ArtefactError(f"config.json: {path} must be {expected}; got {shortened(value)}")
