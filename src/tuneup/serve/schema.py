"""What config.json holds, checked by type and range before anything is built from it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from reprlib import Repr
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from torch import Tensor

from tuneup.errors import ArtefactError, InputError
from tuneup.graph import Adjacency, Features
from tuneup.metrics import Temperature
from tuneup.names import TaskName

from .blueprint import Blueprint

FORMATS = (1, 2, 3)
"""Raised when the meaning of a file changes; a newer format is refused by name.

2: the features are identities of nodes, and the weights hold their inputs.  3: the encoder is a
module of the user's.  A model is written in the lowest format that can describe it.
"""

LARGEST = 2**40
"""Sizes above this are refused, so that their products stay within what a tensor may have."""

MOST_LAYERS = 1000
"""Limit for LightGCN, whose layers have no weights to count."""

_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict = 2, 3, 3

_NAMES = {bool: "true or false", str: "a text", dict: "an object", list: "a list"}


@dataclass(frozen=True)
class GraphSizes:
    """The graph that a model answers on."""

    nodes: int
    edges: int
    undirected: bool
    features: int
    layout: Literal["none", "dense", "sparse"]

    @classmethod
    def of(cls, adjacency: Adjacency, x: Features | None) -> GraphSizes:
        """The sizes of a graph and its features."""
        nodes, edges, undirected = adjacency.num_nodes, adjacency.num_edges, adjacency.undirected
        if x is None:
            return cls(nodes, edges, undirected, 0, "none")
        layout: Literal["dense", "sparse"] = "dense" if isinstance(x, Tensor) else "sparse"
        return cls(nodes, edges, undirected, x.shape[1], layout)


@dataclass(frozen=True)
class Config:
    """What config.json says of a model.

    Args:
        name: what the model is called.
        task: what it does.
        graph: that it answers on.
        model: what it is built from.
        labels: name of each class, texts or numbers.
        plan: how columns become features, as plain values.
        files: checksums of the other files.
        columns: what the columns of its tables were called, by what they hold: "id", "source", ...
        temperature: what the outputs of a classifier are divided by before the softmax; ``None`` if
            nothing was fitted, which means 1.
    """

    name: str
    task: TaskName
    graph: GraphSizes
    model: Blueprint
    labels: list[str | int]
    plan: Any
    files: dict[str, str]
    columns: dict[str, str] = field(default_factory=dict)
    temperature: Temperature | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values and the lowest format that can describe them."""
        newer = 2 if self.model.module is not None else 1 if self.model.known is not None else 0
        plain = {"format": FORMATS[newer], **asdict(self), "model": self.model.to_json()}
        plain["plan"] = json.loads(as_json(self.plan, "plan"))
        if self.temperature is None:
            del plain["temperature"]
        return plain


def as_json(value: Any, name: str) -> str:
    """Plain values as text; refuses those that JSON cannot represent."""
    try:
        return json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold values that JSON has ({error}).") from error


def sealed_files(task: TaskName) -> tuple[str, ...]:
    """Names of the files that answers are computed from; their checksums are in config.json."""
    ids = ("users.parquet", "items.parquet") if task == "recommendation" else ("ids.parquet",)
    return ("graph.safetensors", *ids, "metrics.json", "weights.safetensors")


def parse_config(plain: Mapping[str, Any]) -> Config:
    """Read and check a configuration; keys at the top that this version does not know are ignored.

    Raises:
        ArtefactError: If a value is missing, has another type, or is out of range.
    """
    known = {each.name for each in fields(Config)}
    config = _read(Config, {key: value for key, value in plain.items() if key in known})
    wrong = _problem(config)
    if wrong is not None:
        raise ArtefactError(f"config.json: {wrong}")
    return config


def shortened(value: Any) -> str:
    """A value as a message shows it, in one short line."""
    return _SHORT.repr(value)


def _problem(config: Config) -> str | None:
    """The first part of a configuration that does not fit the others."""
    model, graph, encoder = config.model, config.graph, config.model.encoder
    for name in sealed_files(config.task):
        if name not in config.files:
            return f"files has no checksum of {name}"
    if model.task != config.task:
        return f"model.task is {model.task}, but task is {config.task}"
    if encoder is not None:
        for name in ("in_channels", "out_channels", "width", "heads", "num_layers"):
            if getattr(encoder, name) < 1:
                return f"model.encoder.{name} must be 1 or more"
        if model.module is not None:
            return "model.encoder must be null where there is a model.module"
    if model.layers > MOST_LAYERS:
        return f"model.layers must be at most {MOST_LAYERS}; got {model.layers}"
    recommends = config.task == "recommendation"
    if recommends != (graph.layout == "none"):
        return f"graph.layout {graph.layout!r} does not fit the task {config.task}"
    if recommends:
        if not graph.undirected:
            return "graph.undirected must be true for recommendation"
        if model.users + model.items != graph.nodes:
            return f"model.users and model.items do not add up to the {graph.nodes:,} nodes"
        if encoder is not None and encoder.in_channels != model.width:
            return "model.encoder.in_channels differs from model.width"
        return "model.known is for models of nodes" if model.known is not None else None
    if model.users or model.items:
        return "model.users and model.items are for recommendation"
    if config.task == "link-prediction" and model.decoder_width < 1:
        return "model.decoder_width must be 1 or more"
    if encoder is None and model.module is None:
        return f"model.encoder must not be null for {config.task}"
    return None


Made = TypeVar("Made")


def _read(kind: type[Made], plain: Mapping[str, Any], where: str = "") -> Made:
    """A dataclass from plain values, each checked by the type of its field."""
    hints = get_type_hints(kind)
    members = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    for name in plain:
        if name not in members:
            raise ArtefactError(
                f"config.json: {where} has the unknown key {shortened(name)}; upgrade tuneup"
            )
    values = {}
    for name, member in members.items():
        path = f"{where}.{name}" if where else name
        if name in plain:
            values[name] = _value(hints[name], plain[name], path)
        elif member.default is MISSING and member.default_factory is MISSING:
            raise ArtefactError(f"config.json: {path} is missing")
    return kind(**values)


def _value(kind: Any, value: Any, path: str) -> Any:
    """A value, checked; objects become dataclasses where the type is one."""
    if get_origin(kind) is UnionType:
        if value is None and NoneType in get_args(kind):
            return None
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        return _read(kind, value, path)
    expected = _mismatch(kind, value)
    if expected is not None:
        raise ArtefactError(f"config.json: {path} must be {expected}; got {shortened(value)}")
    return value


def _mismatch(kind: Any, value: Any) -> str | None:
    """What was expected, if a value is not of a type."""
    plain = get_origin(kind) or kind
    if plain is Literal:
        names = get_args(kind)
        fits = isinstance(value, str) and value in names
        return None if fits else f"one of {', '.join(map(str, names))}"
    if kind is int:
        fits = type(value) is int and 0 <= value <= LARGEST
        return None if fits else f"a whole number from 0 to {LARGEST}"
    if kind is float:
        fits = type(value) in (int, float) and abs(value) <= LARGEST and math.isfinite(value)
        return None if fits else "a finite number"
    if kind == dict[str, str]:
        fits = type(value) is dict and all(type(each) is str for each in value.values())
        return None if fits else "an object of texts"
    if kind == list[str | int]:
        fits = type(value) is list and all(type(each) in (str, int) for each in value)
        return None if fits else "a list of texts or of whole numbers"
    if kind is Any or type(value) is plain:
        return None
    return _NAMES.get(plain, "an object")
