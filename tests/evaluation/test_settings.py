"""The settings against a reconstruction by hand: graphs, scored nodes, degrees, scores."""

from dataclasses import replace

import pytest
import torch

from tests.train.toy import PygNet, small_encoder
from tuneup.data import Graph, NodeSplit, block_graph, split_nodes
from tuneup.errors import InputError
from tuneup.evaluation.settings import Setting, evaluate, node_settings

NUM_NODES = 300
GRAPH = block_graph(NUM_NODES, 900, 3, 8, seed=1)
SPLIT = split_nodes(NUM_NODES, labelled=0.2, new=0.1)
NAMES = ["transductive", "inductive", "cold-30", "cold-60", "cold-90"]


@pytest.fixture(scope="module")
def settings():
    return {setting.name: setting for setting in node_settings(GRAPH, SPLIT)}


def edges_of(data):
    """Undirected edges in global ids."""
    ids = data.adjacency.global_ids.tolist()
    pairs = data.adjacency.edge_index.t().tolist()
    directed = {(ids[u], ids[v]) for u, v in pairs}
    assert {(v, u) for u, v in directed} == directed
    return {frozenset(pair) for pair in directed}


ALL, KNOWN, NEW = edges_of(GRAPH), set(SPLIT.known.tolist()), set(SPLIT.new.tolist())


def test_transductive_is_g_alone(settings):
    assert list(settings) == NAMES
    setting = settings["transductive"]
    assert edges_of(setting.data) == {edge for edge in ALL if edge <= KNOWN}
    assert setting.ids.tolist() == SPLIT.test.tolist()
    assert SPLIT.known[setting.nodes].tolist() == SPLIT.test.tolist()
    assert torch.equal(setting.data.x, GRAPH.x[SPLIT.known])


def test_inductive_has_every_edge_also_among_new_nodes(settings):
    setting = settings["inductive"]
    assert edges_of(setting.data) == ALL
    assert any(edge <= NEW for edge in ALL), "the test needs an edge among new nodes"
    assert setting.ids.tolist() == setting.nodes.tolist() == sorted(NEW)


def test_cold_graphs_are_nested_and_spare_the_known(settings):
    inside = {edge for edge in ALL if edge <= KNOWN}
    before = ALL
    for name, share in (("cold-30", 0.3), ("cold-60", 0.6), ("cold-90", 0.9)):
        edges = edges_of(settings[name].data)
        assert inside < edges < before
        touching = len(ALL) - len(inside)
        removed = len(ALL) - len(edges)
        deviation = (share * (1 - share) / touching) ** 0.5
        assert abs(removed / touching - share) < 4 * deviation
        assert settings[name].ids.tolist() == sorted(NEW)
        before = edges


def test_the_split_seed_decides_what_is_removed():
    one, two, again = (
        node_settings(GRAPH, replace(SPLIT, seed=seed))[3].data for seed in (0, 1, 0)
    )
    assert edges_of(one) == edges_of(again)
    assert edges_of(one) != edges_of(two)


@pytest.mark.parametrize("make", [small_encoder, PygNet])
def test_scores_and_degrees_node_by_node(settings, make):
    model = make()
    found = evaluate(model, settings.values())
    assert list(found) == NAMES
    model.eval()
    for name, setting in settings.items():
        scores, edges = found[name], edges_of(setting.data)
        assert (scores.setting, scores.metric) == (name, "accuracy")
        adjacency = setting.data.adjacency
        graph = adjacency if make is small_encoder else adjacency.edge_index
        with torch.no_grad():
            guess = model(setting.data.x, graph).argmax(1).tolist()
        place = {node: k for k, node in enumerate(adjacency.global_ids.tolist())}
        expected = [float(guess[place[n]] == int(GRAPH.y[n])) for n in scores.nodes.tolist()]
        assert scores.score.tolist() == expected
        degree = [sum(n in edge for edge in edges) for n in scores.nodes.tolist()]
        assert scores.degree.tolist() == degree
    # The degree is that of the input graph: it falls as edges are removed.
    means = [float(found[name].degree.float().mean()) for name in NAMES[1:]]
    assert means == sorted(means, reverse=True)
    assert len(set(means)) == 4


