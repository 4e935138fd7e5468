"""What the loop promises its caller: one result per seed, what is told and refused, and batches."""

import math
import operator
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv

from tests.train.loop_toys import (
    ALPHA,
    EPOCHS,
    FINETUNE,
    MODELS,
    SCHEDULE,
    SEED,
    run,
    same,
    same_runs,
    ten,
    unpruned_task,
)
from tests.train.toy import PygNet, small_encoder, small_task
from tuneup.curriculum import Schedule, Stage, base, dropedge, full, tails, tuneup
from tuneup.errors import InputError
from tuneup.tasks import Moment
from tuneup.train import Checkpoints, train

task = pytest.fixture(unpruned_task, scope="module")


# Randomness


def test_the_callers_generator_is_untouched(task):
    torch.manual_seed(123)
    before = torch.get_rng_state()
    run(small_encoder(), small_task(), tuneup(ALPHA, SCHEDULE, FINETUNE))
    run(PygNet(), task, tuneup(ALPHA, SCHEDULE, FINETUNE))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", MODELS)
def test_one_seed_one_result(name):
    """Whatever the caller's generator says, and with a task that has seen other runs."""
    curriculum = tuneup(ALPHA, SCHEDULE, FINETUNE)
    used = small_task()
    run(small_encoder(architecture="gcn"), used, curriculum, seed=1)
    torch.manual_seed(1)
    first = run(MODELS[name](), used, curriculum)
    torch.manual_seed(2)
    assert same_runs(first, run(MODELS[name](), small_task(), curriculum))
    other = run(MODELS[name](), used, curriculum, seed=SEED + 1)
    assert other.record.curves() != first.record.curves()


def test_the_seed_decides_the_dropped_edges_alone():
    """Without dropout Base is the same for every seed; DropEdge is not."""
    for curriculum, alike in ((base(SCHEDULE), True), (dropedge(ALPHA, SCHEDULE), False)):
        runs = [run(small_encoder(dropout=0.0), small_task(), curriculum, seed=s) for s in (1, 2)]
        assert (runs[0].record.curves() == runs[1].record.curves()) is alike


# What is told, and what is refused


def test_the_callback_hears_every_epoch(task):
    heard = []
    curriculum = tuneup(ALPHA, SCHEDULE, FINETUNE)
    result = run(small_encoder(), task, curriculum, callback=heard.append)
    told = [(p.stage - 1, p.epoch, p.loss, p.score) for p in heard]
    assert told == result.record.curves()
    assert {p.stages for p in heard} == {2}
    assert [p.stopped != "" for p in heard] == [p.epoch == p.epochs for p in heard]
    for stage in (1, 2):
        best = -math.inf
        for progress in (p for p in heard if p.stage == stage):
            best = max(best, progress.score)
            assert progress.best == best


def test_gradients_do_not_stay_behind(task):
    model = small_encoder()
    run(model, task, base(SCHEDULE))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_frozen_parameters_stay_frozen(task):
    model = small_encoder()
    model.convs[0].requires_grad_(False)
    before = {name: value.clone() for name, value in model.convs[0].state_dict().items()}
    after = run(model, task, tuneup(ALPHA, SCHEDULE, FINETUNE)).model
    assert same(after.convs[0].state_dict(), before)


def test_a_list_is_a_curriculum(task):
    stages = tuneup(ALPHA, SCHEDULE, FINETUNE)
    whole = run(small_encoder(), task, stages)
    listed = run(small_encoder(), task, list(stages))
    assert same_runs(whole, listed)


class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(-1, 3)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


def test_lazy_layers_are_asked_for_their_shapes_first(task):
    model = Lazy()
    with pytest.raises(InputError, match="call it once on the data first"):
        run(model, task, base(SCHEDULE))
    model(task.data.x, task.graph.edge_index)
    run(model, task, base(Schedule(1)))


@pytest.mark.parametrize(
    ("curriculum", "message"),
    [
        ((), "at least one stage"),
        ((Stage(pseudo_labels=True),), "Stage 1 cannot use pseudo-labels"),
        ((Stage(score=ten), Stage(pseudo_labels=True)), "Stage 2 cannot use pseudo-labels"),
        ((Stage(), Stage(module="student")), "Stage 2 trains 'student'; there are only: model"),
    ],
)
def test_impossible_curricula_are_refused_before_training(task, curriculum, message):
    heard = []
    with pytest.raises(InputError, match=message):
        run(small_encoder(), task, curriculum, callback=heard.append)
    assert heard == []


