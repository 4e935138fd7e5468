"""Rounds of measurements: interleaved, one process each, kept in a file that a run goes on from."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tuneup.files import write_atomic
from tuneup.runtime import tuned_environ

from . import machine
from .case import THREADS, Case, Measurement

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "speed"
QUICK_RESULTS = ROOT / "runs" / "benchmarks-quick"
LOSS_TOLERANCE = 1e-4


def shown(path: Path) -> str:
    """A path as messages name it: from the checkout's root, where it lies in there."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


@dataclass(frozen=True)
class Spread:
    """A median over rounds, with the smallest and the largest."""

    median: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values), len(values))

    def text(self, digits: int = 2, scale: float = 1.0) -> str:
        """The median, with the others in brackets, ``1.39 (1.35-1.44)``; one round has none."""
        median, low, high = (
            f"{scale * value:,.{digits}f}" for value in (self.median, self.low, self.high)
        )
        return median if self.rounds == 1 else f"{median} ({low}-{high})"


Quantity = Callable[[Measurement], float]


def epoch_seconds(measurement: Measurement) -> float:
    """Median seconds of an epoch."""
    return measurement.epoch


def peak_bytes(measurement: Measurement) -> float:
    """Peak memory above what was resident before the model was built."""
    return measurement.peak


@dataclass
class Record:
    """The measurements of one part, by case and round, and how they were made."""

    command: str
    machine: dict[str, str]
    planned: int = 0
    rounds: dict[Case, dict[int, Measurement]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read a file written by :meth:`save`."""
        plain = json.loads(path.read_text())
        record = cls(plain["command"], plain["machine"], plain["planned"])
        for entry in plain["measurements"]:
            case, found = Case(**entry["case"]), Measurement(**entry["measurement"])
            record.rounds.setdefault(case, {})[entry["round"]] = found
        return record

    def save(self, path: Path) -> None:
        """Write everything, or nothing."""
        plain = {"command": self.command, "machine": self.machine, "planned": self.planned}
        measurements = [
            {"case": asdict(case), "round": number, "measurement": asdict(found)}
            for case, of_case in self.rounds.items()
            for number, found in of_case.items()
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = {**plain, "measurements": measurements}
        write_atomic(path, json.dumps(whole, indent=1) + "\n")

    @property
    def measured(self) -> int:
        """How many measurements there are; fewer than ``planned`` if a run was interrupted."""
        return sum(len(found) for found in self.rounds.values())

    def spread(self, case: Case, quantity: Quantity) -> Spread:
        """A quantity of one case over the rounds."""
        return Spread.of([quantity(found) for found in self.rounds[case].values()])

    def ratio(self, over: Case, under: Case, quantity: Quantity) -> Spread:
        """``over / under``, divided round by round: neighbours in time share their noise."""
        pairs = [
            (found, self.rounds[under][number])
            for number, found in self.rounds[over].items()
            if number in self.rounds[under]
        ]
        return Spread.of([quantity(first) / quantity(second) for first, second in pairs])

    def loss_gap(self, cases: Sequence[Case]) -> float:
        """Largest difference between two losses of the same epoch."""
        runs = [found.losses for case in cases for found in self.rounds[case].values()]
        return max((max(epoch) - min(epoch) for epoch in zip(*runs, strict=True)), default=0.0)


def run_rounds(
    path: Path, command: str, cases: Sequence[Case], rounds: int, *, same_loss: bool
) -> None:
    """Measure every case once a round, skipping what the file at ``path`` already holds.

    Stops at once if ``same_loss`` and the losses of two cases differ by more than 1e-4.
    """
    record = _begin(path, command, cases, rounds)
    for number, case in _round_robin(cases, rounds):
        if number in record.rounds[case]:
            continue
        found = run_worker(case)
        record.rounds[case][number] = found
        print(
            f"{path.stem} {number + 1}/{rounds}: {case}: {found.epoch:.2f} s an epoch, "
            f"{found.peak / 2**20:,.0f} MiB (others used {found.others:.0%} of the machine)",
            flush=True,
        )
        measured = [case for case in cases if record.rounds[case]]
        if same_loss and (gap := record.loss_gap(measured)) > LOSS_TOLERANCE:
            raise SystemExit(f"{path.stem}: losses differ by {gap:.2g} after measuring {case}.")
        record.save(path)


def _begin(path: Path, command: str, cases: Sequence[Case], rounds: int) -> Record:
    here = machine.describe()
    old = Record.load(path) if path.exists() else Record(command, here)
    if old.machine != here:
        raise SystemExit(
            f"{path.name} comes from another machine, other versions or another revision of the "
            "code: --fresh measures all of it again."
        )
    kept = {case: old.rounds.get(case, {}) for case in cases}
    return Record(command, here, len(cases) * rounds, kept)


def _round_robin(cases: Sequence[Case], rounds: int) -> Iterator[tuple[int, Case]]:
    for number in range(rounds):
        for case in cases:
            yield number, case


def run_worker(case: Case) -> Measurement:
    """Measure a case in a process of its own."""
    available = machine.memory_available()
    if case.memory_needed > available:
        raise SystemExit(
            f"{case}: may need {case.memory_needed / 2**30:.1f} GiB, and only "
            f"{available / 2**30:.1f} GiB are free: nothing was started."
        )
    tuning = ("MALLOC_", "GLIBC_TUNABLES", "THP_MEM_ALLOC")  # default malloc is to be default
    kept = {name: value for name, value in os.environ.items() if not name.startswith(tuning)}
    if case.malloc == "raised":
        kept = tuned_environ(kept)  # as the command line does, which starts itself again
    threads = {name: str(THREADS) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.worker", json.dumps(asdict(case))],
        cwd=ROOT,
        env={**kept, **threads},
        capture_output=True,  # torch's profiler talks on stderr
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stderr}{case}: the worker ended with code {done.returncode}.")
    return Measurement(**json.loads(done.stdout.splitlines()[-1]))
