"""Models side by side on all nodes, the tail and the head of each setting: rows and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    split_by_degree,
)
from tuneup.metrics import NodeScores

from .summary import BASE, RESULT, ClassSummary, RunSummary
from .table import Cell, Mark, Table, Whisker
from .words import GROUP_NAMES, GROUPS, capital, interval, percent, points, setting_words, signed

ISOLATED = "isolated"
"""The group of nodes without an edge in a setting's input graph."""

Runs = NodeScores | Sequence[NodeScores]
"""One run, or the runs of several training seeds in a fixed order."""


@dataclass(frozen=True)
class ComparisonRow:
    """One method against the base on one group of one setting's nodes.

    Attributes:
        setting: as in :class:`~tuneup.metrics.NodeScores`.
        group: ``"overall"``, ``"tail"`` or ``"head"``.
        nodes: number of nodes in the group.
        base: the base's mean score over nodes and seeds; NaN without nodes.
        method: name of the method.
        score: its mean score.
        gain: what it adds to the base; None without nodes.
    """

    setting: str
    group: str
    nodes: int
    base: float
    method: str
    score: float
    gain: Gain | None

    @property
    def has_interval(self) -> bool:
        """Resampling a single node says nothing about the spread."""
        return self.nodes > 1

    @property
    def mark(self) -> Mark:
        """``better`` or ``worse`` only if the whole interval is on one side of zero."""
        return "same" if self.gain is None else gain_mark(self.gain, self.nodes)


def gain_mark(gain: Gain, nodes: int) -> Mark:
    """How a gain is coloured."""
    if nodes < 2 or gain.low <= 0 <= gain.high:
        return "same"
    return "better" if gain.low > 0 else "worse"


def comparison_rows(
    base: Mapping[str, Runs],
    others: Mapping[str, Mapping[str, Runs]],
    tail_degree: int = TAIL_DEGREE,
) -> list[ComparisonRow]:
    """Each setting of ``base`` in turn: overall, tail, head; in each of these, every method."""
    if not base or not others:
        raise InputError("a comparison needs at least one setting of the base and one other method")
    for method, of_setting in others.items():
        missing = [setting for setting in base if setting not in of_setting]
        if missing:
            raise InputError(f"{method} has no scores for {', '.join(missing)}, which the base has")
    rows = []
    for setting, base_runs in base.items():
        of_base = _by_group(base_runs, tail_degree)
        of_others = {name: _by_group(runs[setting], tail_degree) for name, runs in others.items()}
        for group, before in of_base.items():
            for method, groups in of_others.items():
                after = groups[group]
                filled = len(before[0]) and len(after[0])
                gain = paired_gain(before, after, flips=None) if filled else None
                row = ComparisonRow(
                    setting, group, len(before[0]), mean_of(before), method, mean_of(after), gain
                )
                rows.append(row)
    return rows


def run_gains(run: RunSummary) -> list[ComparisonRow]:
    """Every method against the base, over the seeds that both have; empty without a base."""
    base, found = run.base, list[ComparisonRow]()
    for method in run.methods:
        if base is None or method is base:
            continue
        seeds = [seed for seed in base.seeds if seed in method.seeds]
        settings = [s for s in base.settings_scored if s in method.settings_scored]
        before, after = (
            {setting: own.scores(setting, seeds) for setting in settings} for own in (base, method)
        )
        if seeds and settings:
            found += comparison_rows(before, {method.name: after}, run.tail_degree)
    order = {place: k for k, place in enumerate((s, g) for s in run.settings for g in GROUPS)}
    return sorted(found, key=lambda row: order[row.setting, row.group])


def mean_of(runs: Sequence[NodeScores]) -> float:
    """Mean over seeds of the mean score."""
    return over_seeds(run.mean() for run in runs).mean


def _by_group(runs: Runs, tail_degree: int) -> dict[str, list[NodeScores]]:
    split = [split_by_degree(run, tail_degree) for run in as_runs(runs)]
    return {group: [each[group] for each in split] for group in GROUPS}


def group_label(setting: str, group: str, unit: str) -> Cell:
    """The first cell of a group's row."""
    if group == "overall":
        return Cell(setting_words(setting, unit), "setting")
    return Cell(GROUP_NAMES[group], "group")


