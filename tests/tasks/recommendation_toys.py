"""The small task of recommendation that its tests share, and its pairs as Python sees them."""

import torch

from tests.tasks.edge_toys import ITEMS, USERS, pair_set, some_split
from tuneup.data import interactions_from
from tuneup.tasks import Recommendation

SPLIT = some_split()
TRAIN, VALIDATION, TEST = map(pair_set, (SPLIT.train, SPLIT.validation, SPLIT.test))


def small_task(**options):
    return Recommendation(SPLIT.train, SPLIT.validation, metric="recall@3", **options)


def pairs_of(found):
    """Interactions of the toy's size from a set of pairs."""
    user, item = torch.tensor(sorted(found)).t()
    return interactions_from(user, item, USERS, ITEMS)
