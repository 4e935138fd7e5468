"""Floors of recommendation, against loops over users and items and a dense inverse."""

import random
from itertools import accumulate

import numpy as np
import pytest
import torch

from tests.tasks.edge_toys import ITEMS, pair_set, recommender, some_split
from tuneup.evaluation import RecommendationSetting, recommendation_floors
from tuneup.evaluation.floors import co_occurrence, items, popularity
from tuneup.evaluation.floors.items import by_co_occurrence, by_cosine, by_ease, by_popularity
from tuneup.graph import Rows
from tuneup.tasks import Recommendation

SPLIT = some_split()
TRAIN, VALIDATION, TEST = (pair_set(part) for part in (SPLIT.train, SPLIT.validation, SPLIT.test))


def items_of(pairs, user):
    return {i for u, i in pairs if u == user}


def users_of(item):
    return {u for u, i in TRAIN if i == item}


def recall(user, score, k):
    """Sort by (-score, id): what the first k hold of the test items."""
    known = items_of(TRAIN | VALIDATION, user)
    order = sorted((i for i in range(ITEMS) if i not in known), key=lambda i: (score(i), -i))[::-1]
    wanted = items_of(TEST, user)
    return len(wanted & set(order[:k])) / len(wanted)


def test_popularity():
    for k in (1, 50):
        found = popularity(SPLIT, f"recall@{k}")
        users = sorted({u for u, _ in TEST})
        assert found.nodes.tolist() == users
        assert found.degree.tolist() == [len(items_of(TRAIN, u)) for u in users]
        expected = [recall(u, lambda i: len(users_of(i)), k) for u in users]
        assert found.score.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("k", [1, 50])
def test_co_occurrence(k):
    """Equal sums go by popularity, equal popularity by id; without pairs it is popularity."""
    found = co_occurrence(SPLIT, f"recall@{k}")
    shared = {(i, j): len(users_of(i) & users_of(j)) for i in range(ITEMS) for j in range(ITEMS)}
    expected = [
        recall(
            u, lambda i, u=u: (sum(shared[i, j] for j in items_of(TRAIN, u)), len(users_of(i))), k
        )
        for u in found.nodes.tolist()
    ]
    assert found.score.tolist() == pytest.approx(expected)
    alone = found.degree == 0
    assert alone.any()
    assert found.score[alone].equal(popularity(SPLIT, f"recall@{k}").score[alone])


TASK = Recommendation(SPLIT.train, SPLIT.validation, metric="recall@5")
SETTINGS = [RecommendationSetting(TASK, SPLIT)]
COUNT = np.array([len(users_of(i)) for i in range(ITEMS)])
SHARED = np.array([[len(users_of(i) & users_of(j)) for i in range(ITEMS)] for j in range(ITEMS)])


def ease(penalty):
    inverse = np.linalg.inv(SHARED + penalty * np.eye(ITEMS))
    weight = -inverse / np.diag(inverse)
    np.fill_diagonal(weight, 0)
    return weight


ROOT = np.sqrt(np.maximum(COUNT, 1))
WEIGHTS = {
    "popularity": (by_popularity, np.tile(COUNT, (ITEMS, 1))),
    "co-occurrence": (by_co_occurrence, SHARED),
    "cosine": (by_cosine, SHARED / ROOT / ROOT[:, None]),
    "ease": (lambda train: by_ease(train, 10.0), ease(10.0)),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_any_users_are_ranked_by_the_items_they_bring(name):
    """Equals by popularity, then by id; a user who brings nothing gets the popular items."""
    make, weight = WEIGHTS[name]
    draw = random.Random(0)
    brought = [sorted(draw.sample(range(ITEMS), size)) for size in (1, 0, 3, 8, 2)]
    bounds = torch.tensor([0, *accumulate(map(len, brought))])
    rows = Rows(bounds, torch.tensor([i for mine in brought for i in mine]))
    best = make(SPLIT.train)(rows, rows, ITEMS)
    for mine, found in zip(brought, best.ids.tolist(), strict=True):
        score = weight[mine].sum(0)
        ranked, rest = found[: ITEMS - len(mine)], found[ITEMS - len(mine) :]
        assert rest == [-1] * len(mine)
        assert sorted([*ranked, *mine]) == list(range(ITEMS))
        if name == "ease" and mine:  # computed in single precision: no two need be equal
            assert (np.diff(score[ranked]) < 1e-6).all()
        else:
            assert ranked == sorted(ranked, key=lambda i: (-round(score[i], 6), -COUNT[i], i))


def test_all_floors_have_the_users_and_degrees_of_a_model():
    theirs = SETTINGS[0].score(recommender())
    found = recommendation_floors(SETTINGS)
    names = [floor.name for floor in found]
    assert names == ["popularity", "co-occurrence", "item-cosine", "ease"]
    for floor in found:
        ours = floor.scores["transductive"]
        assert (ours.setting, ours.metric) == (theirs.setting, theirs.metric)
        assert ours.nodes.equal(theirs.nodes)
        assert ours.degree.equal(theirs.degree)
    for floor, rank in zip(found, (popularity, co_occurrence), strict=False):
        assert floor.scores["transductive"].score.equal(rank(SPLIT, "recall@5").score)


def test_the_penalty_of_ease_is_chosen_on_validation_pairs():
    def validated(penalty):
        users = sorted({u for u, _ in VALIDATION})
        scores = []
        for u in users:
            known = items_of(TRAIN, u)
            score = ease(penalty)[sorted(known)].sum(0)
            order = sorted(set(range(ITEMS)) - known, key=lambda i: (-score[i], -COUNT[i], i))
            wanted = items_of(VALIDATION, u)
            scores.append(len(wanted & set(order[:5])) / len(wanted))
        return sum(scores) / len(scores)

    best = max((10.0, 100.0, 1000.0), key=validated)
    assert f"penalty {best:g}" in recommendation_floors(SETTINGS)[-1].note


def test_what_would_take_too_much_memory_is_skipped(monkeypatch):
    monkeypatch.setattr(items, "EASE_ITEMS", ITEMS - 1)
    monkeypatch.setattr(items, "_SHARED", 10)
    popular, *others = recommendation_floors(SETTINGS)
    assert not popular.skipped
    assert all(floor.skipped and floor.note.startswith("skipped: ") for floor in others)
    assert "40 items" in others[-1].note
