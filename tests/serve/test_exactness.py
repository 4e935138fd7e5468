"""A new node is answered as if it were in the graph and the whole model were run."""

from __future__ import annotations

import pytest
import torch
from serving_toys import (
    ARCHITECTURES,
    NODES,
    WIDTH,
    close,
    featureless,
    inserted,
    recommender,
    save_artefact,
    small_embedded,
    small_encoder,
    small_graph,
    small_pairs,
)

from tuneup.graph import identities
from tuneup.serve import Predictor, serving

LISTS = [[], [3], [58, 58, 3], list(range(10)), list(range(NODES)), [59]]
"""No edge, one, repeated and to an isolated node, ten, all nodes, only to an isolated node."""

NEW = torch.randn(len(LISTS), WIDTH, generator=torch.Generator().manual_seed(9))


def full(model, graph, new, neighbours, **more):
    """Outputs of the new nodes by the whole model on the whole graph."""
    x = graph.x if isinstance(graph.x, torch.Tensor) else graph.x @ torch.eye(WIDTH)
    with torch.no_grad():
        out = model(torch.cat([x, new]), inserted(graph.adjacency, neighbours, **more))
    return out[NODES:]


def served(folder, model, graph):
    return Predictor.load(save_artefact(folder / "model", model, graph))


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_each_new_node_is_answered_as_if_it_came_alone(architecture, undirected, layers, tmp_path):
    graph, model = small_graph(undirected), small_encoder(architecture, layers)
    ours = served(tmp_path, model, graph).outputs_new(NEW, LISTS)
    for row, neighbours in enumerate(LISTS):
        assert close(ours[row], full(model, graph, NEW[row : row + 1], [neighbours])[0])


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_new_nodes_with_edges_between_them_arrive_together(architecture, undirected, tmp_path):
    graph, model = small_graph(undirected), small_encoder(architecture)
    between = [(1, 3), (3, 0), (1, 3), (4, 5), (5, 5)]  # 2 stays alone
    ours = served(tmp_path, model, graph).outputs_new(NEW, LISTS, between=between)
    for world in ([0, 1, 3], [2], [4, 5]):
        place = {row: k for k, row in enumerate(world)}
        edges = [(place[s], place[t]) for s, t in between if s in place]
        expected = full(model, graph, NEW[world], [LISTS[row] for row in world], between=edges)
        assert close(ours[world], expected)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_edges_out_of_new_nodes_of_a_directed_graph(architecture, tmp_path):
    """They change what comes back to the node, and its neighbours' degrees."""
    graph, model = small_graph(undirected=False), small_encoder(architecture)
    targets = [[4], [3, 7], [58], [1, 2, 3], [0], []]
    ours = served(tmp_path, model, graph).outputs_new(NEW, LISTS, targets=targets)
    for row, neighbours in enumerate(LISTS):
        alone = NEW[row : row + 1]
        assert close(ours[row], full(model, graph, alone, [neighbours], targets=[targets[row]])[0])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sparse_features(architecture, tmp_path):
    graph, model = small_graph(sparse=True), small_encoder(architecture)
    ours = served(tmp_path, model, graph).outputs_new(NEW, LISTS)
    for row, neighbours in enumerate(LISTS):
        assert close(ours[row], full(model, graph, NEW[row : row + 1], [neighbours])[0])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_embeddings_of_a_classifier_are_what_its_last_layer_reads(architecture, sparse, tmp_path):
    graph, model = small_graph(sparse=sparse), small_encoder(architecture)
    read = []
    predictor = served(tmp_path, model, graph)
    model.convs[-1].register_forward_pre_hook(lambda layer, inputs: read.append(inputs[0].clone()))
    with torch.no_grad():
        model(graph.x, graph.adjacency)
    assert close(predictor.embeddings(), read[-1])
    assert read[-1].shape[1] != model.convs[-1].out_channels
    ours = predictor.embed_new(NEW, LISTS)
    for row, neighbours in enumerate(LISTS):
        full(model, graph, NEW[row : row + 1], [neighbours])
        assert close(ours[row], read[-1][NODES])


