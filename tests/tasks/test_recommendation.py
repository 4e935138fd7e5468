"""Recommendation against loops in Python: loss, gradients, recall; and what training may read."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tests.tasks.edge_toys import (
    ITEMS,
    USERS,
    VIEWS,
    losses,
    naive_recall,
    pair_set,
    recommender,
    some_split,
)
from tests.training.broken_runs import Stop, assert_same, stop_at
from tuneup.curriculum import Schedule, base, full, tails, tuneup, without_curriculum
from tuneup.data.interactions import InteractionSplit, interactions_from
from tuneup.errors import CheckpointError, DivergenceError, InputError
from tuneup.evaluation.edge_settings import RecommendationSetting
from tuneup.tasks import Moment
from tuneup.tasks.negatives import NegativeSampler
from tuneup.tasks.recommendation import L2, Recommendation
from tuneup.training import Checkpoints, train

SPLIT = some_split()
TRAIN, VALIDATION, TEST = map(pair_set, (SPLIT.train, SPLIT.validation, SPLIT.test))
CURRICULA = {
    "base": base(Schedule(6, lr=0.05)),
    "tuneup": tuneup(0.5, Schedule(5, lr=0.05), Schedule(4, lr=0.05)),
}


def small_task(**options):
    return Recommendation(SPLIT.train, SPLIT.validation, metric="recall@3", **options)


def pairs_of(found):
    """Interactions of the toy's size from a set of pairs."""
    user, item = torch.tensor(sorted(found)).t()
    return interactions_from(user, item, USERS, ITEMS)


def items_of(pairs, user):
    return {i for u, i in pairs if u == user}


# The toy has what is hard about real data


def test_the_toy_has_users_and_items_without_pairs():
    degree = SPLIT.train.adjacency().degree
    assert (degree[:USERS] == 0).sum() > 1
    assert (degree[USERS:] == 0).sum() > 1
    trained = {u for u, _ in TRAIN}
    assert {u for u, _ in VALIDATION} - trained
    assert {u for u, _ in TEST} - trained


# The loss


def naive_loss(task, model, view, moment):
    """Triple by triple."""
    sampler = NegativeSampler(task.graph, USERS, ITEMS)
    drawn = sampler.draw(task.train.user, moment).tolist()
    z, total = model(view.graph), 0.0
    for (u, i), n in zip(sorted(TRAIN), drawn, strict=True):
        assert USERS <= n < USERS + ITEMS
        assert (u, n - USERS) not in TRAIN
        t = USERS + i
        total = total + F.softplus(z[u] @ z[n] - z[u] @ z[t])
        for weight, e in ((task.l2.input, model.inputs(view.graph)), (task.l2.output, z)):
            total = total + weight * 0.5 * (e[u] @ e[u] + e[t] @ e[t] + e[n] @ e[n])
    return total / len(TRAIN)


@pytest.mark.parametrize(
    ("architecture", "l2"),
    [
        ("lightgcn", L2()),
        ("gcn", L2(input=0.3)),
        ("sage", L2(output=0.2)),
        ("lightgcn", L2(input=0.3, output=0.2)),
    ],
)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("sides", [False, True], ids=["own inputs", "shared inputs too"])
def test_the_loss_is_the_loop_over_triples(architecture, l2, view, sides):
    """On every view all training pairs are positives, the dropped ones too."""
    model = recommender(architecture, sides=sides)
    task, moment = small_task(l2=l2), Moment(5, 1, 3)
    seen = VIEWS[view](task.graph, moment)
    found = task.loss(model, seen, task.supervision(), moment)
    expected = naive_loss(task, model, seen, moment)
    torch.testing.assert_close(found, expected)
    parameters = list(model.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(found, parameters, allow_unused=True),
        torch.autograd.grad(expected, parameters, allow_unused=True),
        strict=True,
    ):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_positives_are_the_training_pairs():
    found = small_task().supervision()
    users = torch.arange(USERS).repeat_interleave(found.rowptr.diff())
    positives = list(zip(users.tolist(), found.col.tolist(), strict=True))
    assert positives == sorted(TRAIN)


