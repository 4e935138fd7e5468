"""Recommendation: the loss and its gradients against a loop over triples, what is refused."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tests.tasks.edge_toys import ITEMS, USERS, VIEWS, losses, recommender
from tests.tasks.recommendation_toys import SPLIT, TEST, TRAIN, VALIDATION, pairs_of, small_task
from tuneup.curriculum import Schedule, full, tails, without_curriculum
from tuneup.data import interactions_from
from tuneup.errors import InputError
from tuneup.tasks import L2, Moment, Recommendation
from tuneup.tasks.ranking import NegativeSampler
from tuneup.train import train

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
    each = task.negatives
    drawn = sampler.draw(task.train.user.repeat_interleave(each), moment).view(-1, each).tolist()
    z, total = model(None, view.graph), 0.0
    for (u, i), several in zip(sorted(TRAIN), drawn, strict=True):
        assert all(USERS <= n < USERS + ITEMS for n in several)
        assert not any((u, n - USERS) in TRAIN for n in several)
        t = USERS + i
        scores = [z[u] @ z[n] for n in (t, *several)]
        total = total - F.log_softmax(torch.stack(scores), 0)[0]
        for weight, e in ((task.l2.input, model.inputs(None, view.graph)), (task.l2.output, z)):
            contrasts = sum(e[n] @ e[n] for n in several) / each
            total = total + weight * 0.5 * (e[u] @ e[u] + e[t] @ e[t] + contrasts)
    return total / len(TRAIN)


def test_the_loss_is_the_loop_over_triples():
    """On every view all training pairs are positives, the dropped ones too."""
    for view in VIEWS:
        for sides, negatives in [(False, 1), (True, 3)]:
            for architecture, l2 in [
                ("lightgcn", L2()),
                ("gcn", L2(input=0.3)),
                ("sage", L2(output=0.2)),
                ("lightgcn", L2(input=0.3, output=0.2)),
            ]:
                model = recommender(architecture, sides=sides)
                task, moment = small_task(l2=l2, negatives=negatives), Moment(5, 1, 3)
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
    before = task.supervision().dots(*model(None, view.graph).split([USERS, ITEMS]))
    loss = task.loss(model, view, task.supervision(), moment)
    (grad,) = torch.autograd.grad(loss, model.inputs.vectors)
    moved = {u for u in range(USERS) if grad[u].abs().sum() > 0}
    assert moved == {u for u, _ in TRAIN}
    with torch.no_grad():
        model.inputs.vectors -= 5.0 * grad
        after = task.supervision().dots(*model(None, view.graph).split([USERS, ITEMS]))
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
    z = model(None, task.graph)
    drawn = NegativeSampler(task.graph, USERS, ITEMS).draw(task.train.user, moment)
    assert set(drawn[:-1].tolist()) == {USERS + ITEMS - 1}
    found = task.loss(model, full(task.graph, moment), task.supervision(), moment)
    of_user = F.softplus(z[0] @ z[-1] - z[USERS : USERS + ITEMS - 1] @ z[0]).sum()
    of_other = F.softplus(z[1] @ z[drawn[-1]] - z[1] @ z[USERS])
    torch.testing.assert_close(found, (of_user + of_other) / ITEMS)
    full_task = Recommendation(pairs_of(known | {(0, ITEMS - 1)}), pairs_of({(2, 3)}))
    with pytest.raises(InputError, match=f"Node 0 is connected to all {ITEMS} candidates"):
        full_task.loss(model, full(full_task.graph, moment), full_task.supervision(), moment)


# What is refused


def test_bad_arguments_are_refused():
    for options, words in [
        ({"metric": "accuracy"}, "metric: got 'accuracy'; expected one of recall"),
        ({"metric": "recall@0"}, "got 'recall@0'"),
        ({"negatives": 0}, "negatives must be a number from 1 on; got 0"),
        ({"negatives": 1.5}, "negatives must be a number from 1 on; got 1.5"),
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
    ]:
        with pytest.raises(InputError, match=words):
            replace(small_task(), **options)


def test_negative_penalties_are_refused():
    for weights in [{"input": -0.1}, {"output": -1.0}]:
        with pytest.raises(InputError, match="L2 weights must not be negative"):
            L2(**weights)
