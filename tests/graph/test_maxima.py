"""Maxima of sparse features against those of the same features made dense."""

import pytest
import torch
from graph_oracles import CASES

from tuneup.graph import SparseMatrix, sparse_features
from tuneup.graph.features import dense
from tuneup.graph.maxima import max_features


def features(rows, columns, share, seed=0):
    """Values from 1 to 3, stored for a share of the columns; zero for the others."""
    draw = torch.Generator().manual_seed(seed)
    value = torch.randint(1, 4, (rows, columns), generator=draw).float()
    return value * (torch.rand(rows, columns, generator=draw) < share)


@pytest.mark.parametrize("share", [0.0, 0.002, 0.5])
@pytest.mark.parametrize("case", CASES)
def test_they_are_those_of_dense_features(case, share):
    graph = CASES[case].graph
    x = features(graph.num_cols, 400, share)
    found = max_features(graph, sparse_features(x), torch.float32)
    torch.testing.assert_close(dense(found), graph.max(x), rtol=0, atol=0)
    if share < 0.01:
        assert isinstance(found, SparseMatrix)
    elif graph.num_entries > graph.num_rows:
        assert not isinstance(found, SparseMatrix)  # nothing to gain


@pytest.mark.parametrize("case", CASES)
def test_a_negative_value_is_the_largest_where_all_neighbours_have_one(case):
    graph = CASES[case].graph
    x = features(graph.num_cols, 400, 0.002)
    x[:, 7] = -1.0
    found = max_features(graph, sparse_features(x), torch.float64)
    if not graph.num_cols:  # nor values
        assert dense(found).shape == (graph.num_rows, 400)
        return
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, graph.max(x.double()), rtol=0, atol=0)
    linked = graph.rowptr.diff() > 0
    assert (found[linked, 7] == -1).all()


def test_the_result_can_be_multiplied_both_ways():
    """Its transpose, which a gradient needs, is that of what it holds."""
    graph = next(iter(CASES.values())).graph
    x = features(graph.num_cols, 400, 0.002)
    found = max_features(graph, sparse_features(x), torch.float32)
    weight = torch.randn(400, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    (found @ weight).square().sum().backward()
    sparse_grad, weight.grad = weight.grad, None
    (graph.max(x) @ weight).square().sum().backward()
    torch.testing.assert_close(sparse_grad, weight.grad)
