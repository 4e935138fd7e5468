"""New nodes by modules that are not tuneup's own, and by graphs whose edges have weights."""

from __future__ import annotations

import pytest
import torch
from serving_toys import (
    CLASSES,
    NODES,
    WIDTH,
    close,
    recommender,
    small_encoder,
    small_graph,
    small_pairs,
    weighted,
)
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    GATv2Conv,
    GCNConv,
    GraphNorm,
    GraphSAGE,
    GraphSizeNorm,
    MessagePassing,
    PairNorm,
    SAGEConv,
)

from tuneup.data import Graph
from tuneup.errors import ArtefactError, InputError
from tuneup.graph import adjacency_from
from tuneup.nn import HadamardMLP, InnerProduct, Model, NodeFeatures, UserItemVectors
from tuneup.serve import Predictor
from tuneup.serve.modules import measured_hops

LISTS = [[], [3], [58, 7, 3], list(range(10))]
NEW = torch.randn(len(LISTS), WIDTH, generator=torch.Generator().manual_seed(9))
BETWEEN = [(0, 1), (3, 1)]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = GATv2Conv(WIDTH, 8, heads=2)
        self.second = GATv2Conv(16, CLASSES)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


class Weighted(nn.Module):
    """GCN normalises by degrees, so that a layer reads one edge further than its messages go."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GCNConv(WIDTH, 8), GCNConv(8, CLASSES)

    def forward(self, x, edge_index, edge_weight=None):
        return self.second(self.first(x, edge_index, edge_weight).relu(), edge_index, edge_weight)


class Differences(MessagePassing):
    """Messages are differences of states, passed three times: a layer of one's own."""

    def __init__(self) -> None:
        super().__init__(aggr="max")
        self.lin, self.out = nn.Linear(WIDTH, 8), nn.Linear(8, CLASSES)

    def forward(self, x, edge_index):
        h = self.lin(x)
        for _ in range(3):
            h = h + self.propagate(edge_index, x=h).tanh()
        return self.out(h)

    def message(self, x_i, x_j):
        return x_j - 0.5 * x_i


def jumping(width: int = WIDTH) -> nn.Module:
    """SAGE with batch norm, whose statistics do something, and jumping knowledge."""
    model = GraphSAGE(width, 8, 3, CLASSES, norm="batch_norm", jk="lstm")
    for norm in model.norms:
        norm.module.running_mean.normal_()
        norm.module.running_var.uniform_(0.5, 2)
    return model


MODULES = {
    "gatv2": (Attention, 2),
    "jumping": (jumping, 3),
    "gcn": (Weighted, 3),
    "custom": (Differences, 3),
    "perceptron": (lambda: Rows(nn.Linear(WIDTH, CLASSES)), 1),
}


