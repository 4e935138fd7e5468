"""Validation of links against a naive recall, and the sample of sources that it ranks."""

import math
from dataclasses import replace

import pytest
import torch

from tests.tasks.edge_toys import edge_set, link_model, naive_recall, neighbours
from tests.tasks.link_toys import TRAIN, VALIDATION, small_task
from tuneup.curriculum import Schedule, base
from tuneup.data import Graph
from tuneup.errors import DivergenceError
from tuneup.graph import adjacency_from
from tuneup.nn import HadamardMLP, Model, NodeFeatures
from tuneup.tasks import VALIDATION_SOURCES, LinkPrediction
from tuneup.train import train


def naive_validation(task, model, sources, targets, known, k):
    with torch.no_grad():
        z = model.eval().encoder(task.data.x, task.graph)
        values = []
        for s in sources:
            scores = model.head(z[s].expand_as(z), z).tolist()
            masked = neighbours(known, s) | {s}
            values.append(naive_recall(scores, neighbours(targets, s), masked, k))
    return values


def test_validation_is_the_naive_recall():
    """Training neighbours and the source itself are never ranked."""
    for k in [1, 5, 100]:
        task, model = replace(small_task(), metric=f"recall@{k}"), link_model(dropout=0.5).eval()
        sources = sorted(set().union(*VALIDATION))
        expected = naive_validation(task, model, sources, VALIDATION, TRAIN, k)
        assert task.validate(model) == pytest.approx(sum(expected) / len(sources), abs=1e-7)
        if k == 100:  # more than there are nodes
            assert task.validate(model) == 1.0


def test_a_source_is_no_candidate_of_its_own():
    """One-hot embeddings under a decoder that adds up products: a node is its own best match."""
    size = 12
    path = torch.stack([torch.arange(size - 1), torch.arange(1, size)])
    graph = adjacency_from(path[:, ::2], size, undirected=True)

    class Identity(torch.nn.Module):
        def forward(self, x, edge_index):
            return x

    decoder = HadamardMLP(size, size)
    with torch.no_grad():
        decoder.hidden.weight.copy_(torch.eye(size))
        decoder.hidden.bias.zero_()
        decoder.out.weight.fill_(1.0)
        decoder.out.bias.zero_()
    task = LinkPrediction(Graph(graph, torch.eye(size)), path[:, 1::2], metric="recall@1")
    # All other scores are zero: of these the smallest id that is not known comes first.
    hits = 0
    for s in sorted(set(path[:, 1::2].flatten().tolist())):
        known = {s, s + 1 if s % 2 == 0 else s - 1}
        best = min(set(range(size)) - known)
        hits += best == (s - 1 if s % 2 == 0 else s + 1)
    assert task.validate(Model(NodeFeatures(), Identity(), decoder)) == pytest.approx(hits / 10)
    assert hits > 0


@pytest.fixture(scope="module")
def many():
    """700 nodes on a ring, every second edge for training, the others for validation."""
    ring = torch.stack([torch.arange(700), (torch.arange(700) + 1) % 700])
    x = torch.randn(700, 6, generator=torch.Generator().manual_seed(0))
    graph = adjacency_from(ring[:, ::2], 700, undirected=True)
    return LinkPrediction(Graph(graph, x), ring[:, 1::2], metric="recall@50")


def test_validation_ranks_one_fixed_sample_of_sources(many):
    assert VALIDATION_SOURCES == 500
    sources = many._sources
    assert sources.numel() == 500
    assert (sources.diff() > 0).all()
    ring = edge_set(many.validation)
    known = edge_set(many.supervision())
    for seed in (0, 1):
        model = link_model(seed=seed)
        expected = naive_validation(many, model, sources.tolist(), ring, known, 50)
        assert many.validate(model) == pytest.approx(sum(expected) / 500, abs=1e-7)
        assert torch.equal(many._sources, sources)


def test_the_sample_depends_on_its_seed_alone(many):
    fewer = adjacency_from(many.supervision()[:, ::3], 700, undirected=True)
    other_edges = replace(many, data=many.data.with_adjacency(fewer))
    torch.manual_seed(5)
    again = replace(many)
    assert torch.equal(again._sources, many._sources)
    assert torch.equal(other_edges._sources, many._sources)
    assert not torch.equal(replace(many, sample_seed=1)._sources, many._sources)
    assert replace(many, sample_seed=1).digest() != many.digest()


def test_all_sources_if_they_are_few():
    assert small_task()._sources.tolist() == sorted(set().union(*VALIDATION))


def test_validation_needs_no_context():
    """Neither no_grad nor eval: a user may simply ask, and the model stays as it was."""
    model, task = link_model(dropout=0.5), small_task()
    assert task.validate(model) == task.validate(link_model(dropout=0.5).eval())
    assert model.training


def test_a_diverged_model_validates_as_nan():
    model = link_model()
    with torch.no_grad():
        model.encoder.convs[1].lin_l.bias[0] = torch.nan
    assert math.isnan(small_task().validate(model))
    with pytest.raises(DivergenceError, match="validation gives nan"):
        train(link_model(), small_task(), base(Schedule(3, lr=1e36)))
