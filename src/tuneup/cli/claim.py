"""The place of a fit's result: locked while it trains, with checkpoints that outlive a crash.

While a fit is under way, a hidden folder ``.NAME.tuneup-fit`` stands beside ``--out NAME``: a lock,
its holder, and the checkpoints unless ``--checkpoints`` puts these elsewhere. It is removed when
the model is saved, and left where there is something to resume.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from tuneup.errors import CheckpointError, DivergenceError, InputError, OutputError
from tuneup.files import output_folder

from .options import writable


@dataclass(frozen=True)
class Claim:
    """What a fit may write to.

    Args:
        out: the folder of the model.
        checkpoints: where the training is saved on the way.
    """

    out: Path
    checkpoints: Path

    @property
    def resumable(self) -> bool:
        """Whether there are checkpoints with at least one epoch or stage."""
        return any(self.checkpoints.glob("*.safetensors"))


@contextmanager
def claimed(out: Path, *, overwrite: bool, checkpoints: Path | None) -> Iterator[Claim]:
    """Hold a place for a model until the block has saved it.

    A block that fails after the first checkpoint leaves its checkpoints, and how to resume is
    printed. One that fails before, or whose training diverged, leaves nothing.

    Args:
        out: must not exist, be empty, or hold a saved model that ``overwrite`` allows to replace.
        overwrite: whether a saved model may be replaced.
        checkpoints: where to save the training on the way, if not beside ``out``.

    Raises:
        InputError: If ``out`` is taken.
        OutputError: If another process trains into ``out``, or nothing can be written there.
    """
    out = out.resolve()
    work = out.with_name(f".{out.name}.tuneup-fit")
    claim = Claim(out, checkpoints or work / "checkpoints")
    _check_free(out, checkpoints, overwrite)
    with ExitStack() as stack:
        stack.enter_context(writable(out.parent))
        stack.enter_context(_locked(work, f"{out}: another fit trains into it"))
        keep = False
        try:
            _check_free(out, checkpoints, overwrite)  # the last holder may have saved meanwhile
            if checkpoints is not None:  # two fits would remove each other's
                stack.enter_context(output_folder(checkpoints))
                problem = f"{checkpoints}: another fit has its checkpoints there"
                stack.enter_context(_locked(checkpoints, problem))
            yield claim
        except DivergenceError:
            raise
        except BaseException as error:
            keep = checkpoints is None and claim.resumable
            if claim.resumable and not isinstance(error, CheckpointError):
                _say_how_to_resume(claim, error)
            raise
        finally:
            if not keep:
                shutil.rmtree(work, ignore_errors=True)


def _say_how_to_resume(claim: Claim, error: BaseException) -> None:
    how = f"the training so far is saved in {claim.checkpoints}: run the same command to resume it"
    if isinstance(error, OSError):
        problem = str(error) if isinstance(error, OutputError) else error.strerror or str(error)
        raise OutputError(f"{problem}; {how}") from error
    typer.echo(f"{how[0].upper()}{how[1:]}.", err=True)


@contextmanager
def _locked(folder: Path, problem: str) -> Iterator[None]:
    """Hold a lock in a folder, which the system releases if the process is killed."""
    import socket

    from filelock import FileLock, Timeout

    folder.mkdir(exist_ok=True)
    path, owner = folder / "lock", folder / "owner.json"
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except (Timeout, FileNotFoundError) as error:  # not found: its holder has just removed it
        who = _read_json(owner)
        named = f" (process {who['pid']} on {who['host']})" if {"pid", "host"} <= who.keys() else ""
        raise OutputError(
            f"cannot write {problem}{named}; wait for it, or choose another folder"
        ) from error
    try:
        owner.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        yield
    finally:
        owner.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        lock.release()


def _check_free(out: Path, checkpoints: Path | None, overwrite: bool) -> None:
    from tuneup.serve.artefact import is_artefact

    if not out.name or (out.exists() and not out.is_dir()):
        raise InputError(f"cannot write {out}: it is not a folder; choose another --out")
    if out.exists() and any(out.iterdir()) and not (overwrite and is_artefact(out)):
        advice = ", or pass --overwrite to replace the model in it" if is_artefact(out) else ""
        raise InputError(f"{out} is not empty: choose another --out{advice}.")
    if checkpoints is not None and checkpoints.resolve().is_relative_to(out):
        raise InputError(
            f"--checkpoints {checkpoints} is inside --out {out}, which must be empty until the "
            "model is saved: choose another folder."
        )


def _read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty if there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
