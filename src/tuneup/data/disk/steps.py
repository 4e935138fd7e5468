"""A graph folder in the making: steps that stream, and are not done again after a kill.

Finished steps are files in a hidden folder beside the graph's own; ``progress.json`` there lists
them.  The graph folder appears at the end, whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tuneup.errors import InputError
from tuneup.files import atomic_folder, ensure_writable, write_atomic

from .engine import LEAST_MEMORY, Engine
from .folder import GraphFolder, open_graph
from .header import HEADER, ArrayInfo, Header, describe_file

_STATE = "progress.json"
_MOST_ROWS, _LEAST_ROWS, _BYTES_A_ROW = 1 << 20, 1 << 14, 1 << 10
"""Rows of a few numbers that are read at a time, and the share of a budget that one gets."""

Say = Callable[[int, int], None]
"""Called by a step with what is done, and of how much (0: unknown)."""


@dataclass(frozen=True)
class Step:
    """How far the writing is: a callback gets one whenever something was done.

    Args:
        name: of the step, for people.
        done: rows, entries or files that are done.
        total: of them, 0 if that is not known.
        seconds: since the step began.
        resumed: whether an earlier run had done it.
        finished: whether it is done.
    """

    name: str
    done: int
    total: int
    seconds: float
    resumed: bool = False
    finished: bool = False


OnStep = Callable[[Step], None]


@dataclass(eq=False)
class Build:
    """One graph folder in the making.

    Args:
        out: where the graph folder is to be.
        memory: bytes of anonymous memory that the process may use.
        stamp: what the folder is made of, as JSON: a run resumes another one with the same.
        overwrite: whether a folder at ``out`` is replaced.
        on_step: called with progress.
    """

    out: Path
    memory: int
    stamp: Any
    overwrite: bool = False
    on_step: OnStep | None = None
    state: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.memory < LEAST_MEMORY:
            raise InputError(
                f"memory: got {self.memory:,} bytes; expected at least {LEAST_MEMORY:,} (512 MiB); "
                "pass a larger --memory."
            )
        if (
            self.out.exists()
            and not self.overwrite
            and (not self.out.is_dir() or any(self.out.iterdir()))
        ):
            raise InputError(
                f"{self.out}: there is something already; pass --overwrite or another --out."
            )
        self.out = Path(os.path.abspath(self.out))
        self.work = self.out.with_name(f".{self.out.name}.ingest")
        self.rows_at_once = max(_LEAST_ROWS, min(_MOST_ROWS, self.memory // _BYTES_A_ROW))

    @contextmanager
    def running(self) -> Iterator[Build]:
        """Hold the place; what cannot be resumed is removed, before and after."""
        ensure_writable(self.out.parent)
        lock = FileLock(self.out.with_name(f".{self.out.name}.ingest.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise InputError(f"{self.out}: another process is writing this graph.") from error
        try:
            for partial in self.out.parent.glob(f".{self.out.name}.*.partial"):
                shutil.rmtree(partial, ignore_errors=True)
            self.state = self._resumed()
            try:
                yield self
            except Exception:
                shutil.rmtree(self.work, ignore_errors=True)
                raise
            shutil.rmtree(self.work, ignore_errors=True)
        finally:
            lock.release()
            with suppress(OSError):
                os.unlink(lock.lock_file)

    def _resumed(self) -> dict[str, Any]:
        """The state of a run that was killed, if it was one of this graph; else a fresh one."""
        digest = hashlib.sha256(json.dumps(self.stamp, default=str).encode()).hexdigest()
        try:
            state: dict[str, Any] = json.loads((self.work / _STATE).read_text())
            if state["digest"] == digest:
                return state
        except (OSError, ValueError, KeyError, TypeError):
            pass
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        return {"digest": digest, "steps": {}}

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """DuckDB for the time of a step."""
        scratch = self.work / "spill"
        shutil.rmtree(scratch, ignore_errors=True)
        engine = Engine(self.memory, scratch)
        try:
            yield engine
        finally:
            engine.close()
            shutil.rmtree(scratch, ignore_errors=True)

    def step(self, name: str, work: Callable[[Say], Any]) -> Any:
        """The facts that a step finds, which are stored; a step that is done is not done again.

        Args:
            name: of the step.
            work: does it; it is given a function to call with what is done, and of how much.
        """
        steps = self.state["steps"]
        if name in steps:
            self._say(Step(name, 1, 1, 0.0, resumed=True, finished=True))
            return steps[name]
        start = time.perf_counter()

        def say(done: int, total: int) -> None:
            self._say(Step(name, done, total, time.perf_counter() - start))

        say(0, 0)
        facts = work(say)
        steps[name] = facts
        self.save()
        self._say(Step(name, 1, 1, time.perf_counter() - start, finished=True))
        return facts

    def save(self) -> None:
        """Write the state down."""
        write_atomic(self.work / _STATE, json.dumps(self.state))

    def _say(self, step: Step) -> None:
        if self.on_step is not None:
            self.on_step(step)

    def finish(self, header: Header, files: dict[str, str]) -> GraphFolder:
        """Checksums, the header, and the folder in its place."""

        def describe(say: Say) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for number, (key, file) in enumerate(files.items()):
                found[key] = vars(describe_file(self.work / file))
                say(number + 1, len(files))
            return found

        arrays = self.step("checksums", describe)
        header = replace(header, arrays={k: ArrayInfo(**v) for k, v in arrays.items()})
        with atomic_folder(self.out, replace=self.overwrite) as partial:
            for file in files.values():
                _link(self.work / file, partial / file)
            (partial / HEADER).write_text(header.to_json(), encoding="utf-8")
        return open_graph(self.out)


def _link(source: Path, target: Path) -> None:
    """The same file in another folder: a second name, or where these are not possible, moved."""
    try:
        os.link(source, target)
    except OSError:
        os.replace(source, target)
