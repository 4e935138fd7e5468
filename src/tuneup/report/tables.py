"""The comparison of methods with a base: one list of rows, printed by rich or as Markdown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tuneup.errors import InputError
from tuneup.evaluation import MISSING, TAIL_DEGREE, Gain, over_seeds, paired_gain, split_by_degree
from tuneup.metrics import NodeScores
from tuneup.report.labels import setting_label

LEVEL = 0.95
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


def comparison_rows(
    base: Mapping[str, Runs],
    others: Mapping[str, Mapping[str, Runs]],
    tail_degree: int = TAIL_DEGREE,
) -> list[ComparisonRow]:
    """Each setting of ``base`` in turn: overall, tail, head; in each of these, every method."""
    _check_settings(base, others)
    rows = []
    for setting, base_runs in base.items():
        of_base = _by_group(base_runs, tail_degree)
        of_others = {name: _by_group(runs[setting], tail_degree) for name, runs in others.items()}
        for group, before in of_base.items():
            for method, groups in of_others.items():
                after = groups[group]
                gain = (
                    paired_gain(before, after, LEVEL) if len(before[0]) and len(after[0]) else None
                )
                mean, score = (
                    over_seeds(run.mean() for run in runs).mean for runs in (before, after)
                )
                row = ComparisonRow(setting, group, len(before[0]), mean, method, score, gain)
                rows.append(row)
    return rows


def comparison_table(
    base: Mapping[str, Runs],
    others: Mapping[str, Mapping[str, Runs]],
    *,
    base_name: str = "Base",
    title: str | None = None,
    tail_degree: int = TAIL_DEGREE,
) -> Table:
    """A terminal table with three lines per setting: all its nodes, the tail, the head.

    Scores are in %, gains in points and in % of the base. With one method the table fits 60 columns
    (up to 999,999 nodes); several methods take a line each and need 80.

    Args:
        base: setting -> the base's scores.
        others: method -> setting -> its scores, on the same nodes.
        base_name: heading of the base's column.
        title: printed above the table.
        tail_degree: a tail node has at most this many edges in the setting's input graph.
    """
    rows = comparison_rows(base, others, tail_degree)
    table = Table(
        title=title,
        caption=_note(rows, base, base_name, tail_degree),
        caption_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=0,
    )
    for name, justify in _columns(base_name, list(others)):
        # In a narrow terminal names are folded before a digit is lost.
        table.add_column(name, justify=justify, no_wrap=justify == "right", overflow="fold")
    for index, row in enumerate(rows):
        if index and row.setting != rows[index - 1].setting:
            table.add_section()
        label = setting_label(row.setting) if row.group == "overall" else f"  {row.group}"
        cells = _cells(row, label, rows[index - 1] if index else None, several=len(others) > 1)
        styles = [
            "bold" if row.group == "overall" else "",
            *[""] * (len(cells) - 4),
            *[_style(row)] * 3,
        ]
        table.add_row(*(Text(cell, style) for cell, style in zip(cells, styles, strict=True)))
    return table


def comparison_markdown(
    base: Mapping[str, Runs],
    others: Mapping[str, Mapping[str, Runs]],
    *,
    base_name: str = "Base",
    tail_degree: int = TAIL_DEGREE,
) -> str:
    """The table of :func:`comparison_table` as GitHub Markdown, ending with a newline."""
    rows = comparison_rows(base, others, tail_degree)
    columns = _columns(base_name, list(others))
    lines = [
        [name for name, _ in columns],
        ["--:" if side == "right" else ":--" for _, side in columns],
    ]
    for index, row in enumerate(rows):
        label = f"{setting_label(row.setting)}, {'all' if row.group == 'overall' else row.group}"
        lines.append(
            _cells(row, label, rows[index - 1] if index else None, several=len(others) > 1)
        )
    escaped = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    table = "\n".join(f"| {' | '.join(line)} |" for line in escaped)
    return f"{table}\n\n{_note(rows, base, base_name, tail_degree)}\n"


def _runs(runs: Runs) -> tuple[NodeScores, ...]:
    return (runs,) if isinstance(runs, NodeScores) else tuple(runs)


def _by_group(runs: Runs, tail_degree: int) -> dict[str, list[NodeScores]]:
    split = [split_by_degree(run, tail_degree) for run in _runs(runs)]
    return {group: [each[group] for each in split] for group in ("overall", "tail", "head")}


def _check_settings(base: Mapping[str, Runs], others: Mapping[str, Mapping[str, Runs]]) -> None:
    if not base or not others:
        raise InputError("a comparison needs at least one setting of the base and one other method")
    for method, of_setting in others.items():
        missing = [setting for setting in base if setting not in of_setting]
        if missing:
            raise InputError(f"{method} has no scores for {', '.join(missing)}, which the base has")


def _columns(base_name: str, methods: list[str]) -> list[tuple[str, Literal["left", "right"]]]:
    """Heading and alignment of each column; a single method's name heads its scores."""
    scores = ["method", "score"] if len(methods) > 1 else methods
    names = ["", "nodes", base_name, *scores, "gain", "in %", f"{LEVEL:.0%} interval"]
    return [(name, "left" if name in ("", "method") else "right") for name in names]


def _cells(
    row: ComparisonRow, label: str, previous: ComparisonRow | None, *, several: bool
) -> list[str]:
    """The row's text, column by column; what the line above already says is left blank."""
    group = [label, f"{row.nodes:,}", _number(100 * row.base)]
    if previous and (previous.setting, previous.group) == (row.setting, row.group):
        group = [""] * len(group)
    scores = [row.method] * several + [_number(100 * row.score)]
    if row.gain is None:
        return [*group, *scores, MISSING, MISSING, MISSING]
    gain = row.gain
    ends = f"{_number(100 * gain.low)}, {_number(100 * gain.high)}"
    relative = _number(100 * gain.relative, "+", digits=1)
    return [*group, *scores, _number(100 * gain.absolute, "+"), relative, ends]


def _number(value: float, sign: str = "", digits: int = 2) -> str:
    return MISSING if math.isnan(value) else f"{value:{sign}.{digits}f}"


def _style(row: ComparisonRow) -> str:
    """Green or red only if the whole interval is on one side of zero."""
    if row.gain is None or row.gain.low <= 0 <= row.gain.high:
        return "dim"
    return "green" if row.gain.low > 0 else "red"


def _note(
    rows: list[ComparisonRow], base: Mapping[str, Runs], base_name: str, tail_degree: int
) -> str:
    metrics = sorted({run.metric for runs in base.values() for run in _runs(runs)})
    seeds = max((row.gain.seeds for row in rows if row.gain), default=1)
    over = "nodes" if seeds == 1 else f"nodes and {seeds} seeds"
    return (
        f"{', '.join(metrics)} in %; gain in points and in % of {base_name}, "
        f"interval of the points by paired bootstrap over {over}; "
        f"tail: degree 0-{tail_degree} in the setting's input graph"
    )
