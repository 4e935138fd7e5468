"""Tables in a terminal: whole numbers and whole names at any width."""

import io
import json
import re
import shutil

import pytest
from rich.console import Console

from tuneup.bench.blocks import chosen_blocks
from tuneup.bench.published import paper_alone
from tuneup.bench.terminal import print_blocks


def printed(found, width):
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    print_blocks(found, paper_alone(found), console)
    shown = console.file.getvalue().splitlines()
    return [line for line in shown if not line.startswith("tuneup bench run")]


def as_the_papers(recorded, folder):
    """The same records under the name of a graph that the paper has numbers of."""
    shutil.copytree(recorded / "node-classification", folder / "node-classification")
    for path in (folder / "node-classification").glob("dblp-*"):
        other = path.rename(path.with_name(path.name.replace("dblp", "ogbn-arxiv")))
        if other.suffix == ".json":
            record = json.loads(other.read_text()) | {"dataset": "ogbn-arxiv"}
            other.write_text(json.dumps(record))
    return chosen_blocks(folder)


@pytest.mark.parametrize("task", ["node-classification", "recommendation"])
@pytest.mark.parametrize("width", [80, 60, 40])
def test_the_table_fits(recorded, width, task):
    shown = printed(chosen_blocks(recorded, task=task), width)
    assert max(len(line.rstrip()) for line in shown) <= width
    assert any("alpha" in line for line in shown)
    (base,) = [line for line in shown if line.startswith("Base")][:1]
    assert "…" not in base  # a number is whole or not there
    roomy = width == 80 or task == "recommendation"  # few columns, though the paper has its own
    assert ("±" in base) == roomy
    assert any("Standard deviations do not" in line for line in shown) == (not roomy)


@pytest.mark.parametrize("width", [40, 60, 79, 80, 100, 130, 200])
def test_every_number_of_ours_and_the_papers_has_its_method(recorded, tmp_path, width):
    shown = printed(as_the_papers(recorded, tmp_path), width)
    assert not any("…" in line for line in shown)
    lines = "\n".join(shown)
    rows = re.findall(r"^(Base|DropEdge|TuneUp) +(.*)$", lines, re.MULTILINE)
    (block,) = chosen_blocks(tmp_path)
    for row in block.rows:
        if row.records:
            own = " ".join(text for name, text in rows if name == row.title)
            for cell in row.cells.values():
                assert f"{100 * cell.score.mean:.2f}" in own
                assert f"{100 * cell.paper.mean:.2f}" in own
