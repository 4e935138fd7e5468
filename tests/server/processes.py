"""Servers as processes of their own, on loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tuneup.server import Client

READY = 120.0
"""Seconds that a start may take on a machine that does much else."""


class Running:
    """A server process: its address, its log and its client."""

    def __init__(self, *arguments: object, token: str | None = None, wait: bool = True) -> None:
        environ = {**os.environ, "TUNEUP_NO_RESTART": "1"}
        environ.pop("TUNEUP_TOKEN", None)
        if token is not None:
            environ["TUNEUP_TOKEN"] = token
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tuneup", "serve", *map(str, arguments), "--port", "0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environ,
        )
        assert self.process.stderr is not None
        os.set_blocking(self.process.stderr.fileno(), False)
        self.log = ""
        end = time.monotonic() + READY
        while not (found := re.search(r"http://[\d.:]+", self.read())):
            assert self.process.poll() is None, self.log
            assert time.monotonic() < end, self.log
            time.sleep(0.02)
        self.url = found[0]
        self.port = int(self.url.rpartition(":")[2])
        self.client = Client(self.url, token, timeout=READY)
        if wait:
            self.client.wait(READY)

    def read(self) -> str:
        """What it has said by now."""
        assert self.process.stderr is not None
        self.log += (self.process.stderr.read() or b"").decode()
        return self.log

    def until(self, words: str) -> None:
        """Wait until it has said something."""
        end = time.monotonic() + READY
        while words not in self.read():
            assert time.monotonic() < end, self.log
            assert self.process.poll() is None, self.log
            time.sleep(0.02)

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.wait(READY)
        self.close()

    def stop(self) -> int:
        """Ask it to stop; the answer is its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(READY)
        self.close()
        return code

    def close(self) -> None:
        """Let go of its pipe."""
        assert self.process.stderr is not None
        if not self.process.stderr.closed:
            self.read()
            self.process.stderr.close()
        self.client.close()


@contextmanager
def running(*arguments: object, token: str | None = None) -> Iterator[Running]:
    """A server that is gone at the end."""
    server = Running(*arguments, token=token)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()
        server.close()
