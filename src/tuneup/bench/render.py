"""Layouts of blocks as tables, and one renderer: terminal, Markdown and LaTeX.

CSV is :func:`~tuneup.bench.tables.long_table`, one row a cell, for scripts.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as RichTable

from tuneup.evaluation import MISSING
from tuneup.methods import in_order, title_of
from tuneup.report.table import markdown_table

from .conditions import conditions
from .tables import METRICS, Block, PaperBlock, row_label

GAIN_ROW = "TuneUp over Base, %"
PAPER_COLUMN = "paper, "
WORSE, BETTER = "\N{DAGGER}", "\N{DOUBLE DAGGER}"
LEGEND = (
    "Mean ± standard deviation over training seeds, in %; bold: the best of a column, of the rows "
    f"that have all seeds. {WORSE}: TuneUp is better, {BETTER}: the method is better than "
    "TuneUp, where the 95 % interval of the paired difference over nodes and seeds (over nodes "
    "alone where there is one seed) does not contain 0. Trials: trainings by whose validation a "
    "method's settings were chosen (points of its grid that they cover, of how many), 0 where "
    "there is nothing to choose; Base chooses what all rows share. One training that is read in "
    "several ways counts once for each."
)
PAIRED_LEGEND = (
    "TuneUp minus the method in points, with the 95 % interval of the paired difference over nodes "
    "and seeds, and the p-value of a sign-flip test over nodes."
)
_BOLD = "\0"
"""Before and after the text of a bold cell."""
_LATEX = str.maketrans(
    {
        WORSE: r"$^\dagger$",
        BETTER: r"$^\ddagger$",
        MISSING: "--",
        "±": r"$\pm$",
        "<": r"$<$",
        ">": r"$>$",
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{mark: rf"\{mark}" for mark in "%_&#${}"},
    }
)


@dataclass(frozen=True)
class Table:
    """A table in no format yet.

    Args:
        title: one line.
        heading: names of the columns.
        rows: cells as text; a bold one is wrapped by :func:`bold`.
        words: columns on the left that are words.
        above: what it was made under.
        below: how to read it.
    """

    title: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    above: str = ""
    below: str = ""


def bold(text: str) -> str:
    """A cell in bold."""
    return f"{_BOLD}{text}{_BOLD}"


def signed(share: float) -> str:
    """In %, with its sign, which is no minus for 0; missing where it is no number."""
    return MISSING if math.isnan(share) else f"{round(100 * share, 1) + 0.0:+.1f}"


def block_table(block: Block | PaperBlock, choices: bool = True) -> Table:
    """Methods by settings: ours, and the paper's numbers of the same cells.

    Args:
        block: ours, or the paper's alone.
        choices: whether what was chosen has columns; otherwise it is listed below.
    """
    if isinstance(block, PaperBlock):
        rows = _rows(block, block.settings)
        heading = [f"{block.metric}, %", *block.settings]
        return Table(f"The paper's {block.name}", heading, rows)
    paper = PaperBlock(block.task, block.dataset, block.architecture)
    columns = [name for name in block.settings if paper.score("base", name)]
    ours = _rows(block, block.settings)
    rows = [
        [
            first,
            *([block.chosen(method), block.tried(method)] if choices else []),
            *cells,
            *(_cell(paper, method, name) for name in columns),
        ]
        for (first, *cells), method in zip(ours, [*block.methods, GAIN_ROW], strict=False)
    ]
    heading = [f"{block.metric}, %", *(["chosen", "trials"] if choices else []), *block.settings]
    heading += [f"{PAPER_COLUMN}{name}" for name in columns]
    told = [f"{title_of(m)}: {block.chosen(m)}" for m in block.methods if block.chosen(m)]
    below = "" if choices or not told else f"Chosen on validation: {'; '.join(told)}."
    above = f"`{block.command}`. {conditions(block)}"
    return Table(block.name, heading, rows, 1 + choices, above, below)


def grid_tables(blocks: Sequence[Block], theirs: Sequence[PaperBlock]) -> Iterator[Table]:
    """A table of the paper as it stands there, one for each task: methods by graphs.

    Args:
        blocks: ours, all of one table.
        theirs: the paper's of that table.
    """
    every: list[Block | PaperBlock] = [*blocks, *theirs]
    for task in dict.fromkeys(block.task for block in every):
        mine = [block for block in every if block.task == task]
        graphs: dict[tuple[str, str], Block | PaperBlock] = {}
        for block in mine:  # those of other architectures have the same columns
            graphs.setdefault((block.whose, block.dataset), block)
        heading = [f"{METRICS[task]}, %"]
        for (whose, dataset), first in graphs.items():
            prefix = PAPER_COLUMN if whose == "paper" else ""
            heading += [f"{prefix}{dataset}, {name}" for name in first.settings]
        architectures = list(dict.fromkeys(block.architecture for block in mine))
        rows = []
        for architecture in architectures:
            own = {(b.whose, b.dataset): b for b in mine if b.architecture == architecture}
            methods = in_order({m for block in own.values() for m in block.methods})
            prefix = f"{architecture}: " if len(architectures) > 1 else ""
            for method in (*methods, GAIN_ROW):
                cells = [
                    _cell(own[key], method, name, _best(own[key])) if key in own else ""
                    for key, first in graphs.items()
                    for name in first.settings
                ]
                rows.append([f"{prefix}{title_of(method)}", *cells])
        yield Table(f"The paper's table, {task}", heading, rows)


def paired_table(block: Block) -> Table:
    """TuneUp minus every other method: points, interval and p-value."""
    rows = []
    for method in block.methods:
        if method != "tuneup" and method in block.runs:
            rows.append([row_label(block, method)])
            for setting in block.settings:
                gain = block.gain(method, "tuneup", setting)
                p_value = block.p_value(method, "tuneup", setting)
                rows[-1].append(f"{interval(gain)}, p {p_value:.3f}" if gain else MISSING)
    return Table(f"{block.name}: TuneUp minus", ["points", *block.settings], rows)


def interval(gain: object) -> str:
    """``+1.2 (+0.3, +2.1)`` in points."""
    found = [100 * getattr(gain, name) for name in ("absolute", "low", "high")]
    return "{:+.2f} ({:+.2f}, {:+.2f})".format(*found)


def _rows(block: Block | PaperBlock, settings: Sequence[str]) -> list[list[str]]:
    best = _best(block)
    rows = [
        [row_label(block, m), *(_cell(block, m, name, best) for name in settings)]
        for m in block.methods
    ]
    gains = [_cell(block, GAIN_ROW, name) for name in settings]
    return [*rows, [GAIN_ROW, *gains]] if any(text not in ("", MISSING) for text in gains) else rows


def _best(block: Block | PaperBlock) -> dict[str, float]:
    """The largest mean by setting, of the rows that have all seeds."""
    if isinstance(block, PaperBlock):
        return {}
    whole = [method for method in block.runs if not block.lacking(method)]
    found: dict[str, float] = {}
    for setting in block.settings:
        scores = [block.score(method, setting) for method in whole or block.runs]
        found[setting] = max((s.mean for s in scores if s), default=math.nan)
    return found


def _cell(
    block: Block | PaperBlock, method: str, setting: str, best: dict[str, float] | None = None
) -> str:
    if method == GAIN_ROW:
        gain = block.gain("base", "tuneup", setting)
        known = block.score("base", setting) and block.score("tuneup", setting)
        return signed(gain.relative) if gain else MISSING * bool(known)
    score = block.score(method, setting)
    if score is None:
        ours = isinstance(block, Block) and setting in block.settings
        return "not run" if ours and method in block.methods else ""
    if score.text:
        return score.text
    text = f"{100 * score.mean:.2f}"
    text += "" if math.isnan(score.std) else f" ± {100 * score.std:.2f}"
    if isinstance(block, PaperBlock):
        return text
    rival = block.gain(method, "tuneup", setting)
    text += WORSE * bool(rival and rival.low > 0) + BETTER * bool(rival and rival.high < 0)
    return bold(text) if best and score.mean == best.get(setting) else text


def markdown(table: Table, title: bool = True) -> str:
    """Below its title and what it was made under."""
    rows = [[cell.replace(_BOLD, "**") for cell in row] for row in table.rows]
    body = markdown_table(table.heading, rows, words=range(table.words))
    heading = f"### {table.title}" if title else ""
    return "\n\n".join(filter(None, [heading, table.above, body, table.below]))


def latex(table: Table) -> str:
    """In booktabs style, with what it was made under in its caption."""

    def safe(text: str) -> str:
        plain = text.replace(_BOLD, "").replace("`", "")
        written = plain.translate(_LATEX)
        return rf"\textbf{{{written}}}" if _BOLD in text else written

    caption = ". ".join(filter(None, [table.title, table.above, table.below]))
    columns = "l" * table.words + "r" * (len(table.heading) - table.words)
    lines = [" & ".join(map(safe, row)) + r" \\" for row in (table.heading, *table.rows)]
    top = [r"\begin{table}", rf"\caption{{{safe(caption)}}}", rf"\begin{{tabular}}{{{columns}}}"]
    body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    return "\n".join([*top, *body, r"\end{tabular}", r"\end{table}"])


def terminal(table: Table, console: Console) -> None:
    """In as many parts below each other as its columns need."""
    short = {"transductive": "transd.", "inductive": "induct.", " ± ": "±"}
    names = {"TuneUp w/o": "w/o"}
    texts = [[_replaced(cell, short) for cell in row] for row in (table.heading, *table.rows)]
    for row in texts:
        row[0] = _replaced(row[0], names)
    console.print(table.title, style="bold", highlight=False)
    for columns in _parts(texts, console.width):
        shown = RichTable(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        shown.add_column(texts[0][0], overflow="fold")
        for k in columns:
            shown.add_column(texts[0][k], justify="right", no_wrap=True)
        for row in texts[1:]:
            shown.add_row(*(_rich(row[k]) for k in (0, *columns)))
        console.print(shown)
    for words in filter(None, (table.below, table.above)):
        console.print(words.replace("`", ""), highlight=False, style="dim", markup=False)
    console.print()


def _parts(texts: Sequence[Sequence[str]], width: int) -> Iterator[list[int]]:
    """Columns that fit beside the first one."""
    widths = [max(len(t.replace(_BOLD, "")) for t in column) + 1 for column in zip(*texts)]  # noqa: B905
    room, part, used = width - min(widths[0], 24), list[int](), 0
    for k in range(1, len(widths)):
        if part and used + widths[k] > room:
            yield part
            part, used = [], 0
        part.append(k)
        used += widths[k]
    yield part


def _rich(text: str) -> str:
    plain = text.replace(_BOLD, "").replace("[", r"\[")
    return f"[bold]{plain}[/bold]" if _BOLD in text else plain


def _replaced(text: str, words: dict[str, str]) -> str:
    for long, short in words.items():
        text = text.replace(long, short)
    return text


def render(tables: Sequence[Table], form: str, legend: str = "", width: int | None = None) -> str:
    """Tables as "terminal", "markdown" or "latex" text.

    Args:
        tables: in their order.
        form: one of the three.
        legend: below all of them.
        width: of the terminal, if not that of the screen.
    """
    if form == "terminal":
        console = Console(width=width)
        wide = Console(file=io.StringIO(), width=console.width, force_terminal=console.is_terminal)
        for table in tables:
            terminal(table, wide)
        wide.print(legend, highlight=False)
        stream = wide.file
        assert isinstance(stream, io.StringIO)
        return stream.getvalue()
    write: Callable[[Table], str] = markdown if form == "markdown" else latex
    parts = [write(table) for table in tables]
    return "\n\n".join([*parts, *([legend] if legend and form == "markdown" else [])])
