"""Boosted trees: what they can tell apart, the bounds of their work, why none are grown."""

import pytest
import torch

from tuneup.evaluation.floors import boosted
from tuneup.evaluation.floors.boosted import Budget, fit_boosted, why_no_trees
from tuneup.evaluation.floors.logistic import Labelled, fit_logistic
from tuneup.graph import sparse_features


def exclusive_or(seed, rows=400):
    """Class 2 where the signs of two columns differ, else class 0; a third column is noise."""
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed))
    return Labelled(x, 2 * (x[:, 0] * x[:, 1] < 0).long())


TRAIN, VALIDATION, TEST = (exclusive_or(seed) for seed in range(3))
ALL = torch.arange(400)


def accuracy(probabilities):
    return float((probabilities.argmax(1) == TEST.y).double().mean())


def test_trees_tell_apart_what_no_line_can():
    """Sparse rows are as good; classes that never train have probability 0."""
    model = fit_boosted(TRAIN, VALIDATION, 4, seed=0)
    found = model(TEST.x, ALL)
    assert accuracy(found) > 0.9
    assert accuracy(fit_logistic(TRAIN, VALIDATION, 4)[0](TEST.x)) < 0.65
    assert found[:, [1, 3]].eq(0).all()
    torch.testing.assert_close(found.sum(1), torch.ones(400))
    sparse = (Labelled(sparse_features(part.x), part.y) for part in (TRAIN, VALIDATION))
    assert fit_boosted(*sparse, 4, seed=0)(TEST.x, ALL).equal(found)
    # The last answer is remembered for the same nodes with the same features only.
    assert model(TEST.x, ALL) is found
    assert model(TEST.x, ALL.flip(0)).equal(found.flip(0))
    assert not model(VALIDATION.x, ALL.flip(0)).equal(found.flip(0))


def test_validation_rows_decide_when_to_stop():
    wrong = Labelled(VALIDATION.x, 2 - VALIDATION.y)
    rounds = [fit_boosted(TRAIN, part, 4, seed=0).trees.n_iter_ for part in (wrong, VALIDATION)]
    assert rounds[0] < 15 < rounds[1]
    # Rows of classes that never train say nothing.
    strange = Labelled(VALIDATION.x, VALIDATION.y + 1)
    assert fit_boosted(TRAIN, strange, 4, seed=0).trees.n_iter_ == 200


def test_large_training_sets_are_sampled(monkeypatch):
    monkeypatch.setattr(boosted, "_ROWS", (10, 100))
    model = fit_boosted(TRAIN, VALIDATION, 4, seed=0)
    assert model.rows == 100
    assert accuracy(model(TEST.x, ALL)) > 0.8
    assert not fit_boosted(TRAIN, VALIDATION, 4, seed=1)(TEST.x, ALL).equal(model(TEST.x, ALL))


@pytest.mark.parametrize("rows", [30, 3_000, 1_000_000])
@pytest.mark.parametrize("columns", [1, 64, 500])
@pytest.mark.parametrize("classes", [2, 10, 58, 101])
def test_work_is_bounded(rows, columns, classes):
    found = Budget.of(rows, columns, classes)
    if classes == 101 or (classes == 58 and columns == 500 and rows > 30):
        assert found is None
        return
    trees = found.rounds * (classes if classes > 2 else 1)
    assert min(rows, 1_000) <= found.rows <= min(rows, 20_000)
    assert 20 <= found.rounds <= 200
    assert trees <= 2000
    assert (found.rows + 5_000) * columns * trees <= 3e9


def test_reasons_to_grow_none():
    x = torch.zeros(3, 501)
    assert why_no_trees(TRAIN) == ""
    assert "501 columns" in why_no_trees(Labelled(x, torch.arange(3)))
    assert "single class" in why_no_trees(Labelled(x[:, :2], torch.ones(3, dtype=torch.long)))
    many = Labelled(torch.zeros(500, 2), torch.arange(500))
    assert "500 classes" in why_no_trees(many)
