"""Learned inputs under every encoder: forward, backward, and nodes that nothing is known of."""

import pytest
import torch

from tests.tasks.edge_toys import ITEMS, USERS, recommender, some_split
from tuneup.curriculum import Schedule, tuneup
from tuneup.graph import DropEdge, adjacency_from
from tuneup.nn import Encoder, InnerProduct, LightGCN, Model, UserItemVectors
from tuneup.tasks import Recommendation
from tuneup.train import train

ARCHITECTURES = ("sage", "sage-max", "sage-sum", "gcn", "gat", "lightgcn")
GRAPH = some_split().train.adjacency()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_forward_and_backward(architecture):
    model = recommender(architecture)
    for graph in (GRAPH, DropEdge(0.5)(GRAPH, step=0), DropEdge(1.0)(GRAPH, step=0)):
        model.zero_grad()
        z = model(None, graph)
        assert z.shape == (USERS + ITEMS, 8 if architecture == "lightgcn" else 6)
        assert torch.isfinite(z).all()
        assert torch.equal(z, model.encoder(model.inputs.vectors, graph))
        (z[:USERS] @ z[USERS:].t()).square().sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name
        assert (model.inputs.vectors.grad.abs().sum(1) > 0).sum() > (USERS + ITEMS) // 2


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_messages_flow_between_users_and_items(architecture):
    """A user's output moves with an item's input iff they are within two steps."""
    model = recommender(architecture)
    user = int(GRAPH.degree[:USERS].argmax())
    (grad,) = torch.autograd.grad(model(None, GRAPH)[user].square().sum(), model.inputs.vectors)
    near = {user, *GRAPH.col[GRAPH.rowptr[user] : GRAPH.rowptr[user + 1]].tolist()}
    for node in list(near):
        near |= set(GRAPH.col[GRAPH.rowptr[node] : GRAPH.rowptr[node + 1]].tolist())
    moved = set((grad.abs().sum(1) > 0).nonzero().view(-1).tolist())
    assert moved <= near
    assert moved & set(range(USERS, USERS + ITEMS))


def test_inputs_are_learned_and_start_small():
    torch.manual_seed(0)
    model = Model(UserItemVectors(400, 600), LightGCN(), InnerProduct())
    assert model.inputs.vectors.shape == (1000, 64)
    assert model.inputs.vectors.requires_grad
    assert abs(float(model.inputs.vectors.detach().std()) - 0.1) < 0.002
    wide = Model(UserItemVectors(400, 600, width=8, std=1.0), LightGCN(), InnerProduct())
    assert abs(float(wide.inputs.vectors.detach().std()) - 1) < 0.05


def test_what_it_says():
    text = repr(Model(UserItemVectors(2, 3, width=4), LightGCN(2), InnerProduct()))
    assert "2 users, 3 items" in text
    assert "LightGCN(num_layers=2)" in text


@pytest.mark.parametrize("shared", [False, True])
def test_nodes_without_an_edge_share_an_input(shared):
    torch.manual_seed(0)
    model = Model(
        UserItemVectors(3, 2, width=4, std=1.0, shared=shared, unknown=True),
        LightGCN(),
        InnerProduct(),
    )
    graph = adjacency_from(torch.tensor([[0, 2], [3, 3]]), 5, undirected=True)
    inputs = model.inputs(None, graph)
    for node in (0, 2, 3):
        common = model.inputs.shared[int(node >= 3)] if shared else 0
        assert inputs[node].equal(model.inputs.vectors[node] + common)
    assert inputs[1].equal(model.inputs.unknown[0])
    assert inputs[4].equal(model.inputs.unknown[1])
    plain = Model(UserItemVectors(3, 2, width=4), LightGCN(), InnerProduct())
    assert plain.inputs(None, graph) is plain.inputs.vectors
    assert list(plain.state_dict()) == ["inputs.vectors"]


@pytest.mark.parametrize("architecture", [*ARCHITECTURES[:5], "batch-norm"])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9, 1.0])
def test_who_has_no_edge_is_computed_once(architecture, alpha):
    """Outputs and gradients are those of a pass over every node with the input it has."""
    torch.manual_seed(0)
    kind, norm = ("sage", "batch") if architecture == "batch-norm" else (architecture, "none")
    encoder = Encoder(4, 6, architecture=kind, width=8, norm=norm)
    model = Model(
        UserItemVectors(USERS, ITEMS, width=4, std=1.0, shared=True, unknown=True),
        encoder,
        InnerProduct(),
    ).double()
    torch.nn.init.normal_(model.inputs.unknown)
    graph = DropEdge(alpha)(GRAPH, step=3)
    rows = []
    with encoder.register_forward_pre_hook(lambda _, given: rows.append(len(given[0]))):
        ours, naive = model(None, graph), encoder(model.inputs(None, graph), graph)
    linked = int((graph.degree > 0).sum())
    merges = norm != "batch" and linked < USERS + ITEMS
    assert rows == [linked + 2 if merges else USERS + ITEMS, USERS + ITEMS]
    torch.testing.assert_close(ours, naive)
    weight = torch.randn_like(naive)
    grads = [
        torch.autograd.grad((z * weight).sum(), list(model.parameters()), retain_graph=True)
        for z in (ours, naive)
    ]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


