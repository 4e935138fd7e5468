"""Who nodes are, as features."""

from __future__ import annotations

import pytest
import torch

from tuneup.errors import InputError
from tuneup.graph import identities, take_features
from tuneup.graph.features import dense


def test_known_nodes_have_a_column_each_and_others_have_none():
    known = torch.tensor([True, False, True, True, False])
    x = identities(known)
    expected = torch.zeros(5, 3)
    expected[[0, 2, 3], [0, 1, 2]] = 1
    assert x.shape == (5, 3)
    assert dense(x).equal(expected)
    nodes = torch.tensor([3, 1, 0])
    assert dense(take_features(x, nodes)).equal(expected[nodes])
    assert identities(torch.zeros(2, dtype=torch.bool)).shape == (2, 0)


def test_only_one_truth_value_a_node():
    for wrong in (torch.arange(3), torch.ones(2, 2, dtype=torch.bool)):
        with pytest.raises(InputError, match="one value a node"):
            identities(wrong)
