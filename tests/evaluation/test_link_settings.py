"""Settings of link prediction against a reconstruction by hand: graphs, masks, targets, scores."""

from dataclasses import replace

import pytest
import torch

from tests.tasks.edge_toys import EDGES, GRAPH, edge_set, link_model, naive_recall, neighbours
from tuneup.data import split_edges
from tuneup.evaluation import LinkSetting, link_settings

NAMES = ["transductive", "inductive", "cold-30", "cold-60", "cold-90"]
KNOWN, NEW = set(EDGES.known.tolist()), set(EDGES.new.tolist())
TRAIN, VALIDATION, TEST, INPUT, TARGET = (
    edge_set(getattr(EDGES, name))
    for name in ("train", "validation", "test", "new_input", "new_target")
)


@pytest.fixture(scope="module")
def found():
    return {setting.name: setting for setting in link_settings(GRAPH, EDGES, metric="recall@20")}


def edges_of(setting):
    """The input edges in global ids."""
    ids = setting.data.adjacency.global_ids.tolist()
    directed = {(ids[u], ids[v]) for u, v in setting.data.adjacency.edge_index.t().tolist()}
    assert {(v, u) for u, v in directed} == directed
    return {frozenset(pair) for pair in directed}


def lists_of(setting, rows):
    """Each source's list, all in global ids."""
    ids = setting.data.adjacency.global_ids
    bounds = rows.rowptr.tolist()
    return {
        source: set(ids[rows.col[bounds[k] : bounds[k + 1]]].tolist())
        for k, source in enumerate(setting.ids.tolist())
    }


def test_transductive(found):
    assert list(found) == NAMES
    setting = found["transductive"]
    assert edges_of(setting) == TRAIN
    assert setting.data.adjacency.global_ids.tolist() == sorted(KNOWN)
    assert torch.equal(setting.data.x, GRAPH.x[EDGES.known])
    sources = sorted(set().union(*TEST))
    assert setting.ids.tolist() == sources
    assert EDGES.known[setting.sources].tolist() == sources
    assert lists_of(setting, setting.targets) == {s: neighbours(TEST, s) for s in sources}
    assert lists_of(setting, setting.known) == {
        s: neighbours(TRAIN | VALIDATION, s) for s in sources
    }


def test_inductive_adds_the_input_half(found):
    setting = found["inductive"]
    assert edges_of(setting) == TRAIN | INPUT
    assert setting.data.num_nodes == GRAPH.num_nodes
    assert torch.equal(setting.data.x, GRAPH.x)


def test_sources_are_the_new_nodes_with_a_target(found):
    sources = sorted(node for node in NEW if neighbours(TARGET, node))
    assert sources
    for name in NAMES[1:]:
        assert found[name].ids.tolist() == found[name].sources.tolist() == sources


def test_targets_and_masks_are_the_same_for_every_ratio(found):
    """What a ratio removes is neither input, target nor candidate."""
    for name in NAMES[1:]:
        setting = found[name]
        sources = setting.ids.tolist()
        assert lists_of(setting, setting.targets) == {s: neighbours(TARGET, s) for s in sources}
        assert lists_of(setting, setting.known) == {s: neighbours(INPUT, s) for s in sources}


def test_cold_graphs_are_nested_and_spare_the_known(found):
    before = edges_of(found["inductive"])
    for name, share in zip(NAMES[2:], (0.3, 0.6, 0.9), strict=True):
        edges = edges_of(found[name])
        assert TRAIN < edges < before
        removed = 1 - len(edges - TRAIN) / len(INPUT)
        assert abs(removed - share) < 4 * (share * (1 - share) / len(INPUT)) ** 0.5
        before = edges


def test_edges_among_new_nodes_are_the_new_nodes_too():
    split = split_edges(GRAPH.adjacency, new=0.5)
    new = set(split.new.tolist())
    between = {edge for edge in edge_set(split.new_input) if edge <= new}
    assert between
    _, inductive, *_, coldest = link_settings(GRAPH, split, ratios=(0.3, 1.0))
    assert between <= edges_of(inductive)
    assert edges_of(coldest) == edge_set(split.train)
    assert coldest.name == "cold-100"


