"""The demo's pieces: both methods from one run, and files that come all together or not at all."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import torch
from torch_geometric.data import Data

from tests.problems import link_prediction, node_classification, recommendation
from tuneup.curriculum import Schedule
from tuneup.data import block_graph, block_interactions, demo_interactions, graph_from
from tuneup.methods import METHODS, prepare, run
from tuneup.workflow.demo import command_of, run_demo, write_demo

BRIEF = Schedule(epochs=3, lr=0.01)


def brief(problem):
    return problem.scheduled(BRIEF, BRIEF)


@pytest.fixture(scope="module")
def demo():
    return run_demo(brief(node_classification(block_graph(600, 1800, 3, 8, seed=1))))


def test_base_and_tuneup_come_from_one_run_that_the_metrics_describe():
    problem = replace(brief(node_classification(block_graph(600, 1800, 3, 8), "gcn")), graph_seed=4)
    demo = run_demo(problem, seed=2, alpha=0.25)
    assert list(demo.base) == ["transductive", "inductive", "cold-30", "cold-60", "cold-90"]
    assert demo.base.keys() == demo.tuneup.keys()
    assert len(demo.result.states) == 2
    metrics = demo.metrics(command_of(demo))
    assert metrics["scores"]["base"]["inductive"]["overall"]["count"] == 30
    assert metrics["training"]["stages"][1]["pseudo_labels"] > 0
    assert metrics["command"] == (
        "tuneup demo --task node-classification --architecture gcn --alpha 0.25 --seed 2 "
        "--graph-seed 4"
    )
    assert metrics["graph"] == "blocks: 600 nodes, 1,800 undirected edges, 8 features, 3 classes"
    assert (metrics["task"], metrics["architecture"]) == ("node-classification", "gcn")
    assert (metrics["graph_seed"], metrics["alpha"], metrics["training"]["seed"]) == (4, 0.25, 2)
    assert metrics["machine"]["cores"] > 0
    assert "torch" in metrics["versions"]


def test_edge_tasks_come_in_the_same_form(tmp_path):
    links = link_prediction(block_graph(300, 1200, 3, 8), "gcn")
    pairs = recommendation(block_interactions(60, 80, 1500, 3), "gcn")
    assert pairs.description == "blocks: 60 users, 80 items, 1,500 pairs"
    assert pairs.unit == "users"
    for problem, settings in ((links, 5), (pairs, 1)):
        demo = run_demo(brief(problem))
        assert len(demo.base) == settings
        assert demo.metrics("")["metric"] == "recall@50"
        files = write_demo(demo, tmp_path / str(settings), lambda path: path.write_text("."))
        assert "pseudo-labels.parquet" not in {path.name for path in files}


def test_a_model_is_a_function_of_its_seed():
    problem = node_classification(block_graph(100, 300, 2, 4))
    plain = METHODS["base"].settings
    models = [prepare(plain, problem.setup, seed).model for seed in (0, 0, 1)]
    weights = [next(model.parameters()) for model in models]
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])


def test_pseudo_labels_are_saved_by_node(demo, tmp_path):
    files = write_demo(demo, tmp_path, lambda path: path.write_text("a figure"))
    names = {path.name for path in files}
    assert names == {path.name for path in tmp_path.iterdir()}
    saved = pl.read_parquet(tmp_path / "pseudo-labels.parquet")
    labels = demo.result.pseudo_labels[1]
    assert saved["node"].to_list() == demo.problem.task.graph.global_ids[labels.nodes].tolist()
    assert saved["label"].to_list() == labels.y.tolist()
    assert set(saved["stage"]) == {2}
    assert saved["confidence"].is_between(0, 1).all()


def test_a_failing_figure_leaves_nothing(demo, tmp_path):
    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("cannot draw")

    with pytest.raises(OSError, match="cannot draw"):
        write_demo(demo, tmp_path, fail)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path):
    """Files may grow to 8 kB here, as on a disk that fills up while the figure is written."""
    script = textwrap.dedent("""
        import resource, sys
        from pathlib import Path
        from dataclasses import replace
        from tuneup.workflow.demo import command_of, run_demo, write_demo
        from tests.problems import node_classification
        from tuneup.curriculum import Schedule
        from tuneup.data import block_graph
        from tuneup.errors import OutputError
        from tuneup.report import degree_figure
        brief = Schedule(epochs=1)
        problem = node_classification(block_graph(600, 1800, 3, 8))
        demo = run_demo(problem.scheduled(brief, brief))
        curves = {"Base": list(demo.base.values())}
        degree_figure(curves, "warm.png")
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        try:
            write_demo(demo, Path("out"), lambda path: degree_figure(curves, path))
        except OutputError as error:
            print(error)
            sys.exit(1)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("cannot write ")
    assert list((tmp_path / "out").iterdir()) == []


def test_files_of_an_earlier_demo_are_removed(demo, tmp_path):
    (tmp_path / "mine.txt").write_text("stays")
    write_demo(demo, tmp_path, lambda path: path.write_text("a figure"))
    pairs = run_demo(brief(recommendation(block_interactions(60, 80, 1500, 3))))
    write_demo(pairs, tmp_path, lambda path: path.write_text("a figure"))
    assert not (tmp_path / "pseudo-labels.parquet").exists()
    write_demo(pairs, tmp_path, None)  # as without matplotlib
    assert not (tmp_path / "degrees.png").exists()
    assert (tmp_path / "mine.txt").exists()


def test_a_group_without_nodes_has_no_mean(tmp_path):
    """And the file is still JSON, which knows no NaN."""
    chain = torch.arange(200)
    graph = graph_from(
        Data(
            x=torch.randn(200, 4),
            y=chain % 2,
            edge_index=torch.stack([chain[:-1], chain[1:]]),
            num_nodes=200,
        )
    )
    demo = run_demo(brief(node_classification(graph)))
    write_demo(demo, tmp_path, lambda path: path.write_text("a figure"))

    def refuse(name):
        raise ValueError(name)

    found = json.loads((tmp_path / "metrics.json").read_text(), parse_constant=refuse)
    assert found["scores"]["base"]["transductive"]["head"]["mean"] is None


def test_attention_over_learned_inputs_learns():
    short, losses = Schedule(48, 0.01, validate_every=48), []
    setup = recommendation(demo_interactions(0), "gat").scheduled(short, short).setup
    run(METHODS["base"], setup, callback=lambda progress: losses.append(progress.loss))
    assert losses[-1] < 0.63
