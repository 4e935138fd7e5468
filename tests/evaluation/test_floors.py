"""Popularity and co-occurrence, against loops over users and items."""

import random

import pytest
import torch

from tests.tasks.edge_toys import ITEMS, pair_set, some_split
from tuneup.evaluation.floors import co_occurrence, popularity, random_recall

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


@pytest.mark.parametrize("k", [1, 4, 50])
def test_popularity(k):
    found = popularity(SPLIT, f"recall@{k}")
    users = sorted({u for u, _ in TEST})
    assert found.nodes.tolist() == users
    assert found.degree.tolist() == [len(items_of(TRAIN, u)) for u in users]
    expected = [recall(u, lambda i: len(users_of(i)), k) for u in users]
    assert found.score.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("k", [1, 4, 50])
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


@pytest.mark.parametrize("k", [1, 4, 50])
def test_a_random_order(k):
    """As often as items are shuffled, so close is their mean recall to what is expected."""
    users = sorted({user for user, _ in TEST})
    free = [
        [i for i in range(ITEMS) if i not in items_of(TRAIN | VALIDATION, user)] for user in users
    ]
    shuffle = random.Random(0)
    tried = [
        len(items_of(TEST, user) & set(shuffle.sample(left, min(k, len(left)))))
        / len(items_of(TEST, user))
        for user, left in zip(users, free, strict=True)
        for _ in range(300)
    ]
    found = random_recall(torch.tensor([len(left) for left in free]), k)
    assert found == pytest.approx(sum(tried) / len(tried), abs=0.02)
