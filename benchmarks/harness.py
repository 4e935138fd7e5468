"""The harness of all benchmarks: rounds of cases, each in a process of its own, kept as JSON.

A :class:`Benchmark` says which cases there are, how one is measured and how all are reported.
Cases take turns, round after round, and ratios are taken within a round before their median, so
that a slow minute hits both sides.  A run that is stopped resumes; one on another machine or with
another revision of the code is refused.  Linux only: memory and processor time are read from /proc.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tuneup.files import write_atomic
from tuneup.report.table import markdown_table
from tuneup.runtime import source_revision, tuned_environ

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "speed"
QUICK_RESULTS = ROOT / "runs" / "benchmarks-quick"
THREADS = 2
MIB = 2.0**-20
ARXIV_NODES, ARXIV_EDGES = 169_343, 1_157_799
COMPARED = ("seconds", "peak", "ours", "plain", "cold")
"""Times and bytes that a benchmark may find."""
GOAL_HEADING = ("goal", "measured", "bound", "reached")

Case = dict[str, Any]
"""What is measured; JSON."""
Found = dict[str, Any]
"""What came out; JSON."""


@dataclass(frozen=True)
class Benchmark:
    """One part of benchmarks/README.md.

    Args:
        name: of the command and of the file of results.
        title: of the part.
        cases: what is measured, in full or (``True``) quickly on small graphs.
        measure: one case, in a fresh process.
        report: the part as Markdown.
        rounds: how often each case is measured.
        check: fails where measurements cannot be right, after each of them.
        memory: bytes that a case may need; one that does not fit is not started.
    """

    name: str
    title: str
    cases: Callable[[bool], Sequence[Case]]
    measure: Callable[[Case], Found]
    report: Callable[[Record], str]
    rounds: int = 5
    check: Callable[[Record], None] | None = None
    memory: Callable[[Case], int] = lambda case: 0


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
        """``1.39 (1.35-1.44)``; one round has no brackets."""
        found = (self.median, self.low, self.high)
        median, low, high = (f"{scale * value:,.{digits}f}" for value in found)
        return median if self.rounds == 1 else f"{median} ({low}-{high})"


Quantity = Callable[[Found], float]


@dataclass
class Record:
    """The measurements of one benchmark, by case and round, and how they were made."""

    command: str
    machine: dict[str, str]
    planned: int = 0
    found: list[tuple[Case, dict[int, Found]]] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what :meth:`save` wrote."""
        plain = json.loads(path.read_text())
        record = cls(plain["command"], plain["machine"], plain["planned"])
        for entry in plain["measurements"]:
            record.of(entry["case"])[entry["round"]] = entry["measurement"]
        return record

    def save(self, path: Path) -> None:
        """Write everything, or nothing."""
        plain = {"command": self.command, "machine": self.machine, "planned": self.planned}
        measurements = [
            {"case": case, "round": number, "measurement": found}
            for case, rounds in self.found
            for number, found in rounds.items()
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps({**plain, "measurements": measurements}, indent=1) + "\n")

    def of(self, case: Case) -> dict[int, Found]:
        """Measurements of a case by round."""
        for known, rounds in self.found:
            if known == case:
                return rounds
        self.found.append((case, {}))
        return self.found[-1][1]

    def case(self, **wanted: Any) -> Case:
        """The first case with these values."""
        return next(
            case
            for case, _ in self.found
            if all(case.get(name) == value for name, value in wanted.items())
        )

    def has(self, **wanted: Any) -> bool:
        """Whether there is such a case."""
        return any(all(case.get(n) == v for n, v in wanted.items()) for case, _ in self.found)

    @property
    def everything(self) -> list[Found]:
        """All measurements."""
        return [found for _, rounds in self.found for found in rounds.values()]

    def spread(self, case: Case, quantity: Quantity) -> Spread:
        """A quantity of one case over the rounds."""
        return Spread.of([quantity(found) for found in self.of(case).values()])

    def ratio(self, over: Case, under: Case, quantity: Quantity) -> Spread:
        """``over / under``, divided round by round."""
        below = self.of(under)
        pairs = [(found, below[k]) for k, found in self.of(over).items() if k in below]
        return Spread.of([quantity(first) / quantity(second) for first, second in pairs])


