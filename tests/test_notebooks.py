"""The notebooks run from top to bottom and print what they show; they are small and on the site."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs.tools.notebooks import FOLDER, as_markdown, execute
from tests.markdown import ROOT

NUMBER = re.compile(r"[-+]?\d[\d.,]*")
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))


def words(text: str) -> list[str]:
    """A text without its numbers, which differ from processor to processor."""
    return NUMBER.sub("#", text).split()


def printed(notebook: Any) -> list[str]:
    """What each code cell printed."""
    cells = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    outputs = ([out for out in cell["outputs"] if "text" in out] for cell in cells)
    return ["".join("".join(out["text"]) for out in found) for found in outputs]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_prints_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TUNEUP_DATA", raising=False)  # its outputs are those of the sample
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    stored = json.loads((FOLDER / name).read_text())
    found = printed(execute(FOLDER / name, tmp_path))
    assert any(found)
    for now, then in zip(found, printed(stored), strict=True):
        assert words(now) == words(then), f"python -m docs.tools.notebooks {name}\n{now}"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_is_small_and_has_its_outputs(name: str) -> None:
    stored = json.loads((FOLDER / name).read_text())
    assert any(printed(stored))
    assert (FOLDER / name).stat().st_size < 40_000
    page = as_markdown(FOLDER / name)
    assert page.startswith("# ")
    assert f"({name})" in page


def test_three_notebooks() -> None:
    assert NOTEBOOKS == ["compare.ipynb", "pyg.ipynb", "tables.ipynb"]
