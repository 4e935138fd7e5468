"""What is trained is what its runs say of it, for every task, architecture and preset."""

from dataclasses import asdict
from typing import get_args

import pytest

from tuneup.bench import problems
from tuneup.bench.presets import base_points
from tuneup.bench.problems import config_of, problem_of
from tuneup.curriculum import Schedule
from tuneup.data import block_graph, block_interactions
from tuneup.names import TaskName

GRAPH = block_graph(400, 1600, 4, 8)
PAIRS = block_interactions(80, 100, 2400, 4)
DATASETS = {
    "node-classification": "ogbn-arxiv",
    "link-prediction": "dblp",
    "recommendation": "gowalla",
}
KINDS = [("sage-sum", "short"), ("gcn", "short"), ("gat", "short"), ("sage", "paper")]
EVERY = [(task, *kind) for task in get_args(TaskName) for kind in KINDS]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Small graphs under the names of real ones."""
    small = {"gowalla": PAIRS}
    monkeypatch.setattr(problems, "load_dataset", lambda name: small.get(name, GRAPH))


@pytest.mark.parametrize(("task", "architecture", "preset"), EVERY)
def test_a_problem_is_what_its_config_says(task, architecture, preset):
    where = (task, DATASETS[task], architecture, preset)
    said, shared = config_of(*where, "paper"), base_points(*where[::2], preset)[-1]
    problem = problem_of(*where, shared)
    setup = problem.setup
    for schedule, facts in ((setup.pretrain, "pretrain"), (setup.finetune, "finetune")):
        assert said[facts].items() <= asdict(schedule).items()
        assert {"epochs", "lr", "patience"} <= said[facts].keys()
    assert setup.encoder.architecture == architecture
    assert (setup.encoder.width, setup.encoder.num_layers) == (said["width"], said["layers"])
    assert setup.encoder.norm == said["norm"]
    assert setup.encoder.dropout == shared.get("dropout", 0.0)
    if task == "node-classification":
        labelled = [setup.task.train.numel(), setup.task.validation.numel()]
        assert sum(labelled) == int(said["labelled"] * GRAPH.num_nodes) == 40
        assert labelled[0] == labelled[1]
        assert len(problem.settings) == 5
    elif task == "link-prediction":
        assert (setup.task.l2.input, setup.task.l2.output) == (0.0, shared["l2"])
        assert setup.encoder.out_channels == said["embedding"]
        assert setup.base_model().head.hidden.out_features == said["decoder_width"]
    else:
        model = setup.base_model()
        assert (setup.task.l2.input, setup.task.l2.output) == (shared["l2"], 0.0)
        assert float(model.inputs.vectors.detach().std()) == pytest.approx(said["std"], rel=0.1)
        assert (model.inputs.unknown is not None) == said["unknown"] == (preset == "short")
        assert setup.encoder.orthogonal == said["orthogonal"]
        rates = [make(model).rate for make in (setup.optimizer, setup.finetune_optimizer)]
        assert rates == [*said["weights_lr"]]


def test_the_papers_schedule_of_recommenders():
    setup = problem_of("recommendation", "gowalla", "gcn", "paper", {"l2": 0.01}).setup
    steps = Schedule(2000, 0.001, 10, None, (1000, 1500), gamma=0.1)
    assert (setup.pretrain, setup.finetune) == (steps, Schedule(500, 0.0001, 10))
    model = setup.base_model()
    assert setup.task.negatives == 1
    assert model.inputs.unknown is model.inputs.shared is None
    rates = [make(model).rate for make in (setup.optimizer, setup.finetune_optimizer)]
    assert rates == [1.0, 1.0]  # all weights learn at one rate


def test_more_labels_and_nothing_else_that_differs():
    where = ("node-classification", "Computers", "gcn", "short")
    few, many = (config_of(*where, study) for study in ("paper", "labels"))
    assert many == {**few, "labelled": 0.1}
    setups = [problem_of(*where, {"dropout": 0.5}, study).setup for study in ("paper", "labels")]
    counts = [s.task.train.numel() + s.task.validation.numel() for s in setups]
    assert counts == [8, 40]
    assert setups[0].encoder == setups[1].encoder