def comparison_table(
    base: Mapping[str, Runs],
    others: Mapping[str, Mapping[str, Runs]],
    *,
    base_name: str = BASE,
    tail_degree: int = TAIL_DEGREE,
    unit: str = "nodes",
) -> Table:
    """A table with three lines per setting: all its nodes, the tail, the head.

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
    rows = comparison_rows(base, others, tail_degree)
    metrics = sorted({run.metric for runs in base.values() for run in as_runs(runs)})
    seeds = max((row.gain.seeds for row in rows if row.gain), default=1)
    over = unit if seeds == 1 else f"{unit} and {seeds} seeds"
    caption = (
        f"{', '.join(metrics)}; gain over {base_name} with its paired 95 % interval over {over}; "
        f"few links: at most {tail_degree} that the model is shown"
    )
    return gains_table(rows, caption, unit, base_name)


def gains_table(
    rows: Sequence[ComparisonRow], caption: str, unit: str = "nodes", base_name: str = BASE
) -> Table:
    """Settings by group: both scores, the gain, its interval, and in HTML a picture of it."""
    several = len({row.method for row in rows}) > 1
    span = max((max(abs(r.gain.low), abs(r.gain.high)) for r in rows if r.gain), default=0.0)
    head = ["", unit, base_name, *(["method", "score"] if several else [rows[0].method])]
    body: list[list[str | Cell]] = []
    pictures: list[Whisker | None] = []
    before: list[str] = []
    for row in rows:
        place = [row.setting, row.group, percent(row.base, 2)]
        cells: list[str | Cell] = [
            group_label(row.setting, row.group, unit),
            f"{row.nodes:,}",
            percent(row.base, 2),
        ]
        if place == before:  # the line above has them already
            cells = ["", "", ""]
        before = place
        cells += [row.method] * several + [percent(row.score, 2)]
        gain, drawn = row.gain, None
        if gain is not None and row.has_interval:
            label = f"{points(gain.absolute)}, interval {interval(gain)}"
            drawn = Whisker(gain.absolute, gain.low, gain.high, span, row.mark, label)
        cells.append(Cell(signed(100 * gain.absolute, 2), row.mark) if gain else MISSING)
        cells.append(interval(gain, 2) if gain and drawn else MISSING)
        body.append(cells)
        pictures.append(drawn)
    return Table(
        [*head, "gain, points", "95 % interval"],
        body,
        caption,
        (0, 3) if several else (0,),
        "scores several" if several else "scores",
        pictures,
    )


@dataclass(frozen=True)
class Standing:
    """All models of a fit beside the best simple model, on one group of one setting's nodes.

    Attributes:
        setting: as in :class:`~tuneup.metrics.NodeScores`.
        group: ``"overall"``, ``"isolated"``, ``"tail"`` or ``"head"``.
        nodes: number of nodes in the group.
        scores: mean score by model; None where it is undefined.
        gain: what the result adds to Base; None where that is not tested.
        floor: title of the simple model that is best here; empty where there is none.
        floor_score: its mean score; None where there is none.
    """

    setting: str
    group: str
    nodes: int
    scores: Mapping[str, float | None]
    gain: Gain | None = None
    floor: str = ""
    floor_score: float | None = None

    @property
    def lead(self) -> float:
        """What the result adds to the best simple model; NaN where either is undefined."""
        own = self.scores[RESULT]
        return math.nan if own is None or self.floor_score is None else own - self.floor_score


def standings(
    models: Mapping[str, Mapping[str, NodeScores]],
    floors: Mapping[str, Mapping[str, NodeScores]] | None = None,
    tail_degree: int = TAIL_DEGREE,
) -> list[Standing]:
    """Every group of every setting that has nodes, in the order of the settings.

    Args:
        models: name -> setting -> scores; Base and TuneUp must be among them.
        floors: title of a simple model -> setting -> scores, on the same nodes.
        tail_degree: a tail node has at most this many edges.
    """
    rows = []
    for setting in models[RESULT]:
        grouped, simple = (
            {
                name: degree_groups(own[setting], tail_degree)
                for name, own in named.items()
                if setting in own
            }
            for named in (models, floors or {})
        )
        for group in ("overall", ISOLATED, "tail", "head"):
            mine = grouped[RESULT].get(group)
            if mine is None or not len(mine):
                continue
            best = max(simple, key=lambda title: simple[title][group].mean(), default="")
            if best:
                check_paired([simple[best][group]], [mine])
            rows.append(
                Standing(
                    setting,
                    group,
                    len(mine),
                    {name: found[group].mean() for name, found in grouped.items()},
                    paired_gain(grouped[BASE][group], mine, flips=None),
                    best,
                    simple[best][group].mean() if best else None,
                )
            )
    return rows


def class_standings(summary: ClassSummary) -> list[Standing]:
    """The same rows of the metric that a classifier was selected by, without tests of the gain."""
    rows = []
    for setting, groups in summary.models[RESULT].items():
        for group, found in groups.items():
            if found.nodes:
                floor = summary.best_floor(setting, group)
                rows.append(
                    Standing(
                        setting,
                        group,
                        found.nodes,
                        {name: summary.score(name, setting, group) for name in summary.models},
                        floor=floor or "",
                        floor_score=summary.score(floor, setting, group) if floor else None,
                    )
                )
    return rows


def standings_table(
    rows: Sequence[Standing], metric: str, unit: str = "nodes", *, page: bool = False
) -> Table:
    """Every model of a fit beside the best simple model, group by group.

    Args:
        rows: of :func:`standings` or :func:`class_standings`.
        metric: in words.
        unit: what was scored, in the plural.
        page: for the page: scores with their per cent signs and the names of simple models, and no
            gains, which have a table of their own there.
    """
    simple = any(row.floor for row in rows)
    gains = not page and any(row.gain for row in rows)
    body: list[list[str | Cell]] = []
    for row in rows:
        scores = row.scores.values()
        cells: list[str | Cell] = [group_label(row.setting, row.group, unit), f"{row.nodes:,}"]
        cells += map(percent if page else _in_percent, scores)
        if gains:
            assert row.gain is not None
            cells.append(Cell(signed(100 * row.gain.absolute, 1), gain_mark(row.gain, row.nodes)))
        if simple:
            mark: Mark = "worse" if row.lead < 0 else ""
            score = percent(row.floor_score) if page else _in_percent(row.floor_score)
            cells.append(Cell(score, mark, note=row.floor if page else ""))
        body.append(cells)
    last = (["gain"] if gains else []) + ["best simple model" if page else "simple"] * simple
    caption = f"{capital(metric)} of every model"
    if not page:
        best = dict.fromkeys(row.floor for row in rows if row.floor and row.group == "overall")
        caption = f"{metric} in %" + f"; gain of {RESULT} over {BASE} in points" * gains
        caption += f"; simple: the best of the simple models ({', '.join(best)})" * bool(best)
    head = ["", unit, *rows[0].scores, *last]
    return Table(head, body, caption, classes="scores standings")


def _in_percent(value: float | None) -> str:
    return MISSING if value is None or math.isnan(value) else f"{100 * value:.1f}"
