"""A block of results in the terminal, as Markdown, LaTeX or CSV."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import polars as pl
from rich.console import Console
from rich.table import Table

from tuneup.evaluation import MISSING

from .conditions import conditions, title
from .gains import paper_gain, signed
from .paper import published_score
from .published import PaperBlock, paper_text
from .rows import Cell, Row
from .tables import Block

Format = Literal["terminal", "markdown", "latex", "csv"]

_BOLD = "\0"
"""Around what is set in bold, until all else is escaped."""
_SHORT = {"transductive": "transd.", "inductive": "induct."}
_SPREAD = re.compile(" ± ([0-9.]+)")
_ROOMY = 80
"""Columns of a terminal that deviations fit into."""

WORSE, BETTER = "\N{DAGGER}", "\N{DOUBLE DAGGER}"
LEGEND = (
    "Mean ± standard deviation over training seeds, in %; bold: the best of a column, of the rows "
    f"that have all seeds. {WORSE}: TuneUp is better, {BETTER}: the method is better than "
    "TuneUp, where the 95 % interval of the paired difference over nodes and seeds (over nodes "
    "alone where there is one seed) leaves 0 out. Trials: trainings that a method's "
    "settings were chosen by, on validation (points of its grid that they show, of how many), 0 "
    "where there is nothing to choose; Base chooses what all rows share."
)


def heading(block: Block) -> list[str]:
    """Of the columns."""
    paper = [f"paper, {name}" for name in block.settings if _has_paper(block, name)]
    return [f"{block.metric}, %", "chosen", "trials", *block.settings, *paper]


def lines(block: Block, bold: Callable[[str], str]) -> list[list[str]]:
    """One line a method, and TuneUp's relative gain over Base below them."""
    found = [_line(block, row, _best(block), bold) for row in block.rows]
    tuneup = next((row for row in block.rows if row.method == "tuneup" and row.cells), None)
    if tuneup is not None:
        gains = [tuneup.cells[name].over_base for name in block.settings]
        texts = [signed(gain.relative) if gain else MISSING for gain in gains]
        cell = (block.dataset, block.task, block.architecture)
        paper = [paper_gain(*cell, name) for name in block.settings if _has_paper(block, name)]
        found.append(["TuneUp over Base, %", "", "", *texts, *paper])
    return found


def _best(block: Block) -> dict[str, float]:
    """The largest mean by setting; one over fewer seeds cannot be compared with the others."""
    most = max(len(row.records) for row in block.rows)
    rows = [row for row in block.rows if len(row.records) >= min(most, block.seeds)]
    return {name: max(row.cells[name].score.mean for row in rows) for name in block.settings}


def _line(
    block: Block, row: Row, best: Mapping[str, float], bold: Callable[[str], str]
) -> list[str]:
    def text(name: str) -> str:
        if name not in row.cells:
            return "left out" if row.left_out else "not run"
        cell = row.cells[name]
        shown = _percent(cell)
        return bold(shown) if cell.score.mean == best[name] else shown

    cell = (block.dataset, block.task, block.architecture, row.method)
    published = [paper_text(*cell, name) for name in block.settings if _has_paper(block, name)]
    return [row.label, row.chosen, row.tried, *map(text, block.settings), *published]


def _percent(cell: Cell) -> str:
    mark = {"<": WORSE, ">": BETTER, "": ""}[cell.verdict]
    score = cell.score
    spread = f" ± {100 * score.std:.2f}" if score.seeds > 1 else ""
    return f"{100 * score.mean:.2f}{spread}{mark}"


def _has_paper(block: Block, setting: str) -> bool:
    cell = (block.dataset, block.task, block.architecture)
    return published_score(*cell, "base", setting) is not None


def page(blocks: Sequence[Block], theirs: Sequence[PaperBlock]) -> str:
    """Tables in Markdown, each below its title and what it was made under; then the paper's."""
    parts = [f"### {title(each)}\n\n{conditions(each)}\n\n{markdown(each)}" for each in blocks]
    return "\n\n".join([*parts, *map(paper_part, theirs), LEGEND])


def markdown(block: Block) -> str:
    """A table for a README."""
    rule = [":--", ":--", *["--:"] * (len(heading(block)) - 2)]
    return _piped([heading(block), rule, *lines(block, lambda text: f"**{text}**")])