def test_one_of_several_processes_must_find_the_others(task, monkeypatch):
    """Else each of them would train the same model."""
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=r"MASTER_ADDR: not set, though WORLD_SIZE is 2"):
        train(small_encoder(), task, base(SCHEDULE))
    monkeypatch.setenv("WORLD_SIZE", "1")
    train(small_encoder(), task, base(Schedule(1)))


def test_views_may_be_anything_that_makes_a_view(task):
    both = (Stage(views=(full, tails(0.2), tails(0.8)), schedule=SCHEDULE),)
    assert len(run(small_encoder(), task, both).record.curves()) == EPOCHS


def test_a_copy_stands_beside_the_model(task):
    schedule = Schedule(epochs=3, lr=0.01)
    result = train(small_encoder(), task, tuneup(0.5, schedule, schedule))
    first, second = result.copy(0), result.copy(1)
    assert first is not second
    assert second is not result.model
    assert task.validate(first) == pytest.approx(result.record.stages[0].best_score)
    assert task.validate(second) == pytest.approx(result.record.stages[1].best_score)


def test_reading_the_model_does_not_undo_what_its_owner_did(task):
    result = train(small_encoder(), task, base(Schedule(epochs=2)))
    with torch.no_grad():
        next(result.model.parameters()).zero_()
    assert not next(result.model.parameters()).any()


def test_a_module_cannot_take_the_models_name(task):
    with pytest.raises(InputError, match="'model' is the model itself"):
        train(small_encoder(), task, base(), modules={"model": small_encoder()})


# Batches


def test_every_supervised_node_is_in_one_batch_an_epoch():
    task = replace(small_task(), batch_size=8)
    supervision = task.supervision()
    orders = []
    for epoch in range(2):
        parts = list(task.batches(supervision, Moment(0, 0, epoch)))
        assert [part.nodes.numel() for part in parts] == [8, 8, 8, 6]
        nodes = torch.cat([part.nodes for part in parts])
        assert torch.equal(nodes.sort().values, supervision.nodes.sort().values)
        assert torch.equal(torch.cat([part.y for part in parts]), task.data.y[nodes])
        assert sum(part.num_true for part in parts) == supervision.num_true
        orders.append(nodes)
    assert not torch.equal(*orders)


def test_batches_are_updates_of_the_one_loop():
    """Four updates an epoch, each on a synthetic-tail graph of its own, equal a loop by hand."""
    task = replace(small_task(), batch_size=8)
    model = small_encoder(dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    supervision, step, expected = task.supervision(), 0, []
    for epoch in range(3):
        losses, sizes = [], []
        for batch in task.batches(supervision, Moment(5, 0, epoch)):
            moment = Moment(5, 0, step)
            loss = task.loss(model.train(), tails(0.5)(task.graph, moment), batch, moment)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
            sizes.append(batch.nodes.numel())
            step += 1
        expected.append(sum(map(operator.mul, losses, sizes)) / sum(sizes))
    curriculum = (Stage(views=(tails(0.5),), schedule=Schedule(epochs=3, lr=0.01)),)
    result = train(small_encoder(dropout=0.0), task, curriculum, seed=5)
    found = [epoch.loss for epoch in result.record.stages[0].epochs]
    assert found == pytest.approx(expected, rel=1e-12)


def still(parameters, lr, weight_decay):
    return torch.optim.SGD(parameters, lr=0.0)


@pytest.mark.parametrize("size", [29, 7, 30, 100])
def test_the_loss_of_an_epoch_is_the_mean_over_all_supervision(size):
    """A last batch of one node counts as one node, not as much as the batch of 29 before it."""
    task = replace(small_task(), batch_size=size)
    model = small_encoder(dropout=0.0)
    moment = Moment(0, 0, 0)
    with torch.no_grad():
        expected = float(task.loss(model, full(task.graph, moment), task.supervision(), moment))
    result = train(model, task, base(Schedule(2)), optimizer=still)
    for epoch in result.record.stages[0].epochs:
        assert epoch.loss == pytest.approx(expected, rel=1e-6)


def test_a_run_in_batches_resumes_exactly(tmp_path):
    task = replace(small_task(), batch_size=7)
    curriculum = tuneup(0.5, Schedule(epochs=4, lr=0.01), Schedule(epochs=4, lr=0.01))
    whole = train(small_encoder(), task, curriculum)

    def stop(told):
        if (told.stage, told.epoch) == (2, 3):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(
            small_encoder(), task, curriculum, checkpoints=Checkpoints(tmp_path, 1), callback=stop
        )
    again = train(small_encoder(), task, curriculum, checkpoints=Checkpoints(tmp_path, 1))
    assert again.record.curves() == whole.record.curves()
    for name, value in whole.states[1].items():
        assert torch.equal(value, again.states[1][name])
