"""A server as if it were a ``Predictor``: the same questions, the same answers."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode, urlsplit

from tuneup.errors import InputError, TuneupError

if TYPE_CHECKING:
    from tuneup.serve import ClassAnswer, RankingAnswer

_TRIES = 3
"""How often a request is sent whose answer may have been lost."""


class ServerError(TuneupError):
    """A server did not answer: it is busy, loading, out of reach, or failed."""


class Client:
    """Asks a server that ``tuneup serve`` started.

    A refusal raises the error that a ``Predictor`` raises, with the same words.  Connections are
    kept; a client is for one thread.

    Example::

        client = tuneup.Client("http://127.0.0.1:8000")  # where `tuneup serve MODEL` listens

        def label_of(features, neighbours):
            return client.predict_new([features], [neighbours])[0].label

    Args:
        url: of the server.
        token: that it asks for, if any.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"url: got {url!r}; expected one like http://127.0.0.1:8000.")
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._path = parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.url, self.version = url, ""
        """``version`` is that of the model that gave the last answer."""

    def predict(
        self, ids: Sequence[Any], *, on_unknown: Literal["error", "skip"] = "error"
    ) -> list[ClassAnswer]:
        """The class of known nodes, as :meth:`Predictor.predict` gives it."""
        return self._classes("/predict", {"ids": _plain(ids), "unknown": on_unknown})

    def predict_new(
        self,
        x: Any,
        neighbours: Sequence[Sequence[Any]],
        *,
        targets: Sequence[Sequence[Any]] | None = None,
        between: Sequence[tuple[int, int]] | None = None,
        ids: Sequence[Any] | None = None,
    ) -> list[ClassAnswer]:
        """The class of new nodes, as :meth:`Predictor.predict_new` gives it.

        ``x`` is an array or a list of rows of numbers, a list of dictionaries of columns, a frame,
        or ``None`` if the model reads no features.
        """
        nodes = _nodes(x, neighbours, targets, ids)
        return self._classes("/predict/new", {"nodes": nodes, "between": _pairs(between)})

    def links(
        self, ids: Sequence[Any], k: int = 10, *, on_unknown: Literal["error", "skip"] = "error"
    ) -> list[RankingAnswer]:
        """The nodes that known nodes are most likely to be linked to."""
        return self._rankings("/links", {"ids": _plain(ids), "k": k, "unknown": on_unknown})

    def links_new(
        self,
        x: Any,
        neighbours: Sequence[Sequence[Any]],
        k: int = 10,
        *,
        between: Sequence[tuple[int, int]] | None = None,
        ids: Sequence[Any] | None = None,
    ) -> list[RankingAnswer]:
        """The nodes that new nodes are most likely to be linked to next."""
        nodes = _nodes(x, neighbours, None, ids)
        return self._rankings("/links", {"nodes": nodes, "k": k, "between": _pairs(between)})

    def recommend(
        self, ids: Sequence[Any], k: int = 10, *, on_unknown: Literal["error", "skip"] = "error"
    ) -> list[RankingAnswer]:
        """The best items of known users."""
        return self._rankings("/recommend", {"ids": _plain(ids), "k": k, "unknown": on_unknown})

    def recommend_new(
        self, items: Sequence[Sequence[Any]], k: int = 10, *, ids: Sequence[Any] | None = None
    ) -> list[RankingAnswer]:
        """The best items of new users, given the items that each has already."""
        users: list[dict[str, Any]] = [{"items": _plain(each)} for each in items]
        for user, id in zip(users, _plain(ids or ()), strict=False):
            user["id"] = id
        return self._rankings("/recommend", {"users": users, "k": k})

    def similar(self, ids: Sequence[Any], k: int = 10) -> list[RankingAnswer]:
        """The nodes (of a recommender: items) with the nearest embeddings, by cosine."""
        return self._rankings("/similar", {"ids": _plain(ids), "k": k})

    # Of a server with --live

    def add_nodes(
        self, nodes: Sequence[dict[str, Any]], *, key: str | None = None
    ) -> dict[str, Any]:
        """Add nodes, each with ``id``, ``features`` or ``columns``, ``neighbours``, ``targets``.

        With a ``key`` a request whose answer was lost is repeated, and done once.
        """
        return self.request("POST", "/nodes", {"nodes": list(nodes)}, key=key)

    def add_edges(
        self, edges: Sequence[tuple[Any, Any]], *, key: str | None = None
    ) -> dict[str, Any]:
        """Add edges between known nodes."""
        return self.request("POST", "/edges", {"edges": [_plain(e) for e in edges]}, key=key)

    def add_interactions(
        self, pairs: Sequence[tuple[Any, Any]], *, key: str | None = None
    ) -> dict[str, Any]:
        """Add pairs of a known user and a known item."""
        return self.request("POST", "/interactions", {"pairs": [_plain(p) for p in pairs]}, key=key)

    def remove_node(self, id: Any) -> dict[str, Any]:
        """Remove a node with its edges."""
        return self.request("DELETE", f"/nodes?{urlencode({'id': id})}")

    def remove_edge(self, source: Any, target: Any) -> dict[str, Any]:
        """Remove an edge."""
        query = urlencode({"source": source, "target": target})
        return self.request("DELETE", f"/edges?{query}")

    def remove_interaction(self, user: Any, item: Any) -> dict[str, Any]:
        """Remove a pair."""
        return self.request("DELETE", f"/interactions?{urlencode({'user': user, 'item': item})}")

    def model(self) -> dict[str, Any]:
        """What is served: version, task, sizes, features, labels."""
        return self.request("GET", "/model")

    def wait(self, seconds: float = 60.0) -> str:
        """Wait until the model is loaded; the answer is its version.

        Raises:
            ServerError: If it is not by then.
        """
        end = time.monotonic() + seconds
        while True:
            try:
                return str(self.request("GET", "/readyz")["version"])
            except ServerError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def request(
        self, method: str, path: str, body: Any = None, *, key: str | None = None
    ) -> dict[str, Any]:
        """The answer to any request, as JSON.

        Raises:
            InputError: If it is refused.
            ServerError: If there is no answer.
        """
        headers = {**self._headers, "Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        status, raw = self._send(method, path, data, headers, method == "GET" or key is not None)
        try:
            found: dict[str, Any] = json.loads(raw)
        except ValueError as error:
            raise ServerError(f"{self.url}{path}: got {status} without JSON.") from error
        if status >= 500 or status in (408, 429):
            raise ServerError(f"{self.url}{path}: {found.get('error', found)}")
        if status >= 400:
            raise InputError(str(found.get("error", found)))
        self.version = str(found.get("version", self.version))
        return found

    def _send(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str], again: bool
    ) -> tuple[int, bytes]:
        asks = method == "POST" and path not in ("/nodes", "/edges", "/interactions")
        tries = _TRIES if again or asks else 1
        for left in reversed(range(tries)):
            try:
                self._connection.request(method, self._path + path, data, headers)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if not left:
                    raise ServerError(f"{self.url}: no answer ({error!r}).") from error
        raise AssertionError

    def _classes(self, path: str, body: dict[str, Any]) -> list[ClassAnswer]:
        from tuneup.serve import ClassAnswer

        found = self.request("POST", path, body)["answers"]
        return [ClassAnswer(**each) for each in found]

    def _rankings(self, path: str, body: dict[str, Any]) -> list[RankingAnswer]:
        from tuneup.serve import RankingAnswer

        return [
            RankingAnswer(
                each["id"], tuple(each["candidates"]), tuple(each["scores"]), each["degree"]
            )
            for each in self.request("POST", path, body)["answers"]
        ]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"