def median_of(name: str) -> Quantity:
    """A number of a measurement, or the median of several."""

    def quantity(found: Found) -> float:
        value = found[name]
        return float(statistics.median(value) if isinstance(value, list) else value)

    return quantity


epoch_seconds = median_of("seconds")
peak_bytes = median_of("peak")
"""Peak memory above what was resident before the model was built."""


def run(benchmark: Benchmark, *, quick: bool, fresh: bool, rounds: int | None) -> Record:
    """Measure every case once a round, but for what is measured already."""
    path = (QUICK_RESULTS if quick else RESULTS) / f"{benchmark.name}.json"
    if fresh:
        path.unlink(missing_ok=True)
    count = rounds or (1 if quick else benchmark.rounds)
    cases, here = benchmark.cases(quick), describe()
    command = f"python -m benchmarks {benchmark.name} --rounds {count}"
    record = Record.load(path) if path.exists() else Record(command, here)
    if record.machine != here:
        raise SystemExit(
            f"{path.name} comes from another machine, other versions or another revision of the "
            "code: --fresh measures all of it again."
        )
    record.planned = len(cases) * count
    for number in range(count):
        for case in cases:
            if number not in record.of(case):
                record.of(case)[number] = in_process(benchmark, case)
                print(f"{benchmark.name} {number + 1}/{count}: {words(case)}", flush=True)
                if benchmark.check is not None:
                    benchmark.check(record)
                record.save(path)
    return record


