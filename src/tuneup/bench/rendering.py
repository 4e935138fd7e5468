"""A block of results as Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tuneup.evaluation import MISSING
from tuneup.report.table import markdown_table

from .conditions import conditions
from .gains import GAIN_ROW, paper_gain, signed
from .paper import published_score
from .published import PaperBlock, paper_text
from .rows import Cell, Row
from .tables import Block

PAPER_COLUMN = "paper, "
_BOLD = "\0"
"""Around what is set in bold, until all else is escaped."""

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
    """The names of the columns: the metric, choices, trials, our settings, the paper's."""
    paper = [f"{PAPER_COLUMN}{name}" for name in block.settings if has_paper(block, name)]
    return [f"{block.metric}, %", "chosen", "trials", *block.settings, *paper]


def lines(block: Block, bold: Callable[[str], str]) -> list[list[str]]:
    """One line a method, and TuneUp's relative gain over Base below them."""
    best = _best(block)
    found = [_line(block, row, best, bold) for row in block.rows]
    tuneup = next((row for row in block.rows if row.method == "tuneup" and row.cells), None)
    if tuneup is not None:
        gains = [tuneup.cells[name].over_base for name in block.settings]
        texts = [signed(gain.relative) if gain else MISSING for gain in gains]
        cell = (block.dataset, block.task, block.architecture)
        paper = [paper_gain(*cell, name) for name in block.settings if has_paper(block, name)]
        found.append([GAIN_ROW, "", "", *texts, *paper])
    return found


def _best(block: Block) -> dict[str, float]:
    """The largest mean by setting; one over fewer seeds cannot be compared with the others."""
    run = [row for row in block.rows if row.cells]
    rows = [row for row in run if not row.lacking] or run
    names = block.settings if rows else ()
    return {name: max(row.cells[name].score.mean for row in rows) for name in names}


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
    published = [paper_text(*cell, name) for name in block.settings if has_paper(block, name)]
    return [row.label, row.chosen, row.tried, *map(text, block.settings), *published]


def _percent(cell: Cell) -> str:
    mark = {"<": WORSE, ">": BETTER, "": ""}[cell.verdict]
    score = cell.score
    spread = f" ± {100 * score.std:.2f}" if score.seeds > 1 else ""
    return f"{100 * score.mean:.2f}{spread}{mark}"


def has_paper(block: Block, setting: str) -> bool:
    """Whether the paper has the same cells."""
    cell = (block.dataset, block.task, block.architecture)
    return published_score(*cell, "base", setting) is not None


def page(blocks: Sequence[Block], theirs: Sequence[PaperBlock]) -> str:
    """Tables in Markdown, each below its title and what it was made under; then the paper's."""
    parts = [f"### {each.name}\n\n{conditions(each)}\n\n{markdown(each)}" for each in blocks]
    return "\n\n".join([*parts, *map(paper_part, theirs), LEGEND])


def markdown(block: Block) -> str:
    """A table for a README."""
    return markdown_table(heading(block), lines(block, lambda text: f"**{text}**"), words=(0, 1))


def paper_part(block: PaperBlock) -> str:
    """The paper's table below its title, in Markdown."""
    return f"### {block.title}\n\n{markdown_table(block.heading, block.lines)}"


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
    if isinstance(block, PaperBlock):
        return latex_table(block.title, [block.heading, *block.lines])
    caption = f"{block.name}: {block.metric}, %. {conditions(block)} {LEGEND}"
    return latex_table(caption, [heading(block), *lines(block, latex_bold)], left=2)


def latex_bold(text: str) -> str:
    """Marks a cell that :func:`latex_table` is to set in bold."""
    return f"{_BOLD}{text}{_BOLD}"


def latex_table(caption: str, rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Rows, their heading first, in booktabs style; so many columns on the left are words."""

    def safe(text: str) -> str:
        plain = text.replace(_BOLD, "")
        written = plain.translate(_LATEX)
        return written if plain == text else rf"\textbf{{{written}}}"

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
