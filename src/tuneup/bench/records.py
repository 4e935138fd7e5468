"""One finished run, as a JSON file with its per-node scores beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from tuneup.errors import InputError
from tuneup.files import write_atomic
from tuneup.metrics.scores import NodeScores, read_scores, write_scores
from tuneup.names import TaskName
from tuneup.train import Result
from tuneup.workflow.provenance import machine, versions

Curve = list[tuple[int, int, float, float | None]]

_ROUNDED = 1e-4
"""How far losses of one run may lie apart, as a share or as they are."""


OWN = ("alpha", "chosen", "trials", "trial_score")
"""What a record's configuration says of its method alone; the rest is the experiment's."""


@dataclass(frozen=True)
class RunRecord:
    """What was run and what came out, without weights.

    ``validation`` and ``test`` hold scores by metric name, ``test`` those of the transductive
    setting; ``settings`` holds every setting's mean.  ``curve`` is (stage, epoch, loss, score).
    ``variant`` tells runs apart that differ in their configuration only.
    """

    dataset: str
    task: TaskName
    architecture: str
    method: str
    seed: int
    validation: dict[str, float]
    test: dict[str, float]
    settings: dict[str, float]
    config: dict[str, Any]
    stages: list[dict[str, Any]]
    winner: int
    curve: Curve
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, str | int] = field(default_factory=dict)
    variant: str = ""
    means_only: bool = False
    """whether the means are stage 2's and no scores by node are recorded: see :func:`_stage_two`"""

    @property
    def chosen(self) -> dict[str, Any]:
        """The settings that were chosen for its method; older records name alpha alone."""
        alpha = {"alpha": self.config["alpha"]} if self.config.get("alpha") else {}
        found: dict[str, Any] | None = self.config.get("chosen")
        return alpha if found is None else found

    @property
    def name(self) -> str:
        """File name without suffix, unique within a folder of records."""
        return record_name(self.dataset, self.architecture, self.method, self.seed, self.variant)

    @property
    def trial_score(self) -> float:
        """What settings are chosen by: validation of the last stage, though an earlier one won."""
        score: float = self.config.get("trial_score", self.stages[-1]["best_score"])
        return score

    def write(self, folder: Path, scores: Iterable[NodeScores]) -> None:
        """Scores first: a record that exists is complete."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.json").unlink(missing_ok=True)  # never beside others' scores
        write_scores(folder / f"{self.name}.parquet", list(scores))
        plain = asdict(self)
        del plain["means_only"]  # known from the rest
        text = json.dumps(plain, indent=1)
        write_atomic(folder / f"{self.name}.json", text + "\n")

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """The record in a JSON file, which has its name: a copy would count as another run."""
        try:
            data = json.loads(path.read_text())
            found = cls(**{f.name: data[f.name] for f in fields(cls) if f.name in data})
            scored = {name: float(mean) for name, mean in found.settings.items()}
            last = found.stages[-1]["best_score"]
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            reason = shorten(str(error), 100)  # a key that is missing, or text that is not JSON
            raise _damaged(path, f"is not a run record ({reason})") from error
        if not scored or last is None:
            raise _damaged(path, "is not a run record: it has no scores")
        if found.name != path.stem:
            raise _damaged(path, f"is the record of {found.name}, under another name")
        return _stage_two(found)

    def scores(self, folder: Path) -> dict[str, NodeScores]:
        """Per-node scores by setting, whose means are those that the record says."""
        if self.means_only:
            return {}
        path = folder / f"{self.name}.parquet"
        try:
            found = {s.setting: s for s in read_scores(path)}
        except InputError as error:
            raise _damaged(folder / f"{self.name}.json", f"lacks its scores: {error}") from error
        for name, scores in found.items():
            kept, mean = float(scores.mean()), self.settings.get(name, math.nan)
            if not math.isclose(kept, mean, rel_tol=1e-5, abs_tol=1e-7):
                raise _damaged(
                    path,
                    f"has a mean of {kept:.6g} for {name}, and {self.name}.json beside it says "
                    f"{mean:.6g}: they are not of one run",
                )
        return found


def _stage_two(record: RunRecord) -> RunRecord:
    """A record of release 0.1, in which Base was the result because stage 2 validated worse.

    In Algorithm 1 stage 2 is the result.  Its means were recorded, its scores by node were not.
    """
    means = record.stages[-1].get("settings")
    if record.winner or len(record.stages) != 2 or not means:
        return record
    (metric,) = record.test
    return replace(
        record,
        winner=1,
        settings=means,
        test={metric: means["transductive"]},
        validation={metric: record.stages[1]["best_score"]},
        means_only=True,
    )


def _damaged(path: Path, what: str) -> InputError:
    return InputError(
        f"{path} {what}. Bring it back from where it was made, or remove it: tuneup bench run "
        "makes what has no record."
    )


def record_name(dataset: str, architecture: str, method: str, seed: int, variant: str = "") -> str:
    """What a run's files are called."""
    parts = (dataset, architecture, method, str(seed), variant)
    return "-".join(part for part in parts if part)