def _plain(values: Any) -> list[Any]:
    """A list, an array, a tensor or a column as plain values."""
    if isinstance(values, str | bytes):
        raise InputError(f"Ids come as a list; got the single text {values!r}.")
    for name in ("tolist", "to_list"):
        if hasattr(values, name):
            found: list[Any] = getattr(values, name)()
            return found
    return [each.item() if hasattr(each, "item") else each for each in values]


def _pairs(between: Sequence[tuple[int, int]] | None) -> list[list[int]] | None:
    return None if between is None else [list(map(int, pair)) for pair in between]


def _nodes(
    x: Any,
    neighbours: Sequence[Sequence[Any]],
    targets: Sequence[Sequence[Any]] | None,
    ids: Sequence[Any] | None,
) -> list[dict[str, Any]]:
    """New nodes as JSON has them."""
    found: list[dict[str, Any]] = [{"neighbours": _plain(each)} for each in neighbours]
    rows: list[Any] = []
    if hasattr(x, "to_dicts"):
        rows = x.to_dicts()
    elif hasattr(x, "to_dict"):
        rows = x.to_dict("records")
    elif x is not None:
        rows = _plain(x)
    parts = (("features", rows), ("targets", targets), ("ids", ids and _plain(ids)))
    for name, values in parts:
        if values is None or (name == "features" and x is None):
            continue
        if len(values) != len(found):
            raise InputError(f"{name}: got {len(values)}; expected one a new node, {len(found)}.")
        for node, value in zip(found, values, strict=True):
            if name == "features":
                cells = isinstance(value, dict)
                node["columns" if cells else "features"] = value if cells else _plain(value)
            elif name == "targets":
                node["targets"] = _plain(value)
            else:
                node["id"] = value
    return found
