"""Requests over HTTP, as JSON, checked by type and size before any work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuneup.errors import InputError

from .settings import Limits

_SHOWN = 80
"""Characters of a wrong value that a refusal shows."""

Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Id = Whole | Annotated[str, Field(max_length=4096)]
"""An id as JSON has it; 7 and "7" are the same."""
Value = bool | Whole | float | str | None | list[float | None]
"""A cell of a table."""
Unknown = Literal["error", "skip"]


class Question(BaseModel):
    """Strict: no key is ignored and no value converted."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)
    many: ClassVar[tuple[str, ...]] = ("id", "ids")

    def check(self, limits: Limits) -> None:
        """Refuse what is too much, or nothing at all."""
        given = [name for name in self.many if getattr(self, name) is not None]
        if len(given) != 1:
            expected = ", ".join(self.many[:-1]) + " or " + self.many[-1]
            found = " and ".join(given) or "none of them"
            raise InputError(f"the question: got {found}; expected one of {expected}.")
        value = getattr(self, given[0])
        rows = value if isinstance(value, list) else [value]
        if not rows:
            raise InputError(f"{given[0]}: got an empty list; expected 1 or more.")
        _at_most(given[0], len(rows), limits.nodes)
        listed = sum(each.listed for each in rows if isinstance(each, New))
        _at_most("neighbours of all new nodes", listed, limits.neighbours)
        k = getattr(self, "k", 1)
        if not 1 <= k <= limits.k:
            raise InputError(f"k: got {k:,}; expected 1 to {limits.k:,}.")
        _at_most("between", len(getattr(self, "between", None) or ()), limits.neighbours)
        changed = len(getattr(self, "add", ())) + len(getattr(self, "remove", ()))
        _at_most("add and remove", changed, limits.neighbours)


class New(BaseModel, ABC):
    """Something that the model does not know."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @property
    @abstractmethod
    def listed(self) -> int:
        """How many neighbours it lists."""


class NewNode(New):
    """A node that the model does not know, with its features and its edges to known nodes."""

    id: Id | None = Field(None, description="What to call it in the answer; by default its row.")
    features: list[float] | None = Field(
        None, description="The numbers that the model reads, in their order."
    )
    columns: dict[str, Value] | None = Field(
        None, description="In place of features: the columns of the table that was trained on."
    )
    neighbours: list[Id] = Field(
        default=[], description="Known nodes with an edge to it; of an undirected graph all."
    )
    targets: list[Id] | None = Field(
        None, description="Of a directed graph: known nodes that it has an edge to."
    )

    @property
    def listed(self) -> int:
        """Neighbours and targets."""
        return len(self.neighbours) + len(self.targets or ())


class NewUser(New):
    """A user that the model does not know, with the items that it has."""

    id: Id | None = Field(None, description="What to call it in the answer; by default its row.")
    items: list[Id] = Field(default=[], description="Known items.")

    @property
    def listed(self) -> int:
        """Items."""
        return len(self.items)


class KnownNodes(Question):
    """Ask for the class of known nodes."""

    id: Id | None = None
    ids: list[Id] | None = None
    unknown: Unknown = Field("error", description="Refuse unknown ids, or skip and name them.")
    probabilities: bool = Field(False, description="Of every class, not only the best one.")

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"ids": ["n1", "n2"]}, {"id": "n1", "probabilities": True}]}
    )


class NewNodes(Question):
    """Ask for the class of nodes that the model does not know."""

    many = ("node", "nodes")
    node: NewNode | None = None
    nodes: list[NewNode] | None = None
    between: list[tuple[Whole, Whole]] | None = Field(
        None, description="Edges between new nodes, by their rows: these arrive together."
    )
    probabilities: bool = False

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"node": {"features": [0.5, -1.0], "neighbours": ["n1", "n2"]}}]
        }
    )


class Links(Question):
    """Ask for the nodes that known or new nodes are most likely to be linked to."""

    many = ("id", "ids", "node", "nodes")
    id: Id | None = None
    ids: list[Id] | None = None
    node: NewNode | None = None
    nodes: list[NewNode] | None = None
    between: list[tuple[Whole, Whole]] | None = None
    k: Whole = 10
    unknown: Unknown = "error"

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": ["n1"], "k": 5}]})


class Similar(Links):
    """Ask for the nodes whose embeddings are nearest, by cosine."""


class Recommendations(Question):
    """Ask for the best items of known or new users."""

    many = ("id", "ids", "user", "users")
    id: Id | None = None
    ids: list[Id] | None = None
    user: NewUser | None = None
    users: list[NewUser] | None = None
    k: Whole = 10
    unknown: Unknown = "error"

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "u1", "k": 5}, {"user": {"items": ["i1", "i2"]}}]}
    )


class WhatIf(Question):
    """Ask how a node's class changes with its edges, without changing the graph."""

    many = ("id", "node")
    id: Id | None = None
    node: NewNode | None = None
    add: list[Id] = Field(default=[], description="Known nodes to join it with.")
    remove: list[Id] = Field(default=[], description="Neighbours to part it from.")

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": "n1", "remove": ["n2"]}]})


