"""Checksums and plain text: what makes a folder trustworthy and readable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from tuneup.errors import ArtefactError, InputError
from tuneup.names import TaskName

KIND = "tuneup artefact"
"""What every config.json of ours says of itself."""


def sealed_files(task: TaskName) -> tuple[str, ...]:
    """Names of the files that answers are computed from; their checksums are in config.json."""
    ids = ("users.parquet", "items.parquet") if task == "recommendation" else ("ids.parquet",)
    return ("graph.safetensors", *ids, "metrics.json", "weights.safetensors")


def is_artefact(folder: Path) -> bool:
    """Whether a folder says that it is a saved model, damaged or not."""
    try:
        return read_object(folder / "config.json").get("kind") == KIND
    except (OSError, ArtefactError):
        return False


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        ArtefactError: If there is none; RecursionError is one of the ways to fail.
    """
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ArtefactError(f"{path.name} is damaged; copy the folder again") from error
    if not isinstance(found, dict):
        raise ArtefactError(f"{path.name} is damaged: it holds no JSON object")
    return found


def kept(tensor: Tensor) -> Tensor:
    """A tensor as it is written: its own memory, on the CPU."""
    return tensor.detach().cpu().contiguous().clone()


def sha256(path: Path) -> str:
    """Checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sealed(config: Mapping[str, Any]) -> str:
    """A configuration as text, with a checksum of itself."""
    return as_json({**config, "checksum": seal(config)}, "config") + "\n"


def seal(config: Mapping[str, Any]) -> str:
    """Checksum of a configuration, whatever its layout."""
    plain = {key: value for key, value in config.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def as_json(value: Any, name: str) -> str:
    """Plain values as text; refuses what JSON has no word for."""
    try:
        return json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold values that JSON has ({error}).") from error
