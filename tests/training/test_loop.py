"""The loop against loops written by hand, and everything it promises about states and scores."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import GCNConv

from tests.training.toy import Counter, PygNet, Scripted, small_encoder, small_task
from tuneup.curriculum import (
    CURRICULA,
    Schedule,
    Stage,
    base,
    dropedge,
    full,
    tails,
    tuneup,
    without_curriculum,
    without_syn_tails,
)
from tuneup.errors import InputError
from tuneup.graph import DropEdge
from tuneup.graph.hashing import seed_of
from tuneup.tasks import Moment
from tuneup.training import Checkpoints, train

SEED, EPOCHS, LR, ALPHA = 5, 8, 0.01, 0.5
SCHEDULE = Schedule(EPOCHS, lr=LR, weight_decay=1e-3)
FINETUNE = Schedule(EPOCHS + 2, lr=LR / 2)
MODELS = {"ours": lambda: small_encoder(width=16), "pyg": PygNet}


@pytest.fixture(scope="module")
def task():
    """Nothing pruned, so that a plain call of the model draws the same dropout."""
    return small_task(prune=False)


def run(model, task, curriculum, seed=SEED, **options):
    return train(model, task, curriculum, seed=seed, **options)


def same(first, second):
    """Two states, bit for bit."""
    assert first.keys() == second.keys()
    return all(torch.equal(value, second[name]) for name, value in first.items())


def same_runs(first, second):
    return (
        first.record.curves() == second.record.curves()
        and first.record.winner == second.record.winner
        and len(first.states) == len(second.states)
        and all(map(same, first.states, second.states))
    )


# (a) What a reader of the paper would write


class ByHand:
    """Plain PyTorch: one method per line of Algorithm 1, nothing of tuneup but the hash."""

    def __init__(self, model, task, ours):
        self.model, self.x, self.y = model, task.data.x, task.data.y
        self.train, self.validation, self.graph = task.train, task.validation, task.graph
        self.ours, self.curve, self.states = ours, [], []

    def forward(self, edge_index):
        return self.model(self.x, self.ours(edge_index))

    def validate(self):
        self.model.eval()
        with torch.no_grad():
            guess = self.forward(self.graph)[self.validation].argmax(1)
        return float((guess == self.y[self.validation]).float().mean())

    def stage(self, index, schedule, loss_of):
        optimizer = torch.optim.Adam(
            self.model.parameters(), lr=schedule.lr, weight_decay=schedule.weight_decay
        )
        best, best_state = -1.0, None
        for epoch in range(schedule.epochs):
            torch.manual_seed(seed_of(SEED, index, epoch))
            self.model.train()
            optimizer.zero_grad()
            loss = loss_of(epoch)
            loss.backward()
            optimizer.step()
            score = self.validate()
            self.curve.append((index, epoch + 1, float(loss.detach()), score))
            if score > best:
                best = score
                best_state = {k: v.clone() for k, v in self.model.state_dict().items()}
        self.model.load_state_dict(best_state)
        self.states.append(best_state)

    def on_graph(self, nodes, y):
        return lambda epoch: F.cross_entropy(self.forward(self.graph)[nodes], y)

    def on_tails(self, index, nodes, y):
        drop = DropEdge(ALPHA, SEED)
        return lambda epoch: F.cross_entropy(self.forward(drop(self.graph, epoch, index))[nodes], y)

    def all_labels(self):
        """True labels, then the model's own on every other node that has an edge."""
        self.model.eval()
        with torch.no_grad():
            guess = self.forward(self.graph).argmax(1)
        taken = {*self.train.tolist(), *self.validation.tolist()}
        degree = self.graph.degree.tolist()
        others = torch.tensor([n for n in range(300) if degree[n] and n not in taken])
        nodes = torch.cat([self.train, others])
        return nodes, torch.cat([self.y[self.train], guess[others]])


@pytest.fixture(params=list(MODELS))
def pair(request, task):
    """A model to train with the loop, and the same one to train by hand."""
    make = MODELS[request.param]
    ours = (lambda graph: graph) if request.param == "ours" else (lambda graph: graph.edge_index)
    return make(), ByHand(make(), task, ours)


def assert_as_by_hand(result, hand):
    assert result.record.curves() == hand.curve
    assert all(map(same, result.states, hand.states))


