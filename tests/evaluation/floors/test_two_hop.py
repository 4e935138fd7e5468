"""Two-hop inputs against loops over neighbours, and logits that never form them."""

import math

import pytest
import torch

from tuneup.data import Graph, block_graph
from tuneup.evaluation.floors.logistic import Linear
from tuneup.evaluation.floors.two_hop import TwoHop
from tuneup.graph import adjacency_from, sparse_features
from tuneup.graph.features import dense

BLOCKS = block_graph(60, 90, 3, 4, seed=2)
NODES = torch.tensor([7, 0, 33, 59])


def wide(seed=0):
    """Sparse rows over 600 columns."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(60, 600, generator=generator)
    return Graph(BLOCKS.adjacency, sparse_features(x * (x > 0.95)))


def directed():
    ends = torch.randint(0, 60, (2, 150), generator=torch.Generator().manual_seed(1))
    return Graph(adjacency_from(ends, 60, undirected=False), BLOCKS.x)


def naive(data, x):
    """Features, the mean over senders, the mean over their senders' means, log(1 + degree)."""
    senders = [[] for _ in range(data.num_nodes)]
    for u, v in data.adjacency.edge_index.t().tolist():
        senders[v].append(u)

    def mean(rows):
        zero = torch.zeros(x.shape[1])
        return torch.stack(
            [sum((rows[u] for u in near), zero) / max(1, len(near)) for near in senders]
        )

    one = mean(x)
    degree = torch.tensor([[math.log1p(len(near))] for near in senders])
    return torch.cat([x, one, mean(one), degree], 1)


@pytest.mark.parametrize("make", [lambda: BLOCKS, directed, wide])
def test_rows_and_logits(make):
    data = make()
    assert data is not BLOCKS or bool((data.adjacency.degree == 0).any())
    inputs = TwoHop.on(data.x, seed=0)
    x = dense(data.x)
    expected = naive(data, x if inputs.basis is None else x @ inputs.basis)[NODES]
    rows = inputs.rows(data, NODES)
    torch.testing.assert_close(rows, expected, atol=1e-5, rtol=1e-5)
    generator = torch.Generator().manual_seed(0)
    model = Linear(
        torch.randn(rows.shape[1], 3, generator=generator), torch.randn(3, generator=generator)
    )
    torch.testing.assert_close(inputs.logits(model, data, NODES), model(rows), atol=1e-4, rtol=1e-4)


def test_the_basis_is_orthonormal_and_close_to_the_principal_directions():
    """Of 60 rows it holds all there is; narrow features need none."""
    x = wide().x
    basis = TwoHop.on(x, seed=0).basis
    torch.testing.assert_close(basis.T @ basis, torch.eye(256), atol=1e-4, rtol=0)
    torch.testing.assert_close(dense(x) @ basis @ basis.T, dense(x), atol=1e-4, rtol=0)
    assert torch.equal(basis, TwoHop.on(x, seed=0).basis)
    assert TwoHop.on(BLOCKS.x, seed=0).basis is None
