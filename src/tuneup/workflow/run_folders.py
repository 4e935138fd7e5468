"""The folder of a run: claimed while it trains, then written, and read by ``tuneup report``.

A run folder (of ``tuneup demo``, or of anything else that trains once) holds

=========================  =======================================================================
``scores-METHOD.parquet``  per-node scores, as :func:`~tuneup.metrics.write_scores` writes them
``floor-NAME.parquet``     the same of a simple model to compare with
``metrics.json``           ``task``, ``architecture``, ``metric``, and ``training``, a
                           :class:`~tuneup.train.TrainingRecord`; where they are known also
                           ``title``, ``unit``, ``command``, ``alpha``, ``versions``, ``machine``,
                           ``data`` and ``configuration`` (facts by name), ``verdict`` (sentences),
                           ``simple`` (titles of simple models by name), ``classes`` (a
                           :class:`~tuneup.report.ClassSummary`), and ``selection`` in the
                           form of chosen point and trials (point, seed, score)
=========================  =======================================================================

Whoever writes these gets the page.  ``base`` is the state after stage 1 of the training, every
other method the whole of it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor

from tuneup.data import Interactions
from tuneup.errors import CheckpointError, DivergenceError, InputError, OutputError
from tuneup.evaluation import head_tail
from tuneup.files import ensure_room, output_folder
from tuneup.graph import SparseMatrix
from tuneup.metrics import NodeScores, read_scores, write_scores
from tuneup.report.page import write_page
from tuneup.report.summary import RunSummary
from tuneup.serve import Predictor
from tuneup.serve.artefact import is_artefact
from tuneup.tables import TablePairs
from tuneup.train.logs import LOG_FILE

from .fit import Loaded, Refit
from .options import FitOptions
from .outcome import Outcome, run_summary
from .problems import Problem

METRICS_FILE = "metrics.json"
ROOM_MARGIN = 1.2
"""Times the estimate of a size, for ids, the report and what files have besides their numbers."""
ROOM_FIXED = 16 << 20
"""Bytes of what does not grow: report, log, card and configuration."""
NODE_BYTES = 200
"""Of a node's id and of its scores in every setting."""
WEIGHT_COPIES = 6
"""In a checkpoint: now, best, after each stage, and twice in the optimiser."""


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
def claimed(
    out: Path, *, overwrite: bool, checkpoints: Path | None, say: Callable[[str], None]
) -> Iterator[Claim]:
    """Hold a place for a model until the block has saved it.

    While it trains, a hidden folder ``.NAME.tuneup-fit`` stands beside ``NAME``: a lock, its
    holder, and the checkpoints unless these are elsewhere.  A block that fails after the first
    checkpoint leaves its checkpoints and says how to resume; one that fails before, or whose
    training diverged, leaves nothing.

    Args:
        out: must not exist, be empty, or hold a saved model that ``overwrite`` allows to replace.
        overwrite: whether a saved model may be replaced.
        checkpoints: where to save the training on the way, if not beside ``out``.
        say: called with how to resume.

    Raises:
        InputError: If ``out`` is taken.
        OutputError: If another process trains into ``out``, or nothing can be written there.
    """
    out = out.resolve()
    work = out.with_name(f".{out.name}.tuneup-fit")
    claim = Claim(out, checkpoints or work / "checkpoints")
    _check_free(out, checkpoints, overwrite)
    with ExitStack() as stack:
        stack.enter_context(output_folder(out.parent))
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
                _say_how_to_resume(claim, error, say)
            raise
        finally:
            if not keep:
                shutil.rmtree(work, ignore_errors=True)


def _say_how_to_resume(claim: Claim, error: BaseException, say: Callable[[str], None]) -> None:
    how = f"the training so far is saved in {claim.checkpoints}: run the same command to resume it"
    if isinstance(error, OSError):
        problem = str(error) if isinstance(error, OutputError) else error.strerror or str(error)
        raise OutputError(f"{problem}; {how}") from error
    say(f"{how[0].upper()}{how[1:]}.")


@contextmanager
def _locked(folder: Path, problem: str) -> Iterator[None]:
    """Hold a lock in a folder, which the system releases if the process is killed."""
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


