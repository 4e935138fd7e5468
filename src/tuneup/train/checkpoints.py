"""The store of finished stages and of stages in progress, and how a run resumes from it.

A stage is one safetensors file named by its digest, with its record as JSON in the file's header.
Files are written atomically, so a process that is killed leaves whole files only; a lock lets
processes that share a folder train each stage once.  No pickle is ever written or read.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialise
from torch import Tensor

from tuneup.errors import CheckpointError, InputError
from tuneup.files import ensure_writable, write_atomic
from tuneup.tasks import PseudoLabels

from .digests import digest_of
from .optimizers import replay
from .result import StageRecord
from .selection import copy_state, put_state

if TYPE_CHECKING:
    from .loop import Run

FORMAT = 3
"""Version of the files; others are refused by name."""

Kind = Literal["stage", "progress"]
"""A finished stage, or one that is being trained."""


@dataclass(frozen=True)
class Entry:
    """What is stored of a stage: tensors by name, and JSON."""

    tensors: dict[str, Tensor]
    plain: dict[str, Any]


@dataclass(frozen=True)
class Checkpoints:
    """A store of stages, for any number of runs.

    A run looks its stages up, trains what is missing and adds it: runs that begin with the same
    stages, weights, data and seed train these once.  In a folder the stage in progress is saved
    too, and several processes may share it.

    Args:
        folder: made if missing; ``None``: in memory.
        every: epochs between two checkpoints of the stage in progress.
        steps: updates between two of them within an epoch, for epochs of many batches.
        minutes: the same by the clock.
    """

    folder: Path | None = None
    every: int = 20
    steps: int | None = None
    minutes: float | None = None
    _stages: dict[str, Entry] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.folder is not None:
            object.__setattr__(self, "folder", Path(self.folder))
        if self.every < 1:
            raise InputError(f"every must be 1 epoch or more; got {self.every}.")
        for name in ("steps", "minutes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} must be above 0, or None; got {value}.")

    @classmethod
    def of(cls, place: Checkpoints | Path | str | None) -> Checkpoints:
        """Checkpoints, which may be given by the path of their folder; ``None``: in memory."""
        if place is None:
            return cls()
        if isinstance(place, str | Path):
            return cls(Path(place))
        if not isinstance(place, Checkpoints):
            raise InputError(
                f"checkpoints must be a folder or Checkpoints(folder, every); got {place!r}."
            )
        return place

    def prepare(self) -> None:
        """Fail now, with a clear line, if the folder cannot be written."""
        if self.folder is not None:
            ensure_writable(self.folder)

    def is_due(self, steps: int, seconds: float) -> bool:
        """Whether to save within an epoch, so long after the last time."""
        if self.folder is None:
            return False
        waited = self.steps is not None and steps >= self.steps
        return waited or (self.minutes is not None and seconds >= 60 * self.minutes)

    def find(self, digest: str, kind: Kind = "stage") -> Entry | None:
        """What is stored under a digest; ``None`` if there is nothing.

        Raises:
            CheckpointError: if it is damaged or of another format.
        """
        if self.folder is None:
            return self._stages.get(digest) if kind == "stage" else None
        path = self._path(digest, kind)
        if not path.exists():
            return None
        if kind == "stage":
            self._tidy(digest)  # a process may have been killed before it did
        return _read(path)

    def add(self, digest: str, entry: Entry) -> None:
        """Store a finished stage."""
        if self.folder is None:
            self._stages[digest] = entry
            return
        _write(self._path(digest, "stage"), entry)

    def save_progress(self, digest: str, entry: Entry) -> None:
        """Store a stage in progress; in memory nothing is."""
        if self.folder is not None:
            _write(self._path(digest, "progress"), entry)

    def remove(self, digest: str) -> None:
        """Remove what is stored under a digest, if anything."""
        self._stages.pop(digest, None)
        if self.folder is not None:
            self._path(digest, "stage").unlink(missing_ok=True)
            self._path(digest, "progress").unlink(missing_ok=True)

    @contextmanager
    def locked(self, digest: str) -> Iterator[None]:
        """Hold a stage while it is trained; another process that wants it waits."""
        if self.folder is None:
            yield
            return
        with FileLock(self.folder / f"stage-{digest}.lock"):
            for partial in self.folder.glob(f".*-{digest}.*.partial*"):  # of a killed process
                partial.unlink(missing_ok=True)
            yield
            if self._path(digest, "stage").exists():  # whoever waits will find it
                self._tidy(digest)

    def warn_of_other_weights(self, digests: Sequence[str]) -> None:
        """Warn if a run in progress differs in nothing but the weights its modules start with."""
        if self.folder is None:
            return
        for settings, weights in (digest.rsplit("-", 1) for digest in digests):
            found = self.folder.glob(f"progress-{settings}-*.safetensors")
            if {path.stem.rsplit("-", 1)[1] for path in found} - {weights}:
                warnings.warn(
                    f"{self.folder} holds this run in progress from other initial weights; it "
                    "starts again. To resume, call torch.manual_seed before the model is built.",
                    stacklevel=3,
                )

    def _tidy(self, digest: str) -> None:
        """Remove what only a stage in progress needs."""
        assert self.folder is not None
        for path in (self._path(digest, "progress"), self.folder / f"stage-{digest}.lock"):
            with suppress(OSError):  # Windows keeps files that are open
                path.unlink(missing_ok=True)

    def _path(self, digest: str, kind: Kind) -> Path:
        assert self.folder is not None
        return self.folder / f"{kind}-{digest}.safetensors"


def _write(path: Path, entry: Entry) -> None:
    # Not `save_file`: it writes through a hidden file of its own, which a kill would leave.
    tensors = {name: tensor.detach().contiguous() for name, tensor in entry.tensors.items()}
    text = json.dumps(entry.plain, allow_nan=False)
    header = {"format": str(FORMAT), "stage": text, "checksum": _checksum(tensors, text)}
    write_atomic(path, serialise(tensors, header))


def _checksum(tensors: dict[str, Tensor], text: str) -> str:
    return hashlib.sha256((digest_of(dict(sorted(tensors.items()))) + text).encode()).hexdigest()


def _read(path: Path) -> Entry:
    def error(problem: str) -> CheckpointError:
        return CheckpointError(
            f"The checkpoint {path} {problem}. Delete it to train the stage again, or use another "
            "folder."
        )

    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            # A copy: the file may be replaced while its memory map is in use.
            names = list(file.keys())
            tensors = {name: file.get_tensor(name).clone() for name in names}
    except (OSError, SafetensorError) as problem:
        raise error(f"is damaged: {problem}") from problem
    if header.get("format") != str(FORMAT):
        found = header.get("format", "none")
        raise error(f"has format {found}; this version reads {FORMAT}")
    text = header.get("stage", "")
    if header.get("checksum") != _checksum(tensors, text):
        raise error("is damaged: its checksum is wrong")
    return Entry(tensors, json.loads(text))


def finished_entry(run: Run, index: int) -> Entry:
    """A stage that has ended: the modules it trained, its pseudo-labels and its record."""
    tensors: dict[str, Tensor] = {}
    for name in run.curriculum[index].trains:
        tensors |= _within(f"module/{name}", copy_state(run.modules[name]))
    if index in run.pseudo:
        tensors |= _within("pseudo", vars(run.pseudo[index]))
    return Entry(tensors, {"record": run.record.stages[index].to_json()})


def progress_entry(run: Run, index: int) -> Entry:
    """A stage between two updates: everything that it needs to go on exactly."""
    finished = finished_entry(run, index)
    tensors = finished.tensors | _within("best", run.best)
    optimizers: dict[str, Any] = {}
    for name, optimizer in run.optimizers.items():
        state, optimizers[name] = _pack_optimizer(optimizer)
        tensors |= _within(f"optimizer/{name}", state)
    plain = {"epoch": run.epoch, "step": run.step, "optimizers": optimizers, "done": run.done}
    if run.scaler is not None:
        plain["scaler"] = run.scaler.state_dict()
    return Entry(tensors, finished.plain | plain)


def use_finished(run: Run, index: int, entry: Entry) -> None:
    """Go to the end of a stage."""
    _restore(run, index, entry)
    run.states.append(copy_state(run.modules[run.curriculum[index].module]))


def use_progress(run: Run, index: int, entry: Entry) -> None:
    """Go to where a stage was saved."""
    _restore(run, index, entry)
    run.best = _below("best", entry.tensors)
    run.epoch, run.step = entry.plain["epoch"], entry.plain["step"]
    run.done = [(loss, size) for loss, size in entry.plain.get("done", [])]
    run.make_optimizers(run.curriculum[index])
    if run.annealing is not None:
        replay(run.annealing, (epoch.score for epoch in run.record.stages[index].epochs))
    if run.scaler is not None:
        run.scaler.load_state_dict(entry.plain["scaler"])
    for name, optimizer in run.optimizers.items():
        state = _below(f"optimizer/{name}", entry.tensors)
        _unpack_optimizer(optimizer, state, entry.plain["optimizers"][name])


def _restore(run: Run, index: int, entry: Entry) -> None:
    try:
        record = StageRecord.from_json(entry.plain["record"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"The checkpoint of stage {index + 1} is damaged ({type(error).__name__}: {error}). "
            "Use another folder, or train with fresh=True."
        ) from error
    for name in run.curriculum[index].trains:
        put_state(run.modules[name], _below(f"module/{name}", entry.tensors))
    labels = _below("pseudo", entry.tensors)
    if labels:
        device = run.task.graph.device
        run.pseudo[index] = PseudoLabels(**{k: t.to(device) for k, t in labels.items()})
    run.record.stages.append(record)


def _within(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}/"
    return {k.removeprefix(start): t for k, t in tensors.items() if k.startswith(start)}


def _pack_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as tensors by ``parameter/name`` and the rest as JSON."""
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {}
    for index, entry in state["state"].items():
        for name, value in entry.items():
            held = tensors if isinstance(value, Tensor) else plain
            held[f"{index}/{name}"] = value
    return tensors, {"state": plain, "groups": state["param_groups"]}


def _unpack_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], plain: dict[str, Any]
) -> None:
    state: dict[int, dict[str, Any]] = {}
    for key, value in [*tensors.items(), *plain["state"].items()]:
        index, name = key.split("/", 1)
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": plain["groups"]})
