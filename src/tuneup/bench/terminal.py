"""Blocks of results in a terminal, however narrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from .conditions import conditions
from .published import PaperBlock
from .rendering import LEGEND, PAPER_COLUMN, heading, lines
from .tables import Block

_SHORT = {"transductive": "transd.", "inductive": "induct."}
_SPREAD = re.compile(" ± ([0-9.]+)")
_SHORT_SPREAD = re.compile("±[0-9.]+")
_MARKUP = re.compile(r"\[/?bold\]")
_NAME = 12
"""Columns that a method's name must have; in fewer it is folded beyond recognition."""

Rows = Sequence[Sequence[str]]


def print_blocks(blocks: Sequence[Block], theirs: Sequence[PaperBlock], console: Console) -> None:
    """Our tables, what was chosen below each, then the paper's own and a legend.

    What does not fit is taken apart: first the paper's columns become a table of their own below
    ours, then deviations over seeds are left to the other forms, then a table goes on below itself.
    """
    for block in blocks:
        bold = lines(block, lambda text: f"[bold]{text}[/bold]")
        rows = [[row[0], *row[3:]] for row in (heading(block), *bold)]
        console.print(f"{block.name}: {block.metric}, %", style="italic", highlight=False)
        print_table(rows, console)
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
        print_table([other.heading, *other.lines], console)
        console.print()
    console.print(LEGEND, highlight=False)


def print_table(rows: Rows, console: Console) -> None:
    """Rows, their heading first, in parts where they do not fit."""
    parts = list(_fitting(_written(rows), console.width))
    for part in parts:
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column(part[0][0], overflow="fold")
        for name in part[0][1:]:
            table.add_column(name, justify="right", no_wrap=True)
        for row in part[1:]:
            table.add_row(*row)
        console.print(table)
    if _has_spread(rows) and not all(map(_has_spread, parts)):
        console.print(
            "Standard deviations do not fit here; a wider terminal or --format markdown has them.",
            highlight=False,
        )


def _has_spread(rows: Rows) -> bool:
    return any("±" in text for row in rows for text in row)


def _written(rows: Rows) -> list[list[str]]:
    """In words that are as short as may be."""
    head, *body = rows
    short = ["method", *(_shortened(name) for name in head[1:])]
    names = [row[0].replace("TuneUp w/o", "w/o") for row in body]
    spread = ([_SPREAD.sub(r"±\1", text) for text in row[1:]] for row in body)
    return [short, *([name, *cells] for name, cells in zip(names, spread, strict=True))]


def _shortened(name: str) -> str:
    for long, short in _SHORT.items():
        name = name.replace(long, short)
    return name


def _fitting(rows: Rows, width: int) -> Iterator[Rows]:
    """The table, or parts of it that fit into so many columns."""
    if _width(rows) <= width or len(rows[0]) <= 2:
        yield rows
        return
    every = list(range(1, len(rows[0])))
    paper = [k for k in every if rows[0][k].startswith(PAPER_COLUMN)]
    ours = [k for k in every if k not in paper]
    if paper and ours:
        yield from _fitting(_columns(rows, ours), width)
        head, *body = _columns(rows, paper)
        names = [name.removeprefix(PAPER_COLUMN) for name in head[1:]]
        yield from _fitting([["the paper's", *names], *body], width)
        return
    if _has_spread(rows):
        plain = [[_SHORT_SPREAD.sub("", text) for text in row] for row in rows]
        yield from _fitting(plain, width)
        return
    half = len(every) // 2
    for columns in (every[:half], every[half:]):
        yield from _fitting(_columns(rows, columns), width)


def _columns(rows: Rows, columns: Sequence[int]) -> list[list[str]]:
    return [[row[0], *(row[k] for k in columns)] for row in rows]


def _width(rows: Rows) -> int:
    """What a table needs, a name no more than it must have."""
    columns = zip(*rows, strict=True)
    widest = [max(len(_MARKUP.sub("", text)) for text in column) for column in columns]
    return min(widest[0], _NAME) + sum(one + 1 for one in widest[1:])
