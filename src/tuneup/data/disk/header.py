"""The header of a graph folder, ``graph.json``: what each array is, and its checksum."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tuneup.errors import InputError

FORMAT, FORMAT_VERSION = "tuneup-graph", 1
HEADER = "graph.json"
_BLOCK = 1 << 26
"""Bytes that are hashed at a time."""
_AGAIN = "write the folder again with tuneup ingest, or copy it again"


@dataclass(frozen=True)
class ArrayInfo:
    """One ``.npy`` file of a folder, or its table of ids.

    Args:
        file: its name.
        bytes: its size.
        checksum: see :func:`checksum_of`.
    """

    file: str
    bytes: int
    checksum: str


@dataclass(frozen=True)
class Header:
    """What a graph folder holds.

    Args:
        name: what to call the graph in reports.
        nodes: N.
        entries: stored (directed) entries: an undirected edge counts twice.
        undirected: whether every entry has its reverse.
        width: numbers per node, 0 without features.
        classes: the value that each class stands for; empty without labels.
        multi_label: whether a node has any number of classes.
        duplicates: edges that were given more than once and removed.
        self_loops: edges from a node to itself that were removed.
        arrays: the files, by what they hold.
        columns: names of the columns of ids, by what they hold.
        plan: the feature plan as JSON, if features were made from columns.
    """

    name: str
    nodes: int
    entries: int
    undirected: bool
    width: int = 0
    classes: tuple[str | int, ...] = ()
    multi_label: bool = False
    duplicates: int = 0
    self_loops: int = 0
    arrays: Mapping[str, ArrayInfo] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    plan: str = ""

    @property
    def checksum(self) -> str:
        """Of all files together: two folders with the same one hold the same graph."""
        sums = {name: info.checksum for name, info in sorted(self.arrays.items())}
        return hashlib.sha256(json.dumps(sums).encode()).hexdigest()

    def to_json(self) -> str:
        """The text of ``graph.json``."""
        body = {"format": FORMAT, "version": FORMAT_VERSION, **asdict(self)}
        body["checksum"] = _digest(body)
        return json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Header:
        """The header of a folder, after a look at the names and sizes of its files.

        Raises:
            InputError: If the folder is none, is damaged or incomplete, or of a newer format.
        """
        path = folder / HEADER
        try:
            body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            kind, version = body.pop("format"), body.pop("version")
        except FileNotFoundError as error:
            raise InputError(
                f"{folder}: not a graph folder, as there is no {HEADER}; expected one that "
                "tuneup ingest wrote."
            ) from error
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise InputError(f"{path}: damaged, no header of a graph; {_AGAIN}.") from error
        if kind != FORMAT:
            raise InputError(f"{path}: the format is {kind!r}; expected {FORMAT!r}.")
        if not isinstance(version, int) or version > FORMAT_VERSION:
            raise InputError(
                f"{folder}: graph format {version} is newer than {FORMAT_VERSION}, the newest "
                "that this version reads; upgrade tuneup."
            )
        try:
            expected = body.pop("checksum")
            if expected != _digest({"format": kind, "version": version, **body}):
                raise ValueError("its checksum is wrong")
            arrays = {name: ArrayInfo(**info) for name, info in body.pop("arrays").items()}
            header = cls(**{**body, "classes": tuple(body["classes"]), "arrays": arrays})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: damaged ({error}); {_AGAIN}.") from error
        header.check_sizes(folder)
        return header

    def check_sizes(self, folder: Path) -> None:
        """Refuse a folder that lacks a file, or whose files have other sizes than it says."""
        for info in self.arrays.values():
            path = folder / info.file
            size = path.stat().st_size if path.is_file() else -1
            if size < 0:
                raise InputError(f"{folder}: incomplete, {info.file} is missing; {_AGAIN}.")
            if size != info.bytes:
                raise InputError(
                    f"{path}: damaged; got {size:,} bytes, expected {info.bytes:,}; {_AGAIN}."
                )

    def verify(self, folder: Path) -> None:
        """Read every file whole, and refuse one whose bytes are not those that were written."""
        for info in self.arrays.values():
            if checksum_of(folder / info.file) != info.checksum:
                raise InputError(f"{folder / info.file}: damaged, its checksum is wrong; {_AGAIN}.")


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def describe_file(path: Path) -> ArrayInfo:
    """The entry of a file in the header."""
    return ArrayInfo(path.name, path.stat().st_size, checksum_of(path))


def checksum_of(path: Path) -> str:
    """SHA-256 of the SHA-256 of each block of 64 MiB: holes of sparse files are not read."""
    whole, zeros = hashlib.sha256(), hashlib.sha256(bytes(_BLOCK)).digest()
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        for start in range(0, size, _BLOCK):
            if size - start >= _BLOCK and _is_hole(file.fileno(), start):
                whole.update(zeros)
                continue
            file.seek(start)
            block, left = hashlib.sha256(), min(_BLOCK, size - start)
            while left and (part := file.read(min(left, 1 << 20))):
                block.update(part)
                left -= len(part)
            whole.update(block.digest())
    return whole.hexdigest()


def _is_hole(handle: int, start: int) -> bool:
    """Whether nothing is stored in the block at ``start``, where the system can tell."""
    if not hasattr(os, "SEEK_DATA"):
        return False
    try:
        return os.lseek(handle, start, os.SEEK_DATA) >= start + _BLOCK
    except OSError as error:
        return error.errno == errno.ENXIO  # no data from here to the end
