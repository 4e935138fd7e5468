"""Learned inputs: whose they are, what others enter with, and what is never made."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import GraphSAGE

from tuneup.errors import InputError
from tuneup.graph import adjacency_from, identities
from tuneup.nn import Classes, Encoder, Forward, Model, NodeVectors

ARCHITECTURES = ("sage", "sage-max", "sage-sum", "gcn", "gat")
NODES, WIDTH = 40, 8


@pytest.fixture
def known():
    return torch.arange(NODES) % 5 != 0


@pytest.fixture
def graph():
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, NODES, (2, 70), generator=generator)
    return adjacency_from(edges, NODES, undirected=True)


def embedded(architecture="sage", hidden=0.0):
    torch.manual_seed(1)
    encoder = Encoder(WIDTH, 3, architecture=architecture, width=WIDTH)
    return Model(NodeVectors(32, WIDTH, hidden=hidden), encoder, Classes())


def by_hand(model, known):
    """Inputs from a loop over the nodes."""
    rows, place = [], 0
    for is_known in known.tolist():
        rows.append(model.inputs.vectors[place] if is_known else model.inputs.vectors.mean(0))
        place += is_known
    return torch.stack(rows)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_outputs_and_gradients_are_those_of_the_vectors(architecture, graph, known):
    model = embedded(architecture)
    out = model(identities(known), graph)
    expected = model.encoder(by_hand(model, known), graph)
    assert torch.allclose(out, expected, atol=1e-6)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    ours, theirs = (
        torch.autograd.grad((weight * each).sum(), list(model.parameters()))
        for each in (out, expected)
    )
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_pruned_pass_says_the_same(architecture, graph, known):
    model, x, rows = embedded(architecture), identities(known), torch.tensor([7, 0, 21])
    thin = graph.thin((graph.row + graph.col) % 3 != 0)
    for seen in (graph, thin):
        results = []
        for prune in (True, False):
            out = Forward(x, graph, prune=prune)(model, seen, rows)
            grads = torch.autograd.grad(out.square().sum(), list(model.parameters()))
            results.append((out, *grads))
        for pruned, whole in zip(*results, strict=True):
            assert torch.allclose(pruned, whole, atol=1e-5)
    assert Forward(x, graph)._plan(model.encoder, graph, rows).x.shape[0] < NODES


def test_training_hides_a_share_of_the_nodes_and_asking_hides_none():
    model, x = embedded(hidden=0.3), identities(torch.ones(32, dtype=torch.bool))
    mean = model.inputs.vectors.mean(0)
    torch.manual_seed(0)
    share = torch.stack([(model.inputs(x) == mean).all(1) for _ in range(300)]).double().mean(0)
    assert abs(float(share.mean()) - 0.3) < 0.03
    assert share.min() > 0.15, "every node is hidden now and then"
    before = torch.get_rng_state()
    assert model.eval().inputs(x).equal(model.inputs.vectors)
    assert torch.get_rng_state().equal(before), "nothing is drawn"


def test_a_hidden_node_is_read_as_a_new_one(graph, known):
    """Nothing of its own vector is left, but for its part in the mean."""
    model = embedded(hidden=0.3)
    torch.manual_seed(3)
    rows = model.inputs(identities(known))
    hidden = (rows == model.inputs.vectors.mean(0)).all(1)
    assert hidden[~known].all()
    assert 0 < int(hidden[known].sum()) < int(known.sum())
    assert rows[~hidden].equal(by_hand(model, known)[~hidden])


def test_nodes_by_nodes_is_never_made():
    """Dense identities of so many nodes would take 360 GB."""
    count = 300_000
    x = identities(torch.ones(count, dtype=torch.bool))
    model = Model(NodeVectors(count, 4, hidden=0.5), torch.nn.Identity(), Classes())
    model.inputs(x).sum().backward()
    assert model.inputs.vectors.grad.shape == (count, 4)


def test_no_vector_at_all_is_zero(graph):
    model = Model(NodeVectors(0, WIDTH), Encoder(WIDTH, 3, width=WIDTH), Classes())
    assert model.inputs(identities(torch.zeros(NODES, dtype=torch.bool))).equal(
        torch.zeros(NODES, WIDTH)
    )


def test_any_module_can_be_the_encoder(graph, known):
    torch.manual_seed(0)
    model = Model(NodeVectors(32, WIDTH), GraphSAGE(WIDTH, 6, 2, 3), Classes()).eval()
    out = Forward(identities(known), graph)(model, graph, torch.tensor([3, 5]))
    expected = model.encoder(by_hand(model, known), graph.edge_index)[[3, 5]]
    assert torch.allclose(out, expected, atol=1e-6)


def test_what_does_not_say_who_nodes_are_is_refused(graph):
    model = embedded()
    wrong = (torch.zeros(NODES, 32), identities(torch.ones(NODES, dtype=torch.bool)))
    for x in wrong:
        with pytest.raises(InputError, match="expected the identities of 32 nodes"):
            model(x, graph)
    with pytest.raises(InputError, match="hidden is a share"):
        Model(NodeVectors(3, 4, hidden=1.0), model.encoder, Classes())
    assert "32 nodes, hidden=0.0" in repr(model)
