"""Which records make a table, and what is shown of a part of one."""

import json
import shutil

import pytest

from tests.bench.conftest import recorded_suite
from tuneup.bench import rendering
from tuneup.bench.blocks import chosen_blocks
from tuneup.bench.claims import Lead, claims_table
from tuneup.bench.conditions import conditions
from tuneup.bench.gains import gains_table
from tuneup.bench.tables import Block
from tuneup.cli import app
from tuneup.evaluation import MISSING


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


def test_runs_of_other_seeds_do_not_stand_in_for_those_of_the_table(folder):
    """Base has 0, 1, 2 and TuneUp 2, 3, 4: as many, but one of them in common."""
    for old, new in ((0, 3), (1, 4)):
        name = "dblp-gcn-tuneup-{}"
        record = json.loads((folder / f"{name.format(old)}.json").read_text())
        (folder / f"{name.format(old)}.json").unlink()
        (folder / f"{name.format(new)}.json").write_text(json.dumps(record | {"seed": new}))
        (folder / f"{name.format(old)}.parquet").rename(folder / f"{name.format(new)}.parquet")
    block = Block(folder, "dblp", "node-classification", "gcn")
    rows = {row.method: row for row in block.rows}
    assert [record.seed for record in rows["tuneup"].records] == [2, 3, 4]
    assert rows["tuneup"].deviation == "1 of 3 seeds, 2 seeds more"
    assert rows["tuneup"].cells["transductive"].over_base.seeds == 1
    assert Lead("above", "base").count([block]) == ""
    assert not any("clearly" in line for line in claims_table([block]).splitlines())
    (gains,) = [line for line in gains_table([block]).splitlines() if "| ours |" in line]
    assert gains.count(MISSING) == 5


def test_a_table_of_the_paper_may_have_none_of_its_rows_run(folder, tmp_path):
    scores, record = folder / "dblp-gcn-tuneup-0.parquet", folder / "dblp-gcn-tuneup-0.json"
    told = json.loads(record.read_text()) | {"method": "nodedup"}
    scores.rename(folder / "dblp-gcn-nodedup-0.parquet")
    for path in folder.glob("*.json"):
        path.unlink()
    (folder / "dblp-gcn-nodedup-0.json").write_text(json.dumps(told))
    (block,) = chosen_blocks(tmp_path, table="nodecls_gcn_table")
    lines = rendering.lines(block, str)
    assert lines
    assert all(set(line[3:]) <= {"not run", ""} for line in lines)


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
    assert block.seeds == [1]
    assert "Preset short: at most 2 + 2 epochs" in conditions(block)  # as its own record says
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


def test_a_page_of_other_records_says_whose_it_is(folder, tmp_path, capsys):
    """And has none of the discussion, whose numbers are of this repository's own."""
    page = tmp_path / "pages" / "RESULTS.md"
    page.parent.mkdir()
    asked = ["--results", tmp_path, "--out", page, "--figures", tmp_path / "figures"]
    app(["bench", "results", *map(str, asked)], standalone_mode=False)
    text = page.read_text()
    assert "from the records under `..`" in text
    assert "## What we think of it" not in text


def test_rows_of_another_kind_of_processor_are_named(folder):
    def made_on(processor, *names):
        for name in names:
            path = folder / f"dblp-gcn-{name}.json"
            record = json.loads(path.read_text())
            record["machine"]["processor"] = processor
            path.write_text(json.dumps(record))
        return conditions(Block(folder, "dblp", "node-classification", "gcn"))

    every = [f"{method}-{seed}" for method in ("base", "dropedge", "tuneup") for seed in range(3)]
    assert "Made on" not in made_on("usual", *every)
    assert made_on("another", "tuneup-1", *every[3:6]).endswith(
        "Made on another: DropEdge, TuneUp (1 of 3 runs); all else on usual."
    )


def test_a_row_with_more_seeds_than_base_says_so(folder):
    path = folder / "dblp-gcn-base-2.json"
    path.unlink()
    assert rows_of(folder)["dropedge"].label == "DropEdge (1 seed more)"


def test_the_command_names_what_is_not_usual(folder):
    block = Block(folder, "dblp", "node-classification", "gcn")
    assert block.command.endswith(" --seed 0 --seed 1 --seed 2 --trials 3")
