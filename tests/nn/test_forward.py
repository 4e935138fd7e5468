"""`Forward` skips what the rows do not need and remembers what is fixed, and nobody can tell."""

import itertools
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric import nn as pyg

from tuneup.errors import InputError
from tuneup.graph import DropEdge, adjacency_from, receptive_field, sparse_features
from tuneup.nn import Encoder, Forward, SAGEConv
from tuneup.nn.forward import _KEPT

ARCHITECTURES = ("sage", "sage-max", "sage-sum", "gcn", "gat")
NORMS = ("none", "layer", "batch")
ACTIVATIONS = ("relu", "elu", "none")
NUM_NODES, IN, OUT = 40, 10, 3
ROWS = torch.tensor([3, 39, 0, 17, 8, 22])  # 39 is isolated


def random_graph(seed: int, num_edges: int = 60):
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, NUM_NODES - 5, (2, num_edges), generator=generator)
    return adjacency_from(edges, NUM_NODES, undirected=True)


GRAPH = random_graph(0)
GRAPHS = {
    "full": GRAPH,
    "dropped": DropEdge(0.5)(GRAPH, step=1),
    "dropped each way": DropEdge(0.5, paired=False)(GRAPH, step=1),
    "dropped twice": DropEdge(0.3)(DropEdge(0.3)(GRAPH, step=1), step=2),
    "foreign": random_graph(1),
}


def features(kind: str):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(NUM_NODES, IN, generator=generator)
    x *= torch.rand(NUM_NODES, IN, generator=generator) < 0.4
    return sparse_features(x) if kind == "sparse" else x.double()


def encoder(architecture="sage", seed=0, **options):
    torch.manual_seed(seed)
    options = {"width": 8, "heads": 2, **options}
    return Encoder(IN, OUT, architecture=architecture, **options).double()


def learn(model, forward, graph, rows):
    """Loss, gradients and, after a second pass, the buffers of a copy of the model."""
    model = deepcopy(model)
    out = forward(model, graph, rows)
    loss = F.cross_entropy(out, torch.arange(out.shape[0]) % OUT)
    named = dict(model.named_parameters())
    grads = torch.autograd.grad(loss, list(named.values()))
    if model.norm == "batch":
        forward(model, graph, rows)
    found = dict(zip(named, grads, strict=True)) | dict(model.named_buffers())
    return {"loss": loss.detach(), **found}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-9, atol=1e-11, msg=name)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_pruned_is_unpruned(architecture, norm, activation):
    """Loss, gradients and running statistics, for every graph and kind of features."""
    model = encoder(architecture, norm=norm, activation=activation)
    for kind in ("dense", "sparse"):
        x = features(kind)
        pruned, whole = Forward(x, GRAPH), Forward(x, GRAPH, prune=False)
        for name in GRAPHS if activation == "relu" else ("full", "dropped", "foreign"):
            graph = GRAPHS[name]
            expected = learn(model, whole, graph, ROWS)
            assert_same(learn(model, pruned, graph, ROWS), expected)
        torch.testing.assert_close(whole(deepcopy(model), graph), deepcopy(model)(x, graph))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("width", [4, 32])  # below and above the width of the features
def test_the_budget_changes_nothing(architecture, width):
    model = encoder(architecture, width=width)
    for x, name in itertools.product((features("dense"), features("sparse")), ("full", "dropped")):
        rich, poor = Forward(x, GRAPH), Forward(x, GRAPH, budget=0)
        for rows in (ROWS, None):
            found = learn(model, rich, GRAPHS[name], rows)
            assert_same(found, learn(model, poor, GRAPHS[name], rows))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("norm", NORMS)
def test_a_field_of_any_size_changes_nothing(architecture, norm):
    """Layers that do not fit compute all nodes: none, some or all of the three."""
    model = encoder(architecture, norm=norm)
    sizes = [32 * b.num_entries for b in receptive_field(GRAPH.neighbours, ROWS, 3).blocks]
    for x, name in itertools.product((features("dense"), features("sparse")), GRAPHS):
        expected = learn(model, Forward(x, GRAPH, prune=False), GRAPHS[name], ROWS)
        for budget in (0, sizes[2], sizes[2] + sizes[1], sum(sizes)):
            forward = Forward(x, GRAPH, field_budget=budget)
            assert_same(learn(model, forward, GRAPHS[name], ROWS), expected)


