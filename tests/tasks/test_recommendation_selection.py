"""Validation of recommendation on copies of the training graph whose users lost pairs."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from tests.tasks.edge_toys import ITEMS, USERS, naive_recall, pair_set, recommender
from tests.tasks.recommendation_toys import SPLIT, pairs_of
from tests.tasks.test_selection import edges_of, surviving
from tuneup.curriculum import Schedule, tuneup
from tuneup.tasks import EVERY_RATIO, RATIOS, Recommendation
from tuneup.tasks import recommendation as module
from tuneup.train import train

TRAIN, VALIDATION = pair_set(SPLIT.train), pair_set(SPLIT.validation)
ABLE = sorted({u for u, _ in VALIDATION} & {u for u, _ in TRAIN})


@pytest.fixture
def task(monkeypatch):
    """A third of the users are sampled: a tenth of so few is hardly any."""
    monkeypatch.setattr(module, "COLD_SHARE", 1 / 3)
    return Recommendation(SPLIT.train, SPLIT.validation, metric="recall@3", selection="balanced")


def sampled(task) -> list[int]:
    return task._arriving.nonzero().view(-1).tolist()


def items_of(pairs, user) -> set[int]:
    return {item for each, item in pairs if each == user}


def test_the_sample_is_fixed_and_a_part_of_the_users_with_pairs(task, monkeypatch):
    users = sampled(task)
    assert len(users) == -(-len(ABLE) // 3)
    assert set(users) < set(ABLE)
    assert users == sampled(replace(task, negatives=3))
    monkeypatch.setattr(module, "COLD_USERS", 2)
    assert len(sampled(replace(task))) == 2


def test_copies_are_nested_and_lack_training_pairs_of_the_sample_alone(task):
    copies = [edges_of(task._copy(ratio)) for ratio in EVERY_RATIO]
    assert copies[0] == edges_of(task.graph)
    assert all(more > fewer for more, fewer in pairwise(copies))
    for ratio, found in zip(EVERY_RATIO, copies, strict=True):
        assert found == surviving(task.graph, torch.tensor(sampled(task)), ratio)


def test_scores_against_a_loop(task):
    for architecture, sides in [("lightgcn", False), ("gcn", True)]:
        model = recommender(architecture, sides=sides).eval()
        if sides:
            torch.manual_seed(2)
            torch.nn.init.normal_(model.inputs.unknown)
        users = sampled(task)
        others = sorted({u for u, _ in TRAIN} - set(users))
        scores = task.validation_scores(model, EVERY_RATIO)
        assert list(scores) == list(EVERY_RATIO)
        assert scores[0.0] == replace(task, selection="transductive").validate(model)
        for ratio in EVERY_RATIO[1:]:
            graph = task._copy(ratio)
            with torch.no_grad():
                own = model.inputs.of_linked().clone()
                own[users] = own[others].mean(0)
                if sides:
                    alone = (graph.degree == 0).nonzero().view(-1)
                    own[alone] = model.inputs.unknown[(alone >= USERS).long()]
                z = model.encoder(own, graph).double()
            ranks = (z[:USERS] @ z[USERS:].t()).tolist()
            expected = [
                naive_recall(ranks[u], items_of(VALIDATION, u), items_of(TRAIN, u), 3)
                for u in users
            ]
            assert scores[ratio] == pytest.approx(sum(expected) / len(expected), abs=1e-6)
        assert len(set(scores.values())) > 2
        with torch.no_grad():
            model.inputs.vectors[users] = 1e6  # what they learned is not read
        again = task.validation_scores(model, EVERY_RATIO[1:])
        assert again == {ratio: scores[ratio] for ratio in EVERY_RATIO[1:]}


def test_users_without_a_training_pair_serve_where_there_are_no_others():
    validation = pairs_of({(USERS - 1, 3), (USERS - 1, 5)})
    task = Recommendation(SPLIT.train, validation, metric=f"recall@{ITEMS}")
    assert sampled(task) == [USERS - 1]
    assert task.validation_scores(recommender(), EVERY_RATIO) == dict.fromkeys(EVERY_RATIO, 1.0)


def test_a_diverged_model_scores_nan_on_every_copy(task):
    model = recommender()
    with torch.no_grad():
        model.inputs.vectors[USERS:] = torch.inf
    assert all(score != score for score in task.validation_scores(model, EVERY_RATIO).values())


def test_an_evaluation_does_not_spoil_the_copies_for_training(task):
    model = recommender("sage")
    with torch.inference_mode():
        task.validation_scores(model, EVERY_RATIO)
    result = train(model, task, tuneup(0.5, Schedule(3, lr=0.1), Schedule(3, lr=0.1)), final="dial")
    assert list(result.record.dial.by_ratio) == sorted(EVERY_RATIO)


def test_the_selection_is_part_of_the_digest():
    task = Recommendation(SPLIT.train, SPLIT.validation)
    digests = {replace(task, selection=each).digest() for each in RATIOS}
    assert len(digests) == 3
    assert task.digest() in digests
