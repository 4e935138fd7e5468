"""What is trained is what its records say of it, for every task, architecture and preset."""

from dataclasses import asdict
from itertools import product
from typing import get_args

import pytest

from benchmarks import labels
from tuneup.bench import experiments
from tuneup.bench.experiments import PROBLEMS, experiment
from tuneup.bench.presets import shared_grid
from tuneup.data import block_graph, block_interactions
from tuneup.names import Architecture

GRAPH = block_graph(400, 1600, 4, 8)
PAIRS = block_interactions(80, 100, 2400, 4)
EVERY = list(product(get_args(Architecture), ("short", "paper")))


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Small graphs under the names of real ones."""
    data = {"gowalla": PAIRS, "amazon-book": PAIRS}
    monkeypatch.setattr(experiments, "load_dataset", lambda name: data.get(name, GRAPH))


def made(tmp_path, task, dataset, architecture, preset):
    """The problem of the last point that Base chooses from, and what its records would say."""
    shared = {name: values[-1] for name, values in shared_grid(task, architecture, preset).items()}
    suite = experiment(dataset, task, architecture, results=tmp_path, runs=tmp_path, preset=preset)
    problem = PROBLEMS[task](dataset, architecture, preset, shared)
    said, setup = suite.config, problem.setup
    assert asdict(setup.pretrain) == said["pretrain"]
    assert asdict(setup.finetune) == said["finetune"]
    assert setup.encoder.architecture == architecture
    assert setup.encoder.width == said["width"]
    assert setup.encoder.num_layers == said["layers"] == 3
    assert setup.encoder.norm == said["norm"]
    assert setup.encoder.dropout == shared.get("dropout", 0.0)
    return setup, shared, said, problem


@pytest.mark.parametrize(("architecture", "preset"), EVERY)
def test_node_classification(tmp_path, architecture, preset):
    task = "node-classification"
    setup, _, said, problem = made(tmp_path, task, "ogbn-arxiv", architecture, preset)
    labelled = [setup.task.train.numel(), setup.task.validation.numel()]
    assert sum(labelled) == int(said["labelled"] * GRAPH.num_nodes) == 40
    assert labelled[0] == labelled[1]
    assert setup.task.graph.num_nodes == int(0.95 * GRAPH.num_nodes)
    assert setup.encoder.in_channels == GRAPH.num_features
    assert setup.encoder.out_channels == GRAPH.num_classes
    names = ["transductive", "inductive", "cold-30", "cold-60", "cold-90"]
    assert [setting.name for setting in problem.settings] == names


@pytest.mark.parametrize("architecture", labels.USUAL)
def test_more_labels_and_nothing_else_that_differs(architecture):
    more, dropout = labels.suite(architecture), {"dropout": 0.5}
    usual = experiment(
        labels.DATASET, labels.TASK, architecture, results=labels.RESULTS, runs=labels.RUNS
    )
    assert more.config == {**usual.config, "labelled": 0.1}
    assert more.results != usual.results
    assert (more.shared, more.budget) == (usual.shared, usual.budget)
    few, many = (suite.problem(dropout).setup for suite in (usual, more))
    counts = [setup.task.train.numel() + setup.task.validation.numel() for setup in (few, many)]
    assert counts == [8, 40]  # 2 and 10 % of 400
    assert (few.encoder, few.pretrain, few.finetune) == (many.encoder, many.pretrain, many.finetune)


@pytest.mark.parametrize(("architecture", "preset"), EVERY)
def test_links(tmp_path, architecture, preset):
    setup, shared, said, problem = made(tmp_path, "link-prediction", "dblp", architecture, preset)
    assert shared["l2"] > 0
    assert (setup.task.l2.input, setup.task.l2.output) == (0.0, shared["l2"])
    assert setup.encoder.out_channels == said["embedding"] == {"short": 64, "paper": 256}[preset]
    decoder = setup.base_model().head
    assert decoder.hidden.out_features == said["decoder_width"]
    inside = setup.task.graph.num_edges + setup.task.validation.shape[1]
    assert setup.task.graph.num_edges / inside == pytest.approx(0.5 / 0.7, abs=0.01)
    assert len(problem.settings) == 5


@pytest.mark.parametrize(("architecture", "preset"), EVERY)
def test_recommendation(tmp_path, architecture, preset):
    setup, shared, said, _ = made(tmp_path, "recommendation", "gowalla", architecture, preset)
    assert shared["l2"] > 0
    assert (setup.task.l2.input, setup.task.l2.output) == (shared["l2"], 0.0)
    model = setup.base_model()
    assert model.inputs.vectors.shape[1] == setup.encoder.in_channels == said["embedding"] == 64
    assert float(model.inputs.vectors.detach().std()) == pytest.approx(said["std"], rel=0.1)
    assert (model.inputs.unknown is not None) == said["unknown"] == (preset == "short")
    assert setup.encoder.orthogonal == said["orthogonal"]
    model = setup.base_model()
    assert [make(model).rate for make in (setup.optimizer, setup.finetune_optimizer)] == [
        *said["weights_lr"]
    ]
    assert len(setup.task.train) == pytest.approx(0.10 * len(PAIRS), abs=1)
    assert len(setup.task.validation) == pytest.approx(0.05 * len(PAIRS), abs=1)
