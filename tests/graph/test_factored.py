"""Rows that are a product of two factors, against the product itself."""

import pytest
import torch

from tuneup.graph import adjacency_from, sparse_features
from tuneup.graph.features import Factored, dense
from tuneup.nn import EncoderSpec
from tuneup.nn.linear import linear


def factored(rows=12, rank=3, width=9, seed=0):
    torch.manual_seed(seed)
    return Factored(torch.randn(rows, rank), torch.randn(rank, width), torch.randn(width))


def test_it_is_its_product():
    x = factored()
    assert x.shape == (12, 9)
    torch.testing.assert_close(dense(x), x.left @ x.right + x.bias)


@pytest.mark.parametrize("bias", [None, torch.arange(4.0)], ids=["plain", "bias"])
def test_a_linear_map_with_its_gradient(bias):
    x, weight = factored(), torch.randn(4, 9, requires_grad=True)
    found, expected = linear(x, weight, bias), linear(dense(x), weight, bias)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(out.square().sum(), weight)[0] for out in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", [torch.Tensor.clone, sparse_features], ids=["dense", "sparse"])
def test_distances_with_their_gradients(form):
    x = factored()
    parts = [part.requires_grad_() for part in (x.left, x.right, x.bias)]
    other = torch.randn(12, 9).relu()
    found = x.squared_distance(form(other))
    expected = (x.left @ x.right + x.bias - other).square().sum(1)
    torch.testing.assert_close(found, expected)
    for one, two in zip(
        torch.autograd.grad(found.sum(), parts),
        torch.autograd.grad(expected.sum(), parts),
        strict=True,
    ):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("autocast", [False, True])
def test_distances_of_rows_that_are_nearly_the_same(autocast):
    """The terms are more than ten thousand times their difference."""
    x = factored(width=400)
    near = x.left @ x.right
    close = Factored(x.left, x.right, torch.zeros(400))
    other = near + 0.01 * torch.randn_like(near)
    expected = (near.double() - other.double()).square().sum(1).float()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = close.squared_distance(sparse_features(other))
    assert float((near.square().sum(1) / expected).median()) > 10_000
    torch.testing.assert_close(found, expected, rtol=0.1, atol=0.0)


def test_entries_that_are_listed_twice_add_up():
    twice = torch.sparse_csr_tensor([0, 2, 2], [1, 1], [1.0, 2.0], (2, 3))
    x = sparse_features(twice)
    torch.testing.assert_close(dense(x), x @ torch.eye(3))


@pytest.mark.parametrize("out", [4, 16], ids=["narrows", "widens"])
@pytest.mark.parametrize("architecture", ["sage", "sage-sum", "sage-max", "gcn", "gat"])
def test_a_layer_reads_it_as_the_product(architecture, out):
    x = factored()
    edges = torch.randint(12, (2, 30), generator=torch.Generator().manual_seed(1))
    graph = adjacency_from(edges, 12, undirected=True)
    conv = EncoderSpec(9, 4, architecture, width=out, num_layers=2, heads=2).build().convs[0]
    torch.testing.assert_close(conv(x, graph), conv(dense(x), graph))
    assert conv.aggregate(x, graph) is None
