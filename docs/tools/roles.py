"""Docstrings as Markdown: Sphinx roles become links, and ``::`` before an example a colon."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`(~?)([\w.]+)`")
_EXAMPLE = re.compile(r"::(?=\n\n {4,})")


def as_markdown(text: str) -> str:
    """A docstring without roles."""
    return _EXAMPLE.sub(":", _ROLE.sub(_link, text))


def _link(found: re.Match[str]) -> str:
    short, name = found.groups()
    text = f"<code>{name.rpartition('.')[2] if short else name}</code>"
    if not name.startswith("tuneup."):
        return text
    # Optional: what is not on the site stays a name.
    return f'<autoref identifier="{name}" optional>{text}</autoref>'


class Roles(griffe.Extension):
    """Rewrites every docstring as it is collected."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Any object that has a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
