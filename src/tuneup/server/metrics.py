"""What Prometheus reads at ``/metrics``; several processes write into one folder of counters."""

from __future__ import annotations

import os
from typing import Any

from tuneup.runtime import require

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Where several processes keep their counters."""

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def degree_bucket(degree: int) -> str:
    """The group of a node by how much is known about it."""
    for most, name in ((0, "0"), (2, "1-2"), (10, "3-10"), (100, "11-100")):
        if degree <= most:
            return name
    return "101+"


class Metrics:
    """Counters of this process."""

    def __init__(self) -> None:
        client: Any = require("prometheus_client", "serve")
        self._client = client
        self._registry = client.CollectorRegistry()
        own = {"registry": self._registry}
        self._requests = client.Counter(
            "tuneup_requests", "Requests answered.", ["route", "status"], **own
        )
        self._latency = client.Histogram(
            "tuneup_request_seconds",
            "Seconds to an answer, by route and by the degree of the first node asked about.",
            ["route", "degree"],
            buckets=_SECONDS,
            **own,
        )
        self._batches = client.Histogram(
            "tuneup_batch_rows", "Nodes that were computed together.", buckets=_ROWS, **own
        )
        self._queue = client.Gauge(
            "tuneup_queue", "Requests that wait.", multiprocess_mode="livesum", **own
        )
        self._memory = client.Gauge(
            "tuneup_memory_bytes",
            "Resident memory of the process.",
            multiprocess_mode="liveall",
            **own,
        )
        self._model = client.Gauge(
            "tuneup_model",
            "1 for the version that is served.",
            ["version", "name", "task"],
            multiprocess_mode="livemax",
            **own,
        )
        self._reloads = client.Counter(
            "tuneup_reloads",
            "New versions of the model, by what became of them.",
            ["result"],
            **own,
        )
        self._version: tuple[str, str, str] | None = None

    def request(self, route: str, status: int, seconds: float, degree: str) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()
        self._latency.labels(route, degree).observe(seconds)

    def batch(self, jobs: int, rows: int) -> None:
        """Count a batch."""
        self._batches.observe(rows)

    def model(self, version: str, name: str, task: str) -> None:
        """Say which version is served."""
        if self._version is not None:
            self._model.labels(*self._version).set(0)
        self._version = version, name, task
        self._model.labels(*self._version).set(1)

    def reload(self, worked: bool) -> None:
        """Count a new version of the model."""
        self._reloads.labels("loaded" if worked else "refused").inc()

    def look(self, queue: int) -> None:
        """Note what changes by itself."""
        self._queue.set(queue)
        self._memory.set(resident())

    def render(self) -> bytes:
        """All counters as text, of all processes."""
        registry = self._registry
        if SHARED in os.environ:
            from prometheus_client import multiprocess  # only where there are several processes

            registry = self._client.CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        found: bytes = self._client.generate_latest(registry)
        return found


def resident() -> int:
    """Resident memory of this process in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