def test_base_is_a_plain_loop(pair, task):
    model, hand = pair
    hand.stage(0, SCHEDULE, hand.on_graph(hand.train, hand.y[hand.train]))
    assert_as_by_hand(run(model, task, base(SCHEDULE)), hand)


def test_dropedge_is_a_plain_loop_on_thinned_graphs(pair, task):
    model, hand = pair
    hand.stage(0, SCHEDULE, hand.on_tails(0, hand.train, hand.y[hand.train]))
    assert_as_by_hand(run(model, task, dropedge(ALPHA, SCHEDULE)), hand)


def test_tuneup_is_algorithm_1(pair, task):
    model, hand = pair
    hand.stage(0, SCHEDULE, hand.on_graph(hand.train, hand.y[hand.train]))
    nodes, y = hand.all_labels()
    hand.stage(1, FINETUNE, hand.on_tails(1, nodes, y))
    result = run(model, task, tuneup(ALPHA, SCHEDULE, FINETUNE))
    assert_as_by_hand(result, hand)
    found = result.pseudo_labels[1]
    assert torch.equal(found.nodes, nodes[len(hand.train) :])
    assert torch.equal(found.y, y[len(hand.train) :])
    assert result.record.stages[1].pseudo_labels == len(found)


def test_without_synthetic_tails_is_algorithm_1_on_the_full_graph(pair, task):
    model, hand = pair
    hand.stage(0, SCHEDULE, hand.on_graph(hand.train, hand.y[hand.train]))
    hand.stage(1, FINETUNE, hand.on_graph(*hand.all_labels()))
    assert_as_by_hand(run(model, task, without_syn_tails(SCHEDULE, FINETUNE)), hand)


def test_without_curriculum_takes_the_mean_of_both_losses(pair, task):
    model, hand = pair
    whole = hand.on_graph(hand.train, hand.y[hand.train])
    dropped = hand.on_tails(0, hand.train, hand.y[hand.train])
    hand.stage(0, SCHEDULE, lambda epoch: (whole(epoch) + dropped(epoch)) / 2)
    assert_as_by_hand(run(model, task, without_curriculum(ALPHA, SCHEDULE)), hand)


def test_pruning_changes_rounding_only(task):
    """Without dropout the pruned task, the default, learns the same."""
    results = []
    for each in (task, small_task()):
        results.append(run(small_encoder(dropout=0.0), each, tuneup(ALPHA, SCHEDULE, FINETUNE)))
    found, expected = (result.record.curves() for result in results)
    for (_, _, loss, _), (_, _, expected_loss, _) in zip(found, expected, strict=True):
        assert loss == pytest.approx(expected_loss, abs=1e-4)


# (b) Stage 1 is the Base run


@pytest.mark.parametrize("name", ["tuneup", "without-syn-tails", "without-pseudo-labels"])
def test_going_on_after_base_is_training_both_stages(task, name):
    curriculum = CURRICULA[name](ALPHA, SCHEDULE, FINETUNE)
    whole = run(small_encoder(), task, curriculum)
    first = run(small_encoder(), task, base(SCHEDULE))
    kept = [dict(state) for state in first.states]
    # A model with other weights: everything comes from the run that is taken over.
    second = run(small_encoder(seed=9), task, curriculum, after=first)
    assert same_runs(whole, second)
    assert same(whole.model.state_dict(), second.model.state_dict())
    assert all(map(same, first.states, kept))
    assert len(first.record.stages) == 1
    assert second.fingerprint == whole.fingerprint


def test_going_on_with_the_very_model_of_the_base_run(task):
    curriculum = tuneup(ALPHA, SCHEDULE, FINETUNE)
    whole = run(small_encoder(), task, curriculum)
    model = small_encoder()
    first = run(model, task, base(SCHEDULE))
    assert same_runs(run(model, task, curriculum, after=first), whole)