def paper_part(block: PaperBlock) -> str:
    """The paper's table below its title, in Markdown."""
    rule = [":--", *["--:"] * len(block.settings)]
    return f"### {block.title}\n\n{_piped([block.heading, rule, *block.lines])}"


def _piped(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


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


def latex(block: Block | PaperBlock) -> str:
    """A table for a paper, in booktabs style, with what it was made under as its caption."""

    def bold(text: str) -> str:
        return f"{_BOLD}{text}{_BOLD}"

    def safe(text: str) -> str:
        plain = text.strip(_BOLD)
        written = plain.translate(_LATEX)
        return written if plain == text else rf"\textbf{{{written}}}"

    if isinstance(block, PaperBlock):
        caption, rows, left = block.title, [block.heading, *block.lines], 1
    else:
        caption = f"{title(block)}: {block.metric}, %. {conditions(block)} {LEGEND}"
        rows, left = [heading(block), *lines(block, bold)], 2
    columns = "l" * left + "r" * (len(rows[0]) - left)
    head, *body = [" & ".join(map(safe, row)) + r" \\" for row in rows]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{safe(caption)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def frame(blocks: Iterable[Block]) -> pl.DataFrame:
    """One row a cell, for whoever counts on."""
    rows = [
        {
            "dataset": block.dataset,
            "task": block.task,
            "architecture": block.architecture,
            "preset": block.preset,
            "method": row.method,
            "setting": name,
            "metric": block.metric,
            "mean": cell.score.mean,
            "std": cell.score.std,
            "seeds": cell.score.seeds,
            "trials": row.trials,
            "chosen": row.chosen,
            "paper_mean": cell.paper.mean if cell.paper else None,
            "paper_std": cell.paper.std if cell.paper else None,
            "gain_over_base": cell.over_base.absolute if cell.over_base else None,
            "gain_low": cell.over_base.low if cell.over_base else None,
            "gain_high": cell.over_base.high if cell.over_base else None,
            "tuneup_minus_this": cell.under_tuneup.absolute if cell.under_tuneup else None,
            "tuneup_minus_this_low": cell.under_tuneup.low if cell.under_tuneup else None,
            "tuneup_minus_this_high": cell.under_tuneup.high if cell.under_tuneup else None,
            # Of a sign-flip test over nodes: it takes the seeds that were run for all there are.
            "tuneup_minus_this_p_over_nodes": (
                cell.under_tuneup.p_value if cell.under_tuneup else None
            ),
            "deviation": row.deviation,
            "conditions": conditions(block),
        }
        for block in blocks
        for row in block.rows
        for name, cell in row.cells.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def csv(blocks: Iterable[Block]) -> str:
    """:func:`frame` as text."""
    buffer = io.StringIO()
    frame(blocks).write_csv(buffer)
    return buffer.getvalue()


def print_blocks(blocks: Sequence[Block], theirs: Sequence[PaperBlock], console: Console) -> None:
    """In the terminal; what was chosen is named below a table, and the paper's own come last.

    Where there are fewer than 80 columns, deviations over seeds are left to the other forms.
    """
    narrow = console.width < _ROOMY
    for block in blocks:
        rows = lines(block, lambda text: f"[bold]{text}[/bold]")
        shown = [[row[0], *row[3:]] for row in (heading(block), *rows)]
        console.print(f"{title(block)}: {block.metric}, %", style="italic", highlight=False)
        console.print(_terminal_table(shown, narrow))
        told = [
            f"{row.title}: {row.chosen}, trials {row.tried}"
            for row in block.rows
            if row.records and row.chosen
        ]
        if told:
            console.print(f"Chosen on validation: {'; '.join(told)}.", highlight=False)
        console.print(conditions(block), highlight=False)
        console.print(f"{block.command}\n", style="dim", highlight=False, soft_wrap=True)
    for other in theirs:
        console.print(f"{other.title}: {other.heading[0]}", style="italic", highlight=False)
        console.print(_terminal_table([other.heading, *other.lines], narrow), "")
    console.print(LEGEND, highlight=False)


def _terminal_table(rows: Sequence[Sequence[str]], narrow: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("method", overflow="fold")
    for name in rows[0][1:]:
        table.add_column(_SHORT.get(name, name), justify="right", no_wrap=True)
    for name, *cells in rows[1:]:
        spread = (_SPREAD.sub("" if narrow else r"±\1", text) for text in cells)
        table.add_row(name.replace("TuneUp w/o", "w/o"), *spread)
    return table
