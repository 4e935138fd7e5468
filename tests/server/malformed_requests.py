"""Requests that cannot be answered, and what is said of each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """A body, the status that it gets, and words of the refusal."""

    name: str
    path: str
    body: bytes
    status: int
    words: str
    kind: str = "application/json"


def case(name: str, path: str, body: Any, words: str, status: int = 422, **more: str) -> Case:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Case(name, path, data, status, words, **more)


X = [0.0] * 12


def node(**parts: Any) -> dict[str, Any]:
    return {"node": {"features": X, **parts}}


MALFORMED = (
    case("nothing", "/predict", b"", "not JSON"),
    case("half", "/predict", b'{"ids": ["n01"', "not JSON"),
    case("not-utf-8", "/predict", b'{"ids": ["\xff\xfe"]}', "not JSON"),
    case("lone-surrogate", "/predict", b'{"ids": ["\\ud800"]}', "not JSON"),
    case("deep", "/predict", b'{"ids":' + b"[" * 9000 + b"]" * 9000 + b"}", "JSON"),
    case("list", "/predict", [1, 2], "the body: got a list of 2"),
    case("null", "/predict", None, "the body: got None"),
    case("empty-object", "/predict", {}, "got none of them; expected one of id or ids"),
    case("both", "/predict", {"id": "n01", "ids": ["n02"]}, "got id and ids"),
    case("empty-list", "/predict", {"ids": []}, "ids: got an empty list"),
    case("unknown-key", "/predict", {"id": "n01", "topk": 3}, "topk: got a key"),
    case("boolean-id", "/predict", {"ids": [True]}, "ids.0: got True"),
    case("decimal-id", "/predict", {"ids": [1.5]}, "ids.0: got 1.5"),
    case("null-id", "/predict", {"ids": [None]}, "ids.0: got None"),
    case("object-id", "/predict", {"ids": [{}]}, "ids.0: got an object of 0"),
    case("huge-id", "/predict", {"ids": [10**400]}, "ids.0: got a whole number beyond 64 bits"),
    case("long-id", "/predict", {"ids": ["x" * 5000]}, "ids.0: got 'xxx"),
    case("text-for-list", "/predict", {"ids": "n01"}, "ids: got 'n01'"),
    case("wrong-rule", "/predict", {"id": "n01", "unknown": "guess"}, "unknown: got 'guess'"),
    case("unknown-id", "/predict", {"ids": ["n01", "zz"]}, "knows no node 'zz'"),
    case("too-many", "/predict", {"ids": ["n01"] * 51}, "got 51; expected at most 50"),
    case("too-large", "/predict", b'{"ids": ["' + b"n" * 21_000 + b'"]}', "20,000 bytes", 413),
    case("form", "/predict", b"id=n01", "expected application/json", 415, kind="text/plain"),
    case("nan", "/predict/new", b'{"node": {"features": [NaN]}}', "features.0"),
    case("infinite", "/predict/new", b'{"node": {"features": [1e999]}}', "features.0"),
    case("too-big", "/predict/new", node(features=[1e300, *X[1:]]), "not finite"),
    case("text-feature", "/predict/new", node(features=["1", *X[1:]]), "features.0: got '1'"),
    case("too-few", "/predict/new", node(features=X[1:]), "reads 12 features a node; got 11"),
    case("no-features", "/predict/new", {"node": {"neighbours": []}}, "got none; expected"),
    case("no-plan", "/predict/new", {"node": {"columns": {"age": 3}}}, "no plan"),
    case("stranger", "/predict/new", node(neighbours=["zz"]), "neighbours of new node 0"),
    case("taken", "/predict/new", node(id="n01"), "knows node 'n01' already", 409),
    case("targets", "/predict/new", node(targets=["n01"]), "directed graphs"),
    case("neighbours", "/predict/new", node(neighbours=["n01"] * 101), "got 101; expected at most"),
    case("between-known", "/links", {"id": "n01", "between": [[0, 1]]}, "node-classification"),
    case("between-far", "/predict/new", {**node(), "between": [[0, 1]]}, "rows 0..0"),
    case("between-odd", "/predict/new", {**node(), "between": [[0]]}, "between.0"),
    case("k-nought", "/similar", {"id": "n01", "k": 0}, "k: got 0; expected 1 to 40"),
    case("k-large", "/similar", {"id": "n01", "k": 10**18}, "expected 1 to 40"),
    case("k-text", "/similar", {"id": "n01", "k": "3"}, "k: got '3'"),
    case("wrong-task", "/recommend", {"id": "n01"}, "use POST /predict"),
    case("no-route", "/foo", {}, "there is no POST /foo", 404),
    case("no-method", "/healthz", {}, "there is no POST /healthz", 405),
    case("no-edge", "/what-if", {"id": "n01", "remove": ["n58"]}, "no edge from 'n58'"),
)