def save(
    loaded: Loaded,
    options: FitOptions,
    fitted: Outcome,
    folder: Path,
    *,
    command: Sequence[str],
    log: Path | None = None,
    refitted: Refit | None = None,
    overwrite: bool = False,
) -> Path:
    """Save the selected model, with all edges that are known, its scores and its report.

    Args:
        loaded: what was trained on.
        options: of the training.
        fitted: the training; its scores are the report's.
        folder: to be written.
        command: what was typed.
        log: of the epochs.
        refitted: a model to save in the place of the selected one, trained again on everything.
        overwrite: whether a saved model in the folder is replaced.
    """
    tables = loaded.tables if refitted is None else refitted.loaded.tables
    model: Any = fitted.result.best() if refitted is None else refitted.model
    task: Any = fitted.problem.task if refitted is None else refitted.task
    encoder = fitted.problem.setup.encoder
    found = fitted.metrics(shlex.join(command), None if refitted is None else refitted.to_json())
    del found["alpha"]  # it is no score, and among the options
    metrics = {
        **found,
        "data": {**found["data"], **loaded.facts},
        "options": {
            **asdict(options),
            "alpha": fitted.alpha,
            "architecture": encoder.architecture,
            "dropout": encoder.dropout,
            "metric": fitted.problem.task.metric,
        },
        **_card_scores(fitted),
    }
    predictor = partial(Predictor, model, metrics=metrics, columns=tables.columns)
    if isinstance(tables, TablePairs):
        model.inputs.fill_untrained(task.graph)
        ids, items = tables.users.values, tables.items.values
        made = predictor(tables.interactions, ids=ids, items=items)
    else:
        made = predictor(
            tables.graph,
            ids=tables.ids.values,
            labels=[name if type(name) is int else str(name) for name in tables.classes],
            plan=tables.plan,
            temperature=None if fitted.classes is None else fitted.classes.temperature,
        )
    write_extras = partial(write_run_files, fitted, metrics, log=log)
    return made.save(folder, write_extras=write_extras, overwrite=overwrite)


def write_run_files(
    outcome: Outcome, metrics: Mapping[str, Any], folder: Path, *, log: Path | None = None
) -> None:
    """Write the report, the scores of every model and the log; all but ``metrics.json``."""
    for kind, models in (("scores", outcome.models), ("floor", outcome.floor_scores)):
        for name, scores in models.items():
            write_scores(folder / f"{kind}-{name}.parquet", [*scores.values()])
    write_page(folder / "report.html", [run_summary(metrics, outcome.models, outcome.floor_scores)])
    if log is not None:
        shutil.copyfile(log, folder / LOG_FILE)


def read_run_folder(folder: Path) -> RunSummary:
    """The run in a folder.

    Raises:
        InputError: If a file is missing or malformed; it is named.
    """
    path, models = folder / METRICS_FILE, _read_all(folder, "scores")
    try:
        metrics = json.loads(path.read_text())
        if models:
            return run_summary(metrics, models, _read_all(folder, "floor"))
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} does not describe a run: {error!r}") from error
    raise InputError(f"{folder} has no scores-METHOD.parquet, whose scores the report would show")


def ensure_fit_room(problem: Problem, out: Path, checkpoints: Path, trainings: int) -> None:
    """Refuse a fit for whose checkpoints or model a disk has too little space.

    Args:
        problem: what will be trained.
        out: folder of the model.
        checkpoints: folder of the checkpoints; those of an earlier attempt are replaced.
        trainings: how many runs leave checkpoints; one more is written while the old one is read.
    """
    data = problem.data
    adjacency = data.adjacency() if isinstance(data, Interactions) else data.adjacency
    size = _bytes(adjacency.rowptr, adjacency.col) + NODE_BYTES * adjacency.num_nodes
    if not isinstance(data, Interactions):
        x = data.x
        size += _bytes(*((x.rowptr, x.col, x.value) if isinstance(x, SparseMatrix) else (x,)))
    with torch.device("meta"):  # shapes alone: no memory, and no random numbers
        weights = _bytes(*problem.setup.base_model().state_dict().values())
    saved = sum(file.stat().st_size for file in checkpoints.rglob("*") if file.is_file())
    ensure_room(
        (out, round(ROOM_MARGIN * (size + weights)) + ROOM_FIXED),
        (checkpoints, round(ROOM_MARGIN * WEIGHT_COPIES * (trainings + 1) * weights) - saved),
    )


def _bytes(*tensors: Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _read_all(folder: Path, kind: str) -> dict[str, dict[str, NodeScores]]:
    return {
        path.stem.removeprefix(f"{kind}-"): {part.setting: part for part in read_scores(path)}
        for path in folder.glob(f"{kind}-?*.parquet")
    }


def _card_scores(fitted: Outcome) -> dict[str, float]:
    """Overall, tail and head of the first setting, for the model card."""
    found = head_tail(next(iter(fitted.tuneup.values())))
    return {name: found[name].mean for name in ("overall", "tail", "head") if found[name].count}


def _read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty if there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