def full_unknown(model, graph, neighbours, **more):
    """The same for nodes without features: the new ones are nobody in particular."""
    known = graph.x.rowptr.diff() > 0
    x = identities(torch.cat([known, known.new_zeros(len(neighbours))]))
    with torch.no_grad():
        return model(x, inserted(graph.adjacency, neighbours, **more))[NODES:]


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_without_features(architecture, undirected, layers, tmp_path):
    """Among the neighbours are nodes without an input of their own, and one without an edge."""
    graph, model = featureless(undirected), small_embedded(architecture, layers)
    predictor = served(tmp_path, model, graph)
    ours = predictor.outputs_new(None, LISTS)
    for row, neighbours in enumerate(LISTS):
        assert close(ours[row], full_unknown(model, graph, [neighbours])[0])
    between = [(1, 3), (3, 0)]
    together = predictor.outputs_new(None, LISTS, between=between)
    world = [LISTS[row] for row in (0, 1, 3)]
    expected = full_unknown(model, graph, world, between=[(1, 2), (2, 0)])
    assert close(together[[0, 1, 3]], expected)


@pytest.mark.parametrize("options", [{"norm": "batch"}, {"norm": "layer", "activation": "elu"}])
def test_norms_and_activations(options, tmp_path):
    graph, model = small_graph(), small_encoder("gcn", dropout=0.5, **options)
    ours = served(tmp_path, model, graph).outputs_new(NEW, LISTS)
    for row, neighbours in enumerate(LISTS):
        assert close(ours[row], full(model, graph, NEW[row : row + 1], [neighbours])[0])


def test_a_graph_of_no_edges_takes_new_nodes_too(tmp_path):
    graph = small_graph()
    bare = graph.with_adjacency(graph.adjacency.thin(torch.zeros_like(graph.adjacency.col) > 0))
    for architecture in ARCHITECTURES:
        model = small_encoder(architecture)
        ours = served(tmp_path / architecture, model, bare).outputs_new(NEW[:2], [[], [1, 2]])
        assert close(ours[1], full(model, bare, NEW[1:2], [[1, 2]])[0])
        assert close(ours[0], full(model, bare, NEW[:1], [[]])[0])


@pytest.mark.parametrize("architecture", ["sage", "gat"])
def test_a_batch_too_large_for_memory_is_split_and_says_the_same(
    architecture, tmp_path, monkeypatch
):
    graph, model = small_graph(), small_encoder(architecture)
    predictor = served(tmp_path, model, graph)
    new, lists = NEW.repeat(4, 1), LISTS * 4
    between = [(0, 7), (7, 20)]
    together = predictor.outputs_new(new, lists, between=between)
    monkeypatch.setattr(serving, "BUDGET", 32 * 400)
    monkeypatch.setattr(serving, "TOGETHER", 5)
    assert close(predictor.outputs_new(new, lists, between=between), together)


def test_nothing_that_arrives_is_kept(tmp_path):
    graph, model = small_graph(), small_encoder("gcn")
    predictor = served(tmp_path, model, graph)
    before = predictor.outputs().clone()
    first = predictor.outputs_new(NEW, LISTS)
    assert torch.equal(predictor.outputs_new(NEW, LISTS), first)
    with torch.no_grad():
        assert torch.equal(before, model(graph.x, graph.adjacency))


@pytest.mark.parametrize("options", [{}, {"shared": True, "unknown": True}])
@pytest.mark.parametrize("kind", ["lightgcn", "gcn", "sage", "gat"])
def test_a_new_user_is_inserted_too(kind, options, tmp_path):
    """Items 28 and 29 had no user before: with one, they enter by their own embedding."""
    data, model = small_pairs(), recommender(kind, **options)
    predictor = Predictor.load(save_artefact(tmp_path / "model", model, data))
    lists = [[], [4], [28], [1, 5, 9, 29]]
    graph = data.adjacency()
    trained = graph.degree[:20] > 0
    mean = model.inputs.of_linked()[:20][trained].mean(0)
    for items in lists:
        nodes = [20 + item for item in items]
        bigger = inserted(graph, [nodes])
        alone = model.inputs.unknown is not None and not items
        own = model.inputs.unknown[:1] if alone else mean[None]
        inputs = torch.cat([model.inputs.of_linked(), own])
        if model.inputs.unknown is not None:
            sides = torch.cat(
                [model.inputs.unknown[:1].expand(20, -1), model.inputs.unknown[1:].expand(30, -1)]
            )
            isolated = (bigger.degree[:50] == 0)[:, None]
            inputs[:50] = torch.where(isolated, sides, inputs[:50])
        with torch.no_grad():
            expected = model.encoder(inputs, bigger)[50]
        assert close(predictor.outputs_new(None, [items])[0], expected)
