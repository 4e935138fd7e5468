"""What stands before the routes: token, limits, refusals in JSON, and the time of each request."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from typing import Any, TypeVar

from pydantic_core import to_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuneup.errors import InputError, TuneupError
from tuneup.runtime import out_of_memory

from .batching import QueueFull
from .engine import TakenId
from .growing import UnknownId
from .live import Exists, Missing
from .metrics import Metrics
from .questions import Question, read_question
from .settings import Limits
from .store import Reused

log = logging.getLogger("tuneup.server")

OPEN = ("/healthz", "/readyz", "/", "/openapi.json")
"""What needs no token: these say nothing about the data."""

_CLOSE = {"connection": "close"}


class Refusal(Exception):
    """An answer that is none.

    Args:
        status: of HTTP.
        code: one word for programs.
        message: for people.
        headers: of the answer.
    """

    def __init__(
        self, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, headers


def answer_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as JSON."""
    return Response(to_json(value), status, headers, "application/json")


def refused(error: BaseException) -> Response:
    """Why a request was refused, in the words of the command line."""
    if isinstance(error, Refusal):
        body = {"error": str(error), "code": error.code}
        return answer_json(body, error.status, error.headers)
    if isinstance(error, QueueFull):
        message = "too many requests wait for an answer; ask again in a second."
        return answer_json({"error": message, "code": "busy"}, 429, {"retry-after": "1"})
    if isinstance(error, Exists | TakenId):
        return answer_json({"error": str(error), "code": "exists"}, 409)
    if isinstance(error, Missing):
        return answer_json({"error": str(error), "code": "missing"}, 404)
    if isinstance(error, UnknownId):
        return answer_json({"error": str(error), "code": "unknown"}, 422)
    if isinstance(error, Reused):
        return answer_json({"error": str(error), "code": "key-reused"}, 422)
    if isinstance(error, InputError):
        return answer_json({"error": str(error), "code": "invalid"}, 422)
    if isinstance(error, Exception) and out_of_memory(error):
        message = "not enough memory for this question; ask about fewer nodes."
        return answer_json({"error": message, "code": "memory"}, 503)
    if isinstance(error, TuneupError):
        return answer_json({"error": str(error), "code": "failed"}, 503)
    log.error("A request failed.", exc_info=error)
    message = "the server failed to answer; its log says why."
    return answer_json({"error": message, "code": "internal"}, 500)


Asked = TypeVar("Asked", bound=Question)


async def read_body(request: Request, limits: Limits) -> bytes:
    """The body of a request, if it is not too large and does not take too long."""
    too_large = Refusal(
        413, "too-large", f"the body: got more than {limits.body:,} bytes; ask in parts.", _CLOSE
    )
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limits.body:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.body:
                    raise too_large
    except TimeoutError:
        message = f"the body did not arrive within {limits.seconds:g} seconds."
        raise Refusal(408, "slow", message, _CLOSE) from None
    return bytes(body)


async def read(request: Request, kind: type[Asked], limits: Limits) -> Asked:
    """The question in a request."""
    given = request.headers.get("content-type", "application/json").split(";")[0].strip()
    if given.lower() not in ("application/json", "text/json"):
        raise Refusal(
            415, "not-json", f"content-type: got {given[:80]!r}; expected application/json."
        )
    return read_question(kind, await read_body(request, limits), limits)


class Guard:
    """ASGI: checks the token, turns every error into JSON, and counts.

    Args:
        app: what comes behind.
        token: that requests must bring, if any.
        metrics: where to count.
        routes: known paths: others are counted as one.
    """

    def __init__(
        self, app: ASGIApp, token: str | None, metrics: Metrics, routes: frozenset[str]
    ) -> None:
        self._app, self._metrics, self._routes = app, metrics, routes
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        scope["state"] = {**scope.get("state", {}), "degree": "none"}
        try:
            if self._token is not None and scope["path"] not in OPEN:
                self._check(scope, self._token)
            await self._app(scope, receive, note)
        except ClientDisconnect:
            status = 499
        except asyncio.CancelledError:
            if not status:
                message = "the server stops, and the answer took too long; ask again."
                await refused(Refusal(503, "stopping", message, _CLOSE))(scope, receive, note)
            raise
        except Exception as error:
            if status:  # half of the answer is sent
                raise
            await refused(error)(scope, receive, note)
        finally:
            route = scope["path"] if scope["path"] in self._routes else "other"
            seconds = time.perf_counter() - began
            self._metrics.request(route, status, seconds, scope["state"]["degree"])

    def _check(self, scope: Scope, token: bytes) -> None:
        given = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, found = given.partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(found.strip(), token):
            message = "the token is missing or wrong; send the header Authorization: Bearer TOKEN."
            raise Refusal(401, "token", message, {"www-authenticate": "Bearer"})
