"""Curricula are data: the six rows are the table of DESIGN.md, and bad values never get to run."""

from dataclasses import FrozenInstanceError, fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.optim.lr_scheduler import MultiStepLR

from tests.train.toy import small_task
from tuneup import curriculum
from tuneup.curriculum import (
    CURRICULA,
    ExtraStep,
    Full,
    Schedule,
    Stage,
    SyntheticTails,
    View,
    full,
    tails,
    task_loss,
)
from tuneup.errors import InputError
from tuneup.graph import DropEdge
from tuneup.tasks import Moment

FIRST, SECOND = Schedule(epochs=7), Schedule(epochs=9, lr=0.1)
ROWS = {
    "base": (Stage(schedule=FIRST),),
    "dropedge": (Stage(views=(tails(0.25),), schedule=FIRST),),
    "tuneup": (
        Stage(schedule=FIRST),
        Stage(views=(tails(0.25),), pseudo_labels=True, schedule=SECOND),
    ),
    "without-syn-tails": (Stage(schedule=FIRST), Stage(pseudo_labels=True, schedule=SECOND)),
    "without-pseudo-labels": (
        Stage(schedule=FIRST),
        Stage(views=(tails(0.25),), schedule=SECOND),
    ),
    "without-curriculum": (Stage(views=(full, tails(0.25)), schedule=FIRST),),
}


def test_the_six_rows_are_the_table():
    assert {name: make(0.25, FIRST, SECOND) for name, make in CURRICULA.items()} == ROWS


def test_the_functions_of_that_name_are_the_same_rows():
    arguments = {"alpha": 0.25, "pretrain": FIRST, "finetune": SECOND}
    for name, expected in ROWS.items():
        function = getattr(curriculum, name.replace("-", "_"))
        taken = function.__code__.co_varnames[: function.__code__.co_argcount]
        assert function(**{key: arguments[key] for key in taken}) == expected


def test_a_plain_stage_is_ordinary_training():
    stage = Stage()
    assert stage.views == (Full(),)
    assert stage.objective is task_loss
    assert stage.trains == ("model",)
    assert (stage.pseudo_labels, stage.extra_steps, stage.score) == (False, (), None)
    assert not stage.answers


def test_tuneups_first_stage_is_base():
    for name in ("tuneup", "without-syn-tails", "without-pseudo-labels"):
        assert ROWS[name][:1] == CURRICULA["base"](0.75, FIRST, SECOND)


# Views


def test_views_are_pure_functions_of_the_moment():
    graph = small_task().graph
    moment = Moment(seed=3, stage=1, step=7)
    assert full(graph, moment).graph is graph
    for paired in (True, False):
        view = tails(0.4, paired=paired)
        found = view(graph, moment)
        expected = DropEdge(0.4, seed=3, paired=paired)(graph, step=7, stage=1)
        assert torch.equal(found.graph.col, expected.col)
        assert torch.equal(view(graph, moment).graph.col, found.graph.col)
        assert found.nodes is None
        assert found.extra is None
        for other in (moment._replace(seed=4), moment._replace(stage=0), moment._replace(step=8)):
            changed = view(graph, other).graph
            assert changed.num_entries != expected.num_entries or not torch.equal(
                changed.col, expected.col
            )
    exact = tails(0.4, exact=True)(graph, moment).graph
    assert exact.num_edges == graph.num_edges - round(0.4 * graph.num_edges)


def test_views_are_views():
    assert isinstance(full, View)
    assert isinstance(tails(), View)
    assert tails() == SyntheticTails(0.5)
    assert tails(0.1) != tails(0.2)


# Schedules


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    milestones=st.lists(st.integers(1, 12), max_size=4),
    gamma=st.floats(0.05, 1.0),
    lr=st.floats(1e-5, 1.0),
)
def test_factor_is_multisteplr(milestones, gamma, lr):
    schedule = Schedule(lr=lr, milestones=tuple(milestones), gamma=gamma)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    theirs = MultiStepLR(optimizer, milestones, gamma)
    for epoch in range(15):
        expected = optimizer.param_groups[0]["lr"]
        assert schedule.lr * schedule.factor(epoch) == pytest.approx(expected, rel=1e-9)
        optimizer.step()
        theirs.step()


