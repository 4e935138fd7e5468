"""Each part's results as Markdown: what was measured, and every goal, reached or missed."""

from __future__ import annotations

from dataclasses import dataclass

from tuneup.report.table import markdown_table

from .case import DENSE, Case, Measurement
from .records import LOSS_TOLERANCE, Record, Spread, epoch_seconds, peak_bytes

MIB = 2.0**-20
NAMES = {
    "ours": "tuneup",
    "pyg-edge-index": "PyG on `edge_index`",
    "pyg-adj-t": "PyG on `adj_t`",
    "bare-products": "bare matrix products",
}
GOAL_HEADING = ("goal", "measured", "bound", "reached")


@dataclass(frozen=True)
class Goal:
    """A bound that a median has to keep, and perhaps a further one to aim at."""

    bound: float
    aim: float | None = None
    at_least: bool = False

    def row(self, what: str, measured: Spread) -> list[str]:
        """The line of a goal."""
        sign = "≥" if self.at_least else "≤"
        bound = f"{sign} {self.bound:g}" + (f", aim {self.aim:g}" if self.aim else "")
        return [what, measured.text(), bound, self._verdict(measured.median)]

    def _verdict(self, value: float) -> str:
        if not self._keeps(value, self.bound):
            return "**missed**"
        if self.aim is None:
            return "yes"
        return "yes, the aim too" if self._keeps(value, self.aim) else "yes, the aim not"

    def _keeps(self, value: float, bound: float) -> bool:
        return value >= bound if self.at_least else value <= bound


def named(case: Case) -> str:
    """A variant with its malloc."""
    as_used = ", as used" if (case.variant, case.malloc) == ("ours", "raised") else ""
    return f"{NAMES[case.variant]}, {case.malloc} malloc{as_used}"


def find(record: Record, variant: str, malloc: str, profile: bool = False) -> Case:
    """The case of a variant and a malloc."""
    wanted = (variant, malloc, profile)
    return next(
        case for case in record.rounds if (case.variant, case.malloc, case.profile) == wanted
    )


def compared(record: Record) -> str:
    """SAGE or GCN: times, memory, goals, and how far from the limit."""
    ours = find(record, "ours", "raised")
    rows = []
    for variant, goal in (
        ("pyg-edge-index", Goal(6, 8, at_least=True)),
        ("pyg-adj-t", Goal(2.5, 3.5, at_least=True)),
    ):
        for malloc in ("default", "raised"):
            other = find(record, variant, malloc)
            what = f"epoch: {named(other)} / tuneup"
            rows.append(goal.row(what, record.ratio(other, ours, epoch_seconds)))
    rows += memory_goals(record, "pyg-adj-t", 1.0) + memory_goals(record, "pyg-edge-index", 0.5)
    return join(
        variants(record), markdown_table(GOAL_HEADING, [*rows, loss_row(record)]), limit(record)
    )


def attention(record: Record) -> str:
    """GAT: memory and its goal."""
    rows = memory_goals(record, "pyg-edge-index", 0.25)
    return join(variants(record), markdown_table(GOAL_HEADING, [*rows, loss_row(record)]))


def memory_goals(record: Record, variant: str, bound: float) -> list[list[str]]:
    """Our memory over that of a PyG variant: each malloc by itself, and as used against default."""
    others = {case.malloc: case for case in record.rounds if case.variant == variant}
    rows = []
    for our_malloc, malloc in (("default",) * 2, ("raised",) * 2, ("raised", "default")):
        if malloc in others:
            ours, other = find(record, "ours", our_malloc), others[malloc]
            what = f"memory: {named(ours)} / {named(other)}"
            rows.append(Goal(bound).row(what, record.ratio(ours, other, peak_bytes)))
    return rows


def variants(record: Record) -> str:
    """Time and memory of every case."""

    def first(measurement: Measurement) -> float:
        return measurement.first

    rows = [
        [
            named(case),
            record.spread(case, epoch_seconds).text(),
            record.spread(case, first).text(),
            record.spread(case, peak_bytes).text(0, MIB),
        ]
        for case in record.rounds
        if not case.profile
    ]
    heading = ("", "epoch, s", "first epoch, s", "peak memory, MiB")
    return markdown_table(heading, rows)


def loss_row(record: Record) -> list[str]:
    """Whether everyone computed the same thing."""
    gap = record.loss_gap(list(record.rounds))
    verdict = "yes" if gap <= LOSS_TOLERANCE else "**missed**"
    return ["largest difference of two losses", f"{gap:.1e}", f"≤ {LOSS_TOLERANCE:g}", verdict]


def limit(record: Record) -> str:
    """How much of our epoch no sparse trick can remove."""
    case = find(record, "ours", "raised", profile=True)

    def dense_share(measurement: Measurement) -> float:
        return measurement.dense_share

    share = record.spread(case, dense_share).text(0, 100.0)
    profiled = next(iter(record.rounds[case].values())).operators
    top = [f"`{name}` {seconds:.2f} s" for name, seconds in list(profiled.items())[:6]]
    names = ", ".join(f"`{name}`" for name in DENSE)
    return (
        f"Distance to the limit: dense matrix products ({names}) take {share} % of tuneup's epoch "
        f"under torch's profiler. The first round's largest operators, self time an epoch: "
        f"{', '.join(top)}."
    )


def second_stage(record: Record) -> str:
    """An epoch on half of the edges, dropping included, over one on all of them."""
    whole, dropped = record.rounds
    names = {whole: "whole graph", dropped: "alpha 0.5, dropping included"}
    rows = [
        [
            name,
            record.spread(case, epoch_seconds).text(),
            record.spread(case, peak_bytes).text(0, MIB),
        ]
        for case, name in names.items()
    ]
    ratio = record.ratio(dropped, whole, epoch_seconds)
    goal = Goal(1.0).row("epoch: alpha 0.5 / whole graph", ratio)
    heading = ("all nodes supervised", "epoch, s", "peak memory, MiB")
    return join(markdown_table(heading, rows), markdown_table(GOAL_HEADING, [goal]))


def recommendation(record: Record) -> str:
    """An epoch of recommendation against the same model written naively."""
    ours = find(record, "ours", "raised")
    rows = []
    for malloc in ("default", "raised"):
        naive = find(record, "pyg-edge-index", malloc)
        what = f"epoch: {named(naive)} / tuneup"
        rows.append(Goal(3.0, at_least=True).row(what, record.ratio(naive, ours, epoch_seconds)))
    return join(variants(record), markdown_table(GOAL_HEADING, [*rows, loss_row(record)]))


def ranking(record: Record) -> str:
    """The exact ranking against the products it cannot do without."""
    ours, bare = record.rounds
    rows = [
        Goal(2.5).row("ranking: tuneup / bare products", record.ratio(ours, bare, epoch_seconds)),
        Goal(1000.0).row(
            "memory above the embeddings, MB",
            Spread.of([peak_bytes(found) / 1e6 for found in record.rounds[ours].values()]),
        ),
    ]
    return join(variants(record), markdown_table(GOAL_HEADING, rows))


def join(*blocks: str) -> str:
    """Paragraphs."""
    return "\n\n".join(blocks)


def unmeasured(command: str, tables: str) -> str:
    """What stands where a table will be, once ``command`` and then ``tables`` were run."""
    return f"Not measured yet: run `python -m {command}`, then `python -m {tables}`."
