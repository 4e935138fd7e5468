"""Node classification: supervision, the loss on any view, validation, and its fingerprint."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.training.toy import small_encoder, small_task
from tuneup.curriculum import full, tails
from tuneup.data import Graph, block_graph, sparse_features, split_nodes
from tuneup.errors import InputError
from tuneup.graph import adjacency_from
from tuneup.tasks import GraphView, Labels, Moment, NodeClassification, PseudoLabels

MOMENT = Moment(0, 0, 0)
TASK = small_task()


# Supervision and pseudo-labels


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_true_labels_are_never_overwritten(data):
    """Whatever a method proposes, the training nodes keep their labels and come first."""
    chosen = data.draw(st.lists(st.integers(0, 299), unique=True))
    nodes = torch.tensor(chosen, dtype=torch.long)
    proposed = (TASK.data.y[nodes] + 1) % 3
    found = TASK.supervision(PseudoLabels(nodes, proposed, torch.ones(len(chosen))))
    train = TASK.train.tolist()
    label = dict(zip(found.nodes.tolist(), found.y.tolist(), strict=True))
    assert len(label) == found.nodes.numel()  # each node once
    assert found.nodes[: found.num_true].tolist() == train
    assert set(label) == set(train) | set(chosen)
    for node in label:
        true = int(TASK.data.y[node])
        assert label[node] == (true if node in train else (true + 1) % 3)


def test_without_pseudo_labels_there_are_only_true_ones():
    found = TASK.supervision()
    assert torch.equal(found.nodes, TASK.train)
    assert torch.equal(found.y, TASK.data.y[TASK.train])
    assert found.num_true == TASK.train.numel()


@pytest.mark.parametrize("label_validation", [False, True])
def test_who_gets_a_pseudo_label(label_validation):
    task = small_task(label_validation=label_validation)
    model = small_encoder().eval()
    found = task.pseudo_labels(model)
    hidden = set(task.train.tolist())
    if not label_validation:
        hidden |= set(task.validation.tolist())
    degree = task.graph.degree.tolist()
    assert 0 in degree, "the test needs an isolated node"
    expected = [node for node in range(300) if degree[node] > 0 and node not in hidden]
    assert found.nodes.tolist() == expected
    probabilities = model(task.data.x, task.graph)[expected].softmax(1)
    torch.testing.assert_close(found.confidence, probabilities.max(1).values)
    assert torch.equal(found.y, probabilities.argmax(1))


# Loss


def plain_loss(model, x, graph, nodes, y):
    return F.cross_entropy(model(x, graph)[nodes], y)


@pytest.mark.parametrize(
    "view", [full, tails(0.5), tails(0.5, paired=False), tails(0.5, exact=True)]
)
def test_loss_is_the_mean_cross_entropy_on_the_view(view):
    model = small_encoder(dropout=0.0)
    seen = view(TASK.graph, Moment(3, 1, 4))
    labels = TASK.supervision(TASK.pseudo_labels(model))
    for supervision in (TASK.supervision(), labels):
        found = TASK.loss(model, seen, supervision, MOMENT)
        expected = plain_loss(model, TASK.data.x, seen.graph, supervision.nodes, supervision.y)
        torch.testing.assert_close(found, expected)


def test_a_view_may_renumber_leave_out_and_repeat_nodes():
    model, supervision = small_encoder(dropout=0.0), TASK.supervision()
    nodes = torch.cat([torch.arange(299, 100, -1), TASK.train[:4], TASK.train[:2]])
    edges = torch.randint(0, nodes.numel(), (2, 400), generator=torch.Generator().manual_seed(0))
    view = GraphView(adjacency_from(edges, nodes.numel(), undirected=True), nodes)
    train = TASK.train.tolist()
    rows = [k for k, node in enumerate(nodes.tolist()) if node in train]
    y = TASK.data.y[nodes[rows]]
    expected = plain_loss(model, TASK.data.x[nodes], view.graph, rows, y)
    torch.testing.assert_close(TASK.loss(model, view, supervision, MOMENT), expected)


@pytest.mark.parametrize("renumbered", [False, True])
def test_extra_supervision_of_a_view_joins_in(renumbered):
    model, supervision = small_encoder(dropout=0.0), TASK.supervision()
    free = torch.tensor([n for n in range(300) if n not in TASK.train.tolist()][:5])
    extra = Labels(free, torch.tensor([0, 1, 2, 0, 1]), 0)
    view = GraphView(TASK.graph, torch.arange(300) if renumbered else None, extra)
    nodes, y = torch.cat([supervision.nodes, free]), torch.cat([supervision.y, extra.y])
    expected = plain_loss(model, TASK.data.x, TASK.graph, nodes, y)
    torch.testing.assert_close(TASK.loss(model, view, supervision, MOMENT), expected)
    without = TASK.loss(model, GraphView(TASK.graph), supervision, MOMENT)
    assert not torch.equal(expected, without)


# Validation


def test_validation_is_the_accuracy_on_the_validation_nodes():
    model = small_encoder().eval()
    guess = model(TASK.data.x, TASK.graph).argmax(1)
    hits = [int(guess[n]) == int(TASK.data.y[n]) for n in TASK.validation.tolist()]
    assert TASK.validate(model) == pytest.approx(sum(hits) / len(hits))


def test_answers_of_a_model_in_training_mode_are_those_of_evaluation():
    """Dropout is off while the task asks, no gradient is made, and the mode stays as it was."""
    model = small_encoder().eval()
    expected, labels = TASK.validate(model), TASK.pseudo_labels(model)
    model.train()
    assert TASK.validate(model) == expected
    found = TASK.pseudo_labels(model)
    assert torch.equal(found.confidence, labels.confidence)
    assert not found.confidence.requires_grad
    assert model.training


def test_validation_of_a_broken_model_is_nan():
    model = small_encoder().eval()
    with torch.no_grad():
        model.convs[0].lin_l.weight.fill_(float("nan"))
    assert TASK.validate(model) != TASK.validate(model)


# What the task refuses, and what tells two tasks apart


class Wrong(nn.Module):
    def __init__(self, answer) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x, edge_index):
        return self.answer(x)


@pytest.mark.parametrize("answer", [lambda x: x[:, :2], lambda x: x[:, 0]])
def test_a_model_with_too_few_classes_is_named(answer):
    view, supervision = full(TASK.graph, MOMENT), TASK.supervision()
    with pytest.raises(InputError, match="Wrong must answer 3 numbers per node"):
        TASK.loss(Wrong(answer), view, supervision, MOMENT)
    with pytest.raises(InputError, match="Wrong must answer 3 numbers per node"):
        TASK.validate(Wrong(answer))


GRAPH = TASK.data


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": Graph(GRAPH.adjacency, GRAPH.x)}, "has no labels"),
        ({"train": torch.tensor([1.0])}, "train must be a non-empty int64 list"),
        ({"validation": torch.empty(0, dtype=torch.long)}, "validation must be a non-empty"),
        ({"train": torch.tensor([300])}, "train names a node outside 0..299"),
        ({"train": torch.tensor([-1])}, "train names a node outside"),
        ({"train": torch.tensor([5, 6, 5])}, "train names a node more than once"),
        ({"train": TASK.validation[:1]}, "train and validation share 1 nodes"),
        (
            {"data": Graph(GRAPH.adjacency, GRAPH.x, torch.full((300,), -1), 3)},
            "which has no label",
        ),
    ],
)
def test_bad_arguments_are_refused(options, message):
    arguments = {"data": GRAPH, "train": TASK.train, "validation": TASK.validation, **options}
    with pytest.raises(InputError, match=message):
        NodeClassification(**arguments)


def test_digest_tells_apart_what_training_can_see():
    first, second = TASK.train[:1], TASK.validation[:1]

    def labels(node):
        y = GRAPH.y.clone()
        y[node] = (y[node] + 1) % 3
        return replace(TASK, data=Graph(GRAPH.adjacency, GRAPH.x, y, 3))

    x = GRAPH.x.clone()
    x[0, 0] += 1
    edges = GRAPH.adjacency.edge_index[:, GRAPH.adjacency.row != 5]
    fewer = adjacency_from(edges, 300, undirected=False)
    others = [
        TASK,
        labels(first),
        labels(second),
        replace(TASK, data=Graph(GRAPH.adjacency, x, GRAPH.y, 3)),
        replace(TASK, data=Graph(fewer, GRAPH.x, GRAPH.y, 3)),
        replace(TASK, data=Graph(GRAPH.adjacency.directed, GRAPH.x, GRAPH.y, 3)),
        replace(TASK, data=Graph(GRAPH.adjacency, sparse_features(GRAPH.x), GRAPH.y, 3)),
        replace(TASK, train=TASK.train[1:]),
        replace(TASK, validation=TASK.validation[1:]),
        replace(TASK, label_validation=True),
        replace(TASK, prune=False),  # the same function, but other dropout draws
    ]
    assert len({task.digest() for task in others}) == len(others)
    assert small_task().digest() == TASK.digest()
    unseen = [n for n in range(300) if n not in {*TASK.train.tolist(), *TASK.validation.tolist()}]
    assert labels(unseen).digest() == TASK.digest()


def test_from_split_is_the_induced_subgraph():
    graph = block_graph(200, 500, 3, 4)
    split = split_nodes(200, labelled=0.2)
    task = NodeClassification.from_split(graph, split, prune=False)
    assert task.prune is False
    known = split.known
    assert torch.equal(task.graph.global_ids, known)
    assert torch.equal(known[task.train], split.train)
    assert torch.equal(known[task.validation], split.validation)
    assert torch.equal(task.data.y, graph.y[known])
    assert torch.equal(task.data.x, graph.x[known])
    here = {(int(known[u]), int(known[v])) for u, v in task.graph.edge_index.t().tolist()}
    inside = set(known.tolist())
    there = {(u, v) for u, v in graph.adjacency.edge_index.t().tolist() if {u, v} <= inside}
    assert here == there
