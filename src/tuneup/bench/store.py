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
        digest = hashlib.sha256(as_key(decisive).encode()).hexdigest()[:10]
        name = f"{Path(self.dataset).name}-{self.architecture}-{self.method}-{self.seed}"
        return re.sub("[^\\w.-]", "_", f"{name}-{digest}")

    @property
    def place(self) -> tuple[str, ...]:
        """Study, task, dataset, architecture and preset."""
        return self.study, self.task, self.dataset, self.architecture, self.preset

    @property
    def name(self) -> str:
        """For messages: ``dblp node-classification gcn tuneup, seed 0``."""
        return f"{self.dataset} {self.task} {self.architecture} {self.method}, seed {self.seed}"

    def row(self) -> dict[str, Any]:
        """As a row of ``runs.parquet``."""
        plain = asdict(self)
        texts = {name: json.dumps(plain[name], default=str) for name in _JSON}
        return {"run": self.id, **plain, **texts}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Run:
        """From a row of ``runs.parquet``."""
        found = {each.name: row[each.name] for each in fields(cls)}
        return cls(**found | {name: json.loads(row[name]) for name in _JSON})


def as_key(value: Any) -> str:
    """The same text for equal values, such as points."""
    return json.dumps(value, sort_keys=True, default=str)


_KINDS: Mapping[Any, Any] = {
    "str": pl.String,
    "int": pl.Int64,
    "float": pl.Float64,
    "bool": pl.Boolean,
}
_JSON = [each.name for each in fields(Run) if each.type not in _KINDS]
_RUN = {"run": pl.String} | {f.name: _KINDS.get(f.type, pl.String) for f in fields(Run)}
_INTS, _FLOATS = pl.List(pl.Int32), pl.List(pl.Float64)
_SCORES: dict[str, Any] = {
    "setting": pl.String,
    "node": _INTS,
    "degree": _INTS,
    "score": pl.List(pl.Float32),
}
_CURVE = {"stage": _INTS, "epoch": _INTS, "loss": _FLOATS, "validation": _FLOATS}
LONG: Mapping[str, Any] = {
    "whose": pl.String,
    "run": pl.String,
    "table": pl.String,
    **{name: _RUN[name] for name in KEY},
    "setting": pl.String,
    "metric": pl.String,
    "mean": pl.Float64,
    "std": pl.Float64,
    "text": pl.String,
}
"""Columns of the long table; ``table``, ``std`` and ``text`` are for the paper's rows."""
_PENDING = {**_RUN, "scores": pl.List(pl.Struct(_SCORES)), "curve": pl.Struct(_CURVE)}
_FILES: Mapping[str, Mapping[str, Any]] = {
    "scores": {"run": pl.String, **_SCORES},
    "curves": {"run": pl.String, **_CURVE},
    "results": LONG,
    "runs": _RUN,
}
"""In the order in which they are replaced: a run that is in ``runs`` is complete."""
_NEEDED = {"scores": ["run", "scores"], "curves": ["run", "curve"]}
"""Columns of a pending file that these need; the others need those of a run."""


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
        self._frames: dict[str, tuple[tuple[int, int], pl.DataFrame]] = {}

    def runs(self, **where: str | int) -> list[Run]:
        """Every run and trial with these values, by name of the column."""
        found = self._read("runs").filter(*(pl.col(name) == value for name, value in where.items()))
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
        found: dict[str, dict[str, NodeScores]] = {}
        for key, setting, *arrays in self._read("scores", list(known)).iter_rows():
            nodes, degree = (torch.tensor(array, dtype=torch.int64) for array in arrays[:2])
            score, run = torch.tensor(arrays[2], dtype=torch.float32), known[key]
            scores = NodeScores(setting, run.metric, nodes, degree, score)
            said, mean = run.means.get(setting, math.nan), scores.mean()
            if not math.isclose(mean, said, rel_tol=1e-5, abs_tol=1e-7):
                raise InputError(
                    f"{self.folder}: scores and means of a run differ: {run.name} has a mean of "
                    f"{mean:.6g} in {setting} by its scores and {said:.6g} by its row. Restore the "
                    "folder from where it was made."
                )
            found.setdefault(key, {})[setting] = scores
        return found

    def curve(self, run: Run) -> list[tuple[int, int, float, float | None]]:
        """Every epoch of a run; empty where it was not recorded."""
        rows = self._read("curves", [run.id]).rows()
        return list(zip(*rows[0][1:], strict=True)) if rows else []

    def add(self, run: Run, scores: Iterable[NodeScores] = (), curve: Curve = ()) -> None:
        """Write a finished run, which replaces one of the same id."""
        arrays = [
            (own.setting, own.nodes.tolist(), own.degree.tolist(), own.score.tolist())
            for own in scores
        ]
        columns = [list(column) for column in zip(*curve, strict=True)] or [[]] * len(_CURVE)
        row = {
            **run.row(),
            "scores": [dict(zip(_SCORES, each, strict=True)) for each in arrays],
            "curve": dict(zip(_CURVE, columns, strict=True)),
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
            for name, schema in _FILES.items():
                whole = self._merged(name, [*before]).filter(~pl.col("run").is_in(list(without)))
                order = [key for key in (*KEY, "run") if key in schema]
                ordered = whole.select(list(schema)).sort(order, maintain_order=True)
                with atomic_path(self.folder / f"{name}.parquet") as partial:
                    # Large pages: runs on one graph score the same nodes.
                    ordered.write_parquet(
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
                whole = self._merged(name, self._waiting())
                return whole if runs is None else whole.filter(pl.col("run").is_in(list(runs)))
            except FileNotFoundError:
                continue

    def _merged(self, name: str, pending: Sequence[Path]) -> pl.DataFrame:
        """One of the four with some pending files, which come before it."""
        schema, needed = _FILES[name], _NEEDED.get(name, list(_RUN))
        new = [_part(_checked(path, _PENDING, needed), name) for path in pending]
        added = pl.concat([pl.DataFrame(schema=schema), *new])
        old = self._file(self.folder / f"{name}.parquet", schema)
        return pl.concat([old.filter(~pl.col("run").is_in(added["run"].unique().to_list())), added])

    def _file(self, path: Path, schema: Mapping[str, Any]) -> pl.DataFrame:
        """One of the four; read once until it is replaced."""
        if not path.exists():
            return pl.DataFrame(schema=schema)
        stat = path.stat()
        mark = (stat.st_mtime_ns, stat.st_size)
        if path.name not in self._frames or self._frames[path.name][0] != mark:
            self._frames[path.name] = mark, _checked(path, schema, list(schema))
        return self._frames[path.name][1]


def _checked(path: Path, schema: Mapping[str, Any], columns: list[str]) -> pl.DataFrame:
    """Columns of a file whose schema is as it should be."""
    try:
        found = pl.read_parquet_schema(path)
        if dict(found) == dict(schema):
            return pl.read_parquet(path, columns=columns)
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"{path}: not a readable Parquet file ({error}). Restore it from where it was made, or "
            "remove it: tuneup bench run makes what is missing."
        ) from error
    raise InputError(
        f"{path}: not a file of results: got columns {', '.join(found)}; expected "
        f"{', '.join(schema)}. Name another folder with --results."
    )


def _part(pending: pl.DataFrame, name: str) -> pl.DataFrame:
    """The rows of a pending file that belong in one of the four."""
    if name == "runs":
        return pending
    if name == "scores":
        scores = pending.explode("scores").drop_nulls().unnest("scores")
        return scores.select("run", *_SCORES)
    if name == "curves":
        return pending.unnest("curve").select("run", *_CURVE)
    run = Run.of_row(pending.row(0, named=True))
    place = {key: getattr(run, key) for key in (*KEY, "metric")}
    long = [
        {"whose": "ours", "run": run.id, **place, "setting": setting, "mean": mean}
        for setting, mean in run.means.items()
    ]
    return pl.DataFrame(long, schema=dict(LONG))
