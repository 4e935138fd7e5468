"""The site builds without a warning, misses nothing that is public, and fetches nothing."""

import html
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import iter_modules

import pytest
from typer.testing import CliRunner

import tuneup
from docs.tools.includes import included
from docs.tools.roles import as_markdown
from tests.markdown import ROOT
from tests.report.browser import CHROMIUM, Browser, browser
from tuneup.cli import app

PUBLIC = {
    name: set(module.__all__) - {"__version__"}
    for name in ("tuneup", *(f"tuneup.{each.name}" for each in iter_modules(tuneup.__path__)))
    if name != "tuneup.__main__"
    if hasattr(module := importlib.import_module(name), "__all__")
}
"""Names that each room offers to others."""
LOADED = re.compile(r"<(?:script|link|img|iframe|source|video|object|embed)\b[^>]*>")
OUTSIDE = re.compile(r"(?:src|href|srcset|data)=[\"']?(?:https?:)?//")


BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on PATH: install chromium to see the site in a browser")
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(  # not --quiet, which keeps --strict from counting warnings
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    docs = ROOT / "docs"
    for page in docs.rglob("*.md"):
        assert (site / page.relative_to(docs).with_suffix(".html")).is_file(), page
    assert not (site / "tools").exists()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = LOADED.findall(page.read_text())
        assert loaded, f"{page} loads no style: is this a page?"
        assert not [tag for tag in loaded if OUTSIDE.search(tag)], page
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\([\"']?|@import\s+[\"'])(?:https?:)?//", style.read_text())
    assert OUTSIDE.search('<script src="https://example.org/a.js">')


def test_the_reference_has_every_public_name(site: Path) -> None:
    assert len(PUBLIC) > 12
    errors = {name: each for name, each in vars(tuneup.errors).items() if isinstance(each, type)}
    for module, names in (PUBLIC | {"tuneup.errors": set(errors)}).items():
        page = (site / "reference" / f"{module.rpartition('.')[2]}.html").read_text()
        missing = {name for name in names if f'id="{module}.{name}"' not in page}
        assert not missing, module
        assert not re.search(r":(?:class|func|meth|mod|data|attr):|<autoref", page), module


def test_the_command_line_has_every_command_and_option(site: Path) -> None:
    page = html.unescape((site / "reference" / "cli.html").read_text())
    heading = re.compile(r"<h2 id=\"[^\"]*\"><code>tuneup ([a-z ]+)</code>")
    _, *parts = heading.split(page)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    assert set(sections) == set(commands(()))
    for words, section in sections.items():
        options = set(re.findall(r"(?<!\w)--[a-z][a-z-]*", told(*words.split()))) - {"--help"}
        assert {option for option in options if option not in section} == set(), words


def commands(words: tuple[str, ...]) -> list[str]:
    """The commands that the help lists below some words; those without further ones."""
    lines = told(*words).partition("Commands")[2].splitlines()
    found = [match[1] for line in lines if (match := re.match(r"│ ([a-z]+)  ", line))]
    if not found:
        return [" ".join(words)]
    return [name for word in found for name in commands((*words, word))]


def told(*words: str) -> str:
    """The help, wide enough for no name to be cut."""
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert done.exit_code == 0
    return done.output


def test_files_of_the_repository_are_included(site: Path) -> None:
    for name in ("results", "contributing", "changelog"):
        page = (site / "project" / f"{name}.html").read_text()
        assert f'<h1 id="{name}"' in page
    assert "](" not in included("RESULTS.md")


def test_roles_become_links_and_names() -> None:
    text = "Calls :meth:`mask`, or :class:`~tuneup.graph.Adjacency`::\n\n    x = 1"
    link = '<autoref identifier="tuneup.graph.Adjacency" optional><code>Adjacency</code></autoref>'
    assert as_markdown(text) == f"Calls <code>mask</code>, or {link}:\n\n    x = 1"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1300])
def test_pages_in_a_browser(site: Path, chromium: Browser, width: int, dark: bool) -> None:
    for page in ("method.html", "reference/tuneup.html", "notebooks/compare.html"):
        chromium.open(site / page, width=width, dark=dark)
        assert chromium.problems == []
        assert [url for url in chromium.requested if not url.startswith(("file:", "data:"))] == []
        assert chromium.js("document.documentElement.scrollWidth") <= width
        light = sum(map(int, re.findall(r"\d+", chromium.js(BACKGROUND))[:3]))
        assert (light < 3 * 128) == dark
    chromium.open(site / "method.html", width=width, dark=dark)
    box = "document.querySelector('.two-stages').getBoundingClientRect()"
    assert chromium.js(f"{box}.width") > 300
    texts = "[...document.querySelectorAll('.two-stages text')]"
    assert chromium.js(f"{texts}.every(t => t.getBoundingClientRect().right < {box}.right)")
