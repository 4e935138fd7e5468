"""What config.json says of a model, checked by type and range before anything is built from it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from reprlib import Repr
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

from tuneup.errors import ArtefactError, InputError
from tuneup.graph import Adjacency, Features
from tuneup.metrics import Temperature
from tuneup.names import TaskName
from tuneup.nn import (
    Classes,
    Encoder,
    EncoderSpec,
    GCNConv,
    HadamardMLP,
    InnerProduct,
    LightGCN,
    Model,
    NodeFeatures,
    NodeVectors,
    UserItemVectors,
)

from .modules import ModuleSpec, path_of

FORMATS = (1, 2, 3, 4)
"""Raised when the meaning of a file changes; a newer format is refused by name.

2: the features are identities of nodes, and the weights hold their inputs.  3: the encoder is a
module of the user's.  4: edges have weights, or the user's module has a stated depth.  A model is
written in the lowest format that can describe it.
"""

LARGEST = 2**40
"""Sizes above this are refused, so that their products stay within what a tensor may have."""

MOST_LAYERS = 1000
"""Limit for LightGCN, whose layers have no weights to count."""

_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict = 2, 3, 3


_ON_DISK: dict[tuple[TaskName, bool], dict[str, str]] = {
    ("node-classification", False): {"encoder.": ""},
    ("node-classification", True): {"inputs.vectors": "embedding"},
    ("link-prediction", False): {"head.": "decoder."},
    ("link-prediction", True): {
        "head.": "decoder.",
        "encoder.": "encoder.encoder.",
        "inputs.vectors": "encoder.embedding",
    },
    ("recommendation", False): {"inputs.vectors": "embedding", "inputs.": ""},
}
"""How names of weights begin in memory and in ``weights.safetensors``, as release 0.1 called them:
by task, and by whether nodes have learned inputs in place of features."""


@dataclass(frozen=True)
class Blueprint:
    """Everything that shapes a model's parameters.

    Args:
        task: what the model does.
        encoder: of any task; ``None`` for LightGCN and for a module that is not ours.
        layers: of LightGCN.
        decoder_width: of a link model.
        users: of a recommender; ``items``, ``width``, ``shared`` and ``unknown`` likewise.
        known: nodes that have a learned input in place of features; ``None`` where nodes have
            features.
        module: an encoder that is not ours.
    """

    task: TaskName
    encoder: EncoderSpec | None = None
    layers: int = 0
    decoder_width: int = 0
    users: int = 0
    items: int = 0
    width: int = 0
    shared: bool = False
    unknown: bool = False
    known: int | None = None
    module: ModuleSpec | None = None

    @classmethod
    def of(cls, model: Model) -> Blueprint:
        """The blueprint of a trained model; of a module that is not ours, without its width."""
        inputs, encoder, head = model.inputs, model.encoder, model.head
        spec = module = None
        if isinstance(encoder, Encoder):
            spec = EncoderSpec.of(encoder)
            for conv in encoder.convs:
                if isinstance(conv, GCNConv) and conv.scaling != "gcn":
                    raise InputError(
                        f"An encoder with {conv.scaling} weights cannot be saved or served: only "
                        "those of GCN itself are a matter of a node's own neighbourhood."
                    )
        elif not isinstance(encoder, LightGCN):
            module = ModuleSpec(path_of(type(encoder)), 0)
        if isinstance(inputs, UserItemVectors):
            return cls(
                "recommendation",
                spec,
                encoder.num_layers if isinstance(encoder, LightGCN) else 0,
                users=inputs.num_users,
                items=inputs.num_items,
                width=inputs.vectors.shape[1],
                shared=inputs.shared is not None,
                unknown=inputs.unknown is not None,
                module=module,
            )
        if isinstance(encoder, LightGCN):
            raise InputError("LightGCN reads no features: it is an encoder of users and items.")
        decoder = head.hidden.out_features if isinstance(head, HadamardMLP) else 0
        learned = inputs if isinstance(inputs, NodeVectors) else None
        return cls(
            "link-prediction" if decoder else "node-classification",
            spec,
            decoder_width=decoder,
            width=0 if learned is None or module is None else learned.vectors.shape[1],
            known=None if learned is None else learned.num_known,
            module=module,
        )

    @property
    def out_channels(self) -> int:
        """Width of the outputs: the number of classes, or of an embedding."""
        if self.encoder is not None:
            return self.encoder.out_channels
        return self.width if self.module is None else self.module.out_channels

    def with_module(self, **changes: Any) -> Blueprint:
        """The same with another description of the module that is not ours."""
        assert self.module is not None
        return replace(self, module=replace(self.module, **changes))

    def build(self, encoder: nn.Module | None = None) -> Model:
        """The model without weights: its parameters have shapes and no values.

        Args:
            encoder: the module that is not ours, where there is one; it is used as it is.
        """
        with torch.device("meta"):
            if encoder is None:
                encoder = LightGCN(self.layers) if self.encoder is None else self.encoder.build()
            if self.task == "recommendation":
                vectors = UserItemVectors(
                    self.users, self.items, self.width, shared=self.shared, unknown=self.unknown
                )
                return Model(vectors, encoder, InnerProduct())
            width = self.width if self.encoder is None else self.encoder.in_channels
            inputs = NodeFeatures() if self.known is None else NodeVectors(self.known, width)
            classifies = self.task == "node-classification"
            head = Classes() if classifies else HadamardMLP(self.out_channels, self.decoder_width)
            return Model(inputs, encoder, head)

    def on_disk(self, name: str) -> str:
        """Name of a weight in ``weights.safetensors``."""
        for prefix, written in _ON_DISK[self.task, self.known is not None].items():
            if name.startswith(prefix):
                return written + name.removeprefix(prefix)
        return name


@dataclass(frozen=True)
class GraphSizes:
    """The graph that a model answers on."""

    nodes: int
    edges: int
    undirected: bool
    features: int
    layout: Literal["none", "dense", "sparse"]
    weighted: bool = False

    @classmethod
    def of(cls, graph: Adjacency, x: Features | None) -> GraphSizes:
        """The sizes of a graph and its features."""
        width = 0 if x is None else x.shape[1]
        layout: Literal["none", "dense", "sparse"] = "dense" if isinstance(x, Tensor) else "sparse"
        return cls(
            graph.num_nodes,
            graph.num_edges,
            graph.undirected,
            width,
            "none" if x is None else layout,
            graph.weight is not None,
        )


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
        """Plain values and the lowest format that can describe them; newer keys where used."""
        plain = asdict(self)
        plain["plan"] = json.loads(as_json(self.plan, "plan"))
        version = 1
        for newer, part, key, unused in (
            (1, plain, "temperature", None),
            (2, plain["model"], "known", None),
            (3, plain["model"], "module", None),
            (4, plain["model"].get("module") or {}, "depth", None),
            (4, plain["graph"], "weighted", False),
        ):
            if part.get(key, unused) != unused:
                version = newer
            else:
                part.pop(key, None)
        return {"format": version, **plain}


def as_json(value: Any, name: str) -> str:
    """Plain values as text; refuses those that JSON cannot represent."""
    try:
        return json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold values that JSON has ({error}).") from error


HUB_WEIGHTS = "model.safetensors"
"""Name of the weights where a folder has the layout of a model hub."""


def sealed_files(task: TaskName, *, hub: bool = False) -> tuple[str, ...]:
    """Names of the files that answers are computed from, which have a checksum; weights last."""
    ids = ("users.parquet", "items.parquet") if task == "recommendation" else ("ids.parquet",)
    weights = HUB_WEIGHTS if hub else "weights.safetensors"
    return ("graph.safetensors", *ids, "metrics.json", weights)


def parse_config(plain: Mapping[str, Any]) -> Config:
    """Read and check a configuration; keys at the top that this version does not know are ignored.

    Raises:
        ArtefactError: If a value is missing, has another type, or is out of range.
    """
    known = {each.name for each in fields(Config)}
    config = _read(Config, {key: value for key, value in plain.items() if key in known})
    problem = _problem(config)
    if problem is not None:
        raise ArtefactError(f"config.json: {problem}")
    return config


def shortened(value: Any) -> str:
    """A value as a message shows it, in one short line."""
    return _SHORT.repr(value)


def _problem(config: Config) -> str | None:
    """The first part of a configuration that does not fit the others."""
    model, graph, encoder, task = config.model, config.graph, config.model.encoder, config.task
    for name in sealed_files(task, hub=HUB_WEIGHTS in config.files):
        if name not in config.files:
            return f"files has no checksum of {name}"
    if model.task != task:
        return f"model.task is {model.task}, but task is {task}"
    if encoder is not None:
        for name in ("in_channels", "out_channels", "width", "heads", "num_layers"):
            if getattr(encoder, name) < 1:
                return f"model.encoder.{name} must be 1 or more"
        if model.module is not None:
            return "model.encoder must be null where there is a model.module"
    if model.layers > MOST_LAYERS:
        return f"model.layers must be at most {MOST_LAYERS}; got {model.layers}"
    if (task == "recommendation") != (graph.layout == "none"):
        return f"graph.layout {graph.layout!r} does not fit the task {task}"
    if task == "recommendation":
        if not graph.undirected:
            return "graph.undirected must be true for recommendation"
        if model.users + model.items != graph.nodes:
            return f"model.users and model.items do not add up to the {graph.nodes:,} nodes"
        if encoder is not None and encoder.in_channels != model.width:
            return "model.encoder.in_channels differs from model.width"
        return "model.known is for models of nodes" if model.known is not None else None
    if model.users or model.items:
        return "model.users and model.items are for recommendation"
    if task == "link-prediction" and model.decoder_width < 1:
        return "model.decoder_width must be 1 or more"
    if encoder is None and model.module is None:
        return f"model.encoder must not be null for {task}"
    return None


Made = TypeVar("Made")

_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    Any: ("anything", lambda value: True),
    bool: ("true or false", lambda value: type(value) is bool),
    int: (
        f"a whole number from 0 to {LARGEST}",
        lambda value: type(value) is int and 0 <= value <= LARGEST,
    ),
    float: (
        "a finite number",
        lambda value: (
            type(value) in (int, float) and abs(value) <= LARGEST and math.isfinite(value)
        ),
    ),
    str: ("a text", lambda value: type(value) is str),
    dict[str, Any]: ("an object", lambda value: type(value) is dict),
    dict[str, str]: (
        "an object of texts",
        lambda value: type(value) is dict and all(type(each) is str for each in value.values()),
    ),
    list[str | int]: (
        "a list of texts or of whole numbers",
        lambda value: type(value) is list and all(type(each) in (str, int) for each in value),
    ),
}
"""What a field of each type may hold."""


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
    if NoneType in get_args(kind):
        if value is None:
            return None
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    members = isinstance(kind, type) and is_dataclass(kind)
    if members:
        expected, fits = "an object", isinstance(value, dict)
    elif get_origin(kind) is Literal:
        names = get_args(kind)
        expected = f"one of {', '.join(map(str, names))}"
        fits = isinstance(value, str) and value in names
    else:
        expected, check = _PLAIN[kind]
        fits = check(value)
    if not fits:
        raise ArtefactError(f"config.json: {path} must be {expected}; got {shortened(value)}")
    return _read(kind, value, path) if members else value
