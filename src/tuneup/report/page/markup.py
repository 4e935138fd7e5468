"""The little HTML that the page needs; everything given as text is escaped here and only here."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


class Html(str):
    """Text that is HTML already: :func:`text` leaves it alone."""


def text(value: object) -> Html:
    """Anything as HTML in which nothing is a tag, unless it is :class:`Html`.

    A number and its per cent sign stay on one line.
    """
    if isinstance(value, Html):
        return value
    return Html(escape(re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", str(value))))


def tag(name: str, *content: object, **attributes: str | bool | None) -> Html:
    """``tag("p", "a < b", cls="note")``; an attribute that is None or False is left out."""
    written = "".join(
        f" {_attribute(key)}" if value is True else f' {_attribute(key)}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{written}>{join(content)}</{name}>")


def join(parts: Iterable[object], between: str = "") -> Html:
    """Parts in a row, each escaped unless it is HTML."""
    return Html(between.join(text(part) for part in parts))


def table(
    head: Sequence[object], rows: Iterable[Sequence[object]], caption: str, cls: str = ""
) -> Html:
    """A table whose first column names its rows; it scrolls in its own box where it is wide."""
    columns = tag("tr", *(tag("th", cell, scope="col") for cell in head))
    body = [
        tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in cells))
        for first, *cells in rows
    ]
    whole = tag(
        "table",
        tag("caption", caption),
        tag("thead", columns),
        tag("tbody", *body),
        cls=cls or None,
    )
    return tag("div", whole, cls="scroll", tabindex="0", role="region", aria_label=caption)


def verbatim(value: str, name: str | None = None) -> Html:
    """Something to be copied, character by character what it was."""
    return tag("pre", tag("code", Html(escape(value)), id=name))


def facts(pairs: Mapping[str, object]) -> Html:
    """Names and what they are, as a list of definitions."""
    inside = (tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs.items())
    return tag("dl", *inside, cls="facts")


def embedded_json(data: Any) -> Html:
    """JSON that may stand in a ``script`` element: no character of it can end the element."""
    plain = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    return Html(plain)


def content_hash(content: str) -> str:
    """As a Content-Security-Policy names the one inline script or style that it allows."""
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _attribute(name: str) -> str:
    return {"cls": "class"}.get(name, name.replace("_", "-"))
