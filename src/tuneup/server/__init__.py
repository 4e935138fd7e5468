"""A saved model over HTTP: questions, a graph that grows, and the client.

``questions``  requests, checked before any work
``engine``     one loaded version of a model, which answers
``batching``   concurrent requests in micro-batches, large ones piece by piece
``app``        the routes; ``guard`` has token, limits and refusals
``reloading``  a new version of the folder beside the old one
``patched``    a graph with some rows replaced
``growing``    the graph with all that has arrived, and answers on it
``store``      what has arrived, in SQLite
``folding``    a new model folder from an old one and what has arrived
``running``    processes, sockets and signals
``client``     a server as if it were a ``Predictor``
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .settings import Limits, Settings

if TYPE_CHECKING:
    from .client import Client
    from .folding import compact, refresh
    from .running import serve

__all__ = ["Client", "Limits", "Settings", "compact", "refresh", "serve"]

_HOMES = {"Client": "client", "compact": "folding", "refresh": "folding", "serve": "running"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the client needs no server."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