def test_the_split_seed_decides_what_is_removed():
    one, two, again = (link_settings(GRAPH, replace(EDGES, seed=seed))[3] for seed in (0, 1, 0))
    assert edges_of(one) == edges_of(again)
    assert edges_of(one) != edges_of(two)


def test_without_new_nodes_there_is_one_setting():
    split = split_edges(GRAPH.adjacency, new=0.0)
    assert [setting.name for setting in link_settings(GRAPH, split)] == ["transductive"]


@pytest.mark.parametrize(
    ("name", "architecture"), [*zip(NAMES, ["sage", "gcn", "sage", "gcn", "sage"], strict=True)]
)
def test_scores_and_degrees_source_by_source(found, name, architecture):
    setting, model = found[name], link_model(architecture, dropout=0.5)
    scores = setting.score(model.train())
    assert model.training  # scored in evaluation mode, and left as it was
    model.eval()
    inside = TRAIN if name == "transductive" else edges_of(setting)
    masked = TRAIN | VALIDATION if name == "transductive" else INPUT
    targets = TEST if name == "transductive" else TARGET
    ids = setting.data.adjacency.global_ids.tolist()
    position = {node: k for k, node in enumerate(ids)}
    with torch.no_grad():
        z = model.encoder(setting.data.x, setting.data.adjacency)
        expected = []
        for s in setting.ids.tolist():
            found_scores = model.head(z[position[s]].expand_as(z), z).tolist()
            wanted = {position[t] for t in neighbours(targets, s)}
            known = {position[t] for t in neighbours(masked, s) | {s}}
            expected.append(naive_recall(found_scores, wanted, known, 20))
    assert scores.score.tolist() == pytest.approx(expected, abs=1e-6)
    assert 0 < sum(expected) < len(expected)
    assert scores.nodes.tolist() == setting.ids.tolist()
    assert scores.degree.tolist() == [len(neighbours(inside, s)) for s in setting.ids.tolist()]
    assert (scores.setting, scores.metric) == (name, "recall@20")


def test_a_removed_input_is_still_masked(found):
    """Known by a wide margin to be the best, were it ranked: nothing but targets is found."""
    setting = found["cold-90"]
    gone = INPUT - edges_of(setting)
    source = next(s for s in setting.ids.tolist() if neighbours(gone, s))
    k = setting.ids.tolist().index(source)
    assert neighbours(gone, source) <= lists_of(setting, setting.known)[source]
    assert int(setting.data.adjacency.degree[source]) < len(neighbours(INPUT, source))
    assert not lists_of(setting, setting.targets)[source] & neighbours(gone, source)
    assert setting.score(link_model()).degree[k] == setting.data.adjacency.degree[source]


# A sample of the sources


def test_a_sample_scores_like_the_whole(found):
    model = link_model()
    for setting in found.values():
        whole, count = setting.score(model), min(7, setting.sources.numel() - 1)
        sample = setting.sample(count, seed=1)
        scores = sample.score(model)
        assert isinstance(sample, LinkSetting)
        assert len(scores) == count
        assert (scores.nodes.diff() > 0).all()
        place = [whole.nodes.tolist().index(node) for node in scores.nodes.tolist()]
        assert torch.equal(scores.score, whole.score[place])
        assert torch.equal(scores.degree, whole.degree[place])
        assert scores.setting == f"{whole.setting} (sample of {count})"
        assert scores.metric == whole.metric


def test_a_sample_is_seeded_and_never_more_than_all(found):
    setting = found["transductive"]
    first, again, other = (setting.sample(20, seed).ids.tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert setting.sample(10_000).ids.tolist() == setting.ids.tolist()


def test_every_source_is_as_likely_in_a_sample(found):
    setting = found["transductive"]
    size, count = setting.sources.numel(), torch.zeros(GRAPH.num_nodes)
    for seed in range(200):
        count[setting.sample(size // 2, seed).ids] += 1
    share = (size // 2) / size
    bound = 4.5 * (200 * share * (1 - share)) ** 0.5
    assert ((count[setting.ids] - 200 * share).abs() < bound).all()
