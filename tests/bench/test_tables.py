"""Tables are pivots of the store: means, intervals and paired tests as numpy has them."""

import math
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tests.bench.test_store import scored
from tuneup.bench import Run, Store, find_blocks, long_table
from tuneup.bench.render import (
    LEGEND,
    block_table,
    grid_tables,
    latex,
    markdown,
    paired_table,
    render,
    signed,
)
from tuneup.bench.tables import (
    paper_block,
    paper_blocks,
    paper_table,
    paper_tables,
    published,
)
from tuneup.errors import InputError
from tuneup.evaluation import MISSING, paired_gain, split_by_degree
from tuneup.methods import METHODS, ROWS

SETTINGS = ("transductive", "inductive")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Base and TuneUp with three seeds, DropEdge with two, and one run of other settings."""
    store = Store(tmp_path_factory.mktemp("tables"))
    place = ("paper", "node-classification", "dblp", "gcn", "short")
    for number, (method, seeds) in enumerate({"base": 3, "tuneup": 3, "dropedge": 2}.items()):
        for seed in range(seeds):
            scores = [scored(name, 10 * number + seed, count=40) for name in SETTINGS]
            point = {} if method == "base" else {"alpha": 0.5}
            means = {part.setting: part.mean() for part in scores}
            run = Run(*place, method, seed, {"dropout": 0.5}, point, metric="accuracy", means=means)
            store.add(run, scores)
    other = replace(run, point={"alpha": 0.75})
    store.add(other, scores)
    store.add(replace(run, method="without-syn-tails", means={"transductive": 0.25}))
    store.fold()
    return store


@pytest.fixture(scope="module")
def block(store):
    (found,) = find_blocks(store)
    return found


def test_means_and_deviations_are_numpys(block):
    for method, count in (("base", 3), ("tuneup", 3), ("dropedge", 2)):
        for setting in SETTINGS:
            means = [run.means[setting] for run in block.runs[method]]
            score = block.score(method, setting)
            assert score.seeds == count
            assert score.mean == pytest.approx(np.mean(means), rel=1e-12)
            assert score.std == pytest.approx(np.std(means, ddof=1), rel=1e-12)


@pytest.mark.parametrize("group", ["overall", "tail"])
def test_gains_are_those_of_the_scores_by_node(block, group):
    def own(method, seeds):
        found = [block.scores[method]["inductive"][seed] for seed in seeds]
        return found if group == "overall" else [split_by_degree(s)[group] for s in found]

    for before, after, seeds in (("base", "tuneup", range(3)), ("base", "dropedge", range(2))):
        gain = block.gain(before, after, "inductive", group)
        assert gain == replace(
            paired_gain(own(before, seeds), own(after, seeds)), p_value=gain.p_value
        )
        differences = [
            b.mean() - a.mean() for a, b in zip(own(before, seeds), own(after, seeds), strict=True)
        ]
        assert gain.absolute == pytest.approx(np.mean(differences), abs=1e-7)
        assert gain.low < gain.absolute < gain.high
    assert block.gain("base", "base", "inductive") is None


def test_runs_of_other_settings_are_no_part_of_a_row(block):
    assert {run.point.get("alpha") for run in block.runs["dropedge"]} == {0.5}
    assert block.label("dropedge") == "DropEdge (2 of 3 seeds)"
    assert block.label("rawls-gcn") == "RAWLS-GCN"
    assert block.lacking("base", "dropedge") == [2]
    assert block.means_only("without-syn-tails") == 1
    assert block.gain("base", "without-syn-tails", "transductive") is None


def test_the_long_table_has_a_row_a_cell(block):
    frame = long_table([block], tested=True)
    assert frame.height == len(block.methods) * len(SETTINGS)
    row = frame.row(
        by_predicate=(pl.col("method") == "base") & (pl.col("setting") == "inductive"), named=True
    )
    gain = block.gain("base", "tuneup", "inductive")
    names = ("tuneup_minus_this", "tuneup_minus_this_low", "tuneup_minus_this_high")
    assert [row[name] for name in names] == [gain.absolute, gain.low, gain.high]
    assert 0 <= row["tuneup_minus_this_p_over_nodes"] <= 1
    assert row["mean"] == block.score("base", "inductive").mean
    not_run = frame.filter(method="rawls-gcn")
    assert not_run["mean"].null_count() == not_run.height
    theirs = long_table([paper_block("recommendation", "gowalla", "gcn")])
    assert theirs.filter(method="base")["mean"].to_list() == [0.0901]


def numbers(text):
    return re.findall(r"\d+\.\d\d(?! [%])", text)


@pytest.mark.parametrize("form", ["terminal", "markdown", "latex"])
def test_every_form_has_the_same_numbers(block, form):
    table = block_table(block, choices=form != "terminal")
    text = render([table], form, LEGEND, width=200)
    for method in ("base", "tuneup", "dropedge"):
        for setting in SETTINGS:
            assert f"{100 * block.score(method, setting).mean:.2f}" in text
    assert "not run" in text
    assert signed(block.gain("base", "tuneup", "inductive").relative) in text
    if form == "latex":
        for command in ("toprule", "midrule", "bottomrule", "textbf"):
            assert f"\\{command}" in text
        assert r"\%" in text


def test_marks_follow_the_intervals(block):
    cells = {row[0]: row[3:5] for row in block_table(block).rows}
    for setting, cell in zip(SETTINGS, cells["Base"], strict=True):
        gain = block.gain("base", "tuneup", setting)
        assert ("†" in cell) == (gain.low > 0)
        assert ("‡" in cell) == (gain.high < 0)
    assert "(2 of 3 seeds)" in "".join(cells)


@pytest.mark.parametrize("width", [40, 80, 300])
def test_a_narrow_terminal_gets_parts_below_each_other(width):
    table = block_table(paper_block("link-prediction", "ogbn-arxiv", "sage"))
    text = render([table], "terminal", width=width)
    assert max(map(len, text.splitlines())) <= width
    assert sorted(set(numbers(text))) == sorted(set(numbers(markdown(table))))


@pytest.mark.parametrize("name", paper_tables())
def test_every_table_of_the_paper_in_every_form(name):
    table = paper_table(name)
    theirs = paper_blocks(table.kinds, table)
    grids = list(grid_tables(theirs))
    assert {block.task for block in theirs} == {task for task, _ in table.kinds}
    rows = published().filter(table=name)
    means = {f"{100 * mean:.2f}" for mean in rows["mean"].drop_nulls()}
    for text in (render(grids, "markdown"), render(grids, "latex"), render(grids, "terminal")):
        assert means <= set(numbers(text))


def test_a_grid_has_ours_beside_the_papers(block):
    table = paper_table("nodecls_gcn_table")
    (grid,) = grid_tables([block, *paper_blocks(table.kinds, table)])
    assert grid.heading[1] == "dblp, transductive"
    assert any(name.startswith("paper, ogbn-arxiv") for name in grid.heading)
    base = next(row for row in grid.rows if row[0].endswith("Base"))
    assert len(base) == len(grid.heading)
    assert latex(grid).count(r"\\") == len(grid.rows) + 1


def test_the_paired_table_has_intervals_and_p_values(block):
    rows = {row[0].split(" (")[0]: row[1:] for row in paired_table(block).rows}
    gain = block.gain("base", "tuneup", "transductive")
    assert rows["Base"][0].startswith(f"{100 * gain.absolute:+.2f} ({100 * gain.low:+.2f}")
    assert re.search(r", p \d\.\d{3}$", rows["Base"][0])


def test_the_papers_numbers_are_carried_whole():
    frame = published()
    assert frame.height == 560
    assert set(frame["method"]) == set(ROWS) <= set(METHODS)
    assert set(frame["text"]) == {None, "OOM", "n/a"}
    assert frame.filter(pl.col("mean").is_null() & pl.col("text").is_null()).is_empty()
    quoted = {
        ("recommendation", "gowalla", "sage", "tuneup", "transductive"): 0.1025,
        ("recommendation", "gowalla", "sage-sum", "tuneup", "transductive"): 0.1028,
        ("node-classification", "ogbn-arxiv", "sage", "tuneup", "cold-90"): 0.5996,
        ("node-classification", "ogbn-arxiv", "sage", "dropedge", "cold-90"): 0.5449,
    }
    for (task, dataset, architecture, method, setting), mean in quoted.items():
        assert paper_block(task, dataset, architecture).score(method, setting).mean == mean
    missing = paper_block("node-classification", "ogbn-products", "sage")
    texts = {
        s.note for m in missing.methods for k in missing.settings if (s := missing.score(m, k))
    }
    assert "OOM" in texts
    assert missing.gain("localaug", "tail-gnn", "transductive") is None
    with pytest.raises(InputError, match="recsys_table"):
        paper_table("recsys")


def test_signs():
    assert [signed(value) for value in (0.0123, -0.0004, math.nan)] == ["+1.2", "+0.0", MISSING]
