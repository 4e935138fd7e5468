"""What a server is started with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tuneup.errors import InputError

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Limits:
    """What one request, and all that wait, may ask for.

    Args:
        body: bytes of a request; above it, the answer is 413.
        nodes: ids or new nodes of a request; above it and the next two, the answer is 422.
        neighbours: of all new nodes of a request.
        k: candidates to rank.
        queue: requests that wait for an answer; above it, the answer is 429.
        seconds: that a client may take to send its request; then the answer is 408.
    """

    body: int = 8 << 20
    nodes: int = 10_000
    neighbours: int = 100_000
    k: int = 1_000
    queue: int = 1_000
    seconds: float = 20.0

    def __post_init__(self) -> None:
        for name in ("body", "nodes", "neighbours", "k", "queue"):
            if getattr(self, name) < 1:
                raise InputError(f"limit of {name}: got {getattr(self, name)}; expected 1 or more.")


@dataclass(frozen=True)
class Settings:
    """A server.

    Args:
        model: folder of the saved model.
        host: address to listen on; loopback by default.
        port: 0 lets the system choose.
        workers: processes; they share the pages of the memory-mapped files.
        token: that requests must bring, if any.
        live: database of what arrives; ``None`` serves the graph as it was saved.
        watch: seconds between looks at the folder for a new version; 0 never looks.
        wait: milliseconds that a request waits to be answered together with others.
        drain: seconds that requests under way may take after SIGTERM.
        allow: packages that the class of a module may be imported from.
        limits: of requests.
    """

    model: Path
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    token: str | None = field(default=None, repr=False)
    live: Path | None = None
    watch: float = 2.0
    wait: float = 2.0
    drain: float = 30.0
    allow: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.token is not None and (
            len(self.token) < 16 or not self.token.isascii() or not self.token.isprintable()
        ):
            raise InputError(
                f"token: got {len(self.token)} characters; expected 16 or more, printable ASCII. "
                "Make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in LOOPBACK