def test_only_the_same_first_stages_can_be_taken_over(task):
    first = run(small_encoder(), task, base(SCHEDULE))
    curriculum = tuneup(ALPHA, SCHEDULE, FINETUNE)
    another = replace(task, train=task.train[1:])
    wrong = [
        (small_encoder(), task, curriculum, SEED + 1),
        (small_encoder(), another, curriculum, SEED),
        (small_encoder(), task, tuneup(ALPHA, FINETUNE, FINETUNE), SEED),
        (small_encoder(), task, dropedge(ALPHA, SCHEDULE), SEED),
        (small_encoder(width=8), task, curriculum, SEED),
        (small_encoder(dropout=0.1), task, curriculum, SEED),
        (small_encoder(architecture="sage-sum"), task, curriculum, SEED),
    ]
    for arguments in wrong:
        with pytest.raises(InputError, match="first 1 stage"):
            train(*arguments[:3], seed=arguments[3], after=first)
    with pytest.raises(InputError, match="first 1 stage"):
        run(small_encoder(), task, curriculum, after=first, optimizer=sgd)
    both = run(small_encoder(), task, curriculum, after=first)
    with pytest.raises(InputError, match="first 2 stage"):
        run(small_encoder(), task, base(SCHEDULE), after=both)
    assert same_runs(run(small_encoder(), task, curriculum, after=both), both)


def test_a_later_method_with_modules_of_its_own_goes_on_after_base(task):
    """Base knows nothing of a student that another method trains from it."""
    first = run(small_encoder(), task, base(SCHEDULE))
    student = {"student": PygNet()}
    curriculum = (*base(SCHEDULE), Stage(module="student", schedule=SCHEDULE))
    whole = run(small_encoder(), task, curriculum, modules={"student": PygNet()})
    assert same_runs(run(small_encoder(), task, curriculum, modules=student, after=first), whole)


# (c) Which state is kept, when to stop, who wins


def sgd(parameters, lr, weight_decay):
    return torch.optim.SGD(parameters, lr=lr)


def scripted(scores, curriculum, **options):
    return train(Counter(), Scripted(tuple(scores)), curriculum, optimizer=sgd, **options)


def plan(epochs, **options):
    return Stage(schedule=Schedule(epochs, lr=0.1, **options))


def test_the_best_state_is_kept_and_the_first_of_equals():
    result = scripted([0, 1, 5, 2, 5, 3], (plan(5),))
    stage = result.record.stages[0]
    assert (stage.best_epoch, stage.best_score) == (2, 5)
    assert int(result.states[0]["steps"]) == 2
    assert int(result.model.steps) == 2
    assert [epoch.score for epoch in stage.epochs] == [1, 5, 2, 5, 3]
    assert stage.stopped == "ran all 5 epochs"


def test_stage_2_starts_from_the_best_weights_with_a_fresh_optimiser():
    made = []

    def watched(parameters, lr, weight_decay):
        made.append(torch.optim.Adam(parameters, lr=lr))
        made[-1].empty_at_birth = not made[-1].state
        return made[-1]

    task = Scripted((0, 1, 9, 2, 3, 10))
    model = Counter()
    result = train(model, task, (plan(4), plan(3)), optimizer=watched)
    # Stage 1 keeps the state after 2 updates; stage 2 counts on from there.
    assert [epoch.score for epoch in result.record.stages[1].epochs] == [2, 3, 10]
    assert len(made) == 2
    assert all(optimizer.empty_at_birth for optimizer in made)
    assert int(made[1].state[model.weight]["step"]) == 3
    weight = result.states[0]["weight"]
    assert result.record.stages[1].epochs[0].loss == pytest.approx(float(weight.square()))


def test_validation_comes_when_it_is_due_and_at_the_end():
    stage = scripted(range(20), (plan(8, validate_every=3),)).record.stages[0]
    assert [epoch.score for epoch in stage.epochs] == [None, None, 3, None, None, 6, None, 8]
    assert [epoch.epoch for epoch in stage.epochs] == list(range(1, 9))


