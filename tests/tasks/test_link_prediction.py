"""Link prediction: the training graph, the loss against a loop over triples, what is refused."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tests.tasks.edge_toys import EDGES, GRAPH, VIEWS, edge_set, link_model
from tests.tasks.link_toys import TRAIN, VALIDATION, local, small_task
from tuneup.curriculum import full
from tuneup.data import Graph, split_edges
from tuneup.errors import InputError
from tuneup.graph import adjacency_from
from tuneup.tasks import L2, LinkPrediction, Moment
from tuneup.tasks.link_prediction import neighbour_lists, training_graph
from tuneup.tasks.ranking import NegativeSampler

# The training graph


def test_only_known_nodes_and_training_edges():
    task = small_task()
    assert edge_set(task.supervision()) == TRAIN
    assert {frozenset(e) for e in task.graph.edge_index.t().tolist()} == TRAIN
    assert task.graph.num_nodes == EDGES.known.numel()
    assert torch.equal(task.graph.global_ids, EDGES.known)
    assert torch.equal(task.data.x, GRAPH.x[EDGES.known])
    assert edge_set(task.validation) == VALIDATION
    assert (task.graph.degree == 0).any(), "the toy needs a known node without a training edge"


def test_neighbour_lists():
    edges = torch.tensor([[4, 0, 2], [1, 4, 0]])
    lists = neighbour_lists(edges, 6)
    rows = [lists.col[a:b].tolist() for a, b in zip(lists.rowptr, lists.rowptr[1:], strict=False)]
    assert rows == [[2, 4], [4], [0], [], [0, 1], []]
    both_ways = neighbour_lists(torch.cat([edges, edges.flip(0)], 1), 6)
    assert torch.equal(both_ways.rowptr, lists.rowptr)
    assert torch.equal(both_ways.col, lists.col)


def test_validation_edges_may_be_listed_both_ways():
    """As PyG lists them: a target that counts twice would halve the recall."""
    task, model = small_task(), link_model()
    twice = torch.cat([task.validation, task.validation.flip(0)], 1)
    assert replace(task, validation=twice).validate(model) == task.validate(model) > 0


# The loss


def naive_loss(task, model, view, moment):
    """Both directions of every edge, triple by triple."""
    once = sorted(tuple(sorted(edge)) for edge in TRAIN)
    triples = once + [(t, s) for s, t in once]
    sources = torch.tensor([s for s, _ in triples])
    sampler = NegativeSampler(task.graph, 0, task.graph.num_nodes)
    drawn = sampler.draw(sources, moment).tolist()
    z, total = model.encoder(task.data.x, view.graph), 0.0
    for (s, t), n in zip(triples, drawn, strict=True):
        assert n != s
        assert frozenset((s, n)) not in TRAIN
        scores = [model.head(z[s][None], z[other][None])[0] for other in (n, t)]
        total = total + F.softplus(scores[0] - scores[1])
        total = total + task.l2.output * 0.5 * (z[s] @ z[s] + z[t] @ z[t] + z[n] @ z[n])
    return total / (2 * len(TRAIN))


def test_the_loss_is_the_loop_over_triples():
    """On every view all training edges are positives, the dropped ones too."""
    for view in VIEWS:
        for architecture, l2 in [("sage", L2()), ("gcn", L2(output=0.3)), ("gat", L2(output=0.01))]:
            task, model, moment = small_task(l2=l2), link_model(architecture), Moment(5, 1, 3)
            seen = VIEWS[view](task.graph, moment)
            found = task.loss(model, seen, task.supervision(), moment)
            expected = naive_loss(task, model, seen, moment)
            torch.testing.assert_close(found, expected)
            parameters = list(model.parameters())
            for ours, theirs in zip(
                torch.autograd.grad(found, parameters),
                torch.autograd.grad(expected, parameters),
                strict=True,
            ):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_held_out_edges_may_be_drawn():
    task = small_task()
    sampler = NegativeSampler(task.graph, 0, task.graph.num_nodes)
    sources = task.supervision().flatten()
    drawn = set()
    for step in range(60):
        negatives = sampler.draw(sources, Moment(0, 0, step))
        drawn |= {frozenset(e) for e in zip(sources.tolist(), negatives.tolist(), strict=True)}
    assert not drawn & TRAIN
    assert all(len(edge) == 2 for edge in drawn)
    for held_out in (VALIDATION, local(EDGES.test)):
        assert len(drawn & held_out) > 0.5 * len(held_out)


def test_sparse_features_give_the_same_loss():
    from tuneup.graph import sparse_features

    task = small_task()
    data = training_graph(replace(GRAPH, x=sparse_features(GRAPH.x.to_sparse())), EDGES)
    model, moment = link_model("gcn"), Moment(0, 0, 0)
    found, expected = (
        t.loss(model, full(t.graph, moment), t.supervision(), moment)
        for t in (replace(task, data=data), task)
    )
    torch.testing.assert_close(found, expected)


# What is refused


def directed():
    return Graph(
        adjacency_from(torch.tensor([[0, 1], [1, 2]]), 3, undirected=False), torch.ones(3, 2)
    )


def edgeless():
    return Graph(adjacency_from(torch.empty(2, 0).long(), 3, undirected=True), torch.ones(3, 2))


def test_bad_arguments_are_refused():
    for options, words in [
        ({"metric": "auc"}, "metric: got 'auc'; expected one of recall"),
        ({"l2": L2(input=0.1)}, r"features: only L2\(output=\.\.\.\)"),
        ({"data": directed()}, "the graph must be undirected"),
        ({"data": edgeless()}, "there is no training edge to learn from"),
        ({"validation": torch.empty(2, 0).long()}, r"edges \[2, E\], at least one; got \[2, 0\]"),
        ({"validation": torch.ones(3).long()}, r"edges \[2, E\], at least one; got \[3\]"),
        ({"validation": torch.ones(7, 2).long()}, r"edges \[2, E\], at least one; got \[7, 2\]"),
        ({"validation": torch.tensor([[0], [99]])}, r"names a node outside 0\.\.75"),
        ({"validation": torch.tensor([[-1], [2]])}, r"names a node outside 0\.\.75"),
    ]:
        with pytest.raises(InputError, match=words):
            replace(small_task(), **options)


def test_a_split_of_weighted_edges_is_refused():
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    weighted = adjacency_from(edges, 5, undirected=True, weight=torch.ones(4))
    graph = Graph(weighted, torch.rand(5, 2))
    with pytest.raises(InputError, match="weights"):
        LinkPrediction.from_split(graph, split_edges(graph.adjacency, seed=0))
