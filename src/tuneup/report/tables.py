"""The comparison of methods with a base, printed by rich or as Markdown."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tuneup.evaluation import MISSING, TAIL_DEGREE, Gain
from tuneup.evaluation.pairing import as_runs
from tuneup.report.classes import ClassSummary
from tuneup.report.comparison import LEVEL, ComparisonRow, Runs, comparison_rows
from tuneup.report.labels import GROUP_NAMES, GROUPS, interval_digits, setting_label, setting_words
from tuneup.report.standings import BASE, RESULT, Standing
from tuneup.report.table import markdown_table


def comparison_table(
    base: Mapping[str, Runs],
    others: Mapping[str, Mapping[str, Runs]],
    *,
    base_name: str = "Base",
    title: str | None = None,
    tail_degree: int = TAIL_DEGREE,
    unit: str = "nodes",
    plain: bool = False,
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
        unit: what was scored, in the plural: "users", for instance.
        plain: say "known nodes" and "few links", as reports do, not "transductive" and "tail".
    """
    rows = comparison_rows(base, others, tail_degree)
    table = Table(
        title=title,
        caption=_note(rows, base, base_name, tail_degree, unit, plain),
        caption_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=0,
    )
    for name, justify in _columns(base_name, list(others), unit):
        # In a narrow terminal names are folded before a digit is lost.
        table.add_column(name, justify=justify, no_wrap=justify == "right", overflow="fold")
    for index, row in enumerate(rows):
        if index and row.setting != rows[index - 1].setting:
            table.add_section()
        cold, group = setting_label(row.setting), row.group
        if plain:
            cold, group = setting_words(row.setting, unit), GROUPS[row.group]
        label = cold if row.group == "overall" else f"  {group}"
        cells = _cells(row, label, rows[index - 1] if index else None, several=len(others) > 1)
        styles = [
            "bold" if row.group == "overall" else "",
            *[""] * (len(cells) - 4),
            *[_style(row)] * 3,
        ]
        table.add_row(*(Text(cell, style) for cell, style in zip(cells, styles, strict=True)))
    return table