def test_a_dropped_pair_still_pulls():
    """Without an edge left, a step along the gradient still draws every pair together."""
    task, model, moment = small_task(), recommender(), Moment(0, 1, 0)
    view = tails(1.0)(task.graph, moment)
    assert view.graph.num_edges == 0
    before = task.supervision().dots(*model(view.graph).split([USERS, ITEMS]))
    loss = task.loss(model, view, task.supervision(), moment)
    (grad,) = torch.autograd.grad(loss, model.embedding)
    moved = {u for u in range(USERS) if grad[u].abs().sum() > 0}
    assert moved == {u for u, _ in TRAIN}
    with torch.no_grad():
        model.embedding -= 5.0 * grad
        after = task.supervision().dots(*model(view.graph).split([USERS, ITEMS]))
    assert (after > before).float().mean() > 0.9


def test_two_views_share_their_negatives():
    task, moment = small_task(), Moment(0, 0, 0)
    stages = without_curriculum(0.5, Schedule(1))
    with torch.no_grad():
        expected = [
            float(naive_loss(task, recommender(), view(task.graph, moment), moment))
            for view in stages[0].views
        ]
    assert expected[0] != expected[1]
    result = train(recommender(), task, stages, seed=0)
    assert losses(result, 0) == pytest.approx([sum(expected) / 2], rel=1e-5)


def test_held_out_pairs_may_be_drawn():
    task = small_task()
    sampler = NegativeSampler(task.graph, USERS, ITEMS)
    drawn = set()
    for step in range(30):
        items = sampler.draw(SPLIT.train.user, Moment(0, 0, step)) - USERS
        drawn |= set(zip(SPLIT.train.user.tolist(), items.tolist(), strict=True))
    users = {u for u, _ in TRAIN}
    for held_out in (VALIDATION, TEST):
        reachable = {(u, i) for u, i in held_out if u in users}
        assert len(drawn & reachable) > 0.5 * len(reachable)
    assert not drawn & TRAIN


def test_a_user_who_knows_nearly_everything():
    """One item is left to contrast with; with none left, the user is named."""
    known = {(0, i) for i in range(ITEMS - 1)} | {(1, 0)}
    task = Recommendation(pairs_of(known), pairs_of({(2, 3)}))
    model, moment = recommender(), Moment(0, 0, 0)
    z = model(task.graph)
    drawn = NegativeSampler(task.graph, USERS, ITEMS).draw(task.train.user, moment)
    assert set(drawn[:-1].tolist()) == {USERS + ITEMS - 1}
    found = task.loss(model, full(task.graph, moment), task.supervision(), moment)
    of_user = F.softplus(z[0] @ z[-1] - z[USERS : USERS + ITEMS - 1] @ z[0]).sum()
    of_other = F.softplus(z[1] @ z[drawn[-1]] - z[1] @ z[USERS])
    torch.testing.assert_close(found, (of_user + of_other) / ITEMS)
    full_task = Recommendation(pairs_of(known | {(0, ITEMS - 1)}), pairs_of({(2, 3)}))
    with pytest.raises(InputError, match=f"Node 0 is connected to all {ITEMS} candidates"):
        full_task.loss(model, full(full_task.graph, moment), full_task.supervision(), moment)


# Validation


@pytest.mark.parametrize("architecture", ["lightgcn", "sage"])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_validation_is_the_naive_recall(architecture, k):
    task = replace(small_task(), metric=f"recall@{k}")
    model = recommender(architecture).eval()
    z = model(task.graph).detach().double()
    scores = (z[:USERS] @ z[USERS:].t()).tolist()
    expected = [
        naive_recall(scores[u], items_of(VALIDATION, u), items_of(TRAIN, u), k)
        for u in sorted({u for u, _ in VALIDATION})
    ]
    assert task.validate(model) == pytest.approx(sum(expected) / len(expected), abs=1e-7)
    if k == 50:  # more than there are items
        assert task.validate(model) == 1.0


def test_the_budget_changes_nothing():
    model = recommender()
    assert small_task().validate(model) == small_task(budget=1).validate(model)


def test_a_diverged_model_validates_as_nan():
    model = recommender()
    with torch.no_grad():
        model.embedding[3] = torch.inf
    assert math.isnan(small_task().validate(model))
    with pytest.raises(DivergenceError, match="validation gives nan"):
        train(recommender("gcn"), small_task(), base(Schedule(3, lr=1e36)))


