"""The benchmarks' commands: they explain themselves, and say when there is nothing to do."""

import json
from dataclasses import replace

import pytest

from benchmarks import demo_graphs, labels, real_tables, run, tables
from tests.problems import node_classification
from tuneup.curriculum import Schedule
from tuneup.data import block_graph

COMMANDS = (demo_graphs, labels, real_tables, run, tables)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Nothing here may touch what was measured."""
    monkeypatch.setattr(demo_graphs, "RESULTS", tmp_path / "demo_graphs")
    for module in (tables, real_tables):
        monkeypatch.setattr(module, "README", tmp_path / "README.md")


@pytest.mark.parametrize("module", COMMANDS, ids=lambda module: module.__name__)
def test_help_explains_and_does_nothing(module, capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    assert ended.value.code == 0
    usage, description, *_ = capsys.readouterr().out.split("\n\n")
    assert usage.startswith(f"usage: python -m {module.__name__}")
    assert len(description) > 60
    assert not list(tmp_path.iterdir())


@pytest.fixture
def small_demo(monkeypatch):
    """The demo's graphs, but small and soon learned; the seeds that were run."""
    brief, made = Schedule(epochs=2, lr=0.01), []

    def problem(task, seed, architecture):
        made.append(seed)
        found = node_classification(block_graph(300, 900, 3, 8, seed=seed), architecture)
        return replace(found.scheduled(brief, brief), graph_seed=seed)

    monkeypatch.setattr(demo_graphs, "demo_problem", problem)
    monkeypatch.setattr(demo_graphs, "GRAPH_SEEDS", range(2))
    return made


def test_demo_graphs_are_run_once_and_again_if_asked(small_demo, capsys):
    demo_graphs.main([])
    assert small_demo == [0, 1]
    demo_graphs.main([])
    assert small_demo == [0, 1]
    assert "demo graphs: all 2 runs are recorded in" in capsys.readouterr().out
    demo_graphs.main(["--fresh"])
    assert small_demo == [0, 1, 0, 1]
    assert "removing 2 records from" in capsys.readouterr().out


def test_a_demo_record_says_what_it_was_made_with(small_demo):
    demo_graphs.main([])
    record = json.loads(demo_graphs.record_of(1).read_text())
    assert record["graph_seed"] == 1
    assert {"processor", "threads", "peak_rss"} <= set(record["machine"])
    assert {"python", "torch", "revision"} <= set(record["versions"])
