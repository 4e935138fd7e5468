"""How each method is drawn: the same in every figure."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A curve's colour, dashes and marker, as matplotlib names them."""

    color: str
    style: str
    marker: str


# Base and TuneUp look as in the paper; the others differ in colour, dashes and marker at once, so
# that no one has to tell them apart by colour alone.
_LINES = {
    "Base": Line("#1f77b4", ":", "o"),
    "TuneUp": Line("#e8710a", "-", "s"),
}
_MORE_LINES = (
    Line("#009e73", "--", "^"),
    Line("#cc79a7", "-.", "v"),
    Line("#56b4e9", "--", "D"),
    Line("#8c6d1f", "-.", "P"),
    Line("#555555", "--", "X"),
    Line("#7b3fa0", "-.", "*"),
    Line("#c1272d", "--", "<"),
    Line("#0b7a75", "-.", ">"),
    Line("#9aa50b", "--", "p"),
    Line("#2b2d6e", "-.", "h"),
)


def assign_lines(methods: Sequence[str]) -> dict[str, Line]:
    """Base and TuneUp keep their looks; the others take the remaining ones in turn."""
    others = [method for method in methods if method not in _LINES]
    more = {name: _MORE_LINES[index % len(_MORE_LINES)] for index, name in enumerate(others)}
    return {method: _LINES.get(method) or more[method] for method in methods}
