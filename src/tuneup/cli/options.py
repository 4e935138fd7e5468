"""Options of commands: generated from the fields of dataclasses, and parsers of their values."""

from __future__ import annotations

import errno
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from shutil import get_terminal_size
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from tuneup.errors import OutputError
from tuneup.files import output_folder
from tuneup.tables.request import OptionInfo, option_fields, option_name

Command = Callable[..., None]
T = TypeVar("T", int, float)

_PANELS = 80
"""Columns of a terminal in which the panels of the help cut no name."""


def number_between(low: float, high: float) -> Callable[[str | float], float]:
    """A parser of numbers from ``low`` to ``high``."""
    return _parser(float, "number", low, high)


def whole_number_to(high: int, low: int = 0) -> Callable[[str | int], int]:
    """A parser of whole numbers from ``low`` to ``high``."""
    return _parser(int, "whole number", low, high)


def _parser(kind: Callable[[Any], T], words: str, low: float, high: float) -> Callable[[Any], T]:
    def parse(given: Any) -> T:
        value: T | None = None
        with suppress(ValueError):
            value = kind(given)
        if value is None or not low <= value <= high:  # NaN is in no range
            raise typer.BadParameter(f"{given} is not a {words} from {low} to {high}.")
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


class NarrowHelp(TyperCommand):
    """A command whose help has whole names of options in a narrow terminal, too."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """In panels where these are wide enough, else in plain lines."""
        if get_terminal_size().columns >= _PANELS:
            return super().format_help(ctx, formatter)
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                title = getattr(param, "rich_help_panel", None)
                usual = "Options" if param.param_type_name == "option" else "Arguments"
                sections.setdefault(title or usual, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def flowing(text: str | None) -> str:
    """A docstring whose paragraphs fill the terminal, whatever its width, as help."""
    paragraphs = (text or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def listed(names: Sequence[str]) -> str:
    """``a, b or c``."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


def takes_options(
    kind: type[Any],
    without: Sequence[str] = (),
    *,
    help: Mapping[str, str] | None = None,
    required: str = "",
) -> Callable[[Command], Command]:
    """Decorate a command that takes an instance of a dataclass with the options of its fields.

    Args:
        kind: the dataclass, whose fields have an :class:`OptionInfo`; a parameter of the command
            has it as its type.
        without: fields that are no options of this command.
        help: help of fields that mean something else to this command.
        required: the field that must be given.
    """
    hints, defaults = get_type_hints(kind), {each.name: each.default for each in fields(kind)}
    options = {name: info for name, info in option_fields(kind).items() if name not in without}
    generated = [
        _parameter(
            name,
            replace(info, help=(help or {}).get(name, info.help)),
            str if info.parse else hints[name],
            inspect.Parameter.empty if name == required else defaults[name],
        )
        for name, info in options.items()
    ]

    def decorate(command: Command) -> Command:
        given_as = inspect.signature(command, eval_str=True).parameters.values()
        taken = next(each.name for each in given_as if each.annotation is kind)
        own = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for each in given_as
            if each.name != taken
        ]

        @wraps(command)
        def wrapped(**given: Any) -> None:
            asked = {name: given.pop(name) for name in options}
            values = {
                name: _value(value, options[name])
                for name, value in asked.items()
                if value is not None
            }
            command(**{taken: kind(**values)}, **given)

        wrapped.__signature__ = inspect.Signature([*generated, *own])  # type: ignore[attr-defined]
        wrapped.__annotations__ = {each.name: each.annotation for each in (*generated, *own)}
        del wrapped.__wrapped__
        return wrapped

    return decorate


def _parameter(name: str, info: OptionInfo, hint: Any, default: Any) -> inspect.Parameter:
    kinds = {*get_args(hint), hint} - {NoneType}
    required = default is inspect.Parameter.empty
    more: dict[str, Any] = {
        "help": info.help,
        "metavar": info.metavar,
        "rich_help_panel": info.panel,
        "parser": info.parse,
    }
    if info.default is not None:
        more["show_default"] = info.default
    if info.bounds is not None:
        low, high = info.bounds
        more["parser"] = (
            number_between(low, high) if float in kinds else whole_number_to(int(high), int(low))
        )
    if get_origin(hint) is tuple:
        hint = list[str] if required else list[str] | None
        default = default if required else None
    names = []
    if hint is bool:  # a flag has an opposite only where it is on by default
        names = [option_name(name) + ("/--no-" + name.replace("_", "-") if default else "")]
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[hint, typer.Option(*names, **more)],
    )


def _value(given: Any, info: OptionInfo) -> Any:
    """A value of the command line as one of the request."""
    if not isinstance(given, list):
        return given
    parts = [part for each in given for part in (each.split(",") if info.commas else [each])]
    return tuple(part for part in parts if part or not info.commas)


@contextmanager
def silent_stderr() -> Iterator[None]:
    """Silence polars' threads, which report panics about damaged Parquet files before they fail."""
    sys.stderr.flush()
    saved, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nothing)