def standings_table(rows: Sequence[Standing], metric: str, unit: str = "nodes") -> Table:
    """Every model of a fit beside the best simple one, group by group; scores in %.

    The gain is the result's over Base, in points: green or red where its interval leaves out zero.
    """
    models = list(rows[0].scores)
    simple = any(row.floor for row in rows)
    heads = ["", unit, *models, "gain", *(["simple"] if simple else [])]
    table = Table(
        caption=_standings_note(rows, metric),
        caption_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for head in heads:
        table.add_column(head, justify="right" if head else "left", no_wrap=bool(head))
    for index, row in enumerate(rows):
        if index and row.setting != rows[index - 1].setting:
            table.add_section()
        whole = row.group == "overall"
        label = setting_words(row.setting, unit) if whole else f"  {GROUP_NAMES[row.group]}"
        scores = [_number(100 * row.scores[name], digits=1) for name in models]
        gain = _number(100 * row.gain.absolute, "+", digits=1)
        floor = row.floor_score
        last = [MISSING if floor is None else _number(100 * floor, digits=1)] if simple else []
        below = floor is not None and row.result < floor
        bold = "bold" if whole else ""
        cells = [
            Text(label, bold),
            *(Text(cell, bold) for cell in (f"{row.nodes:,}", *scores)),
            Text(gain, _gain_style(row.gain, row.nodes)),
            *(Text(cell, "red" if below else "") for cell in last),
        ]
        table.add_row(*cells)
    return table


def measures_table(summary: ClassSummary, unit: str = "nodes") -> Table:
    """The metric of every model of a fit beside the best simple one, group by group; in %."""
    heads = ["", unit, *summary.models, *(["simple"] if summary.floors else [])]
    best = [summary.best_floor(setting) for setting in summary.result]
    named = ", ".join(dict.fromkeys(name for name in best if name))
    simple = f"; simple: the best of the simple models ({named})" if named else ""
    table = Table(
        caption=f"{summary.score_words} in %{simple}",
        caption_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for head in heads:
        table.add_column(head, justify="right" if head else "left", no_wrap=bool(head))
    for index, (setting, groups) in enumerate(summary.models[RESULT].items()):
        if index:
            table.add_section()
        for group, found in groups.items():
            if not found.nodes:
                continue
            whole = group == "overall"
            label = setting_words(setting, unit) if whole else f"  {GROUP_NAMES[group]}"
            names = [*summary.models]
            if summary.floors:
                names.append(summary.best_floor(setting, group) or names[-1])
            scores = [summary.score(name, setting, group) for name in names]
            cells = [MISSING if score is None else f"{100 * score:.1f}" for score in scores]
            table.add_row(label, f"{found.nodes:,}", *cells, style="bold" if whole else "")
    return table


def _standings_note(rows: Sequence[Standing], metric: str) -> str:
    best = dict.fromkeys(row.floor for row in rows if row.floor and row.group == "overall")
    simple = f"; simple: the best of the simple models ({', '.join(best)})" if best else ""
    return f"{metric} in %; gain of {RESULT} over {BASE} in points{simple}"


def _gain_style(gain: Gain, nodes: int) -> str:
    """Green or red only if the whole interval is on one side of zero."""
    if nodes < 2 or gain.low <= 0 <= gain.high:
        return "dim"
    return "green" if gain.low > 0 else "red"


def comparison_markdown(
    base: Mapping[str, Runs],
    others: Mapping[str, Mapping[str, Runs]],
    *,
    base_name: str = "Base",
    tail_degree: int = TAIL_DEGREE,
    unit: str = "nodes",
) -> str:
    """The table of :func:`comparison_table` as GitHub Markdown, ending with a newline."""
    rows = comparison_rows(base, others, tail_degree)
    columns = _columns(base_name, list(others), unit)
    lines = []
    for index, row in enumerate(rows):
        label = f"{setting_label(row.setting)}, {'all' if row.group == 'overall' else row.group}"
        lines.append(
            _cells(row, label, rows[index - 1] if index else None, several=len(others) > 1)
        )
    words = [column for column, (_, side) in enumerate(columns) if side == "left"]
    table = markdown_table([name for name, _ in columns], lines, words)
    return f"{table}\n\n{_note(rows, base, base_name, tail_degree, unit)}\n"


def _columns(
    base_name: str, methods: list[str], unit: str
) -> list[tuple[str, Literal["left", "right"]]]:
    """Heading and alignment of each column; a single method's name heads its scores."""
    scores = ["method", "score"] if len(methods) > 1 else methods
    names = ["", unit, base_name, *scores, "gain", "in %", f"{LEVEL:.0%} interval"]
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
    digits = interval_digits(100 * gain.low, 100 * gain.high, 2)
    low, high = (_number(100 * end, digits=digits) for end in (gain.low, gain.high))
    ends = f"{low}, {high}" if row.has_interval else MISSING
    relative = _number(100 * gain.relative, "+", digits=1)
    return [*group, *scores, _number(100 * gain.absolute, "+"), relative, ends]


def _number(value: float, sign: str = "", digits: int = 2) -> str:
    return MISSING if math.isnan(value) else f"{value:{sign}.{digits}f}"


def _style(row: ComparisonRow) -> str:
    """Green or red only if the whole interval is on one side of zero."""
    return "dim" if row.gain is None else _gain_style(row.gain, row.nodes)


def _note(
    rows: list[ComparisonRow],
    base: Mapping[str, Runs],
    base_name: str,
    tail_degree: int,
    unit: str,
    plain: bool = False,
) -> str:
    metrics = sorted({run.metric for runs in base.values() for run in as_runs(runs)})
    seeds = max((row.gain.seeds for row in rows if row.gain), default=1)
    over = unit if seeds == 1 else f"{unit} and {seeds} seeds"
    return (
        f"{', '.join(metrics)} in %; gain in points and in % of {base_name}, "
        f"95 % interval of the points, paired, over {over}; "
        + (
            f"few links: at most {tail_degree} that the model is shown"
            if plain
            else f"tail: degree 0-{tail_degree} in the setting's input graph"
        )
    )
