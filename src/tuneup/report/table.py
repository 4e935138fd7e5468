"""Tables in GitHub's Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def markdown_table(
    heading: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[int] = (0,)
) -> str:
    """A table without a newline at its end.

    Args:
        heading: of the columns.
        rows: a cell for each of them.
        words: which columns are words, and stand to the left; others are numbers.
    """
    rule = [":--" if column in words else "--:" for column in range(len(heading))]
    lines = [heading, rule, *rows]
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("|", r"\|")