class Rows(nn.Module):
    """Applies a module to each node, or to all at once, and looks at no edge."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x, edge_index):
        return self.inner(x)


def made(name: str) -> nn.Module:
    torch.manual_seed(3)
    return MODULES[name][0]().eval()


def full(model, graph: Graph, rows, between=(), targets=None) -> torch.Tensor:
    """Outputs of new nodes by the whole module on the whole graph, built from scratch.

    A list of neighbours may be a mapping to weights, and an edge between new nodes have a third
    number.
    """
    old = graph.adjacency
    edges = [
        (node, NODES + k, LISTS_W[row].get(node, 1.0))
        for k, row in enumerate(rows)
        for node in LISTS[row]
    ]
    edges += [
        (NODES + k, node, 2.0)
        for k, row in enumerate(rows)
        for node in (targets or {}).get(row, [])
    ]
    place = {row: NODES + k for k, row in enumerate(rows)}
    edges += [(place[a], place[b], 0.3) for a, b in between if a in place]
    ends = torch.tensor([edge[:2] for edge in edges], dtype=torch.long).view(-1, 2).t()
    index, given = torch.cat([old.edge_index, ends], 1), None
    if old.weight is not None:
        given = torch.cat([old.weight, torch.tensor([edge[2] for edge in edges])])
    count = NODES + len(rows)
    bigger = adjacency_from(index, count, undirected=old.undirected, weight=given)
    x = torch.cat([graph.x, NEW[list(rows)]])
    with torch.no_grad():
        return Model(NodeFeatures(), model, HadamardMLP(CLASSES))(x, bigger)[NODES:]


LISTS_W = [{node: 0.2 + 0.1 * place for place, node in enumerate(each)} for each in LISTS]
BETWEEN_W = [(a, b, 0.3) for a, b in BETWEEN]


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("name", MODULES)
def test_a_module_answers_for_new_nodes_as_on_the_full_graph(name, undirected):
    graph, model = small_graph(undirected), made(name)
    predictor = Predictor(model, graph)
    ours = predictor.outputs_new(NEW, LISTS)
    for row in range(len(LISTS)):
        assert close(ours[row], full(model, graph, [row])[0])
    together = predictor.outputs_new(NEW, LISTS, between=BETWEEN)
    assert close(together[[0, 1, 3]], full(model, graph, [0, 1, 3], BETWEEN))
    assert close(together[2], ours[2])
    assert predictor.model.hops == MODULES[name][1]


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("name", ["gcn", "sage", "sage-sum", "module"])
def test_edges_with_weights(name, undirected, tmp_path):
    """Saved, loaded and asked; new nodes bring weights for their edges."""
    graph = weighted(small_graph(undirected))
    model = made("gcn") if name == "module" else small_encoder(name, layers=2)
    plain = Data(graph.x, graph.adjacency.edge_index, edge_weight=graph.adjacency.weight)
    place = Predictor(model, plain).save(tmp_path / "m")
    predictor = Predictor.load(place, model=model if name == "module" else None)
    with torch.no_grad():
        known = Model(NodeFeatures(), model, HadamardMLP(CLASSES))(graph.x, graph.adjacency)
        other = Model(NodeFeatures(), model, HadamardMLP(CLASSES))(
            graph.x, small_graph(undirected).adjacency
        )
    assert torch.equal(predictor.outputs(), known)
    assert not close(predictor.outputs(), other)
    ours = predictor.outputs_new(NEW, LISTS_W)
    for row in range(len(LISTS)):
        assert close(ours[row], full(model, graph, [row])[0])
    together = predictor.outputs_new(NEW, LISTS_W, between=BETWEEN_W)
    assert close(together[[0, 1, 3]], full(model, graph, [0, 1, 3], BETWEEN))
    if not undirected:
        targets = [{4: 2.0}, {}, {7: 2.0, 1: 2.0}, {}]
        sent = predictor.outputs_new(NEW, LISTS_W, targets=targets)
        for row in range(len(LISTS)):
            expected = full(model, graph, [row], targets=dict(enumerate(targets)))[0]
            assert close(sent[row], expected)


def test_weights_that_have_no_meaning_are_refused(tmp_path, subtests):
    graph = weighted(small_graph())
    for model, words in (
        (
            small_encoder("gat"),
            "attention, which .*, has no meaning for edge weights",
        ),
        (small_encoder("sage-max"), "a maximum over neighbours has no meaning"),
        (jumping().eval(), "has no meaning for edge weights"),
    ):
        with subtests.test(words), pytest.raises(InputError, match=words):
            Predictor(model, graph)
    predictor = Predictor(small_encoder("gcn"), graph)
    bare = Predictor(small_encoder("gcn"), small_graph())
    for who, lists, between, words in (
        (predictor, LISTS, None, "new node 1: the edges of this model have weights; expected {id:"),
        (bare, LISTS_W, None, "new node 1: got edge weights, and the edges of this model have"),
        (predictor, LISTS_W, BETWEEN, r"between: the edges .* expected \(source, target, weight\)"),
        (bare, LISTS, BETWEEN_W, "between: got edge weights"),
        (predictor, [{}, {3: 0.0}, {}, {}], None, "must be finite and above 0"),
        (predictor, [{}, {3: "x"}, {}, {}], None, "edge weights must be numbers"),
        (predictor, LISTS_W, [(0, 1, 0.2), (1, 0, 0.4)], "given twice, with different weights"),
    ):
        with subtests.test(words), pytest.raises(InputError, match=words) as caught:
            who.outputs_new(NEW, lists, between=between)
        assert len(str(caught.value).splitlines()) == 1


class Noise(nn.Module):
    def forward(self, x, edge_index):
        return nn.functional.dropout(x[:, :CLASSES], 0.5)


class Attending(nn.Module):
    def forward(self, x, edge_index):
        return ((x @ x.t()).softmax(1) @ x)[:, :CLASSES]


class Numbered(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.own = nn.Embedding(count, CLASSES)

    def forward(self, x, edge_index):
        return self.own(torch.arange(len(x)))


class Reversed(nn.Module):
    """Reads the ends of edges that leave a node."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = SAGEConv(WIDTH, CLASSES, flow="target_to_source")

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


