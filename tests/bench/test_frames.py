"""Results as rows and columns: every field is the one that its name says."""

import csv as csv_module
import io

import pytest

from tests.bench.conftest import METHODS
from tuneup.bench.blocks import chosen_blocks
from tuneup.bench.conditions import conditions
from tuneup.bench.frames import COLUMNS, csv
from tuneup.bench.published import paper_alone
from tuneup.evaluation import paired_gain

PAIR = ("base", "tuneup")  # what is recorded of pairs


def rows_of(*given):
    return list(csv_module.DictReader(io.StringIO(csv(*given))))


def test_there_is_a_row_for_every_cell_run_or_not(recorded):
    blocks = chosen_blocks(recorded)
    rows = rows_of(blocks)
    expected = [(b.task, r.method, s) for b in blocks for r in b.rows for s in b.settings]
    assert [(row["task"], row["method"], row["setting"]) for row in rows] == expected
    for row in rows:
        run = row["method"] in (METHODS if row["task"] == "node-classification" else PAIR)
        assert (row["deviation"] == "not run") == (not run)
        assert (row["mean"] == "") == (not run)
    lost = {row["method"]: row for row in rows if row["task"] == "recommendation"}["tail-gnn"]
    assert (lost["paper_mean"], lost["paper_text"]) == ("0.0777", "0.0777")


def p_value(block, method, setting):
    """The p-value of TuneUp against a method, over all seeds."""
    runs = [block.scores[name][setting] for name in (method, "tuneup")]
    return paired_gain(*([own[seed] for seed in sorted(own)] for own in runs)).p_value


def test_every_field_says_what_it_is_called(recorded):
    blocks = chosen_blocks(recorded)
    found = {(r["task"], r["method"], r["setting"]): r for r in rows_of(blocks)}
    for block in blocks:
        for row in block.rows:
            for setting, cell in row.cells.items():
                said = found[block.task, row.method, setting]
                gain, lead, paper = cell.over_base, cell.under_tuneup, cell.paper
                expected = {
                    "dataset": block.dataset,
                    "architecture": block.architecture,
                    "preset": "short",
                    "metric": block.metric,
                    "mean": cell.score.mean,
                    "std": None if cell.score.seeds == 1 else cell.score.std,
                    "seeds": cell.score.seeds,
                    "trials": row.trials,
                    "chosen": row.chosen,
                    "means_only": len(row.means_only),
                    "paper_mean": paper and paper.mean,
                    "paper_std": paper and paper.std,
                    "paper_text": paper and paper.text,
                    "gain_over_base": gain and gain.absolute,
                    "gain_low": gain and gain.low,
                    "gain_high": gain and gain.high,
                    "relative_gain_over_base": gain and gain.relative,
                    "tuneup_minus_this": lead and lead.absolute,
                    "tuneup_minus_this_low": lead and lead.low,
                    "tuneup_minus_this_high": lead and lead.high,
                    "tuneup_minus_this_p_over_nodes": lead and p_value(block, row.method, setting),
                    "deviation": row.deviation,
                    "conditions": conditions(block),
                }
                assert set(expected) | {"task", "method", "setting"} == set(COLUMNS)
                for name, value in expected.items():
                    if isinstance(value, float):
                        assert float(said[name]) == pytest.approx(value), name
                    else:
                        assert said[name] == ("" if value is None else str(value)), name


def test_what_only_the_paper_has_is_there_too(recorded):
    blocks = chosen_blocks(recorded, task="node-classification")
    rows = [row for row in rows_of(blocks, paper_alone(blocks)) if row["dataset"] != "dblp"]
    assert {row["dataset"] for row in rows} == {"ogbn-arxiv", "ogbn-products"}
    (lost,) = [
        row
        for row in rows
        if (row["dataset"], row["method"], row["setting"])
        == ("ogbn-products", "tail-gnn", "transductive")
    ]
    assert (lost["paper_mean"], lost["paper_text"], lost["mean"]) == ("", "OOM", "")
