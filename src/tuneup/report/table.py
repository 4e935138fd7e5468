"""One table, printed in a terminal, in Markdown or in HTML."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Mark = Literal["", "setting", "group", "better", "worse", "same"]
"""``setting`` begins a block of rows, ``group`` is a row within it; the others colour a gain."""

_STYLES = {"setting": "bold", "better": "green", "worse": "red", "same": "dim"}


@dataclass(frozen=True)
class Whisker:
    """An interval around a gain to draw; ``span`` is the largest end of all rows."""

    mean: float
    low: float
    high: float
    span: float
    mark: Mark
    label: str

    def at(self, value: float) -> str:
        """Horizontal place of a value in a picture 128 wide, with zero in the middle."""
        return f"{64.0 + (60.0 * value / self.span if self.span else 0.0):.1f}"


@dataclass(frozen=True)
class Cell:
    """Text with what only some renderers can show.

    Args:
        text: of the cell.
        mark: what the text is.
        note: words behind the text, not coloured.
    """

    text: str = ""
    mark: Mark = ""
    note: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.text, self.note)))


@dataclass(frozen=True)
class Table:
    """Rows under a heading, with one renderer for each place.

    Args:
        head: of the columns.
        rows: a cell for each column; plain text needs no :class:`Cell`.
        caption: what the table shows, or how to read it.
        words: columns that stand to the left; the others are numbers.
        classes: of the style sheet, in HTML.
        pictures: a last column of HTML, with a picture or None for each row.

    Example:
        >>> print(Table(["method", "score"], [["Base", "70.1"]]).markdown())
        | method | score |
        | :-- | --: |
        | Base | 70.1 |
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    caption: str = ""
    words: Collection[int] = (0,)
    classes: str = ""
    pictures: Sequence[Whisker | None] = ()

    def __rich__(self) -> RichTable:
        """For ``rich.print`` and :class:`rich.console.Console`."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable
        from rich.text import Text

        made = RichTable(
            caption=self.caption or None,
            caption_justify="left",
            box=SIMPLE_HEAD,
            show_edge=False,
            padding=(0, 1, 0, 0),
        )
        for number, name in enumerate(self.head):
            left = number in self.words
            # In a narrow terminal words are folded before a digit is lost.
            made.add_column(name, justify="left" if left else "right", no_wrap=not left)
            made.columns[-1].overflow = "fold"
        for index, row in enumerate(self.rows):
            cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
            whole = cells[0].mark == "setting"
            if whole and index:
                made.add_section()
            made.add_row(
                *(
                    Text(
                        "  " * (cell.mark == "group") + str(cell),
                        _STYLES.get(cell.mark, "bold" if whole else ""),
                    )
                    for cell in cells
                )
            )
        return made

    def markdown(self) -> str:
        """GitHub Markdown, ending with a newline; a group is named with its setting."""
        lines, setting = [], ""
        for row in self.rows:
            first, *others = row
            if isinstance(first, Cell) and first.mark == "setting":
                setting = str(first)
            elif isinstance(first, Cell) and first.mark == "group":
                first = f"{setting}, {first}"
            lines.append([str(first), *map(str, others)])
        table = markdown_table(self.head, lines, self.words)
        return f"{table}\n\n{self.caption}\n" if self.caption else f"{table}\n"

    def html(self) -> str:
        """The table alone, as the page of a run has it."""
        from .page import environment

        module = environment().get_template("parts.html").module
        return str(module.table(self))  # type: ignore[attr-defined]

    _repr_html_ = html


def markdown_table(
    heading: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[int] = (0,)
) -> str:
    """A table in GitHub Markdown, without a newline at its end.

    Args:
        heading: of the columns.
        rows: a cell for each of them.
        words: columns that stand to the left; the others are numbers.
    """
    rule = [":--" if column in words else "--:" for column in range(len(heading))]
    lines = [heading, rule, *rows]
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("|", r"\|")
