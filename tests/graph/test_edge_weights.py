"""Edge weights: read with the edges, carried through every cut, used by the models that can."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GCNConv, GraphSAGE

import tuneup
from tuneup.data import cold_start, graph_from
from tuneup.errors import InputError
from tuneup.graph import DropEdge, adjacency_from
from tuneup.methods import Setup
from tuneup.nn import EncoderSpec
from tuneup.tasks import GraphView, Moment, link_task, node_task

N = 40
BRIEF = tuneup.Schedule(epochs=4, lr=0.01)


def weighted_edges(seed=0, *, symmetric=True):
    """Some edges, both ways, in any order, and a weight for each."""
    generator = torch.Generator().manual_seed(seed)
    full = torch.triu(torch.rand(N, N, generator=generator) < 0.15, 1)
    weight = torch.rand(N, N, generator=generator) + 0.1
    if symmetric:
        weight = torch.triu(weight) + torch.triu(weight, 1).T
    dense = (full | full.T) * weight
    edge_index = dense.T.nonzero().T  # dense[i, j]: what i receives from j
    order = torch.randperm(edge_index.shape[1], generator=generator)
    edge_index = edge_index[:, order]
    return edge_index, dense[edge_index[1], edge_index[0]], dense


def dense_of(graph):
    out = torch.zeros(graph.num_rows, graph.num_cols)
    out[graph.row, graph.col] = graph.weight
    return out


def data_of(symmetric=True):
    edge_index, weight, _ = weighted_edges(symmetric=symmetric)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, 6, generator=generator)
    data = Data(x=x, edge_index=edge_index, edge_weight=weight, y=torch.arange(N) % 3)
    data.train_mask, data.val_mask = torch.arange(N) < 15, torch.arange(N) >= 25
    return data


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_weights_follow_their_edges_through_every_cut(seed, symmetric):
    edge_index, weight, dense = weighted_edges(seed, symmetric=symmetric)
    loops = torch.arange(3).repeat(2, 1)
    graph = adjacency_from(
        torch.cat([edge_index, loops], 1), N, weight=torch.cat([weight, torch.ones(3)])
    )
    assert graph.undirected == (symmetric or not len(weight))
    assert torch.equal(dense_of(graph), dense)
    nodes = torch.randperm(N, generator=torch.Generator().manual_seed(seed))[:17]
    assert torch.equal(dense_of(graph.induce(nodes)), dense[nodes][:, nodes])
    drop = DropEdge(0.5, paired=symmetric)
    for thinned in (drop.thin(graph, 3), drop.view(graph, 3).directed, drop.view(graph, 3)):
        found = dense_of(thinned)
        assert torch.equal(found[found > 0], dense[found > 0])
        assert (found > 0).sum() == thinned.num_entries
        assert thinned.num_entries < graph.num_entries or not graph.num_entries
    cold = dense_of(cold_start(graph, nodes, 0.6, 0))
    assert torch.equal(cold[cold > 0], dense[cold > 0])
    assert torch.equal(dense_of(graph.directed.to("cpu")), dense)
    assert torch.equal(graph.adj_t.to_dense(), dense)


def test_an_undirected_edge_may_be_given_once():
    edge_index, weight, dense = weighted_edges()
    up = edge_index[0] < edge_index[1]
    graph = adjacency_from(edge_index[:, up], N, undirected=True, weight=weight[up])
    assert torch.equal(dense_of(graph), dense)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("scaling", ["sum", "mean", "symmetric", "gcn"])
def test_products_and_gradients_are_those_of_the_dense_matrix(scaling, symmetric):
    edge_index, weight, dense = weighted_edges(symmetric=symmetric)
    graph = adjacency_from(edge_index, N, weight=weight)
    if scaling == "mean":
        dense = dense / dense.sum(1, keepdim=True).clamp(min=1e-9)
    elif scaling != "sum":
        dense = dense + torch.eye(N) * (scaling == "gcn")
        scale = dense.sum(1).rsqrt().nan_to_num(posinf=0.0)
        dense = scale[:, None] * dense * scale
    x, grad = torch.randn(2, N, 5, generator=torch.Generator().manual_seed(0))
    x.requires_grad_()
    out = graph.matrix(scaling) @ x
    torch.testing.assert_close(out, dense @ x)
    (found,) = torch.autograd.grad((out * grad).sum(), x)
    torch.testing.assert_close(found, dense.T @ grad)


@pytest.mark.parametrize("symmetric", [True, False])
def test_our_gcn_is_pygs_and_the_mean_is_weighted(symmetric):
    edge_index, weight, dense = weighted_edges(symmetric=symmetric)
    x = torch.randn(N, 6, generator=torch.Generator().manual_seed(0))
    ours, theirs = tuneup.Encoder(6, 4, architecture="gcn", num_layers=1), GCNConv(6, 4)
    theirs.load_state_dict(ours.convs[0].state_dict())
    expected = theirs(x, edge_index, weight)
    torch.testing.assert_close(ours(x, edge_index, weight), expected)
    sage = tuneup.Encoder(6, 4, num_layers=1)
    conv = sage.convs[0]
    mean = dense @ x / dense.sum(1, keepdim=True)
    torch.testing.assert_close(sage(x, edge_index, weight), conv.lin_l(mean) + conv.lin_r(x))


@pytest.mark.parametrize("model", ["gcn", "sage", "sage-sum", "pyg"])
def test_fit_trains_and_validates_with_weights(model):
    data = data_of()
    torch.manual_seed(0)
    made = GCN(6, 8, 2, 3) if model == "pyg" else tuneup.Encoder(6, 3, architecture=model, width=8)
    result = tuneup.fit(made, data, pretrain=BRIEF, finetune=BRIEF, select="transductive")
    logits = made(data.x, data.edge_index, edge_weight=data.edge_weight)
    hits = (logits.argmax(1) == data.y)[data.val_mask]
    assert result.record.validation == pytest.approx(float(hits.float().mean()))
    task = node_task(data)
    assert task.digest() != node_task(data.update({"edge_weight": 2 * data.edge_weight})).digest()


def test_losses_on_few_nodes_are_those_of_all_nodes():
    """A receptive field knows no weights: all nodes are computed."""
    task = node_task(data_of())
    few = replace(task, train=task.train[:2])
    model, view = tuneup.Encoder(6, 3, width=8), GraphView(DropEdge(0.5).view(task.graph, 0))
    logits = model(task.data.x, view.graph)[few.train]
    expected = torch.nn.functional.cross_entropy(logits, task.data.y[few.train])
    loss = few.loss(model, view, few.supervision(), Moment(0, 0, 0))
    torch.testing.assert_close(loss, expected)


def test_links_are_scored_over_weighted_messages():
    data = data_of()
    first = data.edge_index[0] < data.edge_index[1]
    edges = data.edge_index[:, first]
    held = torch.zeros(len(data.edge_weight), dtype=torch.bool)
    for pair in edges[:, :10].T:
        held |= (data.edge_index == pair[:, None]).all(0)
        held |= (data.edge_index == pair.flip(0)[:, None]).all(0)
    train = Data(
        x=data.x, edge_index=data.edge_index[:, ~held], edge_weight=data.edge_weight[~held]
    )
    task = link_task(train, Data(edge_label_index=edges[:, :10]))
    encoder = tuneup.Encoder(6, 8, architecture="gcn", width=8)
    model = tuneup.Model(tuneup.NodeFeatures(), encoder, tuneup.HadamardMLP(8))
    z = encoder(train.x, train.edge_index, train.edge_weight)
    torch.testing.assert_close(task.outputs(model), z)
    assert 0 <= tuneup.fit(model, task, pretrain=BRIEF, finetune=BRIEF).record.validation <= 1


def test_what_has_no_meaning_for_weights_is_refused():
    data = data_of()
    models = [tuneup.Encoder(6, 3, architecture=name) for name in ("gat", "sage-max")]
    for model in (*models, GAT(6, 8, 2, 3), GraphSAGE(6, 8, 2, 3)):
        with pytest.raises(InputError, match=r"edge_weight: .* has no meaning for edge weights"):
            tuneup.fit(model, data)
    graph = graph_from(data)
    served = tuneup.Predictor(tuneup.Encoder(6, 3), graph).model.artefact
    assert torch.equal(served.adjacency.weight, graph.adjacency.weight)
    with pytest.raises(InputError, match=r"attention, .* has no meaning for edge weights"):
        tuneup.Predictor(models[0], graph)
    with pytest.raises(InputError, match="a method of the registry has no meaning"):
        Setup(node_task(data), EncoderSpec(6, 3))
    with pytest.raises(InputError, match="doubly-stochastic"):
        graph.adjacency.matrix("doubly-stochastic")
    data.edge_attr = data.edge_weight
    with pytest.raises(InputError, match="edge_attr, which would be ignored"):
        tuneup.fit(models[0], data)


def test_malformed_weights_are_named():
    edge_index, weight, _ = weighted_edges()
    for wrong in (weight[:-1], weight * 0, -weight, weight * torch.nan, weight[:, None]):
        with pytest.raises(InputError, match=r"edge_weight must be .* numbers above 0"):
            adjacency_from(edge_index, N, weight=wrong)
    twice = torch.cat([edge_index, edge_index[:, :1]], 1)
    with pytest.raises(InputError, match=r"has the weights .*; expected one: coalesce"):
        adjacency_from(twice, N, weight=torch.cat([weight, weight[:1] + 1]))
    with pytest.raises(InputError, match="already built"):
        adjacency_from(adjacency_from(edge_index), weight=weight)
