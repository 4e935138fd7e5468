"""Maxima of sparse features against those of the same features made dense."""

import pytest
import torch
from graph_oracles import CASES, every_case

from tuneup.graph import SparseMatrix, sparse_features
from tuneup.graph.features import dense, max_features
from tuneup.nn import Encoder
from tuneup.nn.forward import Forward


def features(rows, columns, share, seed=0):
    """Values from 1 to 3, stored for a share of the columns; zero for the others."""
    draw = torch.Generator().manual_seed(seed)
    value = torch.randint(1, 4, (rows, columns), generator=draw).float()
    return value * (torch.rand(rows, columns, generator=draw) < share)


@pytest.mark.parametrize("share", [0.0, 0.002, 0.5])
@every_case
def test_they_are_those_of_dense_features(case, share):
    graph = case.graph
    x = features(graph.num_cols, 400, share)
    found = max_features(graph, sparse_features(x))
    torch.testing.assert_close(dense(found), graph.max(x), rtol=0, atol=0)
    if share < 0.01:
        assert isinstance(found, SparseMatrix)
    elif graph.num_entries > graph.num_rows:
        assert not isinstance(found, SparseMatrix)  # nothing to gain


@every_case
def test_a_negative_value_is_the_largest_where_all_neighbours_have_one(case):
    graph = case.graph
    x = features(graph.num_cols, 400, 0.002)
    x[:, 7] = -1.0
    found = max_features(graph, sparse_features(x))
    if not graph.num_cols:  # nor values
        assert dense(found).shape == (graph.num_rows, 400)
        return
    torch.testing.assert_close(found, graph.max(x), rtol=0, atol=0)
    linked = graph.rowptr.diff() > 0
    assert (found[linked, 7] == -1).all()


def test_the_result_can_be_multiplied_both_ways():
    """Its transpose, which a gradient needs, is that of what it holds."""
    graph = next(iter(CASES.values())).graph
    x = features(graph.num_cols, 400, 0.002)
    found = max_features(graph, sparse_features(x))
    weight = torch.randn(400, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    (found @ weight).square().sum().backward()
    sparse_grad, weight.grad = weight.grad, None
    (graph.max(x) @ weight).square().sum().backward()
    torch.testing.assert_close(sparse_grad, weight.grad)


def test_what_is_stored_twice_is_added_up_first():
    graph = next(iter(CASES.values())).graph
    rowptr = torch.arange(graph.num_cols + 1) * 2
    twice = torch.sparse_csr_tensor(
        rowptr,
        torch.full((2 * graph.num_cols,), 3),
        torch.tensor([1.0, 2.0]).repeat(graph.num_cols),
        (graph.num_cols, 400),
        check_invariants=False,
    )
    found = dense(max_features(graph, sparse_features(twice)))
    assert (found[graph.rowptr.diff() > 0, 3] == 3).all()


def test_one_kept_aggregation_serves_models_of_every_precision():
    graph = next(case.graph for case in CASES.values() if case.graph.num_entries > 9)
    x = features(graph.num_cols, 400, 0.5) - 1.0  # some are negative: kept dense
    forward = Forward(sparse_features(x), graph)
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        model = Encoder(400, 3, architecture="sage-max", width=4).to(dtype)
        expected = model(x.to(dtype), graph)
        torch.testing.assert_close(forward(model, graph), expected)
