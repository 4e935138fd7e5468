"""Link prediction against loops in Python, and which edges and features training may read."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tests.tasks.edge_toys import EDGES, GRAPH, edge_set, link_model, losses, naive_recall
from tests.training.broken_runs import Stop, assert_same, stop_at
from tuneup.curriculum import Schedule, base, full, tails, tuneup
from tuneup.data import Graph
from tuneup.errors import CheckpointError, DivergenceError, InputError
from tuneup.graph import adjacency_from
from tuneup.nn import Encoder
from tuneup.nn.link_model import HadamardMLP, LinkModel
from tuneup.tasks import Moment
from tuneup.tasks.link_prediction import (
    VALIDATION_SOURCES,
    LinkPrediction,
    neighbour_lists,
    training_graph,
)
from tuneup.tasks.negatives import NegativeSampler
from tuneup.tasks.recommendation import L2
from tuneup.training import Checkpoints, train

VIEWS = {"G": full, "half of G": tails(0.5), "no edges": tails(1.0)}
CURRICULA = {
    "base": base(Schedule(5, lr=0.02)),
    "tuneup": tuneup(0.5, Schedule(4, lr=0.02), Schedule(4, lr=0.02)),
}
POSITION = {node: k for k, node in enumerate(EDGES.known.tolist())}


def small_task(data=GRAPH, split=EDGES, **options):
    task = LinkPrediction.from_split(data, split)
    return replace(task, metric="recall@5", **options)


def local(edges):
    """Edges of known nodes, in the numbers of the training graph."""
    return {frozenset(POSITION[node] for node in edge) for edge in edge_set(edges)}


TRAIN, VALIDATION = local(EDGES.train), local(EDGES.validation)


def neighbours(edges, node):
    return {other for edge in edges if node in edge for other in edge - {node}}


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
        scores = [model.decoder(z[s][None], z[other][None])[0] for other in (n, t)]
        total = total + F.softplus(scores[0] - scores[1])
        total = total + task.l2.output * 0.5 * (z[s] @ z[s] + z[t] @ z[t] + z[n] @ z[n])
    return total / (2 * len(TRAIN))


@pytest.mark.parametrize(
    ("architecture", "l2"), [("sage", L2()), ("gcn", L2(output=0.3)), ("gat", L2(output=0.01))]
)
@pytest.mark.parametrize("view", VIEWS)
def test_the_loss_is_the_loop_over_triples(architecture, l2, view):
    """On every view all training edges are positives, the dropped ones too."""
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


# Validation


def naive_validation(task, model, sources, targets, known, k):
    with torch.no_grad():
        z = model.eval().encoder(task.data.x, task.graph)
        values = []
        for s in sources:
            scores = model.decoder(z[s].expand_as(z), z).tolist()
            masked = neighbours(known, s) | {s}
            values.append(naive_recall(scores, neighbours(targets, s), masked, k))
    return values


@pytest.mark.parametrize("k", [1, 5, 100])
def test_validation_is_the_naive_recall(k):
    """Training neighbours and the source itself are never ranked."""
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
    assert task.validate(LinkModel(Identity(), decoder)) == pytest.approx(hits / 10)
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


def test_the_budget_changes_nothing(many):
    model = link_model()
    assert many.validate(model) == replace(many, budget=1).validate(model)


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


# What training reads


def rubbish(split, *names):
    """The split with other edges, twice as many, in some of its parts; none is for training."""
    trained = split.train[0] * GRAPH.num_nodes + split.train[1]
    generator = torch.Generator().manual_seed(3)
    nodes = {"test": split.known, "validation": split.known}

    def others(name):
        pool = nodes.get(name, torch.arange(GRAPH.num_nodes))
        keys = torch.randperm(pool.numel() ** 2, generator=generator)
        first, second = pool[keys // pool.numel()], pool[keys % pool.numel()]
        fresh = ~torch.isin(first * GRAPH.num_nodes + second, trained)
        edges = torch.stack([first, second])[:, (first < second) & fresh]
        return edges[:, : 2 * getattr(split, name).shape[1]].contiguous()

    return replace(split, **{name: others(name) for name in names})


def poisoned_features(nodes):
    x = GRAPH.x.clone()
    x[nodes] = 1000 * torch.randn(nodes.numel(), 6, generator=torch.Generator().manual_seed(0))
    return replace(GRAPH, x=x)


def rewired():
    """The same nodes under entirely different edges: the split alone may say which there are."""
    index = torch.randint(0, 90, (2, 400), generator=torch.Generator().manual_seed(4))
    return GRAPH.with_adjacency(adjacency_from(index, 90, undirected=True))


POISONED = {
    "test edges": lambda: small_task(split=rubbish(EDGES, "test")),
    "no test edges": lambda: small_task(split=replace(EDGES, test=EDGES.test[:, :0])),
    "new edges": lambda: small_task(split=rubbish(EDGES, "new_input", "new_target")),
    "new features": lambda: small_task(poisoned_features(EDGES.new)),
    "the whole graph": lambda: small_task(rewired()),
}


@pytest.fixture(scope="module")
def plain():
    return {
        name: train(link_model("gcn", dropout=0.3), small_task(l2=L2(output=0.01)), stages, seed=2)
        for name, stages in CURRICULA.items()
    }


@pytest.mark.parametrize("poison", POISONED)
@pytest.mark.parametrize("name", CURRICULA)
def test_what_is_for_testing_changes_nothing(plain, name, poison):
    task = replace(POISONED[poison](), l2=L2(output=0.01))
    model = link_model("gcn", dropout=0.3)
    assert_same(train(model, task, CURRICULA[name], seed=2), plain[name])


def test_validation_edges_only_select(plain):
    task = small_task(split=rubbish(EDGES, "validation"), l2=L2(output=0.01))
    found = train(link_model("gcn", dropout=0.3), task, CURRICULA["base"], seed=2)
    assert losses(found, 0) == losses(plain["base"], 0)
    scores = [[s for *_, s in result.record.curves()] for result in (found, plain["base"])]
    assert scores[0] != scores[1]


def one_edge_moved():
    """A training edge and a test edge change places."""
    train_edges, test = EDGES.train.clone(), EDGES.test.clone()
    train_edges[:, 0], test[:, 0] = EDGES.test[:, 0], EDGES.train[:, 0]
    return replace(EDGES, train=train_edges, test=test)


@pytest.mark.parametrize(
    "task",
    [small_task(split=one_edge_moved()), small_task(poisoned_features(EDGES.known[:1]))],
    ids=["a training edge", "features of a known node"],
)
def test_what_is_for_training_does_matter(plain, task):
    """Else the tests above would pass whatever happened."""
    model = link_model("gcn", dropout=0.3)
    found = train(model, replace(task, l2=L2(output=0.01)), CURRICULA["base"], seed=2)
    assert losses(found, 0) != losses(plain["base"], 0)


def test_messages_flow_along_training_edges_only():
    """The gradient of an output reaches exactly what training edges lead to in two steps."""
    task, model = small_task(), link_model()
    node = int(task.graph.degree.argmax())
    x = task.data.x.clone().requires_grad_()
    out = model.encoder(x, task.graph)
    (grad,) = torch.autograd.grad(out[node].square().sum(), x)
    one = neighbours(TRAIN, node) | {node}
    two = set().union(*(neighbours(TRAIN, other) for other in one)) | one
    assert set((grad.abs().sum(1) > 0).nonzero().view(-1).tolist()) <= two
    assert torch.equal(
        task.forward(model.encoder, task.graph), model.encoder(task.data.x, task.graph)
    )


@pytest.mark.parametrize("place", [(1, 2), (2, 3)])
def test_an_interrupted_run_goes_on_exactly(tmp_path, plain, place):
    task, folder = small_task(l2=L2(output=0.01)), Checkpoints(tmp_path, 1)
    options = {"seed": 2, "checkpoints": folder}
    with pytest.raises(Stop):
        train(
            link_model("gcn", dropout=0.3),
            task,
            CURRICULA["tuneup"],
            callback=stop_at(*place),
            **options,
        )
    fresh = link_model("gcn", seed=8, dropout=0.3)
    told = []
    found = train(fresh, task, CURRICULA["tuneup"], callback=told.append, **options)
    assert_same(found, plain["tuneup"])
    assert (told[0].stage, told[0].epoch) == (place[0], place[1] + 1)


def test_another_tasks_checkpoint_is_refused(tmp_path):
    stages, folder = base(Schedule(1)), Checkpoints(tmp_path, 1)
    train(link_model(), small_task(), stages, checkpoints=folder)
    for other in (
        small_task(l2=L2(output=0.1)),
        small_task(sample_seed=1),
        replace(small_task(), metric="ndcg@5"),
        small_task(split=rubbish(EDGES, "validation")),
        small_task(split=one_edge_moved()),
    ):
        with pytest.raises(CheckpointError, match="belongs to another run"):
            train(link_model(), other, stages, checkpoints=folder)
    train(link_model(), small_task(budget=1), stages, checkpoints=folder)


def test_sparse_features_give_the_same_loss():
    from tuneup.data import sparse_features

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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "auc"}, "A ranking metric is one of"),
        ({"l2": L2(input=0.1)}, r"features: only L2\(output=\.\.\.\)"),
        ({"data": directed()}, "the graph must be undirected"),
        ({"data": edgeless()}, "there is no training edge to learn from"),
        ({"validation": torch.empty(2, 0).long()}, r"edges \[2, E\], at least one; got \[2, 0\]"),
        ({"validation": torch.ones(3).long()}, r"edges \[2, E\], at least one; got \[3\]"),
        ({"validation": torch.ones(7, 2).long()}, r"edges \[2, E\], at least one; got \[7, 2\]"),
        ({"validation": torch.tensor([[0], [99]])}, r"names a node outside 0\.\.75"),
        ({"validation": torch.tensor([[-1], [2]])}, r"names a node outside 0\.\.75"),
    ],
)
def test_nonsense_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        replace(small_task(), **options)


def test_an_encoder_of_pyg_will_do():
    from torch_geometric.nn import GraphSAGE

    torch.manual_seed(0)
    model = LinkModel(GraphSAGE(6, 8, 2, 8), HadamardMLP(8, 8))
    result = train(model, small_task(), CURRICULA["tuneup"])
    assert all(math.isfinite(loss) for loss in losses(result, 0) + losses(result, 1))
    assert isinstance(link_model().encoder, Encoder)
