"""Simple classifiers: scikit-learn's optimum, the bounds of trees, two-hop means by loops."""

import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression

from tuneup.data import Graph, block_graph
from tuneup.evaluation.floors import classifiers
from tuneup.evaluation.floors.classifiers import (
    STRENGTHS,
    Budget,
    Labelled,
    Linear,
    TwoHop,
    fit_boosted,
    fit_logistic,
    why_no_trees,
)
from tuneup.graph import adjacency_from, sparse_features
from tuneup.graph.features import dense

# Logistic regression


def problem(seed, rows=120, scale=1.0):
    """Three overlapping classes; half of the features are zero."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (rows,), generator=generator)
    x = torch.randn(rows, 6, generator=generator) + F.one_hot(y, 6)
    return Labelled(scale * x * (torch.rand(rows, 6, generator=generator) < 0.5), y)


TRAIN, VALIDATION = problem(0), problem(1)


@pytest.mark.parametrize(("strength", "scale"), [(0.3, 1e3), (100.0, 1.0)])
def test_the_optimum_is_that_of_scikit_learn(monkeypatch, strength, scale):
    """Whatever the scale of the features: rows are scaled to a mean squared norm of 1."""
    monkeypatch.setattr(classifiers, "STRENGTHS", (strength,))
    train, validation = problem(0, scale=scale), problem(1, scale=scale)
    model, found = fit_logistic(train, validation, 3)
    assert found == strength
    norm = math.sqrt(float(train.x.square().sum(1).mean()))
    theirs = LogisticRegression(C=strength, tol=1e-8, max_iter=1000)
    theirs.fit(train.x.numpy() / norm, train.y.numpy())
    expected = torch.from_numpy(theirs.predict_proba(validation.x.numpy() / norm)).float()
    torch.testing.assert_close(model(validation.x).softmax(1), expected, atol=5e-3, rtol=0)


def test_sparse_rows_give_the_same_model():
    parts = [Labelled(sparse_features(part.x), part.y) for part in (TRAIN, VALIDATION)]
    dense, sparse = fit_logistic(TRAIN, VALIDATION, 3), fit_logistic(*parts, 3)
    assert dense[1] == sparse[1]
    torch.testing.assert_close(dense[0].weight, sparse[0].weight, atol=1e-3, rtol=1e-3)


def test_the_strength_validates_best(monkeypatch):
    """By accuracy, and of equally accurate models by cross-entropy."""
    correct = {}
    for strength in STRENGTHS:
        monkeypatch.setattr(classifiers, "STRENGTHS", (strength,))
        logits = fit_logistic(TRAIN, VALIDATION, 3)[0](VALIDATION.x)
        correct[strength] = int((logits.argmax(1) == VALIDATION.y).sum())
    monkeypatch.undo()
    _, found = fit_logistic(TRAIN, VALIDATION, 3)
    assert correct[found] >= max(correct.values()) - 1
    assert len(set(correct.values())) > 1
    easy = Labelled(F.one_hot(TRAIN.y, 3).float(), TRAIN.y)
    assert fit_logistic(easy, easy, 3)[1] == STRENGTHS[-1]
    assert fit_logistic(easy, Labelled(easy.x, (easy.y + 1) % 3), 3)[1] == STRENGTHS[0]


def test_a_class_that_never_trains_is_never_predicted():
    model, _ = fit_logistic(TRAIN, VALIDATION, 5)
    assert set(model(VALIDATION.x).argmax(1).tolist()) <= {0, 1, 2}


# Boosted trees


def exclusive_or(seed, rows=400):
    """Class 2 where the signs of two columns differ, else class 0; a third column is noise."""
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed))
    return Labelled(x, 2 * (x[:, 0] * x[:, 1] < 0).long())


APART, CHECK, TEST = (exclusive_or(seed) for seed in range(3))
ALL = torch.arange(400)


def accuracy(probabilities):
    return float((probabilities.argmax(1) == TEST.y).double().mean())


def test_trees_tell_apart_what_no_line_can():
    """Sparse rows are as good; classes that never train have probability 0."""
    model = fit_boosted(APART, CHECK, 4, seed=0)
    found = model(TEST.x, ALL)
    assert accuracy(found) > 0.9
    assert accuracy(fit_logistic(APART, CHECK, 4)[0](TEST.x)) < 0.65
    assert found[:, [1, 3]].eq(0).all()
    torch.testing.assert_close(found.sum(1), torch.ones(400))
    sparse = (Labelled(sparse_features(part.x), part.y) for part in (APART, CHECK))
    assert fit_boosted(*sparse, 4, seed=0)(TEST.x, ALL).equal(found)
    # The last answer is remembered for the same nodes with the same features only.
    assert model(TEST.x, ALL) is found
    assert model(TEST.x, ALL.flip(0)).equal(found.flip(0))
    assert not model(CHECK.x, ALL.flip(0)).equal(found.flip(0))


def test_validation_rows_decide_when_to_stop():
    wrong = Labelled(CHECK.x, 2 - CHECK.y)
    rounds = [fit_boosted(APART, part, 4, seed=0).trees.n_iter_ for part in (wrong, CHECK)]
    assert rounds[0] < 15 < rounds[1]
    # Rows of classes that never train say nothing.
    strange = Labelled(CHECK.x, CHECK.y + 1)
    assert fit_boosted(APART, strange, 4, seed=0).trees.n_iter_ == 200


def test_large_training_sets_are_sampled(monkeypatch):
    monkeypatch.setattr(classifiers, "_ROWS", (10, 100))
    model = fit_boosted(APART, CHECK, 4, seed=0)
    assert model.rows == 100
    assert accuracy(model(TEST.x, ALL)) > 0.8
    assert not fit_boosted(APART, CHECK, 4, seed=1)(TEST.x, ALL).equal(model(TEST.x, ALL))


def test_work_is_bounded():
    for rows, columns, classes in product((30, 3_000, 1_000_000), (1, 64, 500), (2, 10, 58, 101)):
        found = Budget.of(rows, columns, classes)
        if classes == 101 or (classes == 58 and columns == 500 and rows > 30):
            assert found is None
            continue
        trees = found.rounds * (classes if classes > 2 else 1)
        assert min(rows, 1_000) <= found.rows <= min(rows, 20_000)
        assert 20 <= found.rounds <= 200
        assert trees <= 2000
        assert (found.rows + 5_000) * columns * trees <= 3e9


def test_reasons_to_grow_none():
    x = torch.zeros(3, 501)
    assert why_no_trees(APART) == ""
    assert "501 columns" in why_no_trees(Labelled(x, torch.arange(3)))
    assert "single class" in why_no_trees(Labelled(x[:, :2], torch.ones(3, dtype=torch.long)))
    many = Labelled(torch.zeros(500, 2), torch.arange(500))
    assert "500 classes" in why_no_trees(many)


# Two-hop inputs

BLOCKS = block_graph(60, 90, 3, 4, seed=2)
NODES = torch.tensor([7, 0, 33, 59])


def wide(seed=0):
    """Sparse rows over 600 columns."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(60, 600, generator=generator)
    return Graph(BLOCKS.adjacency, sparse_features(x * (x > 0.95)))


