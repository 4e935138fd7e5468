"""Which records make a table, and what is shown of a part of one."""

import json
import shutil

import pytest

from tests.bench.conftest import recorded_suite
from tuneup.bench import rendering
from tuneup.bench.blocks import chosen_blocks
from tuneup.bench.tables import Block
from tuneup.cli import app


@pytest.fixture
def folder(recorded, tmp_path):
    """Records of nodes, to be changed."""
    shutil.copytree(recorded / "node-classification", tmp_path / "node-classification")
    return tmp_path / "node-classification"


def change(path, **config):
    record = json.loads(path.read_text())
    record["config"] |= config
    path.write_text(json.dumps(record))


def rows_of(folder):
    return {row.method: row for row in Block(folder, "dblp", "node-classification", "gcn").rows}


def test_records_of_two_choices_are_never_averaged(folder):
    path = folder / "dblp-gcn-tuneup-2.json"
    record = json.loads(path.read_text())
    record["config"]["chosen"] = {"alpha": 0.33}
    path.write_text(json.dumps(record))
    rows = rows_of(folder)
    assert [r.seed for r in rows["tuneup"].records] == [0, 1]
    assert rows["tuneup"].deviation == "2 of 3 seeds, 1 of other settings or Base left out"


def test_a_row_that_goes_on_from_another_run_of_base_is_left_out(folder):
    path = folder / "dblp-gcn-base-1.json"
    record = json.loads(path.read_text())
    record["curve"][1][2] += 1e-3  # another run, as another revision's may be
    path.write_text(json.dumps(record))
    rows = rows_of(folder)
    assert [r.seed for r in rows["tuneup"].records] == [0, 2]
    assert [r.seed for r in rows["dropedge"].records] == [0, 1, 2]  # begins on its own
    for seed in (0, 2):
        (folder / f"dblp-gcn-tuneup-{seed}.json").unlink()
    (line,) = [
        line
        for line in rendering.lines(Block(folder, "dblp", "node-classification", "gcn"), str)
        if line[0].startswith("TuneUp (")
    ]
    assert line[0] == "TuneUp (0 of 3 seeds, 1 of other settings or Base left out)"
    assert line[3] == "left out"  # it was run: the table must not say otherwise
    suite = recorded_suite(folder)
    assert suite.plan().runs == [("tuneup", 0), ("tuneup", 1), ("tuneup", 2)]


def test_records_of_another_experiment_are_never_averaged(folder):
    for path in folder.glob("*.json"):
        change(path, width=256)
    change(folder / "dblp-gcn-tuneup-2.json", width=64)
    rows = rows_of(folder)
    assert [record.seed for record in rows["tuneup"].records] == [0, 1]
    assert rows["tuneup"].deviation == "2 of 3 seeds, 1 of other settings or Base left out"
    assert rows["dropedge"].deviation == ""


def test_a_choice_of_other_settings_is_not_that_of_the_records(folder):
    row = rows_of(folder)["tuneup"]
    assert row.tried == "3 (3 of 3)"
    path = folder / "selection" / "dblp-gcn-tuneup.json"
    found = json.loads(path.read_text())
    path.write_text(json.dumps(found | {"chosen": {"alpha": 0.33}, "points": 99}))
    assert rows_of(folder)["tuneup"].tried == "3"  # as the records say
    path.write_text(json.dumps(found | {"config": {"shared": {"dropout": 0.9}}, "points": 99}))
    assert rows_of(folder)["tuneup"].tried == "3"


def test_a_single_cell_is_shown_though_there_is_no_base(folder, tmp_path, capsys):
    for path in folder.glob("dblp-gcn-*"):
        if path.stem != "dblp-gcn-tuneup-1":
            path.unlink()
    (block,) = chosen_blocks(tmp_path)
    assert block.seeds == 1
    (tmp_path / "words.md").write_text("Nothing yet.")
    page, figures = tmp_path / "RESULTS.md", tmp_path / "figures"
    asked = [["show", "--format", form] for form in ("terminal", "markdown", "latex", "csv")]
    asked += [
        ["results", "--discussion", tmp_path / "words.md", "--out", page, "--figures", figures],
        ["figures", "--out", figures],
    ]
    for words in asked:
        app(["bench", *map(str, words), "--results", str(tmp_path)], standalone_mode=False)
        said = capsys.readouterr().out.lower()
        assert ("tuneup" if words[0] == "show" else "wrote") in said
    assert "| Base |  |  | not run |" in page.read_text()
    assert "dblp, node-classification, gcn | 1 of 11 | 1 |" in page.read_text()
    assert [path.name for path in figures.glob("*.pdf")]
