"""A stage carries what later methods need: other modules, other objectives, extra steps."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.train.toy import (
    Fool,
    distil,
    held_out,
    reconstruct,
    small_encoder,
    tell_apart,
    toy_curriculum,
    toy_modules,
)
from tuneup.curriculum import ExtraStep, Schedule, Stage, Update, full, tails
from tuneup.graph import DropEdge
from tuneup.graph.hashing import seed_of
from tuneup.tasks import GraphView, Moment
from tuneup.train import SlowModule, train

EPOCHS = 6


def state(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def changed(before, modules):
    return {
        name
        for name, module in modules.items()
        if any(not torch.equal(value, before[name][key]) for key, value in state(module).items())
    }


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        (slice(0, 1), {"model", "critic"}),
        (slice(1, 2), {"generator"}),
        (slice(0, 2), {"model", "critic", "generator"}),
        (slice(0, 3), {"model", "critic", "generator", "student"}),
    ],
)
def test_a_stage_trains_what_it_names_and_nothing_else(task, stages, expected):
    model, modules = small_encoder(), toy_modules()
    named = {"model": model, **modules}
    before = {name: state(module) for name, module in named.items()}
    result = train(model, task, toy_curriculum(EPOCHS)[stages], modules=modules)
    assert changed(before, named) == expected
    for module in named.values():
        assert all(parameter.grad is None for parameter in module.parameters())
    assert [s.module for s in result.record.stages] == [s.module for s in result.curriculum]


def test_what_came_out(task):
    result = train(small_encoder(), task, toy_curriculum(EPOCHS), modules=toy_modules())
    model, generator, student = result.record.stages
    assert result.record.winner == 2
    assert type(result.model).__name__ == "Student"
    assert type(result.load(1)).__name__ == "Generator"
    assert model.best_score == pytest.approx(task.validate(result.load(0)))
    assert student.best_score == pytest.approx(task.validate(result.load(2)))
    # The generator is judged by its own score, which is minus a mean squared error.
    assert -10 < generator.best_score < 0
    # The model, which the task validates, gave the labels; the generator could not.
    assert list(result.pseudo_labels) == [2]
    guess = task.forward(result.load(0), task.graph).argmax(1)
    labels = result.pseudo_labels[2]
    assert torch.equal(labels.y, guess[labels.nodes])


def test_the_best_of_several_modules(task):
    stages = toy_curriculum(EPOCHS)
    result = train(small_encoder(), task, stages, modules=toy_modules(), final="best")
    scores = [stage.best_score for stage in result.record.stages]
    assert result.record.winner == (2 if scores[2] >= scores[0] else 0)


def test_the_adversary_by_hand(task):
    """Extra steps come first, twice, at their own learning rate, inside the same moment."""
    schedule = Schedule(EPOCHS, lr=0.01, milestones=(3,))
    extra = ExtraStep("critic", tell_apart, repeats=2, lr=0.02)
    stage = Stage((full, tails(0.5)), schedule=schedule, objective=Fool(0.1), extra_steps=(extra,))
    model, modules = small_encoder(), toy_modules()
    result = train(model, task, (stage,), modules=modules, seed=4)

    model, critic = small_encoder(), toy_modules()["critic"]
    mine = torch.optim.Adam(model.parameters(), lr=0.01)
    theirs = torch.optim.Adam(critic.parameters(), lr=0.02)
    losses = []
    for epoch in range(EPOCHS):
        if epoch == 3:
            mine.param_groups[0]["lr"] = 0.01 * 0.1
        torch.manual_seed(seed_of(4, 0, epoch))
        views = (GraphView(task.graph), GraphView(DropEdge(0.5, 4)(task.graph, epoch, 0)))
        named = {"model": model, "critic": critic}
        seen = (task, views, task.supervision(), Moment(4, 0, epoch))
        for _ in range(2):
            theirs.zero_grad()
            tell_apart(Update(named, "critic", *seen)).backward()
            theirs.step()
        mine.zero_grad()
        loss = Fool(0.1)(Update(named, "model", *seen))
        losses.append(float(loss.detach()))
        loss.backward()
        mine.step()
    assert [epoch.loss for epoch in result.record.stages[0].epochs] == losses
    for name, value in critic.state_dict().items():
        assert torch.equal(modules["critic"].state_dict()[name], value)


def test_each_module_has_an_optimiser_of_its_own(task):
    made = []

    def watched(parameters, lr, weight_decay):
        made.append(torch.optim.Adam(parameters, lr=lr, weight_decay=weight_decay))
        return made[-1]

    stages = toy_curriculum(EPOCHS)[:1]
    schedule = replace(stages[0].schedule, weight_decay=0.1)
    model, modules = small_encoder(), toy_modules()
    train(model, task, (replace(stages[0], schedule=schedule),), modules=modules, optimizer=watched)
    owners = {id(model.convs[0].lin_l.weight): "model", id(modules["critic"][0].weight): "critic"}
    found = {owners[id(o.param_groups[0]["params"][0])]: o for o in made}
    assert {name: o.param_groups[0]["lr"] for name, o in found.items()} == {
        "model": 0.01,
        "critic": 0.02,
    }
    steps = {
        name: int(o.state[o.param_groups[0]["params"][0]]["step"]) for name, o in found.items()
    }
    assert steps == {"model": EPOCHS, "critic": 2 * EPOCHS}
    assert found["model"].param_groups[0]["weight_decay"] == 0.1


MODES = []


def note_modes(update: Update) -> torch.Tensor:
    MODES.append({name: module.training for name, module in update.modules.items()})
    return distil(update)


def note_modes_in_score(modules, task):
    MODES.append({name: module.training for name, module in modules.items()})
    assert not torch.is_grad_enabled()
    return 0.0


def test_only_what_is_stepped_is_in_training_mode(task):
    """A teacher answers without dropout while its student learns."""
    MODES.clear()
    stage = Stage(
        module="student",
        objective=note_modes,
        score=note_modes_in_score,
        schedule=Schedule(1),
        extra_steps=(ExtraStep("critic", tell_apart_once),),
        views=(full, tails()),
    )
    train(small_encoder(), task, (stage,), modules=toy_modules())
    learning, judged = MODES
    assert learning == {"model": False, "critic": True, "student": True, "generator": False}
    assert not any(judged.values())


def tell_apart_once(update: Update) -> torch.Tensor:
    return tell_apart(update)


def test_distillation_and_reconstruction_learn_something(task):
    """Toys, but real ones: the losses go down."""
    result = train(small_encoder(), task, toy_curriculum(25), modules=toy_modules())
    for record in result.record.stages[1:]:
        losses = [epoch.loss for epoch in record.epochs]
        assert sum(losses[-5:]) < 0.95 * sum(losses[:5])


def test_a_score_may_draw_and_stays_reproducible(task):
    stage = Stage(
        module="generator", objective=reconstruct, score=held_out, schedule=Schedule(EPOCHS)
    )
    curves = []
    for noise in (1, 2):
        torch.manual_seed(noise)
        run = train(small_encoder(), task, (stage,), modules=toy_modules())
        curves.append(run.record.curves())
    assert curves[0] == curves[1]


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_stage_may_have_an_optimizer_of_its_own(task, rate):
    """A rate of 0 in stage 2 leaves what stage 1 made."""
    model = small_encoder()
    brief = Schedule(epochs=2)
    second = Stage(schedule=brief, optimizer=SlowModule(model, rate))
    result = train(model, task, (Stage(schedule=brief), second))
    first, last = result.states
    assert all(first[key].equal(last[key]) for key in first) is (rate == 0.0)