def test_an_evaluation_in_inference_mode_spoils_nothing():
    task = small_task()
    with torch.inference_mode():
        RecommendationSetting(task, SPLIT).score(recommender())
        task.validate(recommender())
    assert_same(
        train(recommender(), task, CURRICULA["base"]),
        train(recommender(), small_task(), CURRICULA["base"]),
    )


# What training reads


def scored_along(test):
    """A callback that looks at the test pairs after every epoch, and what it saw."""
    seen, model = [], recommender(seed=9)
    setting = RecommendationSetting(small_task(), InteractionSplit(*halves(), test))

    def callback(progress):
        seen.append(setting.score(model).mean())

    return callback, seen


def halves():
    return SPLIT.train, SPLIT.validation


FREE = {(u, i) for u in range(USERS) for i in range(ITEMS)} - TRAIN - VALIDATION
TESTS = {
    "fewer": pairs_of(set(sorted(TEST)[::2])),
    "more": pairs_of(FREE),
    "others": pairs_of(FREE - TEST),
}


@pytest.mark.parametrize("name", CURRICULA)
def test_test_pairs_change_nothing(name):
    """Scored along the way, added, removed or replaced: only the test score moves."""
    plain = train(recommender("gcn", dropout=0.3), small_task(), CURRICULA[name], seed=2)
    means = set()
    for test in (SPLIT.test, *TESTS.values()):
        callback, seen = scored_along(test)
        model = recommender("gcn", dropout=0.3)
        assert_same(train(model, small_task(), CURRICULA[name], seed=2, callback=callback), plain)
        assert len(set(seen)) == 1
        means.add(seen[0])
    assert len(means) == 4


def test_validation_pairs_only_select():
    """Other validation pairs: the same course, other scores, perhaps another epoch."""
    other = Recommendation(SPLIT.train, TESTS["fewer"], metric="recall@3")
    first, second = (
        train(recommender(), task, CURRICULA["base"], seed=2) for task in (small_task(), other)
    )
    assert losses(first, 0) == losses(second, 0)
    scores = [[s for *_, s in result.record.curves()] for result in (first, second)]
    assert scores[0] != scores[1]
    for result in (first, second):
        stage = result.record.stages[0]
        assert stage.best_score == max(e.score for e in stage.epochs)


def test_validation_decides_what_stage_two_starts_from():
    first = train(recommender(), small_task(), CURRICULA["tuneup"], seed=2)
    other = Recommendation(SPLIT.train, TESTS["fewer"], metric="recall@3")
    second = train(recommender(), other, CURRICULA["tuneup"], seed=2)
    assert losses(first, 0) == losses(second, 0)
    epochs = [result.record.stages[0].best_epoch for result in (first, second)]
    assert (losses(first, 1) == losses(second, 1)) == (epochs[0] == epochs[1])


def test_training_pairs_and_seeds_do_matter():
    """What the tests above would not notice if nothing mattered at all."""
    result = train(recommender(), small_task(), CURRICULA["base"], seed=2)
    less = replace(small_task(), train=SPLIT.train.take(torch.arange(1, len(SPLIT.train))))
    for other in (
        train(recommender(), less, CURRICULA["base"], seed=2),
        train(recommender(), small_task(), CURRICULA["base"], seed=3),
        train(recommender(), small_task(l2=L2(0.1)), CURRICULA["base"], seed=2),
    ):
        assert losses(other, 0) != losses(result, 0)


def test_training_learns():
    result = train(recommender(), small_task(), base(Schedule(40, lr=0.05, validate_every=40)))
    assert losses(result, 0)[-1] < 0.5 * losses(result, 0)[0]


@pytest.mark.parametrize("place", [(1, 3), (2, 2)])
def test_an_interrupted_run_goes_on_exactly(tmp_path, place):
    model = recommender("sage", dropout=0.3)
    whole = train(recommender("sage", dropout=0.3), small_task(), CURRICULA["tuneup"])
    folder = Checkpoints(tmp_path, 1)
    with pytest.raises(Stop):
        train(
            model, small_task(), CURRICULA["tuneup"], checkpoints=folder, callback=stop_at(*place)
        )
    fresh, told = recommender("sage", seed=8, dropout=0.3), []
    found = train(
        fresh, small_task(), CURRICULA["tuneup"], checkpoints=folder, callback=told.append
    )
    assert_same(found, whole)
    assert (told[0].stage, told[0].epoch) == (place[0], place[1] + 1)


