"""RAWLS-GCN: GCN but for its operator."""

import torch

from tests.methods.toys import link_setup, node_setup, settings_for
from tuneup.methods import METHODS, prepare, run
from tuneup.methods.rawls import RawlsGCN


def test_with_gcns_own_scaling_it_is_gcn():
    """The whole graph against a receptive field: the same function, trained alike."""
    for setup, task in (
        (node_setup("gcn"), "node-classification"),
        (link_setup("gcn"), "link-prediction"),
    ):
        base = run(METHODS["base"], setup, seed=3)
        same = run(METHODS["rawls-gcn"], setup, settings=RawlsGCN("gcn"), seed=3)
        for one, other in zip(base.record.curves(), same.record.curves(), strict=True):
            torch.testing.assert_close(one[2], other[2], rtol=1e-5, atol=1e-6)
        for setting in settings_for(task):
            assert setting.score(base.model).score.equal(setting.score(same.model).score)


def test_its_operator_is_another():
    setup = node_setup("gcn")
    x, graph = setup.task.data.x, setup.task.graph
    base = prepare(METHODS["base"].settings, setup).model
    rawls = prepare(RawlsGCN(), setup).model
    weights = zip(base.parameters(), rawls.parameters(), strict=True)
    assert all(one.equal(other) for one, other in weights)  # the same weights
    assert not torch.allclose(base(x, graph), rawls(x, graph))
    matrix = graph.matrix("doubly-stochastic")
    first, second = (conv for conv in base.encoder.convs)
    hidden = torch.relu((matrix @ x) @ first.lin.weight.t() + first.bias)
    expected = (matrix @ hidden) @ second.lin.weight.t() + second.bias
    torch.testing.assert_close(rawls(x, graph), expected)


def test_every_evaluation_graph_is_balanced_anew():
    setup = node_setup("gcn")
    result = run(METHODS["rawls-gcn"], setup)
    for setting in settings_for("node-classification"):
        setting.score(result.model)
        matrix = setting.data.adjacency.matrix("doubly-stochastic")
        sums = matrix @ torch.ones(setting.data.num_nodes, 1)
        torch.testing.assert_close(sums, torch.ones_like(sums), atol=0.011, rtol=0)
