"""An inspection as tables on a terminal, 60 columns wide or more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .doctor import Degrees, Inspection
from .estimate import Estimate

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable

_BAR = 20
_CLASSES = 10


def view(found: Inspection) -> Iterator[RenderableType]:
    """What to print, part by part."""
    from rich.table import Table
    from rich.text import Text

    counts = _table(found.name, "")
    for name, count in found.counts.items():
        counts.add_row(name, f"{count:,}")
    yield counts
    for kind, degrees in found.degrees.items():
        yield _degrees(kind, degrees)
    if found.labels:
        yield _labels(found)
    if found.split:
        parts = _table("split of the column", "")
        for name, count in found.split.items():
            parts.add_row(name, f"{count:,}")
        yield parts
    yield Text(_cost(found))
    notes = Table.grid(padding=(0, 1))
    for note in found.notes:
        notes.add_row("-", Text(note))
    yield notes


def _table(*headings: str) -> RichTable:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    return table


def _degrees(kind: str, degrees: Degrees) -> RichTable:
    table = _table(f"edges of {kind}", kind, "share", "")
    table.columns[-1].justify = "left"
    most = max(each.count for each in degrees.bins)
    for each in degrees.bins:
        share = each.count / max(1, degrees.count)
        bar = "#" * round(_BAR * each.count / max(1, most))
        ends_tail = each.high == degrees.tail_degree and each is not degrees.bins[-1]
        table.add_row(each.label, f"{each.count:,}", f"{share:.1%}", bar, end_section=ends_tail)
    table.caption = (
        f"tail (at most {degrees.tail_degree} edges): {degrees.tail:,} of {degrees.count:,} "
        f"{kind}, {degrees.tail_share:.1%}; mean {degrees.mean:.1f}, median {degrees.median:g}, "
        f"largest {degrees.largest:,}"
    )
    table.caption_justify = "left"
    return table


def _labels(found: Inspection) -> RichTable:
    table = _table("class", "nodes", "share")
    total = sum(count for _, count in found.labels)
    for name, count in found.labels[:_CLASSES]:
        table.add_row(str(name), f"{count:,}", f"{count / total:.1%}")
    rest = found.labels[_CLASSES:]
    if rest:
        count = sum(count for _, count in rest)
        table.add_row(f"{len(rest)} more classes", f"{count:,}", f"{count / total:.1%}")
    if found.unlabelled:
        table.add_row("(no label)", f"{found.unlabelled:,}", "")
    return table


def _cost(found: Inspection) -> str:
    cost = found.estimate
    return (
        f"A fit of width {cost.width} and {cost.epochs} epochs a stage is estimated at "
        f"{size(cost.memory)} of memory, the program's own included, and about "
        f"{duration(cost.seconds)} (up to twice that) on one core; less if a stage stops early. "
        f"The files are {size(found.num_bytes)}."
    )


def memory_warning(cost: Estimate, free: int | None) -> str | None:
    """A line if a fit needs more memory than is free.

    Args:
        cost: of the fit.
        free: bytes, as :func:`tuneup.tables.free_memory.free_memory` counts them.
    """
    if free is None or cost.memory <= free:
        return None
    return (
        f"Warning: a fit may need {size(cost.memory)} of memory, but {size(free)} are free; lower "
        "--width, or leave out features with --exclude."
    )


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 90:
        whole = max(1, round(seconds))
        return f"{whole} second{'s' if whole > 1 else ''}"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"
