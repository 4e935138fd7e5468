"""Gradients are right however the layers are used, against dense layers in plain torch.

A gradient may be shared: a sum hands one tensor to all of its terms, and a caller may keep it.  So
no layer may write into a gradient that it is handed.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tuneup.graph import adjacency_from, receptive_field
from tuneup.nn import MLP, Encoder, GCNConv, SAGEConv

NUM_NODES, IN, WIDTH = 14, 5, 6
NEAR = {"rtol": 1e-5, "atol": 1e-5}
"""Degrees are rounded to single precision."""
ARCHITECTURES = ("sage", "sage-max", "sage-sum", "gcn", "gat")


def make_graph():
    """Undirected; the last nodes are isolated."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, NUM_NODES - 3, (2, 20), generator=generator)
    return adjacency_from(edges, NUM_NODES, undirected=True)


GRAPH = make_graph()
LINKS = torch.zeros(NUM_NODES, NUM_NODES, dtype=torch.double)
LINKS[GRAPH.row, GRAPH.col] = 1.0


def plain_conv(conv, x):
    """A convolution of ours with its own parameters, on the dense matrix of links."""
    if isinstance(conv, SAGEConv):
        if conv.aggregation == "max":
            masked = x.expand(NUM_NODES, *x.shape).masked_fill(LINKS[..., None] == 0, -torch.inf)
            found = torch.where(LINKS.sum(1, keepdim=True) > 0, masked.max(1).values, 0.0)
        else:
            mean = conv.aggregation == "mean"
            found = LINKS @ x / (LINKS.sum(1, keepdim=True).clamp(min=1) if mean else 1)
        return found @ conv.lin_l.weight.t() + conv.lin_l.bias + x @ conv.lin_r.weight.t()
    looped = LINKS + torch.eye(NUM_NODES, dtype=torch.double)
    if isinstance(conv, GCNConv):
        root = looped.sum(1).rsqrt()
        return root[:, None] * (looped @ (root[:, None] * (x @ conv.lin.weight.t()))) + conv.bias
    sent = (x @ conv.lin.weight.t()).view(NUM_NODES, conv.heads, -1)
    scores = (sent * conv.att_src).sum(-1)[None] + (sent * conv.att_dst).sum(-1)[:, None]
    scores = F.leaky_relu(scores, conv.negative_slope).masked_fill(looped[..., None] == 0, -1e30)
    out = torch.einsum("ijh,jhd->ihd", scores.softmax(1), sent)
    return (out.flatten(1) if conv.concat else out.mean(1)) + conv.bias


def plain_encoder(encoder, x):
    """An encoder of ours as a stack of these."""
    for k, conv in enumerate(encoder.convs):
        x = plain_conv(conv, x)
        x = torch.relu(x) if k < len(encoder.norms) else x
    return x


def ours(part, x):
    return part(x, GRAPH)


def plain(part, x):
    return (plain_encoder if isinstance(part, Encoder) else plain_conv)(part, x)


# Each use calls its parts through `run`, which is ours or the reference.
USES = {
    "body + skip": lambda p, x, run: run(p["body"], x) + p["skip"](x),
    "skip + body": lambda p, x, run: p["skip"](x) + run(p["body"], x),
    "conv + other": lambda p, x, run: run(p["conv"], x) + p["skip"](x),
    "conv + own input": lambda p, x, run: run(p["square"], x) + x,
    "two heads": lambda p, x, run: run(p["conv"], x) + run(p["encoder"], x),
    "two heads of one body": lambda p, x, run: heads(p, run(p["body"], x), run),
    "used twice": lambda p, x, run: (lambda z: z + 2 * z + z.square())(run(p["body"], x)),
    "stacked by hand": lambda p, x, run: run(p["next"], F.relu(run(p["conv"], x))) + p["skip"](x),
}


def heads(parts, h, run):
    return run(parts["next"], h) + run(parts["other"], h) + h


def make_parts(architecture):
    torch.manual_seed(3)
    options = {"architecture": architecture, "width": WIDTH, "heads": 2}
    encoder = Encoder(IN, WIDTH, num_layers=3, **options)
    inner = Encoder(WIDTH, WIDTH, num_layers=4, **options)
    parts = {
        "encoder": encoder,
        "body": Encoder(IN, WIDTH, num_layers=3, **options).body(),
        "conv": Encoder(IN, WIDTH, num_layers=2, **options).convs[0],
        "square": Encoder(IN, IN, num_layers=1, **options).convs[0],
        "next": inner.convs[1],
        "other": inner.convs[2],
        "skip": nn.Linear(IN, WIDTH),
    }
    for part in parts.values():
        for parameter in part.parameters():
            nn.init.normal_(parameter, std=0.5)
    return nn.ModuleDict(parts).double()


def gradients(parts, x, out, grad, **options):
    """Of the input and all parameters, by name; ``None`` for what takes no part."""
    named = {"x": x, **dict(parts.named_parameters())}
    found = torch.autograd.grad(out, list(named.values()), grad, allow_unused=True, **options)
    return dict(zip(named, found, strict=True))


