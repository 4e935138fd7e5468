"""One set of defaults, whether one comes from Python, the command line or the benchmark."""

import inspect
from dataclasses import replace
from typing import get_args

import pytest

import tuneup
from tuneup.bench import problems
from tuneup.cli.fit import command
from tuneup.data import (
    block_graph,
    block_interactions,
    split_edges,
    split_interactions,
    split_nodes,
)
from tuneup.names import TaskName
from tuneup.nn import EncoderSpec
from tuneup.train import DEFAULTS, SlowModule, adam
from tuneup.workflow.demo import demo_problem
from tuneup.workflow.options import FitOptions
from tuneup.workflow.problems import link_problem, node_problem, pair_problem

GRAPH = block_graph(400, 1600, 4, 8)
PAIRS = block_interactions(80, 100, 2400, 4)


def fitted(task, options):
    """The problem of the command line."""
    if task == "recommendation":
        return pair_problem(PAIRS, split_interactions(PAIRS), options)
    if task == "link-prediction":
        return link_problem(GRAPH, split_edges(GRAPH.adjacency), options)
    return node_problem(GRAPH, split_nodes(400, labelled=0.02, y=GRAPH.y), options)


def optimizers(setup):
    model = setup.base_model()
    makers = setup.optimizer, setup.finetune_optimizer or setup.optimizer
    return [
        made.rate if isinstance(made, SlowModule) else made is adam
        for made in (make(model) for make in makers)
    ]


@pytest.mark.parametrize("task", get_args(TaskName))
def test_python_command_line_and_benchmark_agree(task, monkeypatch):
    data = PAIRS if task == "recommendation" else GRAPH
    monkeypatch.setattr(problems, "load_dataset", lambda name: data)
    usual = DEFAULTS[task]
    for select in ("balanced", "transductive"):
        setup = fitted(task, FitOptions(select=select)).setup
        typed = tuneup.TuneUp(select=select).stages(task)
        assert [stage.schedule for stage in typed] == [setup.pretrain, setup.finetune]
        assert typed == tuneup.TuneUp().stages(task, select)
    assert (setup.pretrain.lr, setup.finetune.lr) == (usual.lr, usual.finetune_lr)
    assert setup.encoder.architecture == usual.architecture
    assert setup.encoder.dropout == usual.dropout

    demo = demo_problem(task, 0).setup
    assert (demo.pretrain.lr, demo.pretrain.patience) == (
        setup.pretrain.lr,
        setup.pretrain.patience,
    )
    assert replace(demo.encoder, in_channels=1, out_channels=1) == replace(
        setup.encoder, in_channels=1, out_channels=1, width=demo.encoder.width
    )
    dropout, l2 = setup.encoder.dropout, usual.l2
    shared = {"dropout": dropout, "l2": l2}
    bench = problems.problem_of(task, "dblp", usual.architecture, "short", shared).setup
    own = {"width": 256, "in_channels": 1, "out_channels": 1}
    orthogonal = {"orthogonal": bench.encoder.orthogonal}  # a setting of the preset
    assert replace(bench.encoder, **own) == replace(setup.encoder, **own, **orthogonal)
    assert type(bench.task) is type(setup.task)
    assert optimizers(bench) == optimizers(setup) == optimizers(demo)
    if task != "node-classification":
        assert bench.task.l2 == setup.task.l2 == demo.task.l2


def test_options_of_the_command_are_those_of_python():
    typed = {name: each.default for name, each in inspect.signature(command).parameters.items()}
    options = FitOptions()
    for name in ("width", "epochs", "patience", "seed", "whole", "select", "interpolate", "alpha"):
        assert typed[name] == getattr(options, name), name
    method = tuneup.TuneUp()
    for name in ("alpha", "whole", "seed", "interpolate"):
        assert getattr(options, name) == getattr(method, name), name
    width = inspect.signature(tuneup.Encoder).parameters["width"].default
    assert width == EncoderSpec(1, 1).width == options.width
