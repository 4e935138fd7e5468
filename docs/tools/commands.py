"""A mkdocs hook: the page of the command line, written from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from tuneup.cli import app

_MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Put the commands where a page marks their place."""
    return markdown.replace(_MARK, command_reference()) if _MARK in markdown else markdown


def command_reference() -> str:
    """Every command: what it does, its arguments and its options."""
    return "\n\n".join(_described(typer.main.get_command(app), "tuneup"))


def _described(command: Any, name: str) -> Iterator[str]:
    below = getattr(command, "commands", {})
    if not below:
        yield f"## `{name}`"
        yield f"`{' '.join([name, *map(_usage, command.params)])}`"
        yield command.help
        yield from _tables(command.params)
    for word, each in below.items():
        yield from _described(each, f"{name} {word}")


def _usage(param: Any) -> str:
    """What must be typed of a parameter; nothing of those that may be left out."""
    text = _metavar(param) if _is_argument(param) else f"{param.opts[0]} {_metavar(param)}"
    if param.required:
        return text
    return f"[{text}]" if _is_argument(param) else ""


def _tables(params: list[Any]) -> Iterator[str]:
    """One table a panel, in the order of the help."""
    panels: dict[str, list[Any]] = {}
    for param in params:
        kind = "Arguments" if _is_argument(param) else "Options"
        panels.setdefault(param.rich_help_panel or kind, []).append(param)
    for title, members in panels.items():
        head = f"| {title} | | default |\n| :-- | :-- | :-- |\n"
        yield head + "\n".join(map(_row, members))


def _row(param: Any) -> str:
    options = [*param.opts, *getattr(param, "secondary_opts", ())]
    names = _metavar(param) if _is_argument(param) else ", ".join(options)
    shown = names if _is_argument(param) or param.is_flag else f"{names} {_metavar(param)}"
    cells = (f"`{shown}`", param.help or "", _default(param))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(param: Any) -> str:
    if param.required:
        return "required"
    if isinstance(param.show_default, str):
        return param.show_default
    if param.default is None or param.default is False:
        return ""
    return f"`{param.default}`"


def _metavar(param: Any) -> str:
    return param.metavar or param.name.upper()


def _is_argument(param: Any) -> bool:
    return param.param_type_name == "argument"
