"""Options of commands that read tables, generated from the fields of :class:`TableRequest`."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from tuneup.tables import TableRequest
from tuneup.tables.request import OptionInfo, option_fields, option_name

from .options import number_between, whole_number_to

Command = Callable[..., None]

_HINTS = get_type_hints(TableRequest)
_DEFAULTS = TableRequest()


def reads_tables(
    without: Sequence[str] = (), *, help: Mapping[str, str] | None = None, required: str = ""
) -> Callable[[Command], Command]:
    """Decorate a command, whose first parameter is ``tables: TableRequest``, with its options.

    Args:
        without: fields that are no options of this command.
        help: help of fields that mean something else to this command.
        required: the field that must be given.
    """
    options = {name: info for name, info in option_fields().items() if name not in without}
    shared = [
        _parameter(name, info, (help or {}).get(name, info.help), name == required)
        for name, info in options.items()
    ]

    def decorate(command: Command) -> Command:
        _, *own = inspect.signature(command, eval_str=True).parameters.values()
        own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]

        @wraps(command)
        def wrapped(**given: Any) -> None:
            asked = {name: given.pop(name) for name in options}
            command(
                TableRequest(
                    **{
                        name: _value(value, options[name])
                        for name, value in asked.items()
                        if value is not None
                    }
                ),
                **given,
            )

        wrapped.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]
        wrapped.__annotations__ = {each.name: each.annotation for each in (*shared, *own)}
        del wrapped.__wrapped__
        return wrapped

    return decorate


def _parameter(name: str, info: OptionInfo, help: str, required: bool) -> inspect.Parameter:
    hint, default = _HINTS[name], getattr(_DEFAULTS, name)
    kinds = {*get_args(hint), hint} - {NoneType}
    many = get_origin(hint) is tuple
    more: dict[str, Any] = {"help": help, "metavar": info.metavar, "rich_help_panel": info.panel}
    if info.default is not None:
        more["show_default"] = info.default
    if info.bounds is not None:
        low, high = info.bounds
        more["parser"] = (
            number_between(low, high) if float in kinds else whole_number_to(int(high), int(low))
        )
    if many:
        hint, default = list[str] if required else list[str] | None, None
    # A flag has no opposite: `--directed`, but not `--no-directed`.
    option = typer.Option(*([option_name(name)] if hint is bool else []), **more)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if required else default,
        annotation=Annotated[hint, option],
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
