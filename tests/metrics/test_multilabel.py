"""Measures of nodes with several classes, against loops over nodes and classes and scikit-learn."""

import math

import pytest
import torch
from sklearn import metrics as sklearn
from torch import Tensor

from tuneup.errors import InputError
from tuneup.metrics import MULTI_LABEL_METRICS, node_f1


def drawn(seed: int, classes: int = 5, count: int = 40) -> tuple[Tensor, Tensor]:
    """Logits with ties, and labels of which one class is absent and one is everywhere."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(-3, 4, (count, classes), generator=generator).float()
    y = (torch.rand(count, classes, generator=generator) < 0.3).float()
    y[:, 0], y[:, 1] = 0.0, 1.0
    return logits, y


@pytest.mark.parametrize("seed", range(4))
def test_every_measure_is_that_of_a_loop(seed: int) -> None:
    logits, y = drawn(seed)
    said, true = (logits > 0).tolist(), (y > 0).tolist()
    right = both = 0
    f1s = []
    for c in range(5):
        hits = sum(p[c] and t[c] for p, t in zip(said, true, strict=True))
        size = sum(p[c] for p in said) + sum(t[c] for t in true)
        right, both = right + hits, both + size
        if size:
            f1s.append(2 * hits / size)
    found = {name: measure(logits, y) for name, measure in MULTI_LABEL_METRICS.items()}
    assert found["micro-f1"] == pytest.approx(2 * right / both)
    assert found["macro-f1"] == pytest.approx(sum(f1s) / len(f1s))
    exact = [p == t for p, t in zip(said, true, strict=True)]
    assert found["accuracy"] == pytest.approx(sum(exact) / len(exact))
    nodes = [
        2 * sum(a and b for a, b in zip(p, t, strict=True)) / (sum(p) + sum(t) or 1)
        for p, t in zip(said, true, strict=True)
    ]
    assert node_f1(logits, y).tolist() == pytest.approx(nodes)


@pytest.mark.parametrize("seed", range(4))
def test_every_measure_is_scikit_learns(seed: int) -> None:
    logits, y = drawn(seed)
    said = (logits > 0).numpy()
    found = {name: measure(logits, y) for name, measure in MULTI_LABEL_METRICS.items()}
    mixed = slice(2, 5)  # of the other two every ranking is undefined
    ranked = y[:, mixed].numpy(), logits[:, mixed].numpy()
    assert found == pytest.approx(
        {
            "micro-f1": sklearn.f1_score(y, said, average="micro"),
            "macro-f1": sklearn.f1_score(y, said, average="macro", zero_division=0.0)
            * (1.0 if said[:, 0].any() else 5 / 4),
            "average-precision": sklearn.average_precision_score(*ranked, average="macro"),
            "auroc": sklearn.roc_auc_score(*ranked, average="macro"),
            "accuracy": sklearn.accuracy_score(y, said),
        }
    )


def test_what_is_undefined_or_malformed() -> None:
    logits, y = drawn(0)
    for name in ("average-precision", "auroc"):
        assert math.isnan(MULTI_LABEL_METRICS[name](logits[:, :2], y[:, :2]))
    assert math.isnan(MULTI_LABEL_METRICS["micro-f1"](-torch.ones(3, 2), torch.zeros(3, 2)))
    assert node_f1(-torch.ones(1, 2), torch.zeros(1, 2)).tolist() == [1.0]
    for wrong in ((logits[:, :4], y), (logits, y - 1), (logits * math.nan, y)):
        for measure in MULTI_LABEL_METRICS.values():
            with pytest.raises(InputError):
                measure(*wrong)
