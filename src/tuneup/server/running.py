"""Processes, sockets and signals of a server."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from tuneup.errors import InputError, OutputError
from tuneup.runtime import require

from .metrics import SHARED
from .settings import Settings

log = logging.getLogger("tuneup.server")

_FAILED = 3
"""How a process ends whose model cannot be loaded."""
_SWITCH = 0.0005
"""Seconds after which the thread that computes lets the one in that reads and writes."""
_QUICK = 5.0
"""Seconds below which a process that ends is started again only after a pause."""


def serve(settings: Settings, say: Callable[[str], object] = print) -> int:
    """Serve a model until SIGTERM or Ctrl-C; the answer is the exit code.

    Args:
        settings: of the server.
        say: called with where it listens and why it stops.

    Raises:
        InputError: If the model cannot be loaded, or the address cannot be used.
    """
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        require(module, "serve")
    if not settings.model.is_dir():
        raise InputError(
            f"The model in {settings.model} cannot be used: there is no such folder; a saved model "
            "is a folder with a config.json."
        )
    listening = _listen(settings)
    host, port = listening.getsockname()[:2]
    settings = replace(settings, port=port)
    shown = f"[{host}]" if ":" in host else host
    say(f"Listening on http://{shown}:{port} (loading {settings.model}).")
    if settings.workers == 1:
        return _work(settings, listening)
    with tempfile.TemporaryDirectory(prefix="tuneup-metrics-") as folder:
        os.environ[SHARED] = folder
        return _Supervisor(settings, listening).run()


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
        made.listen(2048)
    except (OSError, OverflowError) as error:
        made.close()
        where = f"{settings.host}:{settings.port}"
        raise OutputError(f"cannot listen on {where}: {error}; choose another --port") from error
    made.set_inheritable(True)
    return made


def _work(settings: Settings, listening: socket.socket) -> int:
    """One process: answer until asked to stop."""
    import uvicorn

    from .app import create_app

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    log.setLevel(logging.INFO)
    problem: list[BaseException] = []

    def stop(error: BaseException) -> None:
        problem.append(error)
        server.should_exit = True

    app = create_app(settings, stop)
    if settings.workers > 1:
        app.state.server.served.load_now()
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(settings.drain),
        h11_max_incomplete_event_size=1 << 16,
    )
    server = uvicorn.Server(config)
    sys.setswitchinterval(_SWITCH)

    def leave(number: int, frame: FrameType | None) -> None:
        """Before uvicorn listens to signals, and when it raises one again after it has drained."""
        server.should_exit = True

    signal.signal(signal.SIGTERM, leave)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda number, frame: app.state.server.served.look())
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn has drained, then raises the signal again
        return 0
    if problem:
        raise problem[0]
    return 0


def _worker(settings: Settings, listening: socket.socket) -> None:
    """A process of several; its parent reads how it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which asks us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        code = _work(settings, listening)
    except Exception as error:
        print(f"Error: {error}", file=sys.stderr)
        code = _FAILED
    sys.exit(code)


def _end_with_parent() -> None:
    """Stop when the parent is gone, even if it was killed: nobody else would end this process."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


class _Supervisor:
    """Keeps several processes running; a model that cannot be loaded ends all of them."""

    def __init__(self, settings: Settings, listening: socket.socket) -> None:
        self._settings, self._listening = settings, listening
        self._context: Any = multiprocessing.get_context("spawn")
        self._running: dict[int, tuple[BaseProcess, float]] = {}
        self._stopping = False

    def run(self) -> int:
        """Until SIGTERM, Ctrl-C or a failure."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._pass_on)
        for place in range(self._settings.workers):
            self._start(place)
        code = 0
        while self._running:
            time.sleep(0.1)
            for place, (process, began) in list(self._running.items()):
                if process.is_alive():
                    continue
                del self._running[place]
                _forget(process)
                if process.exitcode == _FAILED:
                    code = 2
                    self._stop(signal.SIGTERM, None)
                elif not self._stopping:
                    log.error("A process ended with %s; another is started.", process.exitcode)
                    if time.monotonic() - began < _QUICK:
                        time.sleep(1.0)
                    self._start(place)
        return code

    def _start(self, place: int) -> None:
        process = self._context.Process(target=_worker, args=(self._settings, self._listening))
        if self._stopping:  # asked to stop since this was decided
            return
        process.start()
        self._running[place] = process, time.monotonic()
        if self._stopping:  # or while it was started, when nobody knew of it
            process.terminate()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        for process, _ in self._running.values():
            process.terminate()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        for process, _ in self._running.values():
            if process.pid is not None:
                os.kill(process.pid, signal.SIGHUP)


def _forget(process: BaseProcess) -> None:
    """Counters of gauges of a process that has ended."""
    if process.pid is not None:
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
