"""Download a file: resume where the connection broke, verify before it gets its name."""

from __future__ import annotations

import hashlib
import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from tuneup.errors import DownloadError
from tuneup.files import resumable_path

Report = Callable[[int, int | None], None]
"""Receives the bytes downloaded so far and, if known, in all."""

_CHUNK = 1 << 18
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
"""Status codes after which another attempt may succeed."""


@dataclass(frozen=True)
class Remote:
    """One file to download.

    Args:
        url: its address.
        file: its name here.
        size: in bytes, if known.
        checksums: ``sha256:...`` or ``md5:...``, any of which it may have. Without one, the numbers
            of nodes and edges verify the file after reading.
        members: of a zip archive, the files to extract.
    """

    url: str
    file: str
    size: int | None = None
    checksums: tuple[str, ...] = ()
    members: tuple[str, ...] = ()

    @property
    def gives(self) -> tuple[str, ...]:
        """Names of the files that a reader gets from it."""
        return tuple(PurePosixPath(member).name for member in self.members) or (self.file,)

    def mismatch(self, path: Path) -> str | None:
        """How a file differs from this one, as the end of a sentence; ``None`` if it does not."""
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            return f"has {size:,} bytes where {self.size:,} were expected"
        for checksum in self.checksums:
            method, _, expected = checksum.partition(":")
            with path.open("rb") as file:
                found = hashlib.file_digest(file, method).hexdigest()
            if found == expected:
                return None
        if not self.checksums:
            return None
        return f"has the {method} {found} where {expected} was expected"


class _BrokenOffError(Exception):
    """The connection ended early: the part stays on disk, and the rest is requested."""


def download(
    remote: Remote,
    target: Path,
    *,
    report: Report = lambda done, total: None,
    timeout: float = 30.0,
    tries: int = 5,
    pause: float = 1.0,
) -> None:
    """Download a file to ``target``, whose folder exists; an unfinished one is ``target.part``.

    Args:
        remote: the file and what is known about it.
        target: where to write it.
        report: called after every piece.
        timeout: seconds without a byte after which a connection counts as broken.
        tries: connections in a row that may bring nothing new.
        pause: seconds before the second of them, doubled before each further one.

    Raises:
        DownloadError: if the file cannot be reached or is not the expected one.
        OutputError: if it cannot be written.
    """
    with resumable_path(target) as part:
        resumed = part.exists()
        _fetch_all(remote, part, report, timeout, tries, pause)
        wrong = remote.mismatch(part)
        if wrong and resumed:  # the part may be of another file: start again
            part.unlink()
            _fetch_all(remote, part, report, timeout, tries, pause)
            wrong = remote.mismatch(part)
        if wrong:
            part.unlink()
            raise DownloadError(f"{remote.url} {wrong}")


def _fetch_all(
    remote: Remote, part: Path, report: Report, timeout: float, tries: int, pause: float
) -> None:
    """Connect until the file is complete."""
    failures, arrived = 0, False
    while True:
        before = part.stat().st_size if part.exists() else 0
        if remote.size is not None and before == remote.size:
            return
        try:
            _fetch_rest(remote, part, report, timeout)
            return
        except (_BrokenOffError, OSError, http.client.HTTPException) as error:
            reason = _reason(error, part)
            unreachable = isinstance(error, urllib.error.URLError)
        grown = part.exists() and part.stat().st_size > before
        arrived = arrived or grown
        failures = 0 if grown else failures + 1
        if failures >= tries or (unreachable and not arrived):
            raise DownloadError(f"{remote.url} cannot be reached ({reason})")
        time.sleep(pause * 2 ** max(0, failures - 1))


def _fetch_rest(remote: Remote, part: Path, report: Report, timeout: float) -> None:
    """One connection, from where the part ends; a server without ranges sends all of it again."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "tuneup", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(remote.url, headers=headers)
    try:
        # An opener of its own: that of `urlopen` keeps the proxies of the first call.
        answer = urllib.request.build_opener().open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and start:  # nothing follows: complete, or of another file
                if _total(error.headers.get("Content-Range")) == start:
                    return
                part.unlink()
                raise _BrokenOffError("the server has no such range") from error
            if error.code in _TEMPORARY:
                raise _BrokenOffError(f"the server answers {error.code}") from error
            raise DownloadError(
                f"{remote.url} cannot be fetched (the server answers {error.code} {error.reason})"
            ) from error
    with answer:
        if answer.headers.get_content_type() == "text/html":
            raise DownloadError(f"{remote.url} gives a web page in place of {remote.file}")
        span = answer.headers.get("Content-Range") if answer.status == 206 else None
        if span is not None and span.split()[-1].startswith(f"{start}-"):
            total = _total(span)
        else:
            length, start = answer.headers.get("Content-Length"), 0
            total = int(length) if length else None
        with part.open("ab" if start else "wb") as out:
            done = start + _copy(answer, out, lambda more: report(start + more, total))
    if total is not None and done < total:
        raise _BrokenOffError(f"the connection ended after {done:,} of {total:,} bytes")


def _copy(
    source: http.client.HTTPResponse, target: IO[bytes], report: Callable[[int], None]
) -> int:
    done = 0
    report(done)
    while piece := source.read1(_CHUNK):  # read would lose what it waits with
        try:
            target.write(piece)
            target.flush()
        except OSError as error:
            error.filename = target.name  # else it could be the connection's
            raise
        done += len(piece)
        report(done)
    return done


def _total(span: str | None) -> int | None:
    """The size in a ``Content-Range: bytes 7-99/100`` or ``bytes */100``."""
    found = re.search(r"/(\d+)$", span or "")
    return int(found[1]) if found else None


def _reason(error: Exception, part: Path) -> str:
    """Why a connection failed; errors of our own disk are raised."""
    if isinstance(error, OSError) and str(error.filename or "") == str(part):
        raise error
    inner = getattr(error, "reason", error)
    text = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
    return " ".join(str(text).split())


@contextmanager
def download_bar(title: str) -> Iterator[Report]:
    """A progress bar on a terminal, elsewhere nothing; yields the function to report bytes to."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(bar_width=None), DownloadColumn(), TimeRemainingColumn(compact=True))
    with Progress(
        TextColumn("{task.description}"),
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
