"""Models side by side on all nodes, and on those with no, few and many links: rows and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tuneup.errors import InputError
from tuneup.evaluation import (
    MISSING,
    TAIL_DEGREE,
    Gain,
    as_runs,
    check_paired,
    degree_groups,
    over_seeds,
    paired_gain,
)
from tuneup.metrics import NodeScores

from .table import (
    Cell,
    Mark,
    Table,
    Whisker,
    capital,
    group_label,
    interval,
    percent,
    points,
    signed,
)

BASE, STAGE_2, RESULT, CONTROL = "Base", "Stage 2", "Result", "Base, longer"
"""Titles of a fit's models.  The result is selected: Base, stage 2 or an average of both."""

MODEL_TITLES = {"base": BASE, "stage-2": STAGE_2, "tuneup": RESULT, "control": CONTROL}
"""The same by their names in files, in the order of tables."""

GROUPS = ("overall", "isolated", "tail", "head")
"""Groups of nodes by degree; the nodes without an edge are in the tail, too."""

Runs = NodeScores | Sequence[NodeScores]
"""One run, or the runs of several training seeds in a fixed order."""

Models = Mapping[str, Mapping[str, Mapping[int, NodeScores]]]
"""Scores by model, setting and training seed."""


@dataclass(frozen=True)
class Row:
    """All models on one group of one setting's nodes.

    Attributes:
        setting: as in :class:`~tuneup.metrics.NodeScores`.
        group: one of :data:`GROUPS`.
        nodes: number of nodes in the group.
        scores: mean score by model, over nodes and seeds; None where it is undefined.
        gains: by model, what it adds to the base over the seeds that both have.
        floor: title of the simple model that is best here; empty where there is none.
        floor_score: its mean score.
    """

    setting: str
    group: str
    nodes: int
    scores: Mapping[str, float | None]
    gains: Mapping[str, Gain] = field(default_factory=dict)
    floor: str = ""
    floor_score: float | None = None

    def score(self, model: str) -> float:
        """NaN where it is undefined."""
        found = self.scores.get(model)
        return math.nan if found is None else found

    def before(self, model: str) -> float:
        """The base's score over the seeds that it shares with the model."""
        gain = self.gains.get(model)
        return self.score(BASE) if gain is None else self.score(model) - gain.absolute

    def mark(self, model: str) -> Mark:
        """``better`` or ``worse`` only if the gain's whole interval is on one side of zero."""
        return gain_mark(self.gains.get(model))

    @property
    def lead(self) -> float:
        """What the result adds to the best simple model; NaN where either is undefined."""
        return math.nan if self.floor_score is None else self.score(RESULT) - self.floor_score


def gain_mark(gain: Gain | None) -> Mark:
    """How a gain is coloured; one node says nothing about the spread."""
    if gain is None or gain.nodes < 2 or gain.low <= 0 <= gain.high:
        return "same"
    return "better" if gain.low > 0 else "worse"


def score_rows(
    models: Models,
    floors: Mapping[str, Mapping[str, NodeScores]] | None = None,
    tail_degree: int = TAIL_DEGREE,
    base: str = BASE,
) -> list[Row]:
    """Every group of every setting that has nodes, in the order of the settings.

    Args:
        models: name -> setting -> training seed -> scores.
        floors: title of a simple model -> setting -> scores, on the same nodes.
        tail_degree: a tail node has at most this many edges.
        base: name of the model that the others are compared with.
    """
    rows = []
    for setting in dict.fromkeys(setting for own in models.values() for setting in own):
        grouped = {
            name: {seed: degree_groups(run, tail_degree) for seed, run in own[setting].items()}
            for name, own in models.items()
            if setting in own
        }
        simple = {
            title: degree_groups(own[setting], tail_degree)
            for title, own in (floors or {}).items()
            if setting in own
        }
        for group in GROUPS:
            of_group = {
                name: {seed: parts[group] for seed, parts in own.items() if parts.get(group)}
                for name, own in grouped.items()
            }
            found = {name: runs for name, runs in of_group.items() if runs}
            if found:
                of_simple = {title: parts[group] for title, parts in simple.items()}
                rows.append(_row(setting, group, found, of_simple, base))
    return rows


def _row(
    setting: str,
    group: str,
    models: Mapping[str, Mapping[int, NodeScores]],
    floors: Mapping[str, NodeScores],
    base: str,
) -> Row:
    before, scores, gains = models.get(base, {}), {}, {}
    for name, runs in models.items():
        common = [seed for seed in before if seed in runs]
        compared = bool(common) and name != base
        after = [runs[seed] for seed in (common if compared else runs)]
        scores[name] = mean_of(after)
        if compared:
            gains[name] = paired_gain([before[seed] for seed in common], after, flips=None)
    last = after[0]
    best = max(floors, key=lambda title: floors[title].mean(), default="")
    if not best:
        return Row(setting, group, len(last), scores, gains)
    check_paired([floors[best]], [last])
    return Row(setting, group, len(last), scores, gains, best, floors[best].mean())


def mean_of(runs: Iterable[NodeScores]) -> float:
    """Mean over seeds of the mean score."""
    return over_seeds(run.mean() for run in runs).mean


