"""Concurrent requests in micro-batches: one thread computes, and no request keeps it for long.

While a batch is computed, further requests come together and make the next one.  A large request is
answered piece by piece, in turn with the others; a batch has as many rows as take a few
milliseconds.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .engine import Ask, Engine, Piece, Reply

BATCH_SECONDS = 0.01
"""What a batch should take of the processor."""
_MOST, _START = 1024, 32
"""Rows of a batch: at most, and before it is known how long one takes."""


class QueueFull(Exception):
    """More requests wait than may."""


@dataclass(eq=False)
class Job:
    """A request on its way."""

    engine: Engine
    ask: Ask
    done: Callable[[Reply | Exception], object]
    next: int = 0
    reply: Reply = field(default_factory=lambda: Reply([]))
    cancelled: bool = False

    def take(self, rows: int) -> Piece:
        """The next rows of the question."""
        stop = self.ask.rows if self.ask.is_whole else min(self.ask.rows, self.next + max(1, rows))
        piece = Piece(self.ask, self.next, stop)
        self.next = stop
        return piece


class Batcher:
    """A thread that answers jobs.

    Args:
        queue: jobs that may wait.
        wait: seconds that the thread waits for further requests to answer together.
        observe: called with the number of jobs and rows of each batch.
    """

    def __init__(self, queue: int, wait: float, observe: Callable[[int, int], object]) -> None:
        self._most, self._wait, self._observe = queue, wait, observe
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._crowded = False
        self._seconds: dict[Any, float] = {}
        self._thread = threading.Thread(target=self._run, name="answers", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._jobs)

    async def ask(self, engine: Engine, ask: Ask) -> Reply:
        """The answer to a question.

        Raises:
            QueueFull: If too many wait.
            Exception: Why the question is refused.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()

        def set_result(found: Reply | Exception) -> None:
            if future.done():  # the client has gone
                return
            if isinstance(found, Exception):
                future.set_exception(found)
            else:
                future.set_result(found)

        job = Job(engine, ask, lambda found: loop.call_soon_threadsafe(set_result, found))
        with self._changed:
            if len(self._jobs) >= self._most or self._closed:
                raise QueueFull
            self._jobs.append(job)
            self._changed.notify()
        try:
            return await future
        except asyncio.CancelledError:
            job.cancelled = True
            raise

    def close(self) -> None:
        """Answer what waits, then stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._jobs and not self._closed:
                    self._changed.wait()
                if not self._jobs:
                    return
                alone = len(self._jobs) == 1
            if alone and self._crowded and self._wait:
                time.sleep(self._wait)  # the others of the last batch are on their way
            with self._changed:
                batch = self._take()
            if not batch:
                continue
            self._crowded = len(batch) > 1
            try:
                self._compute(batch)
            except Exception as error:  # nothing may end this thread
                for job, _ in batch:
                    job.cancelled = True
                    job.done(error)

    def _take(self) -> list[tuple[Job, Piece]]:
        """Pieces of the first job and of others like it, in turn."""
        while self._jobs and self._jobs[0].cancelled:
            self._jobs.popleft()
        if not self._jobs:
            return []
        first = self._jobs[0]
        like = [job for job in self._jobs if not job.cancelled and _key(job) == _key(first)]
        room = self._room(first)
        batch, left, again = [], deque[Job](), deque[Job]()
        chosen = {id(job) for job in like[:room]}
        share = max(1, room // len(chosen))
        for job in self._jobs:
            if id(job) not in chosen:
                left.append(job)
                continue
            batch.append((job, job.take(share)))
            if job.next < job.ask.rows:
                again.append(job)
        self._jobs = left + again
        return batch

    def _room(self, job: Job) -> int:
        """Rows that take a few milliseconds, as measured on earlier batches."""
        seconds = self._seconds.get(_key(job)[1:])
        if seconds is None:
            return _START
        return max(1, min(_MOST, int(BATCH_SECONDS / seconds)))

    def _compute(self, batch: list[tuple[Job, Piece]]) -> None:
        engine, ask = batch[0][0].engine, batch[0][0].ask
        pieces = [piece for _, piece in batch]
        began = time.thread_time()  # of the processor: else a busy machine makes batches small
        if ask.kind == "write":
            replies = engine.live.commit([piece.ask.write for piece in pieces])
        else:
            replies = engine.answer(pieces)
        rows = sum(piece.stop - piece.start for piece in pieces)
        seconds = (time.thread_time() - began) / rows
        self._learn(_key(batch[0][0])[1:], seconds)
        self._observe(len(batch), rows)
        for (job, _), reply in zip(batch, replies, strict=True):
            if isinstance(reply, Exception):
                job.cancelled = True  # of the pieces that are left
                job.done(reply)
                continue
            job.reply.answers += reply.answers
            job.reply.skipped += reply.skipped
            if job.next >= job.ask.rows:
                job.done(job.reply)

    def _learn(self, key: Any, seconds: float) -> None:
        """Note what a row took: the first ones are slow, so less is believed sooner than more."""
        known = self._seconds.get(key)
        if known is None:
            self._seconds[key] = BATCH_SECONDS / _START  # cold: caches, lazy parts
        else:
            self._seconds[key] = seconds if seconds < known else 0.8 * known + 0.2 * seconds


def _key(job: Job) -> tuple[int, str, bool]:
    """Jobs of one key are computed together."""
    return id(job.engine), job.ask.kind, job.engine.live is not None
