"""The store of results: runs, means, scores by node and curves in four Parquet files.

=====================  =====================================================================
``runs.parquet``       one row a run or trial: what was trained, how it was chosen, how it ended
``results.parquet``    the long table: one row a run and setting, ``whose`` = ``ours``
``scores.parquet``     one row a run and setting: nodes, their degrees and their scores
``curves.parquet``     one row a run: stage, epoch, loss and validation score of every epoch
=====================  =====================================================================

A run that finishes is first a file of its own in ``pending``; :meth:`Store.fold` moves it into the
four.  Readers see both.  Any number of processes may read and add; folding takes a lock.  A run has
the same id wherever it is made: a digest of what decides it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import polars as pl
import torch
from filelock import FileLock

from tuneup.errors import InputError
from tuneup.files import atomic_path
from tuneup.metrics import NodeScores

Point = Mapping[str, Any]
"""A value for every name of a grid."""
Curve = Sequence[tuple[int, int, float, float | None]]
"""(stage, epoch, loss, validation score) of every epoch."""

KEY = ("study", "task", "dataset", "architecture", "preset", "method", "seed")
_JSON = ("shared", "point", "config", "stages", "versions", "machine", "means")
_NAMES = dict.fromkeys(("study", "task", "dataset", "architecture", "preset"), pl.String)
_RUN: dict[str, Any] = {
    "run": pl.String,
    **_NAMES,
    "method": pl.String,
    "seed": pl.Int64,
    "shared": pl.String,
    "point": pl.String,
    "config": pl.String,
    "trial": pl.Boolean,
    "validation": pl.Float64,
    "metric": pl.String,
    "means": pl.String,
    "winner": pl.Int64,
    "seconds": pl.Float64,
    "stages": pl.String,
    "versions": pl.String,
    "machine": pl.String,
}
_SCORES: dict[str, Any] = {
    "run": pl.String,
    "setting": pl.String,
    "node": pl.List(pl.Int32),
    "degree": pl.List(pl.Int32),
    "score": pl.List(pl.Float32),
}
_CURVE: dict[str, Any] = {
    "run": pl.String,
    "stage": pl.List(pl.Int32),
    "epoch": pl.List(pl.Int32),
    "loss": pl.List(pl.Float64),
    "validation": pl.List(pl.Float64),
}
LONG: Mapping[str, Any] = {
    "whose": pl.String,
    "run": pl.String,
    "table": pl.String,
    **_NAMES,
    "method": pl.String,
    "seed": pl.Int64,
    "setting": pl.String,
    "metric": pl.String,
    "mean": pl.Float64,
    "std": pl.Float64,
    "text": pl.String,
}
"""Columns of the long table; ``table``, ``std`` and ``text`` are for the paper's rows."""
_PENDING: dict[str, Any] = {
    **_RUN,
    "scores": pl.List(pl.Struct({k: v for k, v in _SCORES.items() if k != "run"})),
    "curve": pl.Struct({k: v for k, v in _CURVE.items() if k != "run"}),
}
_NEEDED = {
    "scores": ["run", "scores"],
    "curves": ["run", "curve"],
    "results": list(_RUN),
    "runs": list(_RUN),
}
"""Columns of a pending file that each of the four needs."""
_FILES = {"scores": _SCORES, "curves": _CURVE, "results": dict(LONG), "runs": _RUN}
"""In the order in which they are replaced: a run that is in ``runs`` is complete."""


