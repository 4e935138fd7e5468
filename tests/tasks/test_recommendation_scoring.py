"""Recommendation's validation and test scores against a naive recall."""

import math
from dataclasses import replace

import pytest
import torch

from tests.tasks.edge_toys import ITEMS, USERS, naive_recall, recommender
from tests.tasks.recommendation_toys import SPLIT, TEST, TRAIN, VALIDATION, small_task
from tuneup.curriculum import Schedule, base
from tuneup.errors import DivergenceError
from tuneup.evaluation import RecommendationSetting
from tuneup.train import train


def items_of(pairs, user):
    return {i for u, i in pairs if u == user}


# Validation


def test_validation_is_the_naive_recall():
    for k in [1, 3, 50]:
        for architecture in ["lightgcn", "sage"]:
            task = replace(small_task(), metric=f"recall@{k}")
            model = recommender(architecture).eval()
            z = model(None, task.graph).detach().double()
            scores = (z[:USERS] @ z[USERS:].t()).tolist()
            expected = [
                naive_recall(scores[u], items_of(VALIDATION, u), items_of(TRAIN, u), k)
                for u in sorted({u for u, _ in VALIDATION})
            ]
            assert task.validate(model) == pytest.approx(sum(expected) / len(expected), abs=1e-7)
            if k == 50:  # more than there are items
                assert task.validate(model) == 1.0


def test_a_diverged_model_validates_as_nan():
    model = recommender()
    with torch.no_grad():
        model.inputs.vectors[3] = torch.inf
    assert math.isnan(small_task().validate(model))
    with pytest.raises(DivergenceError, match="validation gives nan"):
        train(recommender("gcn"), small_task(), base(Schedule(3, lr=1e36)))


# The test setting


def test_the_setting_against_a_loop():
    for metric in ["recall@3", "recall@50"]:
        task = replace(small_task(), metric=metric)
        model, k = recommender("gcn"), int(metric.split("@")[1])
        found = RecommendationSetting(task, SPLIT).score(model)
        z = model.eval()(None, task.graph).detach().double()
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
                    naive_recall(scores[u], items_of(TEST, u), items_of(masked, u), k)
                    for u in users
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
            model.forward = lambda x, graph, arriving=None, z=z: z
            scores = setting.score(model)
            best[user] = float(scores.score[scores.nodes.tolist().index(user)])
    for user, score in best.items():
        assert score == pytest.approx(min(1.0, 3 / len(items_of(TEST, user))))
