"""Logistic regression: scikit-learn's optimum, dense and sparse rows, and how C is chosen."""

import math

import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression

from tuneup.evaluation.floors import logistic
from tuneup.evaluation.floors.logistic import STRENGTHS, Labelled, fit_logistic
from tuneup.graph import sparse_features


def problem(seed, rows=120, scale=1.0):
    """Three overlapping classes; half of the features are zero."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (rows,), generator=generator)
    x = torch.randn(rows, 6, generator=generator) + F.one_hot(y, 6)
    return Labelled(scale * x * (torch.rand(rows, 6, generator=generator) < 0.5), y)


TRAIN, VALIDATION = problem(0), problem(1)


@pytest.mark.parametrize("strength", [0.3, 100.0])
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_the_optimum_is_that_of_scikit_learn(monkeypatch, strength, scale):
    """Whatever the scale of the features: rows are scaled to a mean squared norm of 1."""
    monkeypatch.setattr(logistic, "STRENGTHS", (strength,))
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
        monkeypatch.setattr(logistic, "STRENGTHS", (strength,))
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
