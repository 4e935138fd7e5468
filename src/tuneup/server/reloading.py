"""Which version of a model is served: a new one is loaded beside the old and takes its place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuneup.errors import TuneupError

from .engine import Engine
from .settings import Settings

log = logging.getLogger("tuneup.server")

_FILES = ("config.json", "graph.safetensors", "metrics.json")
_WEIGHTS = ("weights.safetensors", "model.safetensors")
"""What a folder calls its weights; the second for model hubs."""
_TICK = 0.25


class Served:
    """The engine that questions go to.

    Args:
        settings: of the server.
        loaded: called with each new engine.
        failed: called when a new version is refused.
    """

    def __init__(
        self, settings: Settings, loaded: Callable[[Engine], object], failed: Callable[[], object]
    ) -> None:
        self.engine: Engine | None = None
        self.problem: str | None = None
        self._settings, self._loaded, self._failed = settings, loaded, failed
        self._wanted = False
        self._seen: Any = None

    def look(self) -> None:
        """Look at the folder now, whether it has changed or not."""
        self._wanted = True

    def load_now(self) -> None:
        """Load the model before anything else, for a process that shares its address.

        Until then the other processes answer, and not this one that it is still loading.
        """
        self._seen = _signature(self._settings.model)
        self.engine = load(self._settings)

    async def watch(self, tick: Callable[[], object]) -> None:
        """Load the model, then each new version of its folder, for ever.

        Args:
            tick: called a few times a second.

        Raises:
            TuneupError: If the first version cannot be loaded.
        """
        if self.engine is None:
            await self._load(first=True)
        else:
            await self._take(self.engine)
        waited = 0.0
        while True:
            await asyncio.sleep(_TICK)
            tick()
            waited += _TICK
            due = bool(self._settings.watch) and waited >= self._settings.watch
            if not (due or self._wanted):
                continue
            waited = 0.0
            signature = await asyncio.to_thread(_signature, self._settings.model)
            if self._wanted or (signature is not None and signature != self._seen):
                self._wanted = False
                await self._load(first=False)

    async def _load(self, *, first: bool) -> None:
        folder = self._settings.model
        self._seen = await asyncio.to_thread(_signature, folder)
        try:
            engine = await asyncio.to_thread(load, self._settings)
        except (TuneupError, OSError, MemoryError, RuntimeError) as error:
            if first:
                raise
            self.problem = str(error)
            self._failed()
            log.error("The new version is refused, and the old one stays: %s", error)
            return
        await self._take(engine)

    async def _take(self, engine: Engine) -> None:
        self.engine, self.problem = engine, None  # one assignment: each request sees one of them
        self._loaded(engine)
        log.info("Serving %s, version %s.", engine.folder, engine.version)
        try:
            await asyncio.to_thread(engine.fill)
        except (MemoryError, RuntimeError) as error:  # each answer is then computed by itself
            log.warning("The outputs of all nodes cannot be kept: %s", error)


def load(settings: Settings) -> Engine:
    """A version of the model, verified, with its first answer given."""
    engine = Engine.load(settings.model, settings.allow)
    if settings.live is not None:
        from .live import Live

        engine.live = Live(engine, settings.live)
        engine.first_answer()
    return engine


def _signature(folder: Path) -> Any:
    """What changes with the files of a model; ``None`` while there is none."""
    weights = next((name for name in _WEIGHTS if (folder / name).exists()), _WEIGHTS[0])
    found = []
    for name in (*_FILES, weights):
        try:
            stat = (folder / name).stat()
        except OSError:
            return None
        found.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
    return found
