"""Downloading one file: resumed where it broke off, checked before it gets its name."""

from __future__ import annotations

import hashlib
import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from tuneup.errors import DownloadError
from tuneup.files import resumable_path

from .dataset import Remote

Report = Callable[[int, int | None], None]
"""Told the bytes that are here so far and, if known, the bytes in all."""

_CHUNK = 1 << 18
_PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Answers of a server that may have another one later."""


class _BrokenOffError(Exception):
    """The connection ended early: what arrived is kept, and the rest is asked for."""


def download(
    remote: Remote,
    target: Path,
    *,
    report: Report = lambda done, total: None,
    timeout: float = 30.0,
    tries: int = 5,
    pause: float = 1.0,
) -> None:
    """Fetch a file to ``target``, whose folder exists; half of one waits as ``target.part``.

    Args:
        remote: what to fetch, and what is known about it.
        target: its place.
        report: called after every piece.
        timeout: seconds without a byte after which a connection counts as broken.
        tries: connections in a row that may bring nothing new.
        pause: seconds before the second of them; twice as long before each further one.

    Raises:
        DownloadError: if the file cannot be had, or is not the one that was expected.
        OutputError: if it cannot be written.
    """
    with resumable_path(target) as part:
        resumed = part.exists()
        _fetch_all(remote, part, report, timeout, tries, pause)
        wrong = mismatch(remote, part)
        if wrong and resumed:  # the half may have been of another file: once more, from the start
            part.unlink()
            _fetch_all(remote, part, report, timeout, tries, pause)
            wrong = mismatch(remote, part)
        if wrong:
            part.unlink()
            raise DownloadError(f"{remote.url} {wrong}")


def _fetch_all(
    remote: Remote, part: Path, report: Report, timeout: float, tries: int, pause: float
) -> None:
    """Connect until everything is there."""
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
    """One connection, from where the half ends; a server that knows no ranges starts anew."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "tuneup", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(remote.url, headers=headers)
    try:
        answer = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and start:  # nothing after the half: it is whole, or of another
                if _total(error.headers.get("Content-Range")) == start:
                    return
                part.unlink()
                raise _BrokenOffError("the server has no such range") from error
            if error.code in _PASSING:
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
    while piece := source.read1(_CHUNK):  # read would wait, and lose what it waited with
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
    """In a few words; errors of our own disk are raised again."""
    if isinstance(error, OSError) and str(error.filename or "") == str(part):
        raise error
    inner = getattr(error, "reason", error)
    text = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
    return " ".join(str(text).split())


def mismatch(remote: Remote, path: Path) -> str | None:
    """What tells a file from the expected one, as the end of a sentence; ``None`` if nothing."""
    size = path.stat().st_size
    if remote.size is not None and size != remote.size:
        return f"has {size:,} bytes where {remote.size:,} were expected"
    if not remote.checksums:
        return None
    for checksum in remote.checksums:
        method, _, expected = checksum.partition(":")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, method).hexdigest()
        if found == expected:
            return None
    return f"has the {method} {found} where {expected} was expected"
