"""The routes of a server."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from tuneup import __version__
from tuneup.errors import InputError

from . import questions as q
from .batching import Batcher
from .curves import degree_curve
from .engine import Ask, Engine, texts
from .guard import Guard, Refusal, answer_json, read, refused
from .metrics import Metrics, degree_bucket
from .reloading import Served
from .settings import Settings
from .store import Change, Write

log = logging.getLogger("tuneup.server")

Handler = Callable[[Request], Awaitable[Response]]
Decorator = Callable[[Handler], Handler]

_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": q.Problem, "description": "Not HTTP as it should be."},
    401: {"model": q.Problem, "description": "The token is missing or wrong."},
    408: {"model": q.Problem, "description": "The body came too slowly."},
    413: {"model": q.Problem, "description": "The body is too large."},
    415: {"model": q.Problem, "description": "The body is not JSON."},
    422: {"model": q.Problem, "description": "The question cannot be answered as it is."},
    429: {"model": q.Problem, "description": "Too many requests wait."},
    503: {"model": q.Problem, "description": "The model is still being loaded."},
}
_CONFLICT: dict[int | str, dict[str, Any]] = {
    404: {"model": q.Problem, "description": "There is nothing of that kind to remove."},
    409: {"model": q.Problem, "description": "It is there already."},
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Repeat a request with its key: it is done once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
_MOST_DRAWN = 40
"""Neighbours of a node that the page shows."""


class Server:
    """What the routes share.

    Args:
        settings: of the server.
        stop: called with the reason if the model cannot be loaded.
    """

    def __init__(self, settings: Settings, stop: Callable[[BaseException], object]) -> None:
        self.settings, self.metrics, self._stop = settings, Metrics(), stop
        wait = settings.wait / 1000
        self.batcher = Batcher(settings.limits.queue, wait, self.metrics.batch)
        self.served = Served(settings, self._loaded, lambda: self.metrics.reload(False))

    @asynccontextmanager
    async def life(self, app: FastAPI) -> AsyncIterator[None]:
        """From start to stop: answers may wait for the model, and are all given in the end."""
        watching = asyncio.create_task(self.served.watch(self._tick))
        watching.add_done_callback(self._ended)
        yield
        watching.cancel()
        await asyncio.to_thread(self.batcher.close)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._stop(task.exception())  # type: ignore[arg-type]

    def _loaded(self, engine: Engine) -> None:
        self.metrics.model(engine.version, engine.parts.name, engine.predictor.task)
        self.metrics.reload(True)

    def _tick(self) -> None:
        self.metrics.look(len(self.batcher))

    @property
    def engine(self) -> Engine:
        """The version that answers now."""
        if self.served.engine is None:
            message = "the model is being loaded; ask again in a few seconds."
            raise Refusal(503, "loading", message, {"retry-after": "2"})
        return self.served.engine

    async def ask(self, request: Request, engine: Engine, ask: Ask) -> Response:
        """The answer to a question, as JSON."""
        reply = await self.batcher.ask(engine, ask)
        if reply.answers and "degree" in reply.answers[0]:
            request.scope["state"]["degree"] = degree_bucket(reply.answers[0]["degree"])
        found: dict[str, Any] = {"version": engine.version, "answers": reply.answers}
        if ask.skip:
            found["skipped"] = reply.skipped
        return answer_json(found)

    async def known_or_new(self, request: Request, question: Any, kind: str = "") -> Response:
        """The answer to a question about known nodes, or about new ones."""
        engine = self.engine
        new = _listed(question, "node", "nodes") or _listed(question, "user", "users")
        ids = tuple(texts(_listed(question, "id", "ids")))
        between = tuple(getattr(question, "between", None) or ())
        if between and not new:
            raise InputError("between: got edges between known nodes; expected new ones.")
        known: Any = kind or "known"
        renewed: Any = f"{kind}-new" if kind else "new"
        return await self.ask(
            request,
            engine,
            Ask(
                renewed if new else known,
                ids,
                tuple(new),
                between,
                k=getattr(question, "k", 1),
                skip=getattr(question, "unknown", "error") == "skip",
                probabilities=getattr(question, "probabilities", False),
            ),
        )

    async def write(self, request: Request, change: Change, rows: list[Any], body: Any) -> Response:
        """Commit a change of the graph, then say so."""
        engine = self.engine
        if engine.live is None:
            message = "the graph is fixed: start the server with --live FILE to add to it."
            raise Refusal(409, "fixed", message)
        key = request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key) <= 200:
            raise InputError(f"Idempotency-Key: got {len(key)} characters; expected 1 to 200.")
        digest = hashlib.sha256(repr((change, body)).encode()).hexdigest()
        reply = await self.batcher.ask(engine, Ask("write", write=Write(change, rows, key, digest)))
        (found,) = reply.answers
        repeated = found.pop("repeated", False)
        headers = {"idempotency-replayed": "true"} if repeated else None
        return answer_json({"version": engine.version, **found}, 200, headers)


def create_app(settings: Settings, stop: Callable[[BaseException], object]) -> FastAPI:
    """The application of a server.

    Args:
        settings: of the server.
        stop: called with the reason if the model cannot be loaded.
    """
    server = Server(settings, stop)
    app = FastAPI(
        title="tuneup",
        version=__version__,
        summary="Predictions of a graph neural network, for known nodes and for new ones.",
        lifespan=server.life,
        redoc_url=None,
        docs_url=None,  # its scripts come from another host
        openapi_url=None,
    )
    limits = settings.limits

    def post(path: str, kind: type[BaseModel], title: str, **more: Any) -> Decorator:
        extra = {"requestBody": _body(kind), **more.pop("extra", {})}
        responses = {**_REFUSALS, **more.pop("responses", {})}
        made: Decorator = app.post(
            path,
            summary=title,
            responses=responses,
            openapi_extra=extra,
            response_model=more.pop("answer", q.Answers),
        )
        return made

    @post("/predict", q.KnownNodes, "The class of known nodes")
    async def predict(request: Request) -> Response:
        question = await read(request, q.KnownNodes, limits)
        server.engine.expect("node-classification")
        return await server.known_or_new(request, question)

    @post("/predict/new", q.NewNodes, "The class of new nodes")
    async def predict_new(request: Request) -> Response:
        question = await read(request, q.NewNodes, limits)
        server.engine.expect("node-classification")
        return await server.known_or_new(request, question)

    @post("/links", q.Links, "The nodes that known or new nodes are most likely to be linked to")
    async def links(request: Request) -> Response:
        question = await read(request, q.Links, limits)
        server.engine.expect("link-prediction")
        return await server.known_or_new(request, question)

    @post("/recommend", q.Recommendations, "The best items of known or new users")
    async def recommend(request: Request) -> Response:
        question = await read(request, q.Recommendations, limits)
        server.engine.expect("recommendation")
        return await server.known_or_new(request, question)

    @post("/similar", q.Similar, "The nodes (of a recommender: items) with the nearest embeddings")
    async def similar(request: Request) -> Response:
        question = await read(request, q.Similar, limits)
        if question.node is not None or question.nodes is not None:
            server.engine.expect("node-classification", "link-prediction")
        return await server.known_or_new(request, question, "similar")

    @post("/what-if", q.WhatIf, "The class of a node if it had other edges")
    async def what_if(request: Request) -> Response:
        question = await read(request, q.WhatIf, limits)
        server.engine.expect("node-classification")
        if question.node is not None:
            node = question.node
            gone = {*texts(question.remove)}
            kept = [each for each in node.neighbours if str(each) not in gone]
            changed = node.model_copy(update={"neighbours": [*kept, *question.add]})
            ask = Ask("new", new=(changed,), probabilities=True)
        else:
            (id,) = texts(_listed(question, "id", "ids"))
            add, remove = tuple(texts(question.add)), tuple(texts(question.remove))
            ask = Ask("what-if", (id,), add=add, remove=remove, probabilities=True)
        return await server.ask(request, server.engine, ask)

    _add_writes(app, server, post)
    _add_reads(app, server)
    for status in (404, 405):
        app.add_exception_handler(status, _no_route)
    routes = frozenset(getattr(each, "path", "") for each in app.routes)
    app.add_middleware(
        Guard,
        token=settings.token,
        metrics=server.metrics,
        routes=routes,
    )
    app.state.server = server
    return app


def _add_writes(app: FastAPI, server: Server, post: Callable[..., Decorator]) -> None:
    limits = server.settings.limits
    more = {"extra": {"parameters": [_KEY]}, "responses": _CONFLICT, "answer": Written}

    @post("/nodes", q.AddNodes, "Add nodes (of a recommender: users) with their edges", **more)
    async def add_nodes(request: Request) -> Response:
        question = await read(request, q.AddNodes, limits)
        rows = _listed(question, "node", "nodes")
        return await server.write(request, "add-nodes", rows, question.model_dump())

    @post("/edges", q.AddEdges, "Add edges between known nodes", **more)
    async def add_edges(request: Request) -> Response:
        question = await read(request, q.AddEdges, limits)
        server.engine.expect("node-classification", "link-prediction")
        rows = _listed(question, "edge", "edges")
        return await server.write(request, "add-edges", rows, question.model_dump())

    @post("/interactions", q.AddInteractions, "Add pairs of a known user and item", **more)
    async def add_interactions(request: Request) -> Response:
        question = await read(request, q.AddInteractions, limits)
        server.engine.expect("recommendation")
        rows = _listed(question, "pair", "pairs")
        return await server.write(request, "add-edges", rows, question.model_dump())

    def delete(path: str, title: str, *names: str) -> Decorator:
        parameters = [
            {
                "name": name,
                "in": "query",
                "required": True,
                "schema": {"type": "string", "maxLength": 4096},
            }
            for name in names
        ]
        extra = {"parameters": [*parameters, _KEY]}
        responses = {**_REFUSALS, **_CONFLICT}
        made: Decorator = app.delete(
            path, summary=title, responses=responses, openapi_extra=extra, response_model=Written
        )
        return made

    async def remove(request: Request, change: Change, *names: str) -> Response:
        row = []
        for name in names:
            given = request.query_params.getlist(name)
            if len(given) != 1 or len(given[0]) > 4096:
                raise InputError(f"{name}: got {len(given)} in the address; expected one id.")
            row.append(given[0])
        return await server.write(request, change, [tuple(row)], row)

    @delete("/nodes", "Remove a node with its edges", "id")
    async def remove_node(request: Request) -> Response:
        return await remove(request, "remove-nodes", "id")

    @delete("/edges", "Remove an edge", "source", "target")
    async def remove_edge(request: Request) -> Response:
        server.engine.expect("node-classification", "link-prediction")
        return await remove(request, "remove-edges", "source", "target")

    @delete("/interactions", "Remove a pair", "user", "item")
    async def remove_interaction(request: Request) -> Response:
        server.engine.expect("recommendation")
        return await remove(request, "remove-edges", "user", "item")


class Written(BaseModel):
    """What was committed; it is answered from at once."""

    version: str
    nodes: int
    edges: int
    sequence: int


def _add_reads(app: FastAPI, server: Server) -> None:
    @app.get("/healthz", summary="Whether the process runs")
    async def healthz() -> Response:
        return answer_json({"status": "ok"})

    @app.get("/readyz", summary="Whether the model is verified and answers", responses={503: {}})
    async def readyz() -> Response:
        engine = server.served.engine
        if engine is None:
            return answer_json({"status": "loading"}, 503, {"retry-after": "2"})
        found = {"status": "ready", "version": engine.version}
        if server.served.problem is not None:
            found["refused"] = server.served.problem
        return answer_json(found)

    @app.get("/metrics", summary="Counters for Prometheus", response_class=Response)
    async def metrics() -> Response:
        server.metrics.look(len(server.batcher))
        text = await asyncio.to_thread(server.metrics.render)
        return Response(text, media_type="text/plain; version=0.0.4")

    @app.get("/model", summary="What is served", response_model=dict[str, Any])
    async def model() -> Response:
        return answer_json(await asyncio.to_thread(_described, server.engine))

    @app.get(
        "/neighbours",
        summary="Neighbours of a known node",
        response_model=dict[str, Any],
        responses=_REFUSALS,
        openapi_extra={
            "parameters": [
                {
                    "name": "id",
                    "in": "query",
                    "required": True,
                    "schema": {"type": "string", "maxLength": 4096},
                }
            ]
        },
    )
    async def neighbours(request: Request) -> Response:
        given = request.query_params.getlist("id")
        if len(given) != 1:
            raise InputError(f"id: got {len(given)} in the address; expected one.")
        engine = server.engine
        reply = await server.batcher.ask(engine, Ask("look", ids=(given[0],), k=_MOST_DRAWN))
        return answer_json({"version": engine.version, **reply.answers[0]})

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return HTMLResponse(_page(), headers=_PAGE_HEADERS)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return answer_json(_openapi(app))


_PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def _page() -> str:
    return files("tuneup.server").joinpath("page.html").read_text(encoding="utf-8")


def _described(engine: Engine) -> dict[str, Any]:
    """What the page and the client must know of a model."""
    parts, plan = engine.parts, engine.predictor.plan
    inputs = getattr(plan, "inputs", None) if parts.width is not None else None
    return {
        "version": engine.version,
        "name": parts.name,
        "task": parts.task,
        "nodes": parts.graph.num_nodes,
        "edges": parts.graph.num_edges,
        "undirected": parts.graph.undirected,
        "features": parts.width,
        "columns": None if inputs is None else list(inputs),
        "labels": list(parts.labels) if parts.task == "node-classification" else [],
        "live": engine.live is not None,
        "example": engine.predictor.ids[0],
        "curve": degree_curve(engine),
    }


async def _no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    what = f"{request.method} {request.url.path[:200]}"
    if status == 405:
        headers = getattr(error, "headers", None)
        return refused(
            Refusal(405, "method", f"there is no {what}; see GET /openapi.json.", headers)
        )
    return refused(Refusal(404, "no-route", f"there is no {what}; see GET /openapi.json."))


def _listed(question: Any, one: str, many: str) -> list[Any]:
    """What a question asks about, whether it is one thing or several."""
    single = getattr(question, one, None)
    return [single] if single is not None else list(getattr(question, many, None) or ())


def _body(kind: type[BaseModel]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The description of all routes, with what bodies hold."""
    found = app.openapi()
    kinds = (q.KnownNodes, q.NewNodes, q.Links, q.Similar, q.Recommendations, q.WhatIf)
    written = (q.AddNodes, q.AddEdges, q.AddInteractions)
    _, schemas = models_json_schema(
        [(kind, "validation") for kind in (*kinds, *written)],
        ref_template="#/components/schemas/{model}",
    )
    found.setdefault("components", {}).setdefault("schemas", {}).update(schemas["$defs"])
    return found
