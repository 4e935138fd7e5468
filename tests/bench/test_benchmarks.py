"""The benchmarks measure what they say, and the pages are what the files say."""

import pytest

from benchmarks import __main__ as command
from benchmarks import pages
from benchmarks.harness import ROOT, Record, Spread, goal, section, worktree
from benchmarks.models import load, trainer
from benchmarks.speed import USUAL
from tuneup.bench import Store, find_blocks


@pytest.mark.parametrize(
    ("case", "others"),
    [
        ({"architecture": "gcn"}, ("pyg-edge-index", "pyg-adj-t")),
        ({"architecture": "gcn", "problem": "pairs"}, ("pyg-edge-index",)),
        ({"architecture": "gcn", "problem": "ranking"}, ("bare-products",)),
    ],
)
def test_variants_compute_the_same(case, others):
    losses = []
    for variant in ("ours", *others):
        whole = {**USUAL, **case, "variant": variant, "nodes": 700}
        epoch = trainer(whole, load(whole))
        losses.append([epoch(step) for step in range(2)])
    if case.get("problem") != "ranking":
        for other in losses[1:]:
            assert other == pytest.approx(losses[0], abs=1e-4)


def test_every_benchmark_reports_what_its_file_says():
    assert command.readme() == command.README.read_text()


def test_records_resume_and_spreads_divide_within_a_round(tmp_path):
    record = Record("command", {"processor": "one"}, 4)
    one, other = {"way": "a"}, {"way": "b"}
    for number in range(2):
        record.of(one)[number] = {"seconds": [2.0 * (number + 1)]}
        record.of(other)[number] = {"seconds": [1.0 * (number + 1)]}
    record.save(tmp_path / "x.json")
    found = Record.load(tmp_path / "x.json")
    assert found == record
    ratio = found.ratio(one, other, lambda each: each["seconds"][0])
    assert ratio == Spread(2.0, 2.0, 2.0, 2)
    assert goal("x", ratio, 2.0)[-1] == "yes"
    assert goal("x", ratio, 3.0, at_least=True)[-1] == "**missed**"
    assert "Not measured yet" in section(command.BENCHMARKS["sage"], tmp_path)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
def test_another_revision_is_checked_out_beside_this_one():
    with worktree("HEAD") as tree:
        assert (tree / "benchmarks" / "__main__.py").is_file()
        assert tree != ROOT
    assert not tree.exists()
    with pytest.raises(SystemExit, match="--against nowhere"), worktree("nowhere"):
        pass


def test_the_page_of_recommendation_is_what_the_store_says():
    """The other pages are made by the same functions, and take minutes."""
    blocks = find_blocks(Store(pages.STORE), task="recommendation")
    path = ROOT / "docs" / "results" / "recommendation.md"
    assert path.read_text() == pages.task_page(blocks, "recommendation")
    text = (ROOT / "RESULTS.md").read_text()
    for name in ("findings", "set-up"):
        assert pages.text(name).strip() in text
    assert len(text.splitlines()) <= 200
