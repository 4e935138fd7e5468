"""The paper's own tables, shown where we have no records of its graphs."""

import pytest

from tuneup.bench import rendering
from tuneup.bench.blocks import chosen_blocks
from tuneup.bench.paper import published
from tuneup.bench.published import paper_alone, paper_blocks, paper_text


def test_graphs_that_only_the_paper_has_get_a_table(recorded):
    found = paper_alone(chosen_blocks(recorded))
    places = [(block.dataset, block.task, block.architecture) for block in found]
    assert places == [
        ("ogbn-arxiv", "node-classification", "gcn"),
        ("ogbn-products", "node-classification", "gcn"),
        ("amazon-book", "recommendation", "gcn"),  # gowalla stands beside ours
    ]


def test_a_dataset_that_was_asked_for_brings_no_others(recorded):
    assert paper_alone(chosen_blocks(recorded, datasets=["dblp"]), ["dblp"]) == []
    (found,) = paper_alone(chosen_blocks(recorded), ["amazon-book"])
    assert found.dataset == "amazon-book"


def test_every_published_number_is_in_it(recorded):
    for block in paper_alone(chosen_blocks(recorded)):
        own = published().filter(
            dataset=block.dataset, task=block.task, architecture=block.architecture
        )
        *rows, gains = block.lines
        assert gains[0] == "TuneUp over Base, %"
        assert all(len(line) == len(block.heading) for line in block.lines)
        cells = {
            (block.methods[k], name): rows[k][1 + column]
            for k in range(len(rows))
            for column, name in enumerate(block.settings)
        }
        for row in own.unique(["method", "setting"]).iter_rows(named=True):
            shown = cells[row["method"], row["setting"]]
            mean = row["mean"]
            assert shown.startswith(mean if mean in ("OOM", "n/a") else f"{100 * float(mean):.2f}")


def test_a_table_of_the_paper_keeps_its_rows_and_columns(recorded):
    found = paper_alone(chosen_blocks(recorded, table="gnn_model_table"))
    assert found
    for block in found:
        assert block.methods == ("base", "tuneup")
        assert set(block.settings) <= {"transductive", "inductive", "cold-90"}


@pytest.mark.parametrize("form", [rendering.latex, rendering.paper_part])
def test_every_form_has_a_line_a_method(recorded, form):
    for block in paper_alone(chosen_blocks(recorded)):
        text = form(block)
        assert block.title in text
        for method in block.lines:
            assert method[0].replace("%", r"\%" if form is rendering.latex else "%") in text


def test_a_cell_that_the_paper_does_not_have_is_empty():
    assert paper_text("dblp", "node-classification", "gcn", "base", "transductive") == ""
    assert (
        paper_text("gowalla", "recommendation", "gcn", "tuneup", "transductive") == "10.94 ± 0.07"
    )


def test_graphs_that_both_have_are_among_the_papers(recorded):
    found = paper_blocks(chosen_blocks(recorded, task="recommendation"))
    assert [block.dataset for block in found] == ["gowalla", "amazon-book"]
    gain = found[0].gain("base", "tuneup", "transductive")
    assert gain.absolute == pytest.approx(0.1094 - 0.0901)
    assert gain.relative == pytest.approx(0.1094 / 0.0901 - 1)
    assert found[0].gain("base", "localaug", "transductive") is None  # it needs features
