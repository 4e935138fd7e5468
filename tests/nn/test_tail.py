"""Missing information, against a loop over nodes; and the encoder that uses it."""

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

from tuneup.data import block_graph
from tuneup.errors import InputError
from tuneup.graph import adjacency_from, sparse_features
from tuneup.graph.dropping import forge_tails
from tuneup.nn import Encoder, EncoderSpec
from tuneup.nn.convs import GCNConv, SAGEConv
from tuneup.nn.tail import Missing, TailEncoder, receive, send

CONVS = {
    "sage": lambda i, o: SAGEConv(i, o),
    "sage-sum": lambda i, o: SAGEConv(i, o, "sum"),
    "gcn": GCNConv,
}


def random_graph(nodes=20, count=40, seed=0):
    edges = torch.randint(nodes, (2, count), generator=torch.Generator().manual_seed(seed))
    return adjacency_from(edges, nodes, undirected=True)


def lack_of(missing, h, n):
    """The equation of Tail-GNN for one node."""
    width = h.numel()
    g1, g2 = missing.gamma.weight.split(width, 1)
    b1, b2 = missing.beta.weight.split(width, 1)
    gamma = F.leaky_relu(g1 @ h + g2 @ n, 0.2) + 1
    beta = F.leaky_relu(b1 @ h + b2 @ n, 0.2)
    return h + gamma * missing.translation + beta - n


@pytest.mark.parametrize("widths", [(5, 7), (7, 5)], ids=["aggregates first", "transforms first"])
@pytest.mark.parametrize("every", [False, True], ids=["some tails", "all tails"])
@pytest.mark.parametrize("forged", [False, True], ids=["the graph", "forged tails"])
@pytest.mark.parametrize("name", CONVS)
def test_a_layer_is_the_equation_node_by_node(name, forged, widths, every):
    torch.manual_seed(1)
    whole, conv = random_graph(), CONVS[name](*widths)
    graph = forge_tails(whole, 2, 0, 0, 0) if forged else whole
    missing = Missing(min(widths))
    x = torch.randn(20, widths[0])
    tail = torch.ones(20, dtype=torch.bool) if every else torch.rand(20) < 0.5
    nodes = slice(None) if every else tail.nonzero().view(-1)
    out, found = receive(conv, missing, send(conv, x), graph, nodes, added=True)
    told = dict(zip(tail.nonzero().view(-1).tolist(), found, strict=True))
    first = widths[1] < widths[0]
    weight = conv.lin.weight if name == "gcn" else conv.lin_l.weight
    bias = conv.bias if name == "gcn" else conv.lin_l.bias
    sent = x @ weight.t() if first else x
    degree = whole.degree.tolist()  # a sender's, whoever of its own neighbours it still hears
    for v in range(20):
        near = graph.col[graph.rowptr[v] : graph.rowptr[v + 1]].tolist()
        mean = sum((sent[u] for u in near), torch.zeros(min(widths))) / max(1, len(near))
        known = mean
        if name == "gcn" and near:  # as GCN weighs them, against one of v's own degree
            weighed = [sent[u] * ((len(near) + 1) / (degree[u] + 1)) ** 0.5 for u in near]
            known = sum(weighed) / len(near)
        m = lack_of(missing, sent[v], known)
        if tail[v]:
            torch.testing.assert_close(told[v], m)
        added = m if tail[v] else torch.zeros_like(m)
        if name == "sage":
            total = (mean * len(near) + added) / max(1, len(near) + int(tail[v]))
        elif name == "sage-sum":
            total = mean * len(near) + added
        else:
            total = (sent[v] + added) / (len(near) + 1)
            for u in near:
                total = total + sent[u] / ((len(near) + 1) * (degree[u] + 1)) ** 0.5
        expected = total + bias if first else weight @ total + bias
        if name != "gcn":
            expected = expected + conv.lin_r.weight @ x[v]
        torch.testing.assert_close(out[v], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CONVS)
def test_heads_are_given_nothing(name):
    """Their own weight is zero: a head's layer is the convolution itself."""
    torch.manual_seed(2)
    graph, conv, x = random_graph(), CONVS[name](5, 7), torch.randn(20, 5)
    tail = graph.degree <= 2
    tails = tail.nonzero().view(-1)
    out, _ = receive(conv, Missing(5), send(conv, x), graph, tails, added=True)
    plain = conv(x, graph)
    torch.testing.assert_close(out[~tail], plain[~tail])
    assert not torch.isclose(out[tail], plain[tail]).all(1).any()


