"""``.npy`` files that are written in a stream."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .steps import Say

_INT32 = 1 << 31
"""Senders are int32 in graphs of at most so many nodes."""
_WINDOW = 1 << 20
"""Rows whose pointers are made at a time."""


def stream(path: Path, rows: int, start: int = 0) -> Iterator[pl.DataFrame]:
    """The rows of a Parquet file from ``start`` on, a few at a time."""
    table = pl.scan_parquet(path)
    table = table.slice(start) if start else table
    yield from table.collect_batches(chunk_size=rows, maintain_order=True)


def append_npy(
    path: Path, kind: Any, shape: tuple[int, ...], parts: Iterable[NDArray[Any]]
) -> None:
    """Write an array in parts, one behind the other."""
    with open(path, "wb") as file:
        _write_header(file, kind, shape)
        for part in parts:
            file.write(np.ascontiguousarray(part, dtype=kind).data)


def _write_header(file: IO[bytes], kind: Any, shape: tuple[int, ...]) -> None:
    described = {
        "descr": np.dtype(kind).str,
        "fortran_order": False,
        "shape": tuple(map(int, shape)),
    }
    np.lib.format.write_array_header_1_0(file, described)


@contextmanager
def sized_npy(path: Path, kind: Any, shape: tuple[int, ...]) -> Iterator[tuple[IO[bytes], int]]:
    """A file for an array whose parts are written where they belong, and where its data begins.

    What is not written is 0 and takes no space.
    """
    with open(path, "r+b" if path.exists() else "w+b") as file:
        _write_header(file, kind, shape)
        begin = file.tell()
        file.truncate(begin + np.dtype(kind).itemsize * int(np.prod(shape, dtype=object)))
        yield file, begin


def save_rows(
    folder: Path, batches: Iterable[pl.DataFrame], num_nodes: int, undirected: bool, say: Say
) -> dict[str, Any]:
    """Row pointer and senders of sorted entries; repeated ones and self-loops are left out.

    Args:
        folder: where ``rowptr.npy`` and ``senders.npy`` are written.
        batches: a column ``key``, or columns ``receiver`` and ``sender``, ascending.
        num_nodes: N.
        undirected: whether there is every entry's reverse.
        say: called with the number of entries.

    Returns:
        ``entries``, ``duplicates`` and ``self_loops``, as the header has them.
    """
    kind = np.int32 if num_nodes <= _INT32 else np.int64
    given = entries = loops = 0
    last = (-1, -1)
    with (
        open(folder / "senders.npy", "w+b") as senders,
        sized_npy(folder / "rowptr.npy", np.int64, (num_nodes + 1,)) as (file, begin),
    ):
        _write_header(senders, kind, (0,))
        pointer = _Pointer(file, begin)
        for batch in batches:
            receiver, sender = _pairs(batch, num_nodes)
            given += receiver.size
            proper = receiver != sender
            loops += receiver.size - int(proper.sum())
            receiver, sender = receiver[proper], sender[proper]
            fresh = np.ones(receiver.size, dtype=bool)
            fresh[1:] = (receiver[1:] != receiver[:-1]) | (sender[1:] != sender[:-1])
            if receiver.size:
                fresh[0] = (int(receiver[0]), int(sender[0])) != last
                last = int(receiver[-1]), int(sender[-1])
            receiver, sender = receiver[fresh], sender[fresh]
            senders.write(np.ascontiguousarray(sender, dtype=kind).data)
            pointer.add(receiver)
            entries += receiver.size
            say(given, 0)
        pointer.close(num_nodes)
        senders.seek(0)
        _write_header(senders, kind, (entries,))  # numpy leaves room for the digits
    ways = 2 if undirected else 1
    return {
        "entries": entries,
        "duplicates": (given - loops) // ways - entries // ways,
        "self_loops": loops,
    }


def _pairs(batch: pl.DataFrame, num_nodes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    if "key" not in batch.columns:
        return batch["receiver"].to_numpy(), batch["sender"].to_numpy()
    key = batch["key"].to_numpy()
    receiver = key // max(1, num_nodes)
    return receiver, key - receiver * num_nodes


class _Pointer:
    """Writes a row pointer as receivers arrive in order; 0 is never written, and takes no space."""

    def __init__(self, file: IO[bytes], begin: int) -> None:
        self.file, self.begin = file, begin
        self.row = self.entries = 0
        """rows that are done, and entries in them and in the row that is not"""

    def add(self, receiver: NDArray[Any]) -> None:
        """Entries of some more rows."""
        if not receiver.size:
            return
        before, self.entries = self.entries, self.entries + receiver.size
        first, last = (int(receiver[0]) if not before else self.row), int(receiver[-1])
        for start in range(first, last, _WINDOW):  # the last row may continue
            stop = min(last, start + _WINDOW)
            ends = receiver.searchsorted(np.arange(start, stop), side="right") + before
            self._write(start + 1, ends)
        self.row = last

    def close(self, num_nodes: int) -> None:
        """The rest: the last row, and rows without entries."""
        for start in range(self.row, num_nodes if self.entries else 0, _WINDOW):
            stop = min(num_nodes, start + _WINDOW)
            self._write(start + 1, np.full(stop - start, self.entries))

    def _write(self, row: int, pointers: NDArray[Any]) -> None:
        self.file.seek(self.begin + 8 * row, os.SEEK_SET)
        self.file.write(np.ascontiguousarray(pointers, dtype=np.int64).data)
