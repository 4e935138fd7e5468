"""Checkpoints that survive SIGKILL: safetensors and JSON, written whole or not at all.

A checkpoint is a tensors file with a name of its own and a small manifest that points at it.  The
manifest is replaced atomically, last: whenever the process dies, the folder holds one complete
checkpoint, the old or the new.  No pickle is ever written or read.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialise
from torch import Tensor

from tuneup.errors import CheckpointError, InputError
from tuneup.files import ensure_writable, remove_partials, write_atomic

FORMAT = 2
"""Raised when a checkpoint's meaning changes; older ones stay readable or are refused by name."""


_WORDS = {
    "model": "the model (architecture, width, dropout and the like)",
    "task or data": "the task or the data (tables, features, split)",
    "curriculum": "the stages (alpha, epochs, learning rate, patience and the like)",
    "seed": "the seed",
    "optimizer": "the optimiser",
    "scheduler": "the scheduler",
}
"""What the parts of a fingerprint are called by those who set them."""


def checkpoints_in(place: Checkpoints | Path | str) -> Checkpoints:
    """Checkpoints in a folder, which may be given by its name."""
    if isinstance(place, str | Path):
        return Checkpoints(Path(place))
    if not isinstance(place, Checkpoints):
        raise InputError(
            f"checkpoints must be a folder or Checkpoints(folder, every); got {place!r}."
        )
    return place


@dataclass(frozen=True)
class Checkpoints:
    """A folder that holds the newest state of one run.

    Args:
        folder: made if missing.
        every: epochs between two checkpoints; the start, the end of each stage and the end of the
            run are always written.
    """

    folder: Path
    every: int = 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))
        if self.every < 1:
            raise InputError(f"every must be 1 epoch or more; got {self.every}.")

    @property
    def manifest(self) -> Path:
        """The file that says what is there."""
        return self.folder / "checkpoint.json"

    def prepare(self) -> None:
        """Fail now, with a clear line, if the folder cannot be written."""
        ensure_writable(self.folder)
        remove_partials(self.folder)

    def save(self, name: str, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Write one checkpoint; ``name`` is unique within the run, like "stage-1-epoch-40"."""
        path = self.folder / f"checkpoint-{name}.safetensors"
        # Not `save_file`: it writes through a hidden file of its own, which a kill would leave.
        data = serialise({key: t.detach().contiguous() for key, t in tensors.items()})
        write_atomic(path, data)
        manifest = {"format": FORMAT, "tensors": path.name, "crc32": zlib.crc32(data), **state}
        write_atomic(self.manifest, json.dumps(manifest, indent=1, allow_nan=False))
        self._remove_all_but(path)

    def load(self, fingerprint: dict[str, str]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest checkpoint, ``None`` if there is none; refuses one of another run."""
        try:
            state = json.loads(self.manifest.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise self._error(f"cannot be read ({error})") from error
        if not isinstance(state, dict) or "format" not in state:
            raise self._error(f"is damaged: {self.manifest.name} is not a checkpoint's")
        if state["format"] != FORMAT:
            raise self._error(f"has format {state['format']}, this version reads {FORMAT}")
        found = state.get("fingerprint")
        if not isinstance(found, dict):
            raise self._error("is damaged: it does not say which run it belongs to")
        other = [name for name, mark in fingerprint.items() if found.get(name) != mark]
        if other:
            words = " and in ".join(_WORDS.get(name, name) for name in other)
            raise self._error(f"belongs to another run, which differs in {words}")
        path = self.folder / state["tensors"]
        try:
            if zlib.crc32(path.read_bytes()) != state["crc32"]:
                raise self._error(f"is damaged: {path.name} has a wrong checksum")
            tensors = load_file(path)
        except (OSError, SafetensorError) as error:
            raise self._error(f"is damaged: {error}") from error
        self._remove_all_but(path)
        return tensors, state

    def damaged(self, how: str) -> CheckpointError:
        """The error for a checkpoint whose files are whole but whose contents are not."""
        return self._error(f"is damaged ({how.splitlines()[0]})")

    def _remove_all_but(self, newest: Path) -> None:
        for old in self.folder.glob("checkpoint-*.safetensors"):
            if old.name != newest.name:
                old.unlink(missing_ok=True)

    def _error(self, problem: str) -> CheckpointError:
        return CheckpointError(
            f"The checkpoint in {self.folder} {problem}. Use another folder, or delete this one."
        )
