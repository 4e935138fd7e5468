"""Which edges and features training on links may read, and that it goes on exactly."""

import math
from dataclasses import replace

import pytest
import torch

from tests.tasks.edge_toys import EDGES, GRAPH, link_model, losses, neighbours
from tests.tasks.link_toys import TRAIN, small_task
from tests.train.broken_runs import Stop, assert_same, stop_at
from tuneup.curriculum import Schedule, base, tuneup
from tuneup.graph import adjacency_from
from tuneup.nn import Encoder, HadamardMLP, Model, NodeFeatures
from tuneup.tasks import L2
from tuneup.train import Checkpoints, train

CURRICULA = {
    "base": base(Schedule(5, lr=0.02)),
    "tuneup": tuneup(0.5, Schedule(4, lr=0.02), Schedule(4, lr=0.02)),
}


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


def test_poisoned_test_data_changes_nothing(plain):
    for name in CURRICULA:
        for poison in POISONED:
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


def test_poisoned_training_data_does_matter(plain):
    """Else the tests above would pass whatever happened."""
    for task in [
        small_task(split=one_edge_moved()),
        small_task(poisoned_features(EDGES.known[:1])),
    ]:
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
    fresh = link_model("gcn", dropout=0.3)
    events = []
    found = train(fresh, task, CURRICULA["tuneup"], callback=events.append, **options)
    assert_same(found, plain["tuneup"])
    assert (events[0].stage, events[0].epoch) == (place[0], place[1] + 1)


def test_another_task_is_trained_from_the_start(tmp_path):
    stages, folder, events = base(Schedule(1)), Checkpoints(tmp_path, 1), []
    options = {"checkpoints": folder, "callback": events.append}
    train(link_model(), small_task(), stages, checkpoints=folder)
    for count, other in enumerate(
        (
            small_task(l2=L2(output=0.1)),
            small_task(sample_seed=1),
            replace(small_task(), metric="ndcg@5"),
            small_task(split=rubbish(EDGES, "validation")),
            small_task(split=one_edge_moved()),
        ),
        1,
    ):
        train(link_model(), other, stages, **options)
        assert len(events) == count
    train(link_model(), small_task(), stages, **options)
    assert len(events) == count, "a finished run returns its stored result"


def test_an_encoder_of_pyg_will_do():
    from torch_geometric.nn import GraphSAGE

    torch.manual_seed(0)
    model = Model(NodeFeatures(), GraphSAGE(6, 8, 2, 8), HadamardMLP(8, 8))
    result = train(model, small_task(), CURRICULA["tuneup"])
    assert all(math.isfinite(loss) for loss in losses(result, 0) + losses(result, 1))
    assert isinstance(link_model().encoder, Encoder)
