"""One set of defaults, by whichever door one comes in."""

import inspect
from typing import get_args

import pytest

import tuneup
from tuneup.cli.fit import command
from tuneup.names import TaskName
from tuneup.train import DEFAULTS
from tuneup.workflow.demo import demo_problem
from tuneup.workflow.options import FitOptions


@pytest.mark.parametrize("task", get_args(TaskName))
def test_python_and_the_command_line_train_alike(task):
    usual, options = DEFAULTS[task], FitOptions()
    first, second = options.schedules(task)
    assert (first, second) == usual.schedules()
    assert [stage.schedule for stage in tuneup.TuneUp().stages(task)] == [first, second]
    encoder = options.encoder(task, 8, 4)
    assert (encoder.architecture, encoder.dropout) == (usual.architecture, usual.dropout)
    demo = demo_problem(task, 0, usual.architecture)
    assert (demo.setup.pretrain.lr, demo.setup.finetune.lr) == (first.lr, second.lr)
    assert demo.setup.pretrain.patience == first.patience
    assert demo.setup.encoder.dropout == usual.dropout


def test_options_of_the_command_are_those_of_python():
    typed = {name: each.default for name, each in inspect.signature(command).parameters.items()}
    options = FitOptions()
    for name in ("width", "epochs", "patience", "seed"):
        assert typed[name] == getattr(options, name), name
    method = tuneup.TuneUp()
    assert (options.alpha, options.whole, options.seed) == (
        method.alpha,
        method.whole,
        method.seed,
    )
