"""The documentation tells the truth: every block of every page runs, in the page's order."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.markdown import ROOT, blocks, is_like, like_a_clone, run_page, without_blocks
from tests.pictures import check_same_picture

DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
WITH_BLOCKS = [page for page in PAGES if any(blocks((DOCS / page).read_text()))]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like the repository to run a page in."""
    monkeypatch.chdir(like_a_clone(tmp_path))
    return tmp_path


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_page_runs(page: str, clone: Path) -> None:
    for shown, printed in run_page(DOCS / page, clone):
        assert is_like(printed, shown), f"python -m tests.markdown docs/{page}\n{printed}"
    drawn = clone / "degree-curves.png"
    if drawn.exists():
        check_same_picture(DOCS / "assets" / drawn.name, drawn, "run the page's code")


def test_guides_have_code() -> None:
    folders = {
        "guides": ("pyg", "researcher", "engineer", "operator"),
        "how-to": ("own-model", "own-loop", "own-tables", "own-method", "serving"),
    }
    wanted = {f"{folder}/{name}.md" for folder, names in folders.items() for name in names}
    assert wanted | {"degree-curves.md", "selection.md", "cold-start.md", "faq.md"} <= {
        *WITH_BLOCKS
    }


DECIMAL = re.compile(r"\d+\.\d+")


def test_numbers_of_the_discussion_are_in_a_table() -> None:
    """Each decimal number stands in a row of a generated table, as it is printed there."""
    tasks = ("node-classification", "link-prediction", "recommendation", "studies")
    pages = [DOCS / "results" / f"{name}.md" for name in tasks]
    lines = "\n".join(page.read_text() for page in [*pages, ROOT / "RESULTS.md"]).splitlines()
    known = {number for line in lines for number in DECIMAL.findall(line)}
    said = DECIMAL.findall((DOCS / "results" / "discussion.md").read_text())
    assert len(said) > 50
    assert set(said) <= known


@pytest.mark.parametrize("page", PAGES)
def test_no_block_escapes(page: str) -> None:
    """A fence that is indented, titled or never closed would be shown and not be run."""
    assert "```" not in without_blocks((DOCS / page).read_text())


def test_no_table_stands_in_two_documents() -> None:
    """Nor twice in one; the head of a table may come again."""
    named = ("README.md", "RESULTS.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")
    pages = [*(ROOT / name for name in named), *DOCS.rglob("*.md")]
    tables = [
        (table, page.relative_to(ROOT).as_posix())
        for page in pages
        for table in re.findall(r"(?:^\|.*\n)+", page.read_text() + "\n", re.MULTILINE)
    ]
    assert len(tables) > 50
    bodies = Counter(tuple(sorted(table.splitlines()[2:])) for table, _ in tables)
    again = {body for body, count in bodies.items() if count > 1 and body}
    assert not {page for table, page in tables if tuple(sorted(table.splitlines()[2:])) in again}