def record_of(
    result: Result,
    scores: Mapping[str, NodeScores],
    *,
    dataset: str,
    task: TaskName,
    architecture: str,
    method: str,
    config: dict[str, Any],
    variant: str = "",
    peak_rss: int | None = None,
) -> RunRecord:
    """The record of a finished run and its evaluation.

    ``peak_rss`` is the run's own, where the process has done more than this run.
    """
    record, metric = result.record, result.record.metric
    means = {name: float(score.mean()) for name, score in scores.items()}
    validation = record.validation
    if validation is None:  # from a checkpoint of before it was kept
        validation = record.stages[record.winner].best_score
    kept = (
        "module",
        "description",
        "best_epoch",
        "best_score",
        "stopped",
        "pseudo_labels",
        "seconds",
    )
    stages = [{key: getattr(s, key) for key in kept} for s in record.stages]
    return RunRecord(
        dataset=dataset,
        task=task,
        architecture=architecture,
        method=method,
        seed=record.seed,
        validation={metric: validation},
        test={metric: means["transductive"]},
        settings=means,
        config=config,
        stages=stages,
        winner=record.winner,
        curve=curve_of(result),
        seconds=round(sum(s.seconds for s in record.stages), 2),
        versions=versions(),
        machine=machine() | ({} if peak_rss is None else {"peak_rss": peak_rss}),
        variant=variant,
    )


def curve_of(result: Result) -> Curve:
    """Every epoch of a run, as records keep it."""
    return [(s, e, round(loss, 6), score) for s, e, loss, score in result.record.curves()]


def without_shared(records: Sequence[RunRecord]) -> list[RunRecord]:
    """The records with the seconds of their own stages.

    A first stage that several of them share is Base's, or that of the first one that has it.  One
    that came out the same but took another time was trained anew, and is the record's own.
    """
    owners: dict[str, RunRecord] = {}
    for record in sorted(records, key=lambda record: record.method != "base"):
        owners.setdefault(_first_run(record), record)

    def own(record: RunRecord) -> RunRecord:
        owner = owners[_first_run(record)]
        shared = owner.stages[0].get("seconds", owner.seconds)  # Base alone is without, if old
        if record is owner or record.stages[0].get("seconds", shared) != shared:
            return record
        return replace(record, seconds=max(0.0, record.seconds - shared))

    return [own(record) for record in records]


def beginning_of(record: RunRecord) -> list[tuple[int, float | None]]:
    """How the first stage validated: the same, whatever a processor rounds, for one run of it."""
    return _validated(_first_stage(record.curve))


def _first_run(record: RunRecord) -> str:
    """The same for records that go on from one run."""
    validated = beginning_of(record)
    opening = record.stages[0]["description"]
    return f"{record.dataset} {record.seed} {record.variant} {opening} {validated}"


def begin_alike(one: Curve, other: Curve) -> bool:
    """Whether two curves begin with one run: as many epochs, validated alike at every one of them.

    Losses may differ by what another processor or another order of sums rounds.  That is weaker
    than one run bit for bit: weights that differ by as little are taken for the same.
    """
    first, second = _first_stage(one), _first_stage(other)
    losses = zip(
        (loss for _, _, loss, _ in first), (loss for _, _, loss, _ in second), strict=False
    )
    return _validated(first) == _validated(second) and all(
        math.isclose(mine, theirs, rel_tol=_ROUNDED, abs_tol=_ROUNDED) for mine, theirs in losses
    )


def _first_stage(curve: Curve) -> Curve:
    return [(s, e, loss, score) for s, e, loss, score in curve if s == 0]  # JSON has lists


def _validated(curve: Curve) -> list[tuple[int, float | None]]:
    return [(epoch, score) for _, epoch, _, score in curve]


def goes_on_from(record: RunRecord, base: RunRecord) -> bool:
    """Whether a record that begins as Base does goes on from this run of it.

    One of another revision or machine may have gone on from a run that came out otherwise; two rows
    of a table would then differ by more than the method.
    """
    alike = record.stages[0]["description"] == base.stages[0]["description"]
    if len(record.stages) == 1 or not alike:
        return True  # it has a beginning of its own
    return begin_alike(record.curve, base.curve)


def read_records(folder: Path, beginning: str = "") -> list[RunRecord]:
    """The records of a folder whose names begin so, by name.

    Files that are being written, or that a killed process left half written, begin with a dot; a
    record that another process is replacing is not there for a moment.
    """
    found = []
    for path in sorted(folder.glob(f"{beginning}*.json")):
        if not path.name.startswith("."):
            with suppress(FileNotFoundError):
                found.append(RunRecord.read(path))
    return found
