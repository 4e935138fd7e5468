"""The documentation tells the truth: every block of every page runs, in the page's order."""

from pathlib import Path
from typing import Any

import pytest

from tests.markdown import ROOT, SHELLS, blocks, like_a_clone, run_command, without_blocks
from tests.pictures import check_same_picture

DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
WITH_BLOCKS = [page for page in PAGES if any(blocks((DOCS / page).read_text()))]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like the repository to run a page in."""
    monkeypatch.chdir(like_a_clone(tmp_path))
    return tmp_path


def run_page(page: str, folder: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks((DOCS / page).read_text()):
        if block.language == "python":
            block.execute(page, names)
        elif block.language == "console":
            for command in block.commands():
                run_command(command, folder)
        else:
            assert block.language in SHELLS, f"{page}:{block.line}: nothing runs {block.language}"
            run_command(block.code, folder)


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_page_runs(page: str, clone: Path) -> None:
    run_page(page, clone)
    drawn = clone / "degree-curves.png"
    if drawn.exists():
        check_same_picture(DOCS / "assets" / drawn.name, drawn, "run the page's code")


def test_guides_have_code() -> None:
    guides = {page for page in WITH_BLOCKS if page.startswith("guides/")}
    assert guides == {f"guides/{name}.md" for name in ("pyg", "researcher", "engineer", "operator")}
    assert "degree-curves.md" in WITH_BLOCKS


@pytest.mark.parametrize("page", PAGES)
def test_no_block_escapes(page: str) -> None:
    """A fence that is indented, titled or never closed would be shown and not be run."""
    assert "```" not in without_blocks((DOCS / page).read_text())
