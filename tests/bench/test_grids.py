"""Tables of the paper as they stand there: methods by graphs."""

import io
import shutil

from rich.console import Console

from tuneup.bench.blocks import chosen_blocks
from tuneup.bench.grids import LEGEND, grids, grids_latex, grids_markdown, print_grids
from tuneup.bench.rendering import lines
from tuneup.evaluation import over_seeds

COLUMNS = [
    *(f"dblp, {name}" for name in ("transductive", "inductive", "cold-90")),
    *(
        f"paper, {graph}, {name}"
        for graph in ("ogbn-arxiv", "ogbn-products")
        for name in ("transductive", "inductive", "cold-90")
    ),
]


def grid_of(folder, table="nodecls_gcn_table", **options):
    (found,) = grids(chosen_blocks(folder, table=table), str, **options)
    return found


def test_ours_stand_beside_the_papers_own(recorded):
    grid = grid_of(recorded)
    assert grid.title == "nodecls_gcn_table, node-classification"
    assert grid.rows[0] == ["accuracy, %", *COLUMNS]
    rows = {row[0]: row[1:] for row in grid.rows[1:]}
    assert list(rows)[:2] == ["Base", "DropEdge"]  # in the paper's order
    assert list(rows)[-2:] == ["TuneUp", "TuneUp over Base, %"]
    (block,) = chosen_blocks(recorded, task="node-classification")
    for name, method in (("Base", "base"), ("TuneUp", "tuneup")):
        for column, setting in enumerate(("transductive", "inductive", "cold-90")):
            score = over_seeds(run.settings[setting] for run in block.records[method])
            assert rows[name][column].startswith(f"{100 * score.mean:.2f} ± {100 * score.std:.2f}")
    assert rows["TuneUp"][3:] == [  # of the paper, by hand
        "69.89 ± 0.06",
        "69.90 ± 0.19",
        "59.16 ± 0.44",
        "85.23 ± 0.07",
        "85.36 ± 0.06",
        "79.24 ± 0.50",
    ]
    assert rows["TuneUp over Base, %"][3:] == ["+1.0", "+1.4", "+7.7", "+1.1", "+1.1", "+6.2"]
    assert rows["LocalAug"][:3] == ["not run"] * 3
    assert grid.legend == ""


def test_a_table_of_several_architectures_names_them(recorded):
    """Of gowalla there is GCN alone; the paper's SAGE stands there without ours."""
    rows = {row[0]: row[1:] for row in grid_of(recorded, "recsys_table").rows}
    assert rows["recall@50, %"] == [
        "gowalla, transductive",
        "paper, gowalla, transductive",
        "paper, amazon-book, transductive",
    ]
    assert rows["gcn: Base"][1:] == ["9.01 ± 0.04", "5.27 ± 0.01"]
    assert rows["gcn: Base"][0] != ""
    assert "sage: Base" not in rows  # no block of ours asks for it


def test_only_the_graphs_that_are_asked_for(recorded):
    heading = grid_of(recorded, datasets=["dblp"]).rows[0]
    assert heading[1:] == COLUMNS[:3]


def test_a_row_that_lacks_seeds_is_marked(recorded, tmp_path):
    shutil.copytree(recorded / "node-classification", tmp_path / "node-classification")
    (tmp_path / "node-classification" / "dblp-gcn-dropedge-1.json").unlink()
    grid = grid_of(tmp_path)
    rows = {row[0]: row[1:] for row in grid.rows}
    assert [text.endswith(" *") for text in rows["DropEdge"]] == [True] * 3 + [False] * 6
    assert grid.legend == LEGEND


def test_without_a_table_there_is_no_grid(recorded):
    assert list(grids(chosen_blocks(recorded), str)) == []


def test_every_form_has_all_of_it(recorded):
    blocks = chosen_blocks(recorded, table="nodecls_gcn_table")
    wanted = {text for line in lines(blocks[0], str) for text in line[3:6] if "±" in text}
    (markdown,), (latex,) = grids_markdown(blocks), grids_latex(blocks)
    written = io.StringIO()
    print_grids(blocks, Console(file=written, width=250))
    assert wanted
    assert LEGEND not in markdown  # bold cells have asterisks, too
    for text in wanted:
        assert text in markdown.replace("**", "")
        assert text.split(" ")[0] in latex
        assert text.replace(" ± ", "±") in written.getvalue()
    assert latex.count(r"\\") == len(grid_of(recorded).rows)