def in_process(benchmark: Benchmark, case: Case, tree: Path = ROOT) -> Found:
    """Measure a case in a process of its own, with the sources of a tree."""
    needed, available = benchmark.memory(case), memory_available()
    if needed > available:
        raise SystemExit(
            f"{words(case)}: may need {needed / 2**30:.1f} GiB, and only "
            f"{available / 2**30:.1f} GiB are free: nothing was started."
        )
    tuning = ("MALLOC_", "GLIBC_TUNABLES", "THP_MEM_ALLOC")  # default malloc is to be default
    kept = {name: value for name, value in os.environ.items() if not name.startswith(tuning)}
    if case.get("malloc", "raised") == "raised":
        kept = tuned_environ(kept)  # as the command line does, which starts itself again
    kept |= {name: str(THREADS) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    kept["PYTHONPATH"] = str(tree / "src")
    command = [sys.executable, "-m", "benchmarks", "--worker", benchmark.name, json.dumps(case)]
    done = subprocess.run(command, cwd=tree, env=kept, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{done.stderr}{words(case)}: ended with code {done.returncode}.")
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(benchmark: Benchmark, revision: str, *, quick: bool, rounds: int | None) -> str:
    """Our cases with another revision and with this tree, in turns: a table of ratios.

    The other revision is checked out into a folder of its own, and measured by its own benchmark.
    """
    count = rounds or (1 if quick else benchmark.rounds)
    cases = [case for case in benchmark.cases(quick) if case.get("variant", "ours") == "ours"]
    record = Record("", {})
    with worktree(revision) as other:
        for number in range(count):
            for case in cases:
                for tree in (other, ROOT) if number % 2 else (ROOT, other):
                    found = in_process(benchmark, case, tree)
                    record.of({**case, "here": tree == ROOT})[number] = found
                print(f"{benchmark.name} {number + 1}/{count}: {words(case)}", flush=True)
    names = [name for name in COMPARED if any(name in found for found in record.everything)]
    differing = [key for key in cases[0] if len({str(case.get(key)) for case in cases}) > 1]
    rows = []
    for case in cases:
        here, there = ({**case, "here": side} for side in (True, False))
        ratios = [record.ratio(here, there, median_of(name)).text() for name in names]
        rows.append([words({key: case[key] for key in differing}), *ratios])
    heading = ["", *(f"{name} / that of {revision}" for name in names)]
    return join(f"### {benchmark.title}", markdown_table(heading, rows))


@contextmanager
def worktree(revision: str) -> Iterator[Path]:
    """A revision of this repository in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        tree, git = Path(folder) / "tree", ["git", "-C", str(ROOT), "worktree"]
        made = subprocess.run(
            [*git, "add", "--quiet", "--detach", str(tree), revision],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise SystemExit(f"--against {revision}: {made.stderr.strip()}")
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def words(case: Case) -> str:
    """A case as messages name it."""
    return ", ".join(f"{name} {value}" for name, value in case.items())


def section(benchmark: Benchmark, results: Path = RESULTS) -> str:
    """The part of the README; one that was not measured says how to."""
    path = results / f"{benchmark.name}.json"
    command = f"`python -m benchmarks {benchmark.name}`"
    if not path.exists():
        return join(f"### {benchmark.title}", f"Not measured yet: run {command}.")
    record = Record.load(path)
    if len(record.everything) < record.planned:
        done = f"{len(record.everything)} of {record.planned} measurements"
        return join(f"### {benchmark.title}", f"Unfinished, {done}: {command} resumes it.")
    rounds = max(len(of) for _, of in record.found)
    others = max((found.get("others", 0.0) for found in record.everything), default=0.0)
    revision = record.machine.get("tuneup")
    made = (
        f"`{record.command}`{f' at revision {revision}' if revision else ''}: median "
        f"(smallest-largest) over {rounds} round{'s' * (rounds > 1)}; other processes took at most "
        f"{others:.0%} of the machine."
    )
    return join(f"### {benchmark.title}", made, benchmark.report(record))


def goal(
    what: str, measured: Spread, bound: float, aim: float = 0.0, at_least: bool = False
) -> list[str]:
    """A line of a table of goals: the median must keep a bound, and may reach an aim."""

    def keeps(limit: float) -> bool:
        return measured.median >= limit if at_least else measured.median <= limit

    said = f"{'≥' if at_least else '≤'} {bound:g}" + (f", aim {aim:g}" if aim else "")
    verdict = "yes" if keeps(bound) else "**missed**"
    more = (", the aim too" if keeps(aim) else ", the aim not") if aim and keeps(bound) else ""
    return [what, measured.text(), said, verdict + more]


def goals(*rows: Sequence[str]) -> str:
    """The table of goals."""
    return markdown_table(GOAL_HEADING, rows)


def join(*blocks: str) -> str:
    """Paragraphs."""
    return "\n\n".join(filter(None, blocks))


def describe() -> dict[str, str]:
    """Processor, memory and versions; nothing that names the machine or its owner."""
    import torch
    import torch_geometric
    from torch_geometric import typing

    extensions = {"pyg-lib": typing.WITH_PYG_LIB, "torch-sparse": typing.WITH_TORCH_SPARSE}
    there = ", ".join(name for name, present in extensions.items() if present)
    return {
        "processor": _field("/proc/cpuinfo", "model name"),
        "cores": f"{os.cpu_count()} ({THREADS} threads used)",
        "memory": f"{_kilobytes('/proc/meminfo', 'MemTotal') / 2**30:.0f} GiB",
        "system": f"{platform.system()}, {' '.join(platform.libc_ver())}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": f"{torch_geometric.__version__}, "
        f"{f'with {there}' if there else 'without compiled extensions'}",
        "tuneup": source_revision() or version("tuneup-gnn"),
    }


def memory_available() -> int:
    """Bytes that new processes could use."""
    return _kilobytes("/proc/meminfo", "MemAvailable")


def peak_resident() -> int:
    """Most resident bytes since :func:`settle`."""
    return _kilobytes("/proc/self/status", "VmHWM")


def settle() -> int:
    """Hand freed memory back to the system, forget the peak, and return what is resident.

    Without this, a model would be built in the holes that reading the graph left, for free.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _kilobytes("/proc/self/status", "VmRSS")


@dataclass(frozen=True)
class Clock:
    """Processor time so far, of this process and of everything on the machine, in seconds."""

    wall: float
    own: float
    busy: float

    @classmethod
    def now(cls) -> Clock:
        """Read the clocks."""
        user, nice, system, _, _, irq, softirq, steal = map(
            int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
        )
        busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        return cls(time.perf_counter(), time.process_time(), busy)

    def others_until(self, end: Clock) -> float:
        """Share of all cores' time that other processes took until ``end``."""
        taken = (end.busy - self.busy) - (end.own - self.own)
        return max(0.0, taken / ((end.wall - self.wall) * (os.cpu_count() or 1)))


def _kilobytes(path: str, name: str) -> int:
    return int(_field(path, name).split()[0]) * 1024


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text(errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "0 kB" if name.startswith(("Vm", "Mem")) else "unknown"