def test_a_field_goes_back_through_as_many_layers_as_fit():
    whole = receptive_field(GRAPH.neighbours, ROWS, 3)
    sizes = [32 * b.num_entries for b in whole.blocks[::-1]]
    for kept in range(4):
        budget = sum(sizes[:kept])
        assert len(receptive_field(GRAPH.neighbours, ROWS, 3, budget).blocks) == kept
        if kept:
            field = receptive_field(GRAPH.neighbours, ROWS, 3, budget - 1)
            assert len(field.blocks) == kept - 1
            assert torch.equal(field.nodes, whole.nodes[: field.nodes.numel()])


def test_pruning_computes_less():
    """The widest hidden state belongs to the receptive field, not to all nodes."""
    model, seen = encoder(num_layers=2), []
    model.norms[0].register_forward_hook(lambda module, inputs, out: seen.append(out.shape[0]))
    forward = Forward(features("dense"), GRAPH)
    forward(model, GRAPH, torch.tensor([39]))
    forward(model, GRAPH, None)
    assert seen == [1, NUM_NODES]


def test_many_rows_are_not_worth_pruning():
    model = encoder()
    rows = torch.arange(NUM_NODES).flip(0)
    found = Forward(features("dense"), GRAPH)(model, GRAPH, rows)
    torch.testing.assert_close(found, model(features("dense"), GRAPH)[rows])


# What is remembered


@pytest.fixture
def aggregations(monkeypatch):
    """How often a layer aggregated without its weights, which is what the cache saves."""
    calls = []
    original = SAGEConv.aggregate

    def spy(self, x, graph):
        calls.append(graph)
        return original(self, x, graph)

    monkeypatch.setattr(SAGEConv, "aggregate", spy)
    return calls


def test_the_first_aggregation_is_computed_once(aggregations):
    forward, model = Forward(features("dense"), GRAPH), encoder(width=16, num_layers=1)
    others = [encoder(width=16, num_layers=1, seed=seed) for seed in (1, 2)]
    for rows in (ROWS, None, ROWS.flip(0)):  # batches of rows share it too
        for other in (model, *others, model):
            forward(other, GRAPH, rows)
        assert len(aggregations) == 1


def test_a_budget_of_nothing_keeps_nothing(aggregations):
    forward = Forward(features("dense"), GRAPH, budget=0)
    for _ in range(3):
        forward(encoder(num_layers=1, width=16), GRAPH, ROWS)
    aggregations.clear()
    wide = Encoder(IN, 2 * IN, num_layers=1).double()  # aggregates first, every time
    for _ in range(3):
        forward(wide, GRAPH, ROWS)
    assert len(aggregations) == 3


def test_nothing_goes_stale():
    """Other rows, other graphs, other architectures, in any order, and the first ones again."""
    x = features("dense")
    forward = Forward(x, GRAPH)
    models = [encoder(name) for name in ARCHITECTURES[:4]]
    models += [encoder("gcn", norm="batch"), encoder("sage", num_layers=1)]
    rows = [ROWS, ROWS.flip(0), None]
    jobs = list(itertools.product(models, GRAPHS.values(), rows))
    order = torch.randperm(2 * len(jobs), generator=torch.Generator().manual_seed(0)).tolist()
    with torch.no_grad():
        for k in order:
            model, graph, wanted = jobs[k % len(jobs)]
            expected = model.eval()(x, graph)
            expected = expected if wanted is None else expected[wanted]
            torch.testing.assert_close(forward(model, graph, wanted), expected)


def test_rows_that_reuse_a_dead_tensors_memory_are_new_rows():
    """The rows of one call may be freed, and another tensor get the same `id`."""
    x, model = features("dense"), encoder().eval()
    forward = Forward(x, GRAPH)
    with torch.no_grad():
        whole = model(x, GRAPH)
        dropped = GRAPHS["dropped"]
        whole_dropped = model(x, dropped)
        for k in range(40):
            rows = torch.tensor([k % NUM_NODES, (k + 7) % NUM_NODES])
            torch.testing.assert_close(forward(model, GRAPH, rows), whole[rows])
            torch.testing.assert_close(forward(model, dropped, rows), whole_dropped[rows])
            del rows
    assert len(forward._plans) <= _KEPT  # a new batch of rows at every update must not pile up
    assert len(forward._fields) <= _KEPT