def test_the_papers_schedule_for_recommendation():
    schedule = Schedule(epochs=2000, milestones=(1000, 1500))
    factors = [schedule.factor(epoch) for epoch in (0, 999, 1000, 1499, 1500, 1999)]
    assert factors == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])


# Refusals


def test_bad_schedules_are_refused():
    for options, message in (
        ({"epochs": 0}, "epochs must be a whole number, 1 or more; got 0"),
        ({"epochs": 2.5}, "epochs must be a whole number, 1 or more; got 2.5"),
        ({"epochs": True}, "epochs must be a whole number, 1 or more; got True"),
        ({"validate_every": 0}, "validate_every must be a whole number, 1 or more"),
        ({"patience": 0}, "patience must be a whole number, 1 or more, or None"),
        ({"patience": 1.5}, "patience must be a whole number, 1 or more, or None"),
        ({"lr": 0.0}, "lr must be above 0"),
        ({"lr": -1.0}, "lr must be above 0"),
        ({"lr": float("nan")}, "lr must be above 0; got nan"),
        ({"lr": float("inf")}, "lr must be above 0; got inf"),
        ({"gamma": 0.0}, "gamma must be above 0"),
        ({"weight_decay": -0.1}, "weight_decay must be 0 or more"),
        ({"weight_decay": float("nan")}, "weight_decay must be 0 or more"),
        ({"milestones": (5, 0)}, "milestones must be epochs, 1 or more"),
        ({"clip": 0.0}, "clip must be above 0"),
        ({"clip": "1"}, "clip must be a number"),
    ):
        with pytest.raises(InputError, match=message):
            Schedule(**options)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_a_bad_alpha_is_refused_before_training(alpha):
    for make in (tails, curriculum.tuneup, curriculum.dropedge, curriculum.without_curriculum):
        with pytest.raises(InputError, match="alpha is the share of edges to drop"):
            make(alpha)


def test_bad_stages_are_refused():
    for views in ((), full, [full]):
        with pytest.raises(InputError, match="views must be a tuple of at least one view"):
            Stage(views=views)
    for options, message in (({"repeats": 0}, "repeats"), ({"lr": 0.0}, "lr must be above 0")):
        with pytest.raises(InputError, match=message):
            ExtraStep("critic", task_loss, **options)


@pytest.mark.parametrize("names", [("model",), ("critic", "critic")])
def test_a_module_is_stepped_in_one_way_only(names):
    """Two learning rates for one module in one stage: one of them would be lost."""
    extra = tuple(ExtraStep(name, task_loss, lr=0.1 * k) for k, name in enumerate(names, 1))
    with pytest.raises(InputError, match="steps each module in one way only"):
        Stage(extra_steps=extra)


def test_everything_is_frozen():
    for thing in (Schedule(), Stage(), full, tails(), ExtraStep("critic", task_loss)):
        for each in fields(thing):
            with pytest.raises(FrozenInstanceError):
                setattr(thing, each.name, None)
    assert replace(Stage(), answers=True) != Stage()


def test_the_same_view_twice_is_refused():
    """It would draw the same graph twice and call it two."""
    with pytest.raises(InputError, match="the same view twice"):
        Stage(views=(tails(0.5), tails(0.5)))
    assert len(Stage(views=(tails(0.25), tails(0.5))).views) == 2


def test_the_whole_graph_may_join_the_synthetic_tails():
    first, second = curriculum.tuneup("graded", FIRST, SECOND, whole=True)
    assert first == curriculum.base(FIRST)[0]
    assert second.views == (full, tails("graded"))
    assert second.pseudo_labels
