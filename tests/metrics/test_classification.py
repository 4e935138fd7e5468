"""Measures of a classifier, against loops over nodes, classes and pairs."""

import math

import pytest
import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.metrics.classification import (
    CLASS_METRICS,
    average_precision,
    balanced_accuracy,
    class_metric,
    confusion,
    log_loss,
    metric_for,
    rarer_class,
)


def drawn(seed: int, classes: int, count: int = 60) -> tuple[Tensor, Tensor]:
    """Logits with many ties, and labels among which a class may be missing."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(-3, 3, (count, classes), generator=generator).float()
    share = torch.tensor([8.0, 2.0, 1.0, 0.1][:classes])
    return logits, torch.multinomial(share, count, replacement=True, generator=generator)


def odds(row: list[float], one: int) -> float:
    """A number that grows with the probability of a class, as a loop would compute it."""
    rest = sum(math.exp(value) for c, value in enumerate(row) if c != one)
    return round(row[one] - math.log(rest), 9)


def naive_average_precision(scores: list[float], hits: list[bool]) -> float:
    found, last = 0.0, 0.0
    for threshold in sorted(set(scores), reverse=True):
        chosen = [hit for score, hit in zip(scores, hits, strict=True) if score >= threshold]
        recall = sum(chosen) / sum(hits)
        found += (recall - last) * sum(chosen) / len(chosen)
        last = recall
    return found


def naive_auroc(scores: list[float], hits: list[bool]) -> float:
    pairs = [
        (a > b) + (a == b) / 2
        for a, own in zip(scores, hits, strict=True)
        for b, other in zip(scores, hits, strict=True)
        if own and not other
    ]
    return sum(pairs) / len(pairs)


def naive_ranked(measure, logits: Tensor, y: Tensor) -> float:
    labels = y.tolist()
    if logits.shape[1] == 2:
        wanted = [1 if labels.count(1) <= labels.count(0) else 0]
    else:
        wanted = sorted(set(labels))
    found = []
    for one in wanted:
        scores = [odds(row, one) for row in logits.tolist()]
        found.append(measure(scores, [label == one for label in labels]))
    return sum(found) / len(found)


def naive_confused(logits: Tensor, y: Tensor) -> dict[str, float]:
    classes = range(logits.shape[1])
    predicted = [max(classes, key=lambda c: row[c]) for row in logits.tolist()]
    pairs = list(zip(y.tolist(), predicted, strict=True))
    recalls, f1s = [], []
    for c in classes:
        right = sum(pair == (c, c) for pair in pairs)
        true, said = (sum(pair[k] == c for pair in pairs) for k in (0, 1))
        if true:
            recalls.append(right / true)
        if true + said:
            f1s.append(2 * right / (true + said))
    return {
        "accuracy": sum(t == p for t, p in pairs) / len(pairs),
        "balanced-accuracy": sum(recalls) / len(recalls),
        "macro-f1": sum(f1s) / len(f1s),
    }


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("seed", range(6))
def test_measures_equal_their_loops(seed, classes):
    logits, y = drawn(seed, classes)
    expected = {
        **naive_confused(logits, y),
        "average-precision": naive_ranked(naive_average_precision, logits, y),
        "auroc": naive_ranked(naive_auroc, logits, y),
    }
    assert set(expected) == set(CLASS_METRICS)
    for name, value in expected.items():
        for given in (logits, logits.double().log_softmax(1), logits + 5):  # one distribution
            assert class_metric(name)(given, y) == pytest.approx(value, abs=1e-6), name
    table = confusion(logits.argmax(1), y, classes)
    assert table.sum() == 60
    assert table.sum(1).tolist() == torch.bincount(y, minlength=classes).tolist()
    losses = [-math.log(row[label]) for row, label in zip(logits.softmax(1), y, strict=True)]
    assert log_loss(logits, y) == pytest.approx(sum(losses) / 60, abs=1e-5)


def test_of_two_classes_the_rarer_one_is_to_be_found_unless_it_is_named():
    logits, y = drawn(0, 2)
    assert rarer_class(y) == 1
    assert rarer_class(1 - y) == 0
    assert rarer_class(torch.tensor([0, 1])) == 1
    swapped = average_precision(logits.flip(1), 1 - y)
    assert swapped == average_precision(logits, y) == average_precision(logits, y, 1)
    assert average_precision(logits, y, 0) > average_precision(logits, y, 1)


def test_sure_answers_are_still_ranked():
    """Probabilities of float32 are 1 for all of these; the order must not be lost."""
    margin = torch.tensor([40.0, 60.0, 50.0, -10.0])
    logits, y = torch.stack([-margin, margin], 1), torch.tensor([0, 1, 1, 0])
    assert CLASS_METRICS["average-precision"](logits, y) == 1.0
    assert CLASS_METRICS["auroc"](logits, y) == 1.0


def test_what_labels_leave_undefined_is_nan():
    none, one = torch.zeros(0, 2), torch.zeros(3, 2)
    for name, measure in CLASS_METRICS.items():
        assert math.isnan(measure(none, torch.zeros(0, dtype=torch.long))), name
    zeros = torch.zeros(3, dtype=torch.long)
    assert math.isnan(class_metric("auroc", positive=1)(one, zeros))
    assert math.isnan(class_metric("average-precision", positive=1)(one, zeros))
    assert balanced_accuracy(one, zeros) == 1.0


def test_unknown_measures_and_labels_are_refused():
    with pytest.raises(InputError, match="got 'f1'; expected one of accuracy, macro-f1"):
        class_metric("f1")
    for measure in (*CLASS_METRICS.values(), log_loss):
        with pytest.raises(InputError, match="labelled nodes only"):
            measure(torch.zeros(1, 2), torch.tensor([-1]))


@pytest.mark.parametrize(
    ("counts", "name"),
    [
        ([97, 3], "average-precision"),
        ([3, 97], "average-precision"),
        ([0, 19, 81], "average-precision"),  # a class without a label is none
        ([79, 21], "accuracy"),
        ([50, 50], "accuracy"),
        ([100], "accuracy"),
        ([90, 5, 5], "macro-f1"),
        ([60, 20, 20], "accuracy"),
        ([45, 25, 19, 11], "accuracy"),  # the citation graph dblp
    ],
)
def test_the_score_that_suits_the_labels(counts, name):
    y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    found, why = metric_for(y)
    assert found == name
    assert f"{min(c for c in counts if c)} % of the training labels" in why
