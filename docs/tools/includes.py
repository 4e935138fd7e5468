"""A mkdocs hook: pages of the repository's own files, which are written once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_MARK = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)
_PICTURE = re.compile(r"!\[[^\]]*\]\((?!https?:)[^)]+\)\n*")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)[^)]+\)")


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Put a file of the repository where a page names it."""
    return _MARK.sub(lambda found: included(found[1]), markdown)


def included(name: str) -> str:
    """The file's text; links to files that are not on the site become names, pictures nothing."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return _LINK.sub(r"\1", _PICTURE.sub("", text))