def test_nodes_without_a_label_are_there_but_not_scored():
    y = GRAPH.y.clone()
    hidden = torch.cat([SPLIT.new[:5], SPLIT.test[:7]])
    y[hidden] = -1
    data = Graph(GRAPH.adjacency, GRAPH.x, y, 3)
    model = small_encoder()
    expected = evaluate(model, node_settings(GRAPH, SPLIT))
    for name, scores in evaluate(model, node_settings(data, SPLIT)).items():
        kept = ~torch.isin(expected[name].nodes, hidden)
        assert not kept.all()
        assert torch.equal(scores.nodes, expected[name].nodes[kept])
        assert torch.equal(scores.degree, expected[name].degree[kept])  # they still have edges
        assert torch.equal(scores.score, expected[name].score[kept])


def test_the_split_of_partly_labelled_nodes_can_be_evaluated():
    """`split_nodes` keeps unlabelled nodes out of test, but not out of V_new."""
    y = GRAPH.y.clone()
    y[::4] = -1
    data = Graph(GRAPH.adjacency, GRAPH.x, y, 3)
    split = split_nodes(NUM_NODES, labelled=0.2, new=0.1, y=y)
    assert (y[split.new] < 0).any()
    for scores in evaluate(small_encoder(), node_settings(data, split)).values():
        assert (y[scores.nodes] >= 0).all()
        assert len(scores) > 0


def test_without_new_nodes_there_is_only_the_transductive_setting():
    split = split_nodes(NUM_NODES, labelled=0.2, new=0.0)
    assert [setting.name for setting in node_settings(GRAPH, split)] == ["transductive"]
    y = GRAPH.y.clone()
    y[SPLIT.new] = -1
    data = Graph(GRAPH.adjacency, GRAPH.x, y, 3)
    assert [setting.name for setting in node_settings(data, SPLIT)] == ["transductive"]


def test_a_split_without_test_nodes_scores_none():
    empty = torch.empty(0, dtype=torch.long)
    split = NodeSplit(SPLIT.known, SPLIT.new, SPLIT.train, SPLIT.validation, empty)
    scores = evaluate(small_encoder(), node_settings(GRAPH, split))
    assert len(scores["transductive"]) == 0
    assert len(scores["inductive"]) == SPLIT.new.numel()


def test_without_labels_nothing_can_be_scored():
    data = Graph(GRAPH.adjacency, GRAPH.x)
    setting = Setting("inductive", data, SPLIT.new, SPLIT.new)
    with pytest.raises(InputError, match="has no labels to score inductive nodes by"):
        setting.score(small_encoder())


def test_evaluation_leaves_the_weights_and_draws_alone(settings):
    model = small_encoder(dropout=0.9)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    before = torch.get_rng_state()
    first, second = (evaluate(model.train(), settings.values()) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    for name in NAMES:
        assert torch.equal(first[name].score, second[name].score)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


class Norms(torch.nn.Module):
    """A model whose first layer is frozen in evaluation mode while the second one trains."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen, self.free = torch.nn.BatchNorm1d(8), torch.nn.BatchNorm1d(8)
        self.encoder = small_encoder()

    def forward(self, x, edge_index):
        return self.encoder(self.free(self.frozen(x)), edge_index)


def modes(model):
    return [module.training for module in model.modules()]


def test_evaluation_leaves_every_module_in_its_mode(settings):
    model = Norms().train()
    model.frozen.eval()
    before = modes(model)
    evaluate(model, settings.values())
    assert modes(model) == before
    assert not model.free.num_batches_tracked, "scored in evaluation mode all the same"