@pytest.mark.parametrize(
    "other",
    [
        small_task(l2=L2(output=0.1)),
        replace(small_task(), metric="recall@5"),
        replace(small_task(), validation=TESTS["fewer"]),
        replace(small_task(), train=SPLIT.train.take(torch.arange(len(SPLIT.train) - 1))),
    ],
)
def test_another_tasks_checkpoint_is_refused(tmp_path, other):
    stages, folder = base(Schedule(1)), Checkpoints(tmp_path, 1)
    train(recommender(), small_task(), stages, checkpoints=folder)
    with pytest.raises(CheckpointError, match="belongs to another run"):
        train(recommender(), other, stages, checkpoints=folder)
    train(recommender(), small_task(budget=1), stages, checkpoints=folder)


# The test setting


@pytest.mark.parametrize("metric", ["recall@3", "recall@50"])
def test_the_setting_against_a_loop(metric):
    task = replace(small_task(), metric=metric)
    model, k = recommender("gcn"), int(metric.split("@")[1])
    found = RecommendationSetting(task, SPLIT).score(model)
    z = model.eval()(task.graph).detach().double()
    scores = (z[:USERS] @ z[USERS:].t()).tolist()
    users = sorted({u for u, _ in TEST})
    assert (found.setting, found.metric) == ("transductive", metric)
    assert found.nodes.tolist() == users
    assert found.degree.tolist() == [len(items_of(TRAIN, u)) for u in users]
    assert 0 in found.degree.tolist()
    expected = [
        naive_recall(scores[u], items_of(TEST, u), items_of(TRAIN | VALIDATION, u), k)
        for u in users
    ]
    assert found.score.tolist() == pytest.approx(expected, abs=1e-6)
    if k == 3:  # each mask is seen to matter
        for masked in (TRAIN, VALIDATION):
            less = [
                naive_recall(scores[u], items_of(TEST, u), items_of(masked, u), k) for u in users
            ]
            assert less != expected


def test_known_items_are_never_ranked():
    """A user's best items by far are all known: they take no place of the first ten."""
    task = small_task()
    known = {u: items_of(TRAIN | VALIDATION, u) for u in range(USERS)}
    model = recommender()
    best = {}
    setting = RecommendationSetting(task, SPLIT)
    with torch.no_grad():
        for user in (u for u, _ in sorted(TEST)):
            z = torch.zeros(USERS + ITEMS, 1)
            z[user] = 1.0
            z[[USERS + i for i in known[user]]] = 9.0
            z[[USERS + i for i in items_of(TEST, user)]] = 1.0
            model.forward = lambda graph, z=z: z
            scores = setting.score(model)
            best[user] = float(scores.score[scores.nodes.tolist().index(user)])
    for user, score in best.items():
        assert score == pytest.approx(min(1.0, 3 / len(items_of(TEST, user))))


# What is refused


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "accuracy"}, "A ranking metric is one of .*; got 'accuracy'"),
        ({"metric": "recall@0"}, "got 'recall@0'"),
        ({"metric": "recall@²"}, "got 'recall@²'"),
        ({"train": SPLIT.train.take(torch.arange(0))}, "toy: there is no training pair"),
        ({"validation": SPLIT.train.take(torch.arange(0))}, "there is no validation pair"),
        (
            {
                "validation": interactions_from(
                    torch.tensor([USERS]), torch.tensor([0]), USERS + 1, ITEMS
                )
            },
            r"the same users and items; got \(30, 40\) and \(31, 40\)",
        ),
    ],
)
def test_nonsense_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        replace(small_task(), **options)


@pytest.mark.parametrize("weights", [{"input": -0.1}, {"output": -1.0}])
def test_negative_penalties_are_refused(weights):
    with pytest.raises(InputError, match="L2 weights must not be negative"):
        L2(**weights)