@pytest.mark.parametrize("name", CONVS)
def test_without_tails_the_encoder_is_itself(name):
    spec = EncoderSpec(5, 3, name, width=8)
    encoder = spec.build()
    graph, x = random_graph(), torch.randn(20, 5)
    assert TailEncoder(encoder, 0)(x, graph).equal(encoder(x, graph))
    tail_encoder = TailEncoder(encoder, 4)
    head, missing = tail_encoder.head_pass(x, graph)
    torch.testing.assert_close(head, encoder(x, graph))
    assert missing == []


@pytest.mark.parametrize("name", CONVS)
def test_what_heads_miss_is_asked_for_and_not_added(name):
    torch.manual_seed(4)
    encoder = EncoderSpec(5, 3, name, width=8).build()
    graph, x = random_graph(), torch.randn(20, 5)
    tails = TailEncoder(encoder, 4)
    everyone, asked = torch.arange(20), torch.tensor([7, 3, 11])
    head, missing = tails.head_pass(x, graph, everyone)
    torch.testing.assert_close(head, encoder(x, graph))
    assert [m.shape for m in missing] == [(20, 5), (20, 8), (20, 3)]
    for all_, some in zip(missing, tails.head_pass(x, graph, asked)[1], strict=True):
        torch.testing.assert_close(all_[asked], some)


@pytest.mark.parametrize("name", ["sage", "sage-sum", "gcn"])
@pytest.mark.parametrize("width", [3, 12])
def test_both_passes_are_one_and_the_other(name, width):
    """Outputs and gradients, with messages shared by both or sent by either."""
    torch.manual_seed(0)
    graph = block_graph(60, 300, 2, 8).adjacency
    forged = forge_tails(graph, 3, 0, 0, 0)
    x = torch.randn(60, 8, dtype=torch.float64, requires_grad=True)
    encoder = TailEncoder(Encoder(8, 2, architecture=name, width=width), 3).double()
    asked = (graph.degree > 3).nonzero().view(-1)
    z, missing = encoder.head_pass(x, graph, asked)
    apart = [z, *missing, encoder(x, forged)]
    z, missing, other = encoder.both_passes(x, graph, forged, asked)
    together = [z, *missing, other]
    assert len(apart) == len(together) == 5
    grads = []
    for found in (apart, together):
        loss = sum(out.square().sum() for out in found)
        grads.append(torch.autograd.grad(loss, [x, *encoder.parameters()]))
    for one, another in zip((*apart, *grads[0]), (*together, *grads[1]), strict=True):
        torch.testing.assert_close(one, another)


def test_sparse_features_are_transformed_first():
    torch.manual_seed(3)
    x = torch.randn(20, 12) * (torch.rand(20, 12) < 0.3)
    encoder = TailEncoder(Encoder(12, 3, width=8), 3)
    graph = random_graph()
    torch.testing.assert_close(encoder(sparse_features(x), graph), encoder(x, graph))
    wide = TailEncoder(Encoder(12, 3, width=16), 3)
    with pytest.raises(InputError, match="Sparse features need a layer that is narrower"):
        wide(sparse_features(x), graph)


@pytest.mark.parametrize("name", ["gat", "sage-max"])
def test_an_aggregation_that_is_no_sum_is_refused(name):
    with pytest.raises(InputError, match="needs a weighted sum"):
        TailEncoder(Encoder(4, 4, architecture=name, width=8), 3)


@pytest.mark.parametrize("name", ["sage", "gcn"])
def test_no_number_is_held_per_edge_and_channel(name):
    """Both passes and their gradients on a complete graph, where such a tensor would stand out."""
    nodes, width = 64, 512
    graph = adjacency_from(torch.combinations(torch.arange(nodes)).t(), nodes, undirected=True)
    forged = forge_tails(graph, 5, 0, 0, 0)
    model = TailEncoder(EncoderSpec(width, width, name, width=width, num_layers=2).build(), 5)
    x = torch.randn(nodes, width)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        z, missing, tails = model.both_passes(x, graph, forged, torch.arange(nodes))
        (z.sum() + tails.sum() + sum(m.norm() for m in missing)).backward()
    sizes = [e.nbytes() for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    assert nodes * width * 4 < max(sizes) < graph.num_entries * width * 4