@pytest.mark.parametrize(
    ("scores", "options", "stops_at"),
    [
        ([0, 1, 2, 3, 3, 3, 3, 9], {"patience": 3}, 6),
        ([0, 1, 2, 3, 3, 3, 4, 4, 4, 4], {"patience": 3}, 9),
        ([0, 1, 2, 3, 3, 4, 4, 4, 4, 9], {"patience": 3}, 8),
        ([0] * 20, {"patience": 2}, 3),
        # Nothing is counted before the last step of the learning rate ...
        ([0, 5, 4, 4, 4, 4, 4, 4, 4, 4, 4], {"patience": 2, "milestones": (4, 6)}, 8),
        # ... and a step that never comes is no reason to wait.
        ([0, 5, 4, 4, 4, 4], {"patience": 2, "milestones": (99,)}, 3),
        # An epoch that is not validated cannot be without a better score.
        ([0, 1, 2, 3, 9, 5, 6, 7, 9, 9], {"patience": 2, "validate_every": 4}, 8),
        ([0, 1, 2, 3, 9, 5, 6, 7, 10], {"patience": 3, "validate_every": 4}, 10),
    ],
)
def test_patience(scores, options, stops_at):
    stage = scripted(scores, (plan(10, **options),)).record.stages[0]
    assert len(stage.epochs) == stops_at
    assert stage.epochs[-1].score is not None
    if stops_at < 10:
        since = stops_at - stage.best_epoch
        assert (
            stage.stopped == f"no better points for {since} epochs after epoch {stage.best_epoch}"
        )


def test_the_learning_rate_follows_its_milestones():
    result = scripted([0] * 9, (plan(4, milestones=(1, 3), gamma=0.5),))
    epochs = result.record.stages[0].epochs
    assert [epoch.lr for epoch in epochs] == pytest.approx([0.1, 0.05, 0.05, 0.025])
    weight = 1.0
    for epoch in epochs:
        assert epoch.loss == pytest.approx(weight**2)
        weight -= epoch.lr * 2 * weight  # one step of gradient descent on w^2


def test_a_worse_second_stage_loses_but_is_remembered():
    model = Counter()
    stages = (plan(3), plan(3))
    result = train(model, Scripted((0, 1, 9, 2, 3, 4)), stages, optimizer=sgd)
    assert result.record.winner == 0
    assert [stage.best_score for stage in result.record.stages] == [9, 4]
    assert int(result.model.steps) == 2
    assert int(result.states[1]["steps"]) == 5
    assert int(result.load(1).steps) == 5


def test_the_callers_model_is_left_in_the_winning_state():
    model = Counter()
    train(model, Scripted((0, 1, 9, 2, 3, 4)), (plan(3), plan(3)), optimizer=sgd)
    assert int(model.steps) == 2
    assert not model.training


@pytest.mark.parametrize(
    ("scores", "guard", "winner"),
    [
        ((0, 9, 1, 9, 1), True, 1),  # a tie goes to the later stage
        ((0, 9, 1, 8, 1), True, 0),
        ((0, 9, 1, 8, 1), False, 1),
        ((0, 8, 1, 9, 1), True, 1),
    ],
)
def test_the_guard(scores, guard, winner):
    # Stage 1 sees states 1 and 2 and keeps 1; stage 2 sees 2 and 3.
    result = scripted(scores, (plan(2), replace(plan(2), guard=guard)))
    assert result.record.winner == winner
    assert result.record.stages[winner].best_score == scores[int(result.model.steps)]


def ten(modules, task):
    return 10.0


def test_a_stage_with_a_score_of_its_own_never_wins():
    own = replace(plan(2), score=ten)
    assert scripted([0, 3, 2, 1], (plan(2), own)).record.winner == 0
    assert scripted([0, 3, 2, 1], (own, plan(2))).record.winner == 1
    assert scripted([0, 1, 2, 3, 4, 5], (plan(2), own, plan(2))).record.winner == 2
    assert scripted([0, 1, 2, 3], (own,)).record.winner == 0
    assert scripted([0, 1, 2, 3], (own, own)).record.winner == 1


# (e) Randomness


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
    assert whole.fingerprint == listed.fingerprint


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
        losses = []
        for batch in task.batches(supervision, Moment(5, 0, epoch)):
            moment = Moment(5, 0, step)
            loss = task.loss(model.train(), tails(0.5)(task.graph, moment), batch, moment)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
            step += 1
        expected.append(sum(losses) / len(losses))
    curriculum = (Stage(views=(tails(0.5),), schedule=Schedule(epochs=3, lr=0.01)),)
    result = train(small_encoder(dropout=0.0), task, curriculum, seed=5)
    assert [epoch.loss for epoch in result.record.stages[0].epochs] == expected


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
    again = train(small_encoder(seed=9), task, curriculum, checkpoints=Checkpoints(tmp_path, 1))
    assert again.record.curves() == whole.record.curves()
    for name, value in whole.states[1].items():
        assert torch.equal(value, again.states[1][name])
