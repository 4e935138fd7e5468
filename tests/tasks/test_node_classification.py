"""Node classification: supervision, the loss on any view, validation, and its fingerprint."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.train.toy import small_encoder, small_task
from tuneup.curriculum import full, tails
from tuneup.data import Graph, block_graph, cold_start, split_nodes
from tuneup.errors import InputError
from tuneup.graph import adjacency_from, sparse_features
from tuneup.metrics import average_precision, class_metric, fit_temperatures
from tuneup.tasks import GraphView, Labels, Moment, NodeClassification, PseudoLabels
from tuneup.tasks.base import COLD_SEED

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


def test_which_nodes_get_a_pseudo_label():
    for label_validation in [False, True]:
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


def test_loss_is_the_mean_cross_entropy_on_the_view():
    for view in [full, tails(0.5), tails(0.5, paired=False), tails(0.5, exact=True)]:
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


@pytest.mark.parametrize("architecture", ["sage", "gcn"])
def test_a_batch_computes_dropped_edges_in_its_field_only(architecture):
    """And its loss is that on the whole graph with these edges dropped."""
    data = block_graph(3_000, 6_000, 3, 8, signal=2.0)
    task = NodeClassification(data, torch.arange(600), torch.arange(600, 700), batch_size=5)
    model = small_encoder(dropout=0.0, architecture=architecture)
    view = tails(0.5)(task.graph, MOMENT)
    batch = next(task.batches(task.supervision(), MOMENT))
    found = task.loss(model, view, batch, MOMENT)
    assert "whole" not in vars(view.graph), "no more than the field was read"
    expected = plain_loss(model, data.x, view.graph, batch.nodes, batch.y)
    torch.testing.assert_close(found, expected)


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


def test_a_model_with_too_few_classes_is_named():
    for answer in [lambda x: x[:, :2], lambda x: x[:, 0]]:
        view, supervision = full(TASK.graph, MOMENT), TASK.supervision()
        with pytest.raises(InputError, match="Wrong must answer 3 numbers per node"):
            TASK.loss(Wrong(answer), view, supervision, MOMENT)
        with pytest.raises(InputError, match="Wrong must answer 3 numbers per node"):
            TASK.validate(Wrong(answer))


GRAPH = TASK.data


def test_bad_arguments_are_refused():
    for options, message in [
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
    ]:
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


# Imbalanced classes


RARE = (torch.arange(300) % 17 == 0).long()
BINARY = Graph(GRAPH.adjacency, GRAPH.x, RARE, 2)


def binary_task(**options):
    return NodeClassification(BINARY, TASK.train, TASK.validation, **options)


def test_validation_is_by_the_metric_that_is_named():
    for metric in ["macro-f1", "average-precision", "balanced-accuracy", "auroc"]:
        model = small_encoder().eval()
        y = GRAPH.y[TASK.validation]
        logits = model(GRAPH.x, GRAPH.adjacency)[TASK.validation]
        task = replace(TASK, metric=metric)
        assert task.validate(model) == pytest.approx(class_metric(metric)(logits, y))
        split = split_nodes(300, labelled=0.2)
        assert NodeClassification.from_split(GRAPH, split, metric=metric).metric == metric


def test_the_class_to_find_is_the_rarer_one_of_the_training_labels():
    model = small_encoder(dropout=0.0)
    flipped = 1 - RARE
    flipped[TASK.validation] = RARE[TASK.validation]
    train_1 = binary_task(metric="average-precision")
    data = Graph(GRAPH.adjacency, GRAPH.x, flipped, 2)
    train_0 = NodeClassification(data, TASK.train, TASK.validation, metric="average-precision")
    two = Linear2(model)
    logits, y = two(GRAPH.x, GRAPH.adjacency)[TASK.validation], RARE[TASK.validation]
    for task, positive in ((train_1, 1), (train_0, 0)):
        assert task.validate(two) == pytest.approx(average_precision(logits, y, positive))


class Linear2(nn.Module):
    """Two of a model's three outputs."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, edge_index):
        return self.model(x, edge_index)[:, :2]


def test_a_metric_that_validation_cannot_tell_is_refused():
    alone = TASK.validation[RARE[TASK.validation] == 0]
    for metric in ("average-precision", "auroc"):
        with pytest.raises(InputError, match=f"validation: got .*; {metric} needs"):
            NodeClassification(BINARY, TASK.train, alone, metric=metric)
    NodeClassification(BINARY, TASK.train, alone, metric="macro-f1")
    with pytest.raises(InputError, match="metric: got 'f1'; expected one of accuracy"):
        replace(TASK, metric="f1")


def test_class_weights_weigh_true_and_pseudo_labels():
    model = small_encoder(dropout=0.0)
    weights = torch.tensor([0.5, 1.0, 4.0])
    task = replace(TASK, class_weights=weights)
    labels = task.supervision(task.pseudo_labels(model))
    logits = model(GRAPH.x, GRAPH.adjacency)[labels.nodes].detach()
    each = F.cross_entropy(logits, labels.y, reduction="none")
    own = weights[labels.y]
    expected = float((own * each).sum() / own.sum())
    view = GraphView(TASK.graph)
    assert task.loss(model, view, labels, MOMENT).item() == pytest.approx(expected)
    ones = replace(TASK, class_weights=torch.ones(3))
    torch.testing.assert_close(
        ones.loss(model, view, labels, MOMENT), TASK.loss(model, view, labels, MOMENT)
    )
    assert len({each.digest() for each in (TASK, task, ones)}) == 3


def test_balanced_weights_give_every_class_of_the_training_labels_the_same_total():
    found = binary_task(class_weights="balanced").weights
    count = torch.bincount(RARE[TASK.train], minlength=2)
    assert (found * count).tolist() == pytest.approx([15.0, 15.0])
    absent = torch.where(RARE == 1, 2, 0)  # no node is of class 1
    data = Graph(GRAPH.adjacency, GRAPH.x, absent, 3)
    task = NodeClassification(data, TASK.train, TASK.validation, class_weights="balanced")
    assert task.weights.tolist() == pytest.approx([float(found[0]), 1.0, float(found[1])])


def test_malformed_class_weights_are_refused():
    for weights in [
        "even",
        torch.ones(2),
        torch.tensor([1.0, 0.0, 1.0]),
        torch.tensor([1.0, torch.nan, 1.0]),
    ]:
        with pytest.raises(
            InputError, match=r"class_weights: got .*; expected 'balanced' or 3 numbers"
        ):
            replace(TASK, class_weights=weights)


def test_the_temperature_is_fitted_on_validation_nodes_with_and_without_their_edges():
    model, ratios = small_encoder().eval(), (0.0, 0.3, 0.6, 0.9)
    with torch.no_grad():
        for weights in model.convs[-1].parameters():
            weights.mul_(20)  # too sure of what it does not know
    logits = torch.cat([TASK.validation_logits(model, ratio) for ratio in ratios])
    ids = TASK.graph.global_ids[TASK.validation]
    degree = [
        cold_start(TASK.graph, ids, ratio, COLD_SEED).degree[TASK.validation] for ratio in ratios
    ]
    expected = fit_temperatures(logits, GRAPH.y[TASK.validation].repeat(4), torch.cat(degree))
    assert TASK.temperature(model) == expected
    assert expected.connected > 2