@dataclass(frozen=True)
class Run:
    """One training: what decides it, and what came out.

    Args:
        study: ``paper`` for the paper's tables.
        task: likewise a name, as are the next four.
        dataset: name, or folder of tables.
        architecture: of the encoder.
        preset: of schedules and sizes.
        method: as the registry calls it.
        seed: of the training.
        shared: settings that Base chose for all methods.
        point: the method's own settings.
        config: everything else that decides the run.
        trial: whether settings are chosen by it.
        validation: score of the last stage, by which settings are chosen.
        metric: of the scores.
        means: by setting; empty for a run that was a trial and nothing else.
        winner: stage whose state is the result.
        seconds: of training.
        stages: facts of every stage.
        versions: of the packages and of the code.
        machine: processor, cores, peak of memory.
    """

    study: str
    task: str
    dataset: str
    architecture: str
    preset: str
    method: str
    seed: int
    shared: Point = field(default_factory=dict)
    point: Point = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    trial: bool = False
    validation: float = math.nan
    metric: str = ""
    means: Mapping[str, float] = field(default_factory=dict)
    winner: int = 0
    seconds: float = 0.0
    stages: Sequence[Mapping[str, Any]] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """``dblp-gcn-tuneup-0-`` and a digest of what decides the run."""
        decisive = [getattr(self, name) for name in (*KEY, "shared", "point", "config")]
        digest = hashlib.sha256(_dumps(decisive).encode()).hexdigest()[:10]
        name = f"{Path(self.dataset).name}-{self.architecture}-{self.method}-{self.seed}"
        return re.sub("[^\\w.-]", "_", f"{name}-{digest}")

    @property
    def place(self) -> tuple[str, str, str, str, str]:
        """Study, task, dataset, architecture and preset."""
        return self.study, self.task, self.dataset, self.architecture, self.preset

    @property
    def name(self) -> str:
        """For messages: ``dblp node-classification gcn tuneup, seed 0``."""
        return f"{self.dataset} {self.task} {self.architecture} {self.method}, seed {self.seed}"

    def row(self) -> dict[str, Any]:
        """As a row of ``runs.parquet``."""
        plain = asdict(self)
        return {
            "run": self.id,
            **plain,
            **{name: json.dumps(plain[name], default=str) for name in _JSON},
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Run:
        """From a row of ``runs.parquet``."""
        found = {f.name: row[f.name] for f in fields(cls)}
        return cls(**found | {name: json.loads(row[name]) for name in _JSON})


class Store:
    """The results in a folder.

    Args:
        folder: is made with the first run.

    Example:
        >>> store = Store(Path("benchmarks/results"))
        >>> store.long().filter(pl.col("method") == "tuneup")  # doctest: +SKIP
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._blobs: dict[str, tuple[tuple[int, int], pl.DataFrame]] = {}

    def runs(self, **where: str | int) -> list[Run]:
        """Every run and trial with these values, by name of the column."""
        frame = self._read("runs")
        found = frame.filter(*(pl.col(name) == value for name, value in where.items()))
        order = sorted(found.iter_rows(named=True), key=lambda r: (r["dataset"], r["seed"]))
        return [Run.of_row(row) for row in order]

    def long(self) -> pl.DataFrame:
        """Our rows of the long table, one a run and setting."""
        return self._read("results")

    def scores(self, runs: Iterable[Run]) -> dict[str, dict[str, NodeScores]]:
        """Scores by run id and setting; a run without scores by node is left out.

        Raises:
            InputError: where the mean of the scores is not the recorded mean.
        """
        known = {run.id: run for run in runs}
        frame = self._read("scores", list(known))
        found: dict[str, dict[str, NodeScores]] = {}
        for row in frame.iter_rows():
            run = known[row[0]]
            scores = NodeScores(
                row[1],
                run.metric,
                torch.tensor(row[2], dtype=torch.int64),
                torch.tensor(row[3], dtype=torch.int64),
                torch.tensor(row[4], dtype=torch.float32),
            )
            said, mean = run.means.get(row[1], math.nan), scores.mean()
            if not math.isclose(mean, said, rel_tol=1e-5, abs_tol=1e-7):
                raise InputError(
                    f"{self.folder}: scores and means of a run differ: {run.name} has a mean of "
                    f"{mean:.6g} in {row[1]} by its scores and {said:.6g} by its row. Restore the "
                    "folder from where it was made."
                )
            found.setdefault(row[0], {})[row[1]] = scores
        return found

    def curve(self, run: Run) -> list[tuple[int, int, float, float | None]]:
        """Every epoch of a run; empty where it was not recorded."""
        rows = self._read("curves", [run.id]).rows()
        return [] if not rows else list(zip(*rows[0][1:], strict=True))

    def add(self, run: Run, scores: Iterable[NodeScores] = (), curve: Curve = ()) -> None:
        """Write a finished run, which replaces one of the same id."""
        columns = list(zip(*curve, strict=True)) or [()] * 4
        row = {
            **run.row(),
            "scores": [
                {
                    "setting": s.setting,
                    "node": s.nodes.tolist(),
                    "degree": s.degree.tolist(),
                    "score": s.score.tolist(),
                }
                for s in scores
            ],
            "curve": dict(zip(list(_CURVE)[1:], map(list, columns), strict=True)),
        }
        path = self._pending / f"{run.id}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as partial:
            pl.DataFrame([row], schema=_PENDING).write_parquet(partial, compression="zstd")

    def fold(self, without: Sequence[str] = ()) -> None:
        """Move pending runs into the four files; runs ``without`` are removed."""
        if not self.folder.exists() or not (without or self._waiting()):
            return
        with FileLock(self.folder / ".fold.lock"):
            before = {path: path.stat().st_ino for path in self._waiting()}
            paths = [*before]
            for name, schema in _FILES.items():
                whole = self._merged(name, paths).filter(~pl.col("run").is_in(list(without)))
                with atomic_path(self.folder / f"{name}.parquet") as partial:
                    # Large pages: runs on one graph score the same nodes.
                    whole.select(list(schema)).sort(
                        _order(schema), maintain_order=True
                    ).write_parquet(
                        partial, compression="zstd", compression_level=12, data_page_size=1 << 24
                    )
            for path, inode in before.items():
                with suppress(FileNotFoundError):
                    if path.stat().st_ino == inode:  # or a scored run took the place of a trial
                        path.unlink()

    @property
    def _pending(self) -> Path:
        return self.folder / "pending"

    def _waiting(self) -> list[Path]:
        """Pending runs; a name with a dot is being written, or was when its process died."""
        return sorted(p for p in self._pending.glob("*.parquet") if not p.name.startswith("."))

    def _read(self, name: str, runs: Sequence[str] | None = None) -> pl.DataFrame:
        """One of the four with what is pending, perhaps only some runs."""
        while True:
            try:  # pending first: what is folded meanwhile is then seen twice, never missed
                return self._merged(name, self._waiting(), runs)
            except FileNotFoundError:
                continue

    def _merged(
        self, name: str, pending: Sequence[Path], runs: Sequence[str] | None = None
    ) -> pl.DataFrame:
        new = [_part(_checked(path, _PENDING, _NEEDED[name]), name) for path in pending]
        path, schema = self.folder / f"{name}.parquet", _FILES[name]
        old = self._file(path, schema) if path.exists() else pl.DataFrame(schema=schema)
        added = pl.concat([pl.DataFrame(schema=schema), *new])
        kept = old.filter(~pl.col("run").is_in(added["run"].unique().to_list()))
        whole = pl.concat([kept, added])
        return whole if runs is None else whole.filter(pl.col("run").is_in(list(runs)))

    def _file(self, path: Path, schema: Mapping[str, Any]) -> pl.DataFrame:
        """One of the four; read once until it is replaced."""
        stat = path.stat()
        mark = (stat.st_mtime_ns, stat.st_size)
        known = self._blobs.get(path.name)
        if known is None or known[0] != mark:
            known = self._blobs[path.name] = mark, _checked(path, schema)
        return known[1]


def _checked(
    path: Path, schema: Mapping[str, Any], columns: Sequence[str] | None = None
) -> pl.DataFrame:
    """A file whose schema is as it should be, or some of its columns."""
    try:
        found = pl.read_parquet_schema(path)
        frame = pl.read_parquet(path, columns=list(columns) if columns else None)
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"{path}: not a readable Parquet file ({error}). Restore it from where it was made, or "
            "remove it: tuneup bench run makes what is missing."
        ) from error
    if dict(found) != dict(schema):
        raise InputError(
            f"{path}: not a file of results: got columns {', '.join(found)}; expected "
            f"{', '.join(schema)}. Name another folder with --results."
        )
    return frame


def _part(pending: pl.DataFrame, name: str) -> pl.DataFrame:
    """The rows of a pending file that belong in one of the four."""
    if name == "runs":
        return pending
    if name == "scores":
        scores = pending.explode("scores").drop_nulls().unnest("scores")
        return scores.select(list(_SCORES))
    if name == "curves":
        return pending.unnest("curve").select(list(_CURVE))
    run = Run.of_row(pending.row(0, named=True))
    place = {name: getattr(run, name) for name in (*KEY, "metric")}
    long = [
        {"whose": "ours", "run": run.id, **place, "setting": setting, "mean": mean}
        for setting, mean in run.means.items()
    ]
    return pl.DataFrame(long, schema=dict(LONG))


def _order(schema: Mapping[str, Any]) -> list[str]:
    return [name for name in (*KEY, "run") if name in schema]


def _dumps(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