# What arrives


class AddNode(NewNode):
    """A node to add: an id that is not taken, its features and its edges to known nodes."""

    id: Id = Field(description="Not taken yet.")


class AddNodes(Question):
    """Add nodes with their edges: all of them, or none."""

    many = ("node", "nodes")
    node: AddNode | None = None
    nodes: list[AddNode] | None = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"node": {"id": "n9", "features": [0.5, -1.0], "neighbours": ["n1"]}}]
        }
    )


class AddEdges(Question):
    """Add edges between nodes that are known: all of them, or none."""

    many = ("edge", "edges")
    edge: tuple[Id, Id] | None = None
    edges: list[tuple[Id, Id]] | None = None

    model_config = ConfigDict(json_schema_extra={"examples": [{"edges": [["n1", "n2"]]}]})


class AddInteractions(Question):
    """Add pairs of a user and an item that are known: all of them, or none."""

    many = ("pair", "pairs")
    pair: tuple[Id, Id] | None = None
    pairs: list[tuple[Id, Id]] | None = None

    model_config = ConfigDict(json_schema_extra={"examples": [{"pair": ["u1", "i1"]}]})


# What is answered


class Answer(BaseModel):
    """About one node."""

    model_config = ConfigDict(extra="allow")
    id: int | str
    degree: int = Field(description="Senders of the node: how much was known about it.")


class Answers(BaseModel):
    """Answers in the order of the question, all from one version of the model."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "version": "3f2a9c01b7de",
                    "answers": [{"id": "n1", "label": "red", "probability": 0.91, "degree": 4}],
                }
            ]
        }
    )
    version: str
    answers: list[Answer]
    skipped: list[int | str] | None = None


class Problem(BaseModel):
    """Why a request was refused, in the words of the command line."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"error": "k: got 0; expected 1 to 1,000.", "code": "invalid"}]
        }
    )
    error: str
    code: str


Asked = TypeVar("Asked", bound=Question)


def read_question(kind: type[Asked], body: bytes, limits: Limits) -> Asked:
    """A question from the bytes of a body.

    Raises:
        InputError: About the first thing that is wrong, by its place in the JSON.
    """
    try:
        question = kind.model_validate_json(body)
    except ValidationError as error:
        raise InputError(_explained(error)) from None
    question.check(limits)
    return question


def _explained(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    place = [
        str(part) for part in first["loc"] if not str(part).startswith(("constrained", "list["))
    ]
    kind, said = first["type"], first["msg"]
    if kind == "json_invalid":
        return f"the body is not JSON: {said.removeprefix('Invalid JSON: ')}; expected an object."
    if kind == "extra_forbidden":
        return f"{'.'.join(place)}: got a key that is not known here; leave it out."
    where = ".".join(place) or "the body"
    if kind == "missing":
        return f"{where} is missing; expected it."
    said = said[:1].lower() + said[1:]
    return f"{where}: got {_short(first['input'])}; {said.replace('input should be', 'expected')}."


def _short(value: Any) -> str:
    if isinstance(value, dict | list):
        kind = "an object" if isinstance(value, dict) else "a list"
        return f"{kind} of {len(value):,}"
    if isinstance(value, int) and abs(value) >= 2**63:
        return "a whole number beyond 64 bits"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _at_most(name: str, count: int, limit: int) -> None:
    if count > limit:
        raise InputError(f"{name}: got {count:,}; expected at most {limit:,} a request.")
