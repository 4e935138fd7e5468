"""Tables for a terminal, Markdown and HTML, and how the numbers and words in them are written."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tuneup.evaluation import MISSING, TAIL_DEGREE, Gain

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Mark = Literal["", "setting", "group", "better", "worse", "same"]
"""``setting`` begins a block of rows, ``group`` is a row within it; the others colour a gain."""

_STYLES = {"setting": "bold", "better": "green", "worse": "red", "same": "dim"}
_METRICS = {"macro-f1": "macro-F1", "auroc": "AUROC"}
_MOST_DIGITS = 6


@dataclass(frozen=True)
class Whisker:
    """An interval around a gain, to be drawn; ``span`` is the largest end of all rows."""

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
        note: words behind the text on a page, where there is room for them.
    """

    text: str = ""
    mark: Mark = ""
    note: str = ""

    def __str__(self) -> str:
        return self.text


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
                        "  " * (cell.mark == "group") + cell.text,
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
                setting = first.text
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
    lines = [[cell.replace("|", r"\|") for cell in line] for line in (heading, rule, *rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percent(value: float | None, digits: int = 1, unit: str = " %") -> str:
    """``0.7802`` as ``78.0 %``."""
    missing = value is None or math.isnan(value)
    return MISSING if missing else f"{100 * value:.{digits}f}{unit}"  # type: ignore[operator]


def signed(value: float, digits: int) -> str:
    """A number with its sign (a true minus), or without one if it rounds to zero."""
    written = f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")
    return written[1:] if not float(f"{value:.{digits}f}") else written


def points(value: float, digits: int | None = None) -> str:
    """``0.0737`` as ``+7.4 points``; by default a small value has a digit more."""
    digits = _digits(value) if digits is None else digits
    return MISSING if math.isnan(value) else f"{signed(100 * value, digits)} points"


def interval(gain: Gain, digits: int | None = None) -> str:
    """``+6.8 to +7.9``, in points."""
    digits = _digits(gain.absolute) if digits is None else digits
    digits = interval_digits(100 * gain.low, 100 * gain.high, digits)
    return f"{signed(100 * gain.low, digits)} to {signed(100 * gain.high, digits)}"


def interval_digits(low: float, high: float, digits: int) -> int:
    """Digits to write the ends of an interval with, at least ``digits``.

    An interval that excludes zero needs so many that neither end is written as zero.
    """
    if low <= 0 <= high:
        return digits
    near = min(abs(low), abs(high))
    while digits < _MOST_DIGITS and not float(f"{near:.{digits}f}"):
        digits += 1
    return digits


def _digits(value: float) -> int:
    """Two below one point, where an end of an interval may round to zero; else one."""
    return 1 if abs(value) >= 0.01 else 2


def seconds_words(seconds: float) -> str:
    """``52 s``, ``14 min`` or ``3.2 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def listed(names: Sequence[object]) -> str:
    """``a, b and c``."""
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def capital(words: str) -> str:
    """With a capital first letter; the others stay as they are."""
    return words[:1].upper() + words[1:]


def cold_share(setting: str) -> int | None:
    """30 of ``"cold-30"``; None of another setting."""
    found = re.fullmatch(r"cold-(\d+)", setting)
    return int(found[1]) if found else None


def setting_label(setting: str) -> str:
    """``"cold-30"`` (30 % of the new nodes' edges removed) as ``"cold 30 %"``; others unchanged."""
    cold = cold_share(setting)
    return setting if cold is None else f"cold {cold} %"


def setting_words(setting: str, unit: str = "nodes") -> str:
    """``"cold-30"`` as ``"new nodes, 30 % of links removed"``: what was scored."""
    cold = cold_share(setting)
    if cold is not None:
        return f"new {unit}, {cold} % of links removed"
    return {"transductive": f"known {unit}", "inductive": f"new {unit}"}.get(setting, setting)


def group_words(group: str, tail_degree: int = TAIL_DEGREE) -> str:
    """The degrees in a group; those of ``"tail"`` include those of ``"isolated"``."""
    return {
        "overall": "all",
        "isolated": "0 links",
        "tail": f"0-{tail_degree} links",
        "head": f"{tail_degree + 1}+ links",
    }[group]


def group_label(setting: str, group: str, unit: str, tail_degree: int = TAIL_DEGREE) -> Cell:
    """The first cell of a group's row."""
    if group == "overall":
        return Cell(setting_words(setting, unit), "setting")
    return Cell(group_words(group, tail_degree), "group")


def metric_words(metric: str) -> str:
    """``"average-precision"`` as ``"average precision"``; ``"recall@50"`` unchanged."""
    return _METRICS.get(metric, metric.replace("-", " "))
