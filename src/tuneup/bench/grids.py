"""A table of the paper as it stands there: methods by graphs, ours and then the paper's own.

The blocks below it have the same numbers graph by graph, with what each was made under.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from tuneup.methods.titles import title_of
from tuneup.report.table import markdown_table

from .gains import GAIN_ROW
from .published import PaperBlock, paper_blocks
from .rendering import PAPER_COLUMN, latex_bold, latex_table, lines
from .tables import METRICS, Block
from .terminal import print_table

DEVIATES = "*"
LEGEND = f"{DEVIATES}: not with the seeds of the others; the table of that graph says more."
Cells = Mapping[str, Sequence[str]]
"""A method's cells by its name, and those of the gain by :data:`GAIN_ROW`."""


@dataclass(frozen=True)
class Grid:
    """The part of a table that is of one task.

    Args:
        title: ``recsys_table, recommendation``.
        rows: its heading, then a row for each architecture and method.
    """

    title: str
    rows: Sequence[Sequence[str]]

    @property
    def legend(self) -> str:
        """What its mark means, where it has any."""
        marked = any(text.endswith(f" {DEVIATES}") for row in self.rows for text in row)
        return LEGEND if marked else ""


def grids_markdown(blocks: Sequence[Block], datasets: Sequence[str] = ()) -> list[str]:
    """The grids in Markdown, each below its title."""
    found = grids(blocks, lambda text: f"**{text}**", datasets)
    parts = [(f"### {g.title}", markdown_table(g.rows[0], g.rows[1:]), g.legend) for g in found]
    return ["\n\n".join(filter(None, part)) for part in parts]


def grids_latex(blocks: Sequence[Block], datasets: Sequence[str] = ()) -> list[str]:
    """The grids in LaTeX, with their titles as captions."""
    found = grids(blocks, latex_bold, datasets)
    return [latex_table(f"{grid.title}. {grid.legend}".strip(), grid.rows) for grid in found]


def print_grids(blocks: Sequence[Block], console: Console, datasets: Sequence[str] = ()) -> None:
    """The grids in a terminal, in parts where they do not fit."""
    for grid in grids(blocks, lambda text: f"[bold]{text}[/bold]", datasets):
        console.print(grid.title, style="italic", highlight=False)
        print_table(grid.rows, console)
        console.print(f"{grid.legend}\n".lstrip(), highlight=False)


def grids(
    blocks: Sequence[Block], bold: Callable[[str], str], datasets: Sequence[str] = ()
) -> Iterator[Grid]:
    """A grid for each task that the blocks of a table are of.

    Args:
        blocks: ours, all of one table of the paper; of none if no table was asked for.
        bold: how the best of a column is set.
        datasets: which of the paper's graphs to show beside them; by default all.
    """
    table = blocks[0].shown
    if table is None:
        return
    theirs = [b for b in paper_blocks(blocks) if not datasets or b.dataset in datasets]
    for task in dict.fromkeys(block.task for block in blocks):
        mine: list[Block] = [block for block in blocks if block.task == task]
        paper = [block for block in theirs if block.task == task]
        heading = [f"{METRICS[task]}, %", *_columns(mine, ""), *_columns(paper, PAPER_COLUMN)]
        rows = [heading]
        architectures = [name for kind, name in table.blocks if kind == task]
        for name in architectures:
            graphs = [*_by_graph(mine, name, bold), *_by_graph(paper, name, bold)]
            if any(cells for _, cells in graphs):
                prefix = f"{name}: " if len(architectures) > 1 else ""
                rows += _rows(graphs, table.methods, prefix)
        yield Grid(f"{table.name}, {task}", rows)


def _columns(blocks: Sequence[Block | PaperBlock], prefix: str) -> list[str]:
    return [f"{prefix}{b.dataset}, {name}" for b in _first(blocks).values() for name in b.settings]


def _first(blocks: Sequence[Block | PaperBlock]) -> dict[str, Block | PaperBlock]:
    """A block of each graph: those of other architectures have the same columns."""
    found: dict[str, Block | PaperBlock] = {}
    for block in blocks:
        found.setdefault(block.dataset, block)
    return found


def _by_graph(
    blocks: Sequence[Block | PaperBlock], architecture: str, bold: Callable[[str], str]
) -> Iterator[tuple[int, Cells]]:
    """The number of columns of every graph, and its cells by method with this architecture."""
    for dataset, first in _first(blocks).items():
        own = [b for b in blocks if (b.dataset, b.architecture) == (dataset, architecture)]
        yield len(first.settings), (_cells(own[0], bold) if own else {})


def _cells(block: Block | PaperBlock, bold: Callable[[str], str]) -> Cells:
    if isinstance(block, PaperBlock):
        found = dict(zip((*block.methods, GAIN_ROW), block.lines, strict=False))
        return {method: line[1:] for method, line in found.items()}
    count = len(block.settings)
    shown = {line[0]: line[3 : 3 + count] for line in lines(block, bold)}
    found = {row.method: shown[row.label] for row in block.rows}
    for row in block.rows:
        if row.cells and row.deviation:
            found[row.method] = [f"{text} {DEVIATES}" for text in found[row.method]]
    return {**found, GAIN_ROW: shown[GAIN_ROW]} if GAIN_ROW in shown else found


def _rows(
    graphs: Sequence[tuple[int, Cells]], methods: Sequence[str], prefix: str
) -> Iterator[list[str]]:
    """A row for each method that some graph has, and the gain below them."""
    for method in (*methods, GAIN_ROW):
        if any(method in cells for _, cells in graphs):
            texts = [text for count, cells in graphs for text in cells.get(method, [""] * count)]
            yield [f"{prefix}{title_of(method)}", *texts]