def assert_same(found, expected):
    for name, value in expected.items():
        assert (found[name] is None) == (value is None), name
        if value is not None:
            torch.testing.assert_close(found[name], value, **NEAR, msg=name)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("use", USES)
def test_gradients_are_those_of_dense_layers(architecture, use):
    """Also a second time, and the gradient that the caller handed in is as it was."""
    parts = make_parts(architecture)
    x = torch.randn(NUM_NODES, IN, dtype=torch.double, requires_grad=True)
    expected_out, out = USES[use](parts, x, plain), USES[use](parts, x, ours)
    torch.testing.assert_close(out, expected_out, **NEAR)
    grad = torch.randn_like(out)
    handed = grad.clone()
    expected = gradients(parts, x, expected_out, grad)
    for _ in range(2):
        assert_same(gradients(parts, x, out, handed, retain_graph=True), expected)
        assert torch.equal(handed, grad)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_hooks_keep_of_hidden_states_is_not_written_to(architecture):
    """Outputs of layers and their gradients, kept until the whole backward pass is over."""
    parts, kept, convs = make_parts(architecture), {}, {}
    encoder = parts["encoder"]
    x = torch.randn(NUM_NODES, IN, dtype=torch.double, requires_grad=True)

    def keep(k, h):
        convs[k] = h
        h.register_hook(lambda grad: kept.update({k: grad}))  # the tensor itself, not a copy

    for k in (1, 2):
        encoder.convs[k].register_forward_pre_hook(lambda module, inputs, k=k: keep(k, inputs[0]))
    out = encoder(x, GRAPH)
    weights = torch.randn_like(out)
    (out * weights).sum().backward()
    hidden = [torch.relu(plain_conv(encoder.convs[0], x))]
    hidden.append(torch.relu(plain_conv(encoder.convs[1], hidden[0])))
    expected_out = plain_conv(encoder.convs[2], hidden[1])
    expected = torch.autograd.grad((expected_out * weights).sum(), hidden)
    for k in (1, 2):
        torch.testing.assert_close(convs[k], hidden[k - 1], **NEAR)
        torch.testing.assert_close(kept[k], expected[k - 1], **NEAR)


@pytest.mark.parametrize("make", [lambda: SAGEConv(IN, IN), lambda: SAGEConv(IN, IN, "max")])
@pytest.mark.parametrize("through", ["output", "input"])
def test_a_block_with_fewer_receivers_than_senders(make, through):
    """Both readers of the states, the aggregation and the receivers' own, get their gradient."""
    torch.manual_seed(0)
    conv = make().double()
    rows = torch.tensor([4, 0, 13])
    field = receptive_field(GRAPH.neighbours, rows, 1)
    x = torch.randn(NUM_NODES, IN, dtype=torch.double, requires_grad=True)
    out, expected = conv(x[field.nodes], field.blocks[0]), plain_conv(conv, x)[rows]
    if through == "input":  # the block's input has another use
        out, expected = out + x[field.nodes][:3], expected + x[field.nodes][:3]
    torch.testing.assert_close(out, expected, **NEAR)
    grad = torch.randn_like(out)
    handed = grad.clone()
    parts = nn.ModuleDict({"conv": conv})
    assert_same(gradients(parts, x, out, handed), gradients(parts, x, expected, grad))
    assert torch.equal(handed, grad)


@pytest.mark.parametrize("architecture", ["sage", "sage-sum", "gcn"])
def test_second_derivatives(architecture):
    """A penalty on a gradient, as adversarial training takes it."""
    encoder = make_parts(architecture)["encoder"]
    field = receptive_field(GRAPH.neighbours, torch.tensor([4, 0, 13]), 1)
    x = torch.randn(NUM_NODES, IN, dtype=torch.double, requires_grad=True)
    found = []
    for run in (ours, plain):
        (grad,) = torch.autograd.grad(run(encoder, x).square().sum(), x, create_graph=True)
        penalty = grad.square().sum()
        found.append(torch.autograd.grad(penalty, encoder.convs[0].parameters()))
    torch.testing.assert_close(*found, **NEAR)
    block = x[field.nodes].detach().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda h: encoder.convs[0](h, field.blocks[0]), block)


def test_a_perceptron_beside_another():
    torch.manual_seed(0)
    first, second = (MLP(IN, WIDTH, width=WIDTH, num_layers=3).double() for _ in range(2))
    x = torch.randn(NUM_NODES, IN, dtype=torch.double, requires_grad=True)

    def by_hand(network, h):
        for k, layer in enumerate(network.layers):
            h = layer(torch.relu(h) if k else h)
        return h

    parts = nn.ModuleDict({"first": first, "second": second})
    out, expected = first(x) + second(x), by_hand(first, x) + by_hand(second, x)
    grad = torch.randn_like(out)
    handed = grad.clone()
    assert_same(gradients(parts, x, out, handed), gradients(parts, x, expected, grad))
    assert torch.equal(handed, grad)
