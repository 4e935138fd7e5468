"""The encoder is a stack of PyG's layers with the same weights: outputs, gradients, statistics."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric import nn as pyg

from tuneup.errors import InputError
from tuneup.graph import DropEdge, adjacency_from
from tuneup.nn import Encoder
from tuneup.nn.linear import dropout

ARCHITECTURES = ("sage", "sage-max", "sage-sum", "gcn", "gat")
NORMS = ("none", "layer", "batch")
ACTIVATIONS = {"relu": F.relu, "elu": F.elu, "none": lambda h: h}
IN, WIDTH, OUT, HEADS = 6, 8, 3, 2


class PygStack(nn.Module):
    """What the encoder's docstring promises, written with PyG's layers and nothing of ours."""

    def __init__(self, architecture: str, norm: str, activation: str, num_layers: int) -> None:
        super().__init__()
        widths = [IN, *[WIDTH] * (num_layers - 1), OUT]
        last = num_layers - 1

        def conv(k: int) -> nn.Module:
            i, o = widths[k], widths[k + 1]
            if architecture == "gcn":
                return pyg.GCNConv(i, o)
            if architecture == "gat" and k == last:
                return pyg.GATConv(i, o, HEADS, concat=False)
            if architecture == "gat":
                return pyg.GATConv(i, o // HEADS, HEADS)
            aggregation = {"sage": "mean", "sage-max": "max", "sage-sum": "sum"}[architecture]
            return pyg.SAGEConv(i, o, aggr=aggregation)

        self.convs = nn.ModuleList(conv(k) for k in range(num_layers))
        kinds = {"none": nn.Identity, "layer": nn.LayerNorm, "batch": nn.BatchNorm1d}
        self.norms = nn.ModuleList(kinds[norm](WIDTH) for _ in range(last))
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=False):
            x = self.activation(norm(conv(x, edge_index)))
        return self.convs[-1](x, edge_index)


def random_graph(seed: int = 0, num_nodes: int = 24, num_edges: int = 50):
    """Undirected, and the last third of the nodes is isolated."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, 2 * num_nodes // 3, (2, num_edges), generator=generator)
    return adjacency_from(edges, num_nodes, undirected=True)


def assert_near(found, expected, what):
    scale = max(1.0, float(expected.abs().max()))
    difference = float((found - expected).abs().max()) / scale
    assert difference < 1e-5, f"{what} differs by {difference}"


def randomise(model):
    """Weights near one in the norms and zero in the biases would hide a forgotten one."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("num_layers", [1, 3])
def test_is_a_stack_of_pyg_layers(architecture, norm, activation, num_layers):
    torch.manual_seed(0)
    ours = Encoder(
        IN,
        OUT,
        architecture=architecture,
        width=WIDTH,
        num_layers=num_layers,
        norm=norm,
        activation=activation,
        heads=HEADS,
    )
    randomise(ours)
    theirs = PygStack(architecture, norm, activation, num_layers)
    theirs.load_state_dict(ours.state_dict())  # strict: the names are PyG's
    graph = random_graph()
    for step, seen in enumerate((graph, DropEdge(0.5)(graph, step=1))):
        inputs = torch.randn(graph.num_nodes, IN)
        target = torch.randn(graph.num_nodes, OUT)
        found = []
        for model, edges in ((ours, seen), (theirs, seen.edge_index)):
            x = inputs.clone().requires_grad_()
            model.zero_grad()
            out = model(x, edges)
            (out * target).sum().backward()
            grads = {name: p.grad for name, p in model.named_parameters()}
            found.append((out.detach(), {"x": x.grad, **grads}))
        (out, grads), (expected, expected_grads) = found
        assert_near(out, expected, f"output on graph {step}")
        assert grads.keys() == expected_grads.keys()
        for name, expected_grad in expected_grads.items():
            assert_near(grads[name], expected_grad, f"gradient of {name} on graph {step}")
    # Batch norm: the same statistics were collected, and evaluation uses them.
    for (name, buffer), (_, expected) in zip(
        ours.named_buffers(), theirs.named_buffers(), strict=True
    ):
        assert_near(buffer.float(), expected.float(), name)
    x = torch.randn(graph.num_nodes, IN)
    with torch.no_grad():
        assert_near(ours.eval()(x, graph), theirs.eval()(x, graph.edge_index), "evaluation")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_dropout_acts_on_hidden_states_after_the_activation(norm, activation):
    torch.manual_seed(0)
    model = Encoder(IN, OUT, width=WIDTH, dropout=0.4, norm=norm, activation=activation)
    graph, x = random_graph(), torch.randn(24, IN)
    torch.manual_seed(9)
    found = model(x, graph)
    torch.manual_seed(9)
    h = x
    for conv, norm_layer in zip(model.convs, model.norms, strict=False):
        h = dropout(ACTIVATIONS[activation](norm_layer(conv(h, graph))), 0.4, training=True)
    torch.testing.assert_close(found, model.convs[-1](h, graph))
    assert not torch.equal(model(x, graph), found)  # a new mask every time
    model.eval()
    assert torch.equal(model(x, graph), model(x, graph))


def test_one_layer_has_no_hidden_state_to_drop():
    model = Encoder(IN, OUT, num_layers=1, dropout=0.9)
    graph, x = random_graph(), torch.randn(24, IN)
    assert torch.equal(model(x, graph), model(x, graph))


def test_repr_tells_models_apart():
    """A checkpoint knows its model by this text: it holds every choice that matters."""
    choices = [
        {},
        *({"architecture": name} for name in ARCHITECTURES[1:]),
        {"dropout": 0.5},
        *({"norm": norm} for norm in NORMS[1:]),
        {"activation": "elu"},
        {"activation": "none"},
        {"width": 16},
        {"num_layers": 2},
    ]
    texts = [repr(Encoder(IN, OUT, **{"width": WIDTH, **choice})) for choice in choices]
    assert len(set(texts)) == len(choices)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "gin"}, "architecture must be one of sage, sage-max"),
        ({"norm": "instance"}, "norm must be one of none, batch, layer; got 'instance'"),
        ({"activation": "tanh"}, "activation must be one of"),
        ({"num_layers": 0}, "num_layers and width must be 1 or more"),
        ({"width": 0}, "num_layers and width must be 1 or more"),
        ({"dropout": 1.0}, "0 <= dropout < 1; got 1.0"),
        ({"dropout": -0.1}, "0 <= dropout < 1"),
        (
            {"architecture": "gat", "width": 10, "heads": 4},
            "width 10 cannot be split among 4 heads",
        ),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Encoder(IN, OUT, **options)


def test_orthogonal_weights_keep_lengths():
    encoder = Encoder(16, 16, architecture="sage", width=16, orthogonal=True)
    for conv in encoder.convs:
        for linear in (conv.lin_l, conv.lin_r):
            torch.testing.assert_close(linear.weight @ linear.weight.t(), torch.eye(16))
