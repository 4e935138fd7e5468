"""All problems of tables at once, and the command line whose options solve them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields, replace
from enum import Enum
from typing import Any, TypeVar

from tuneup.errors import InputError

from .table_options import TableOptions, UnknownChoice
from .table_panels import FormatChoice, ReadingOptions

T = TypeVar("T")

_REPEATED = ("exclude", "missing")
"""Options of which every value counts; of the others the last one does."""
_CHOICES: dict[str, type[Enum]] = {"unknown_ids": UnknownChoice, "format": FormatChoice}
_WIDTH = 60


def all_problems(tables: TableOptions, attempt: Callable[[TableOptions], T]) -> T:
    """What ``attempt`` returns.

    Where it raises an error that an option solves, it is called again with that option, to find
    the next problem.

    Raises:
        InputError: About all problems, with the command line that solves those that options solve.
    """
    problems: list[str] = []
    tried: set[tuple[str, ...]] = set()
    while True:
        try:
            found = attempt(tables)
        except InputError as error:
            problems.append(str(error))
            if error.fix and error.fix not in tried:
                tried.add(error.fix)
                tables = _with(tables, error.fix)
                continue
            if not tried:
                raise
            raise InputError(_listed(problems, "all but the last", tables)) from error
        if problems:
            raise InputError(_listed(problems, "all of it", tables))
        return found


def _listed(problems: list[str], solved: str, tables: TableOptions) -> str:
    command = continued(["tuneup", "inspect", *words_of(tables)])
    return "\nError: ".join(problems) + f"\nThis solves {solved}:\n{command}"


def _with(tables: TableOptions, fix: tuple[str, ...]) -> TableOptions:
    """The options with one more."""
    name = fix[0].removeprefix("--").replace("-", "_")
    value: Any = fix[1] if len(fix) > 1 else True
    if name in _CHOICES:
        value = _CHOICES[name](value)
    elif name in _REPEATED:
        value = [*(getattr(tables, name) or ()), value]
    return replace(tables, **{name: value})


def words_of(tables: TableOptions) -> list[str]:
    """The words of the command line that stand for options."""
    words: list[str] = []
    how_to_read = {each.name for each in fields(ReadingOptions)}
    for each in sorted(fields(tables), key=lambda one: one.name in how_to_read):
        value, option = getattr(tables, each.name), "--" + each.name.replace("_", "-")
        if value is None or (each.default is not MISSING and value == each.default):
            continue
        if value is True:
            words.append(option)
            continue
        for one in value if isinstance(value, list) else [value]:
            words += [option, str(one.value if isinstance(one, Enum) else one)]
    return words


def continued(words: Iterable[str], width: int = _WIDTH) -> str:
    """A command line to paste, in lines of ``width`` characters where its words allow it."""
    lines = [""]
    for word in map(shlex.quote, words):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if len(longer) <= width - 2:
            lines[-1] = longer
        else:
            lines.append(f"  {word}")
    return " \\\n".join(lines)