def comparison_table(
    base: Mapping[str, Runs],
    others: Mapping[str, Mapping[str, Runs]],
    *,
    base_name: str = BASE,
    tail_degree: int = TAIL_DEGREE,
    unit: str = "nodes",
) -> Table:
    """A table with a line for each setting and group of nodes, and in these for each method.

    Args:
        base: setting -> the base's scores.
        others: method -> setting -> its scores, on the same nodes.
        base_name: heading of the base's column.
        tail_degree: a tail node has at most this many edges in the setting's input graph.
        unit: what was scored, in the plural: "users", for instance.

    Example:
        >>> table = comparison_table(base, {"TuneUp": other})  # doctest: +SKIP
        >>> rich.print(table)  # doctest: +SKIP
        >>> Path("table.md").write_text(table.markdown())  # doctest: +SKIP
    """
    if not base or not others:
        raise InputError("a comparison needs at least one setting of the base and one other method")
    for method, own in others.items():
        missing = [setting for setting in base if setting not in own]
        if missing:
            raise InputError(f"{method} has no scores for {', '.join(missing)}, which the base has")
    models = {
        name: {setting: dict(enumerate(as_runs(own[setting]))) for setting in base}
        for name, own in {"": base, **others}.items()
    }
    for method, of_method in models.items():
        for setting, runs in of_method.items():
            if len(runs) != len(models[""][setting]):
                raise InputError(
                    f"a comparison needs the same seeds of both: in {setting} {method} has "
                    f"{len(runs)} and the base {len(models[''][setting])}"
                )
    rows = score_rows(models, tail_degree=tail_degree, base="")
    metrics = sorted({run.metric for runs in base.values() for run in as_runs(runs)})
    seeds = max(map(len, models[""].values()))
    over = unit if seeds == 1 else f"{unit} and {seeds} seeds"
    caption = (
        f"{', '.join(metrics)}; gain over {base_name} with its paired 95 % interval over {over}"
    )
    return gains_table(rows, [*others], caption, unit, tail_degree, base_name)


def gains_table(
    rows: Sequence[Row],
    methods: Sequence[str],
    caption: str,
    unit: str = "nodes",
    tail_degree: int = TAIL_DEGREE,
    base_name: str = BASE,
) -> Table:
    """Settings by group: both scores, the gain, its interval, and in HTML a picture of it."""
    several = len(methods) > 1
    gains = [row.gains[name] for row in rows for name in methods if name in row.gains]
    span = max((max(abs(gain.low), abs(gain.high)) for gain in gains), default=0.0)
    body: list[list[str | Cell]] = []
    pictures: list[Whisker | None] = []
    for row in rows:
        before = ""
        for name in methods:
            if name not in row.gains:
                continue
            gain, mark, base = row.gains[name], row.mark(name), percent(row.before(name), 2)
            cells: list[str | Cell] = ["", "", ""]  # the line above may have them already
            if base != before:
                label = group_label(row.setting, row.group, unit, tail_degree)
                cells = [label, f"{row.nodes:,}", base]
            before = base
            cells += [name] * several
            cells += [percent(row.score(name), 2), Cell(signed(100 * gain.absolute, 2), mark)]
            drawn = None
            if gain.nodes > 1:
                said = f"{points(gain.absolute)}, interval {interval(gain)}"
                drawn = Whisker(gain.absolute, gain.low, gain.high, span, mark, said)
            body.append([*cells, interval(gain, 2) if drawn else MISSING])
            pictures.append(drawn)
    head = ["", unit, base_name, *(["method", "score"] if several else methods)]
    return Table(
        [*head, "gain, points", "95 % interval"],
        body,
        caption,
        (0, 3) if several else (0,),
        "scores several" if several else "scores",
        pictures,
    )


def models_table(
    rows: Sequence[Row], measure: str, unit: str = "nodes", tail_degree: int = TAIL_DEGREE
) -> Table:
    """Every model of a fit beside the best simple model, group by group.

    Args:
        rows: of a :class:`~tuneup.report.RunSummary`.
        measure: what the scores are, in words.
        unit: what was scored, in the plural.
        tail_degree: a tail node has at most this many edges.
    """
    simple = any(row.floor for row in rows)
    gains = any(RESULT in row.gains for row in rows)
    body: list[list[str | Cell]] = []
    for row in rows:
        scores = [percent(score, unit="") for score in row.scores.values()]
        cells: list[str | Cell] = [group_label(row.setting, row.group, unit, tail_degree)]
        cells += [f"{row.nodes:,}", *scores]
        if gains:
            gain = row.gains.get(RESULT)
            added = Cell(signed(100 * gain.absolute, 1), row.mark(RESULT)) if gain else MISSING
            cells.append(added)
        if simple:
            mark: Mark = "worse" if row.lead < 0 else ""
            cells.append(Cell(percent(row.floor_score, unit=""), mark, row.floor))
        body.append(cells)
    best = dict.fromkeys(row.floor for row in rows if row.floor and row.group == "overall")
    caption = f"{capital(measure)} in %"
    caption += f"; gain: {RESULT} minus {BASE} in points" * gains
    caption += f"; simple: the best simple model ({', '.join(best)})" * simple
    models = rows[0].scores if rows else ()
    head = ["", unit, *models, *["gain"] * gains, *["simple"] * simple]
    return Table(head, body, caption, classes="scores models")
