"""Options that say, when they are wrong, what was given and what is allowed."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from tuneup.errors import OutputError
from tuneup.files import output_folder


def number_between(low: float, high: float) -> Callable[[str | float], float]:
    """A parser of numbers from ``low`` to ``high``."""

    def parse(given: str | float) -> float:
        try:
            value = float(given)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise typer.BadParameter(f"{given} is not a number from {low:g} to {high:g}.")
        return value

    return parse


def whole_number_to(high: int, low: int = 0) -> Callable[[str | int], int]:
    """A parser of whole numbers from ``low`` to ``high``."""

    def parse(given: str | int) -> int:
        try:
            value = int(given)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise typer.BadParameter(f"{given} is not a whole number from {low} to {high}.")
        return value

    return parse


SEED = whole_number_to(2**31 - 1)
"""A parser of seeds."""


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """An output folder, made with its parents; where that cannot be, the place is at fault."""
    try:
        with output_folder(folder):
            yield
    except OutputError as error:
        # "Create the folder first" is no help: /proc and the like let nobody create one.
        ours = str(error).startswith(f"cannot write {folder}:")
        if not ours or getattr(error.__cause__, "errno", None) != errno.ENOENT:
            raise
        raise OutputError(
            f"cannot write {folder}: no folder can be made there; choose another place with --out"
        ) from error


def flowing(text: str | None) -> str:
    """A docstring whose paragraphs fill the terminal, whatever its width, as help."""
    paragraphs = (text or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def listed(names: Sequence[str]) -> str:
    """``a, b or c``."""
    return f"{', '.join(names[:-1])} or {names[-1]}"
