"""Pages and tables of this repository are what its records and measurements say."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import growth, pairs, real_tables, tables
from benchmarks.case import Case
from benchmarks.records import RESULTS
from tuneup.bench.blocks import every_block
from tuneup.bench.records import read_records

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def recorded_blocks():
    """All that is recorded here: both pages show it, and its intervals are worked out once."""
    return every_block(ROOT / "benchmarks" / "results")


@pytest.mark.parametrize(
    ("name", "parts"), [("speed", tables.SPEED), ("growth", tables.GROWTH)], ids=["speed", "growth"]
)
def test_the_measured_tables_are_what_the_files_say(name, parts):
    text = tables.README.read_text()
    assert tables.replace_between(text, name, tables.render(parts, RESULTS)) == text
    assert growth.PICTURE.exists() == (RESULTS / "growth.json").exists()


def test_what_was_not_measured_says_how_to(tmp_path, monkeypatch):
    growing = tables.render(tables.GROWTH, tmp_path)
    assert "run `python -m benchmarks.growth`, then `python -m benchmarks.tables`." in growing
    assert "run `python -m benchmarks.speed gat`, then" in tables.render(tables.SPEED, tmp_path)
    for task in real_tables.SECTIONS.values():
        assert real_tables.render(task, ()) == (
            f"Not measured yet: run `tuneup bench run --task {task}`, then "
            "`python -m benchmarks.real_tables`."
        )


@pytest.mark.parametrize("problem", ["pairs", "ranking"])
def test_the_recommendation_cases_agree(problem):
    """Ours and the naive model lose alike; both rankings run."""
    case = Case("gcn", "ours", nodes=700, warmup=1, epochs=1, problem=problem)
    other = "pyg-edge-index" if problem == "pairs" else "bare-products"
    found = [
        pairs.trainer(variant, pairs.load(variant))
        for variant in (case, replace(case, variant=other))
    ]
    losses = [[epoch(step) for step in range(3)] for epoch in found]
    if problem == "pairs":
        assert losses[0] == pytest.approx(losses[1], abs=1e-4)


@pytest.mark.parametrize("marker", [*real_tables.SECTIONS])
def test_the_tables_on_real_graphs_are_what_the_records_say(marker, recorded_blocks):
    """All but the intervals' bootstrap is read; the whole section is made again."""
    text = tables.README.read_text()
    section = real_tables.render(real_tables.SECTIONS[marker], recorded_blocks)
    assert tables.replace_between(text, marker, section) == text


@pytest.mark.parametrize("marker", [*real_tables.FROM_RECORDS])
def test_everything_else_that_was_measured_is_what_the_files_say(marker):
    text = tables.README.read_text()
    made = real_tables.FROM_RECORDS[marker]()
    assert tables.replace_between(text, marker, made) == text


def test_the_results_page_is_what_the_records_say(tmp_path, recorded_blocks):
    from tests.pictures import check_same_picture
    from tuneup.bench.figures import write_overviews
    from tuneup.bench.results_page import results_page

    words = (ROOT / "benchmarks" / "discussion.md").read_text()
    figures = ROOT / "benchmarks" / "figures"
    shown = []
    for drawn in write_overviews(recorded_blocks, tmp_path, (".png",)):
        check_same_picture(figures / drawn.name, drawn, "tuneup bench results")
        shown.append(f"benchmarks/figures/{drawn.name}")
    assert len(shown) == len(list(figures.iterdir()))
    assert results_page(recorded_blocks, words, shown) == (ROOT / "RESULTS.md").read_text()


MEANS_ONLY = {"node-classification": 12, "link-prediction": 6, "recommendation": 3}
"""Runs in which release 0.1 kept Base: of stage 2, the means alone were recorded."""


@pytest.mark.parametrize("task", MEANS_ONLY)
def test_every_mean_that_is_recorded_is_that_of_its_scores(task):
    """Variants too, which the tables leave out."""
    folder = ROOT / "benchmarks" / "results" / task
    found = read_records(folder)
    assert found
    for record in found:
        assert record.means_only or "transductive" in record.scores(folder)
    assert sum(record.means_only for record in found) == MEANS_ONLY[task]
