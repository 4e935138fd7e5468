"""A headless Chromium, driven through its DevTools protocol: just enough to test a page."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
)


class Browser:
    """One tab; ``problems`` collects everything that a console would show in red."""

    def __init__(self, address: str) -> None:
        self.problems: list[str] = []
        self.requested: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = threading.Event()
        self._count = 0
        self._run(self._connect(address))
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command and its answer."""
        return self._run(self._send(method, parameters))

    def open(self, path: Path, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Load a page from a file in a window of a size, and wait until it is drawn."""
        mobile = width < 600
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if mobile else 1,
            mobile=mobile,
        )
        self.send("Emulation.setTouchEmulationEnabled", enabled=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.problems.clear()
        self.requested.clear()
        self._loaded.clear()
        self.send("Page.navigate", url=path.resolve().as_uri())
        assert self._loaded.wait(30), "the page did not load"
        self.settle()

    def settle(self) -> None:
        """Wait for two frames: what was asked for is on the screen then."""
        frame = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.send("Runtime.evaluate", expression=frame, awaitPromise=True)

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """A mouse event: ``mouseMoved``, ``mousePressed`` or ``mouseReleased``."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key: str) -> None:
        """A key, pressed and let go."""
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """The page as PNG, all of it or the window."""
        found = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def pdf(self) -> bytes:
        """The page as it would be printed."""
        found = self.send("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(found["data"])

    def close(self) -> None:
        self._run(self._disconnect())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _connect(self, address: str) -> None:
        self._session = aiohttp.ClientSession()
        async with self._session.put(f"http://{address}/json/new") as answer:
            target = await answer.json(content_type=None)
        url = target["webSocketDebuggerUrl"]
        self._socket = await self._session.ws_connect(url, max_msg_size=0)
        self._listener = asyncio.create_task(self._listen())

    async def _disconnect(self) -> None:
        self._listener.cancel()
        await self._socket.close()
        await self._session.close()

    async def _send(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._count += 1
        answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._waiting[self._count] = answer
        await self._socket.send_json({"id": self._count, "method": method, "params": parameters})
        return await answer

    async def _listen(self) -> None:
        async for message in self._socket:
            found = message.json()
            if "id" in found:
                answer = self._waiting.pop(found["id"])
                if "error" in found:
                    answer.set_exception(RuntimeError(str(found["error"])))
                else:
                    answer.set_result(found["result"])
            else:
                self._hear(found["method"], found["params"])

    def _hear(self, event: str, data: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded.set()
        elif event == "Runtime.exceptionThrown":
            self.problems.append(str(data["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and data["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.problems.append(str(data["args"]))
        elif event == "Log.entryAdded" and data["entry"]["level"] in ("error", "warning"):
            self.problems.append(str(data["entry"]))
        elif event == "Network.requestWillBeSent":
            self.requested.append(data["request"]["url"])


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium of our own, with a new profile; gone with all of it at the end."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(
        prefix="tuneup-browser-", ignore_cleanup_errors=True
    ) as folder:
        command = [CHROMIUM, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
        log = Path(folder) / "stderr.txt"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, "HOME": folder},
            )
        try:
            made = Browser(_address(log, process))
            try:
                yield made
            finally:
                made.close()
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    """Where it listens, as it says in its first lines."""
    for _ in range(600):
        text = log.read_text(errors="replace")
        found = re.search(r"DevTools listening on ws://([^/]+)/", text)
        if found:
            return found[1]
        assert process.poll() is None, f"Chromium ended: {text}"
        time.sleep(0.05)
    raise AssertionError(f"Chromium did not say where it listens: {text}")
