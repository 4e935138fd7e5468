"""What has arrived, in SQLite: committed to the disk before it is acknowledged.

Changes are kept in the order they came.  Played onto the graph of a model they give the grown
graph, and onto a graph that has the first of them already they give the same one: a change that is
there already is passed over.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuneup.errors import InputError, OutputError

Change = Literal["add-nodes", "add-edges", "remove-nodes", "remove-edges"]

_APPLICATION = 0x74756E65
_VERSION = 1
_SCHEMA = """
CREATE TABLE changes (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, change TEXT NOT NULL, row TEXT NOT NULL
);
CREATE TABLE requests (
    key TEXT PRIMARY KEY, digest TEXT NOT NULL, answer TEXT NOT NULL, at REAL NOT NULL
);
"""
_KEEP = 7 * 24 * 3600
"""Seconds that an idempotency key is remembered."""
_PATIENCE = 10.0
"""Seconds to wait for another process that writes."""


@dataclass(frozen=True, eq=False)
class Write:
    """A change that a request asks for.

    Args:
        change: what to do.
        rows: new nodes, or tuples of ids.
        key: of idempotency, if the request has one.
        digest: of the request.
    """

    change: Change
    rows: list[Any]
    key: str | None = None
    digest: str = ""


class Store:
    """A database of changes.

    Args:
        path: of the file; it is made if it does not exist.

    Raises:
        InputError: If the file is something else.
        OutputError: If it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            if "not a database" in str(error) or "malformed" in str(error):
                raise InputError(f"{path}: not a database of tuneup ({error}).") from error
            raise OutputError(f"cannot write {path}: {error}; check the folder") from error
        self._seen = -1

    def _open(self) -> None:
        self._db = sqlite3.connect(
            self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        found = self._value("PRAGMA application_id"), self._value("PRAGMA user_version")
        empty = not self._value("SELECT count(*) FROM sqlite_master")
        if found != (_APPLICATION, _VERSION) and not (empty and found == (0, 0)):
            raise InputError(
                f"{self.path}: got an SQLite file of something else or of a newer version; "
                "expected one that tuneup serve --live made."
            )
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        if empty:
            with self.transaction():
                if not self._value("SELECT count(*) FROM sqlite_master"):  # another was first
                    for statement in filter(str.strip, _SCHEMA.split(";")):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA application_id={_APPLICATION}")
                    self._db.execute(f"PRAGMA user_version={_VERSION}")

    def _value(self, query: str) -> Any:
        return self._db.execute(query).fetchone()[0]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Changes of the block are committed together, on the disk; or none of them."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    def is_changed(self) -> bool:
        """Whether another process has written since the last look."""
        version = int(self._value("PRAGMA data_version"))
        changed, self._seen = version != self._seen, version
        return changed

    def since(self, sequence: int) -> list[tuple[int, Change, Any]]:
        """Changes after a number, in order."""
        query = "SELECT sequence, change, row FROM changes WHERE sequence > ? ORDER BY sequence"
        found = self._db.execute(query, (sequence,)).fetchall()
        return [(number, change, json.loads(row)) for number, change, row in found]

    def append(self, change: Change, rows: list[Any]) -> int:
        """Add changes; the answer is the number of the last one."""
        query = "INSERT INTO changes (change, row) VALUES (?, ?)"
        last = None
        for row in rows:
            text = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            last = self._db.execute(query, (change, text)).lastrowid
        return int(last or 0)

    def answered(self, write: Write) -> dict[str, Any] | None:
        """The answer that a request with this key was given before."""
        if write.key is None:
            return None
        query = "SELECT digest, answer FROM requests WHERE key = ?"
        row = self._db.execute(query, (write.key,)).fetchone()
        if row is None:
            return None
        if row[0] != write.digest:
            raise Reused(
                f"Idempotency-Key {write.key!r} came with another request before; give this one a "
                "key of its own."
            )
        found: dict[str, Any] = json.loads(row[1])
        return found

    def note(self, write: Write, answer: dict[str, Any]) -> None:
        """Remember the answer to a request by its key."""
        if write.key is not None:
            now = time.time()
            self._db.execute("DELETE FROM requests WHERE at < ?", (now - _KEEP,))
            row = (write.key, write.digest, json.dumps(answer), now)
            self._db.execute("INSERT INTO requests VALUES (?, ?, ?, ?)", row)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


class Reused(InputError):
    """An idempotency key came with another request before."""
