"""The place of a fit's result: locked while it trains, with checkpoints that outlive a crash.

While a fit is under way, a hidden folder ``.NAME.tuneup-fit`` stands beside ``--out NAME``: a lock,
who holds it, and the checkpoints unless ``--checkpoints`` puts these elsewhere. It is removed when
the model is saved, and left where there is something to resume.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from tuneup.errors import CheckpointError, DivergenceError, InputError, OutputError
from tuneup.files import output_folder

from .options import writable


@dataclass(frozen=True)
class Claim:
    """What a fit may write to.

    Args:
        out: the folder of the model.
        work: the hidden folder beside it.
        chosen: the folder of ``--checkpoints``, if it was given.
    """

    out: Path
    work: Path
    chosen: Path | None

    @property
    def checkpoints(self) -> Path:
        """Where the training is saved on the way."""
        return self.chosen or self.work / "checkpoints"

    @property
    def resumable(self) -> bool:
        """Whether there are checkpoints with at least one epoch or stage."""
        return any(map(_has_progress, self.checkpoints.rglob("checkpoint.json")))

    @property
    def saved_bytes(self) -> int:
        """Size of the checkpoints of an earlier attempt, which this one replaces."""
        return sum(file.stat().st_size for file in self.checkpoints.rglob("*") if file.is_file())


@contextmanager
def claimed(out: Path, *, overwrite: bool, checkpoints: Path | None) -> Iterator[Claim]:
    """Hold a place for a model until the block has saved it.

    A block that fails after the first checkpoint leaves its checkpoints and says so. One that fails
    before, or whose training diverged, leaves nothing.

    Args:
        out: must not exist, be empty, or hold a saved model that ``overwrite`` allows to replace.
        overwrite: whether a saved model may be replaced.
        checkpoints: where to save the training on the way, if not beside ``out``.

    Raises:
        InputError: If ``out`` is taken.
        OutputError: If another process trains into ``out``, or nothing can be written there.
    """
    out = out.resolve()
    claim = Claim(out, out.with_name(f".{out.name}.tuneup-fit"), checkpoints)
    _check_free(claim, overwrite)
    with writable(out.parent), _locked(claim.work, f"{out}: another fit trains into it"):
        keep = False
        try:
            _check_free(claim, overwrite)  # whoever held the lock may have saved meanwhile
            with _explained(claim), _chosen(checkpoints):
                yield claim
        except DivergenceError:
            raise
        except BaseException:
            keep = checkpoints is None and claim.resumable
            raise
        finally:
            if not keep:
                shutil.rmtree(claim.work, ignore_errors=True)


@contextmanager
def _chosen(folder: Path | None) -> Iterator[None]:
    """Lock the folder of ``--checkpoints``; two fits would remove each other's."""
    if folder is None:
        yield
        return
    with output_folder(folder), _locked(folder, f"{folder}: another fit has its checkpoints there"):
        yield


@contextmanager
def _locked(folder: Path, problem: str) -> Iterator[None]:
    """Hold a lock in a folder, which the system releases if the process is killed."""
    from filelock import FileLock, Timeout

    folder.mkdir(exist_ok=True)
    path, owner = folder / "lock", folder / "owner.json"
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except (Timeout, FileNotFoundError) as error:  # not found: removed by who has just finished
        raise OutputError(
            f"cannot write {problem}{_named(owner)}; wait for it, or choose another folder"
        ) from error
    try:
        who = {"pid": os.getpid(), "host": socket.gethostname()}
        owner.write_text(json.dumps(who), encoding="utf-8")
        yield
    finally:
        owner.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        lock.release()


def _check_free(claim: Claim, overwrite: bool) -> None:
    from tuneup.serve.artefact import is_artefact

    out, chosen = claim.out, claim.chosen
    if not out.name or (out.exists() and not out.is_dir()):
        raise InputError(f"cannot write {out}: it is not a folder; choose another --out")
    if out.exists() and any(out.iterdir()) and not (overwrite and is_artefact(out)):
        advice = ", or pass --overwrite to replace the model in it" if is_artefact(out) else ""
        raise InputError(f"{out} is not empty: choose another --out{advice}.")
    if chosen is not None and out in (chosen.resolve(), *chosen.resolve().parents):
        raise InputError(
            f"--checkpoints {chosen} is inside --out {out}, which must be empty until the model is "
            "saved: choose another folder."
        )


@contextmanager
def _explained(claim: Claim) -> Iterator[None]:
    """Say how to resume where an interruption or a failure to write left checkpoints."""
    how = f"the training so far is kept in {claim.checkpoints}: run the same command to resume it"
    try:
        yield
    except (CheckpointError, DivergenceError):
        raise
    except OSError as error:
        if not claim.resumable:
            raise
        problem = str(error) if isinstance(error, OutputError) else error.strerror or str(error)
        raise OutputError(f"{problem}; {how}") from error
    except BaseException:
        if claim.resumable:
            typer.echo(f"{how[0].upper()}{how[1:]}.", err=True)
        raise


def _named(owner: Path) -> str:
    """Process and host of who holds a lock, if they are known by now."""
    try:
        found = json.loads(owner.read_bytes())
        return f" (process {int(found['pid'])} on {str(found['host'])[:80]})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _has_progress(manifest: Path) -> bool:
    try:
        found = json.loads(manifest.read_bytes())
        return bool(found["epoch"] or found["states"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