def test_an_encoder_of_ones_own_is_asked_about_every_node():
    class Centred(Encoder):
        def between(self, k, h):
            return super().between(k, h - h.mean(0))

    torch.manual_seed(0)
    alone = DropEdge(0.9)(GRAPH, step=0)
    for encoder in (Centred(4, 6, width=8), Encoder(4, 6, width=8, norm="layer")):
        if type(encoder) is Encoder:
            encoder.norms[0] = torch.nn.BatchNorm1d(8)
        model = Model(
            UserItemVectors(USERS, ITEMS, width=4, std=1.0, unknown=True), encoder, InnerProduct()
        )
        assert torch.equal(model(None, alone), encoder(model.inputs(None, alone), alone))


def test_with_dropout_every_node_draws_its_own():
    torch.manual_seed(0)
    encoder = Encoder(4, 6, width=8, dropout=0.5)
    model = Model(
        UserItemVectors(USERS, ITEMS, width=4, std=1.0, unknown=True), encoder, InnerProduct()
    )
    torch.nn.init.normal_(model.inputs.unknown)
    alone = DropEdge(1.0)(GRAPH, step=0)
    assert len(model.train()(None, alone)[:USERS].unique(dim=0)) > 2
    assert len(model.eval()(None, alone)[:USERS].unique(dim=0)) == 1


def test_the_unknown_are_learned_from_dropped_edges_alone():
    split = some_split()
    task, model = Recommendation(split.train, split.validation), recommender(sides=True)
    before = model.inputs.unknown.detach().clone()
    result = train(model, task, tuneup(0.5, Schedule(2, lr=0.1), Schedule(2, lr=0.1)))
    assert result.states[0]["inputs.unknown"][0].equal(
        before[0]
    )  # no user without an edge has a pair
    assert not result.states[1]["inputs.unknown"][0].equal(before[0])


# Arriving users


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "batch-norm"])
@pytest.mark.parametrize("sides", [False, True])
def test_arriving_users_enter_with_the_mean_of_the_others(architecture, sides):
    torch.manual_seed(0)
    kind, norm = ("sage", "batch") if architecture == "batch-norm" else (architecture, "none")
    encoder = LightGCN() if kind == "lightgcn" else Encoder(4, 6, architecture=kind, norm=norm)
    model = Model(
        UserItemVectors(USERS, ITEMS, width=4, std=1.0, shared=sides, unknown=sides),
        encoder,
        InnerProduct(),
    )
    if sides:
        torch.nn.init.normal_(model.inputs.unknown)
    arriving = torch.arange(USERS) % 4 == 0
    others = (GRAPH.degree[:USERS] > 0) & ~arriving
    inputs = model.inputs(None, GRAPH).detach().clone()
    mean = model.inputs.vectors[:USERS][others].mean(0) + (model.inputs.shared[0] if sides else 0)
    linked = GRAPH.degree[:USERS] > 0 if sides else torch.ones(USERS, dtype=torch.bool)
    inputs[:USERS][arriving & linked] = mean.detach()
    torch.testing.assert_close(model.inputs(None, GRAPH, arriving), inputs)
    model.eval()
    torch.testing.assert_close(model(None, GRAPH, arriving), model.encoder(inputs, GRAPH))
    with torch.no_grad():
        model.inputs.vectors[:USERS][arriving] = torch.nan
    assert torch.isfinite(model(None, GRAPH, arriving)).all()  # their own vectors are not read


@pytest.mark.parametrize("sides", [False, True])
def test_untrained_users_can_be_filled_in(sides):
    model = recommender(sides=sides)
    untrained = GRAPH.degree[:USERS] == 0
    assert untrained.any()
    before, mean = model.inputs.vectors.detach().clone(), model.inputs.mean_user(GRAPH)
    model.inputs.fill_untrained(GRAPH)
    inputs = model.inputs.of_linked()[:USERS]
    torch.testing.assert_close(inputs[untrained], mean.expand_as(inputs[untrained]))
    assert model.inputs.vectors[USERS:].equal(before[USERS:])
    assert model.inputs.vectors[:USERS][~untrained].equal(before[:USERS][~untrained])
    everyone = adjacency_from(
        torch.stack([torch.arange(USERS), torch.full((USERS,), USERS)]),
        USERS + ITEMS,
        undirected=True,
    )
    torch.testing.assert_close(model.inputs.mean_user(everyone), mean)
