"""``tuneup methods``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from tuneup.methods import Method


def command() -> None:
    """List TuneUp, its ablations and the published baselines, with what each needs.

    Every line below a method's summary is a limit of it, or a setting with the values that are
    tried.
    """
    from tuneup.methods import METHODS

    Console().print(methods_table(METHODS.values()))


def methods_table(methods: Iterable[Method]) -> Table:
    """Name and summary of every method, with what it applies to and what is tuned."""
    found = Table(box=None, pad_edge=False, show_edge=False)
    found.add_column("method", no_wrap=True)
    found.add_column("what it is, what it applies to, what is chosen on validation")
    for method in methods:
        found.add_row(f"[bold]{method.name}[/bold]", "\n".join(lines_of(method)) + "\n")
    return found


def lines_of(method: Method) -> list[str]:
    """What a user must know before choosing it."""
    from tuneup.methods.base import ARCHITECTURES, TASKS

    source = f" ({method.reference})" if method.reference else ""
    lines = [f"{method.summary}{source}"]
    if method.tasks != TASKS:
        lines.append(f"for {' and '.join(method.tasks)}")
    if method.architectures != ARCHITECTURES:
        lines.append(f"with {', '.join(method.architectures)}")
    if method.needs_features:
        lines.append("needs node features")
    lines += [f"{name}: {', '.join(map(str, values))}" for name, values in method.grid.items()]
    return lines