def directed():
    ends = torch.randint(0, 60, (2, 150), generator=torch.Generator().manual_seed(1))
    return Graph(adjacency_from(ends, 60, undirected=False), BLOCKS.x)


def naive(data, x):
    """Features, the mean over senders, the mean over their senders' means, log(1 + degree)."""
    senders = [[] for _ in range(data.num_nodes)]
    for u, v in data.adjacency.edge_index.t().tolist():
        senders[v].append(u)

    def mean(rows):
        zero = torch.zeros(x.shape[1])
        return torch.stack(
            [sum((rows[u] for u in near), zero) / max(1, len(near)) for near in senders]
        )

    one = mean(x)
    degree = torch.tensor([[math.log1p(len(near))] for near in senders])
    return torch.cat([x, one, mean(one), degree], 1)


@pytest.mark.parametrize("make", [lambda: BLOCKS, directed, wide])
def test_rows_and_logits(make):
    data = make()
    assert data is not BLOCKS or bool((data.adjacency.degree == 0).any())
    inputs = TwoHop.on(data.x, seed=0)
    x = dense(data.x)
    expected = naive(data, x if inputs.basis is None else x @ inputs.basis)[NODES]
    rows = inputs.rows(data, NODES)
    torch.testing.assert_close(rows, expected, atol=1e-5, rtol=1e-5)
    generator = torch.Generator().manual_seed(0)
    model = Linear(
        torch.randn(rows.shape[1], 3, generator=generator), torch.randn(3, generator=generator)
    )
    torch.testing.assert_close(inputs.logits(model, data, NODES), model(rows), atol=1e-4, rtol=1e-4)


def test_the_basis_is_orthonormal_and_close_to_the_principal_directions():
    """Of 60 rows it holds all there is; narrow features need none."""
    x = wide().x
    basis = TwoHop.on(x, seed=0).basis
    torch.testing.assert_close(basis.T @ basis, torch.eye(256), atol=1e-4, rtol=0)
    torch.testing.assert_close(dense(x) @ basis @ basis.T, dense(x), atol=1e-4, rtol=0)
    assert torch.equal(basis, TwoHop.on(x, seed=0).basis)
    assert TwoHop.on(BLOCKS.x, seed=0).basis is None