NOT_LOCAL = [
    (lambda: Rows(PairNorm()), "nodes more than 16 edges away"),
    (lambda: Rows(GraphNorm(WIDTH)), "nodes more than 16 edges away"),
    (Attending, "nodes more than 16 edges away"),
    (lambda: Rows(GraphSizeNorm()), "the number of nodes, as GraphSizeNorm"),
    (Noise, "draws random numbers"),
    (lambda: Numbered(NODES), "fails on a graph of another size"),
    (lambda: Numbered(10_000), "the order of nodes or edges"),
    (Reversed, "edges that lead away"),
]


def test_a_module_that_reads_the_whole_graph_is_refused_with_its_reason(subtests):
    graph = small_graph(undirected=False)
    for make, words in NOT_LOCAL:
        with subtests.test(words):
            predictor = Predictor(make(), graph)
            assert len(predictor.predict([1, 2])) == 2, "known nodes are answered"
            with pytest.raises(InputError, match=f"cannot answer for new nodes exactly: .*{words}"):
                predictor.predict_new(NEW, LISTS)


def test_a_stated_depth_is_a_lower_bound(tmp_path):
    """Units that are dead on random inputs hide how far a module looks."""
    graph, model = small_graph(), made("jumping")
    assert measured_hops(model, WIDTH, graph.adjacency) == 3
    for stated, hops in ((1, 3), (5, 5)):
        place = Predictor(model, graph, depth=stated).save(tmp_path / str(stated))
        loaded = Predictor.load(place, model=model)
        assert loaded.model.hops == hops
        assert close(loaded.outputs_new(NEW, LISTS)[3], full(model, graph, [3])[0])
    with pytest.raises(InputError, match="depth is for modules that are not tuneup's own"):
        Predictor(small_encoder(), graph, depth=2)


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = SAGEConv(8, 6)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


def test_modules_answer_for_new_nodes_of_the_other_tasks():
    torch.manual_seed(0)
    links = Predictor(Model(NodeFeatures(), made("gatv2"), HadamardMLP(CLASSES, 6)), small_graph())
    assert [len(each.candidates) for each in links.links_new(NEW, LISTS, 60)] == [60, 59, 57, 50]
    shop = Model(UserItemVectors(20, 30, 8, unknown=True), Pairs(), InnerProduct()).eval()
    predictor = Predictor(shop, small_pairs())
    (answer,) = predictor.recommend_new([[1, 5]], 30)
    graph = small_pairs().adjacency()
    edges = torch.cat([graph.edge_index, torch.tensor([[21, 25], [50, 50]])], 1)
    inputs = torch.cat([shop.inputs(None, graph), shop.inputs.mean_user(graph)[None]])
    with torch.no_grad():
        z = shop.encoder(inputs, adjacency_from(edges, 51, undirected=True).edge_index)[50]
    assert close(predictor.outputs_new(None, [[1, 5]])[0], z)
    assert answer.candidates[0] == max(
        set(range(30)) - {1, 5}, key=lambda item: float(predictor.outputs()[20 + item] @ z)
    )


def build(width: int) -> GraphSAGE:
    """A function that makes a module, as its annotation says."""
    return jumping(width)


def unannotated(width):
    return jumping(width)


def test_a_factory_is_named_instead_of_a_class(tmp_path):
    predictor = Predictor(made("jumping"), small_graph())
    place = predictor.save(tmp_path / "m", factory=build, arguments={"width": WIDTH})
    package = __name__.partition(".")[0]
    loaded = Predictor.load(place, allow=(package,))
    assert torch.equal(loaded.outputs(), predictor.outputs())
    assert torch.equal(loaded.outputs_new(NEW, LISTS), predictor.outputs_new(NEW, LISTS))
    with pytest.raises(ArtefactError, match="only if you allow it"):
        Predictor.load(place, allow=("torch_geometric",))
    for factory in (unannotated, lambda: jumping(), print):
        with pytest.raises(InputError, match=r"factory: got .*; expected a function"):
            predictor.save(tmp_path / "n", factory=factory)


def test_precision_that_does_not_fit_is_refused_by_name(tmp_path):
    for model in (small_encoder().half(), small_encoder().double()):
        with pytest.raises(InputError, match=r"precision: got torch\.float\d\d, torch\.float\d\d"):
            Predictor(model, small_graph())
    with pytest.raises(InputError, match=r"precision: got torch\.bfloat16"):
        Predictor(recommender("gat").bfloat16(), small_pairs())
    graph = small_graph()
    for architecture in ("gcn", "sage"):
        double = Predictor(
            small_encoder(architecture).double(), Graph(graph.adjacency, graph.x.double())
        )
        single = Predictor(small_encoder(architecture), graph)
        assert double.outputs_new(NEW.double(), LISTS).dtype == torch.float64
        assert close(double.outputs_new(NEW, LISTS).float(), single.outputs_new(NEW, LISTS))