@pytest.mark.parametrize("budget", [0, 1 << 30])
def test_rows_of_a_batch_take_their_fields_along(budget):
    """While they live they are remembered; then nothing of them is kept, whatever fitted."""
    model, forward = encoder(), Forward(features("dense"), GRAPH, field_budget=budget)
    for graph in (GRAPH, GRAPHS["dropped"]):
        forward(model, graph, ROWS)
    long_lived = list(forward._plans), list(forward._fields)
    for k in range(3):
        batch = torch.tensor([k, k + 5])
        for graph in (GRAPH, GRAPHS["dropped"], GRAPH):
            forward(model, graph, batch).sum().backward()
        assert len(forward._fields) == 2
        del batch
        assert (list(forward._plans), list(forward._fields)) == long_lived


def test_an_evaluation_in_inference_mode_does_not_spoil_training():
    forward, model = Forward(features("dense"), GRAPH), encoder()
    fresh = learn(model, Forward(features("dense"), GRAPH), GRAPH, ROWS)
    with torch.inference_mode():
        for graph in GRAPHS.values():
            forward(model, graph, ROWS)
            forward(model, graph)
    assert_same(learn(model, forward, GRAPH, ROWS), fresh)
    learn(model, forward, GRAPHS["dropped"], ROWS)


@pytest.mark.parametrize("prune", [True, False])
def test_features_that_are_learned_are_never_remembered(prune):
    x = features("dense").requires_grad_()
    forward, model = Forward(x, GRAPH, prune=prune), encoder(width=16)
    for graph in (GRAPH, GRAPHS["dropped"]):
        for _ in range(2):
            (found,) = torch.autograd.grad(forward(model, graph, ROWS).square().sum(), x)
            (expected,) = torch.autograd.grad(model(x, graph)[ROWS].square().sum(), x)
            torch.testing.assert_close(found, expected)
            with torch.no_grad():
                x += 0.1


# Modules that are not ours


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.SAGEConv(IN, OUT)

    def forward(self, x, edge_index):
        assert edge_index.layout == torch.strided
        assert edge_index.shape[0] == 2
        return self.conv(x, edge_index)


class OnSparse(Plain):
    def forward(self, x, adj_t):
        assert adj_t.layout == torch.sparse_csr
        return self.conv(x, adj_t)


@pytest.mark.parametrize("graph", GRAPHS)
def test_any_module_gets_the_edges_in_the_form_it_asks_for(graph):
    graph = GRAPHS[graph]
    x = features("dense").float()
    forward, model, sparse = Forward(x, GRAPH), Plain(), OnSparse()
    sparse.load_state_dict(model.state_dict())
    expected = model(x, graph.edge_index)
    torch.testing.assert_close(forward(model, graph), expected)
    torch.testing.assert_close(forward(sparse, graph), expected)
    torch.testing.assert_close(forward(model, graph, ROWS), expected[ROWS])
    # Sparse features arrive dense: PyG's layers would not know what to do with ours.
    from_sparse = Forward(sparse_features(x), GRAPH)(model, graph, ROWS)
    torch.testing.assert_close(from_sparse, expected[ROWS])


def test_sparse_features_are_made_dense_once_and_directly():
    """A matrix of columns by columns, as a product with the identity needs, would not fit here."""
    wide = torch.zeros(NUM_NODES, 1_000_000)
    wide[3, 7] = 2.0
    seen = []

    class Keeps(nn.Module):
        def forward(self, x, edge_index):
            seen.append(x)
            return x[:, :8]

    forward = Forward(sparse_features(wide), GRAPH)
    with torch.inference_mode():
        forward(Keeps(), GRAPH)
    assert torch.equal(forward(Keeps(), GRAPHS["dropped"], ROWS), wide[ROWS, :8])
    assert seen[0] is seen[1]
    assert not seen[0].is_inference()
    assert torch.equal(seen[0], wide)


def test_a_module_without_parameters_named_edge_index_or_hints_works():
    class Ignorant(nn.Module):
        def forward(self, *args):
            return args[0] * 2

    x = features("dense")
    assert torch.equal(Forward(x, GRAPH)(Ignorant(), GRAPH, ROWS), 2 * x[ROWS])


class Answers(nn.Module):
    def __init__(self, answer) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x, edge_index):
        return self.answer(x)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (lambda x: x[:7], r"got \[7, 10\]"),
        (lambda x: x.sum(), r"got \[\]"),
        (lambda x: (x, x), "got tuple"),
        (lambda x: None, "got NoneType"),
    ],
)
def test_a_wrong_answer_is_named(answer, found):
    with pytest.raises(InputError, match=rf"Answers\(x, edge_index\).*\[40, \.\.\.\]; {found}"):
        Forward(features("dense"), GRAPH)(Answers(answer), GRAPH)
