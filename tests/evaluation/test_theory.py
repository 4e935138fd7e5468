"""Theorem 1, measured: against a naive count, class by class."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from tuneup.data import Graph
from tuneup.errors import InputError
from tuneup.evaluation.theory import KINDS, Kind, bound, measure_gaps
from tuneup.graph import adjacency_from

N, T, R = 60, 20, 40


class ByDegree(nn.Module):
    """Answers from the features where a node has edges, from another table where it has none."""

    takes_adjacency = True

    def __init__(self, warm: Tensor, cold: Tensor) -> None:
        super().__init__()
        self.warm, self.cold = warm, cold

    def forward(self, x: Tensor, graph) -> Tensor:
        has_edge = (graph.degree > 0)[:, None]
        return torch.where(has_edge, self.warm[: len(x)], self.cold[: len(x)])


def toy(classes: int, seed: int = 0) -> tuple[Graph, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    high = torch.arange(T, N)
    edges = torch.combinations(high).t()
    graph = Graph(
        adjacency_from(edges, N, undirected=True),
        torch.randn(N, 4, generator=generator),
        torch.randint(0, classes, (N,), generator=generator),
        classes,
        "toy",
    )
    return graph, torch.arange(T), high, high[::3]


def naive(wrong_of: Tensor, y: Tensor, classes: int) -> float:
    """Each class against the rest, node by node."""
    kinds = [1] if classes == 2 else range(classes)
    losses = [
        sum((int(a) == c) != (int(b) == c) for a, b in zip(wrong_of, y, strict=True)) / len(y)
        for c in kinds
    ]
    return sum(losses) / len(losses)


@pytest.mark.parametrize("classes", [2, 5])
def test_gaps_equal_a_naive_count(classes: int) -> None:
    graph, zero, high, labelled = toy(classes)
    generator = torch.Generator().manual_seed(1)
    tables = torch.randn(2, 2, N, classes, generator=generator)
    first, second = ByDegree(*tables[0]), ByDegree(*tables[1])
    seconds: dict[Kind, nn.Module] = dict.fromkeys(KINDS, second)
    gaps = measure_gaps(
        first, seconds, graph, zero=zero, high=high, labelled=labelled, width=8, delta=0.1
    )
    y = graph.y
    assert y is not None
    warm, cold, before = tables[1][0].argmax(1), tables[1][1].argmax(1), tables[0][0].argmax(1)
    pseudo = y.clone()
    unlabelled = [int(v) for v in high if v not in labelled]
    pseudo[unlabelled] = before[unlabelled]
    q = naive(before[labelled], y[labelled], classes)
    tau = naive(cold[high], y[high], classes) - naive(warm[high], y[high], classes)
    trained = {
        "M1": naive(cold[labelled], y[labelled], classes),
        "M2": naive(cold[high], pseudo[high], classes),
        "M3": naive(warm[high], pseudo[high], classes),
    }
    for gap in gaps:
        expected = naive(cold[zero], y[zero], classes) - trained[gap.kind]
        assert gap.delta == pytest.approx(expected)
        assert gap.bound.q == pytest.approx(0 if gap.kind == "M1" else q)
        assert gap.bound.tau == pytest.approx(tau if gap.kind == "M3" else 0)


def test_the_bound_is_the_formula_of_the_paper() -> None:
    m, high, zero, d, delta = 500, 4000, 300, 16, 0.05
    g = math.sqrt(8 * d * math.log(16 * math.e * high / delta) / high)
    g += math.sqrt(math.log(4 / delta) / (2 * zero))
    log = math.log(16 * math.e * m / delta)
    sizes = {"labelled": m, "high": high, "zero": zero, "width": d, "delta": delta}
    by_hand = {
        "M1": math.sqrt((8 * (d - 1) * log + 8 * log) / m) + g,
        "M2": math.sqrt(8 * log / m) + 0.1 + g,
        "M3": math.sqrt(8 * log / m) + 0.1 + 0.2 + g,
    }
    for kind in KINDS:
        assert bound(kind, **sizes, q=0.1, tau=0.2).total == pytest.approx(by_hand[kind])
    assert bound("M1", **sizes).vacuous
    assert not bound("M2", labelled=10**5, high=10**7, zero=10**5, width=d).vacuous


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"zero": torch.tensor([T])}, "zero: names a node that has an edge"),
        ({"labelled": torch.tensor([0])}, "labelled: names a node that is not among high"),
        ({"delta": 0.0}, "delta: got 0.0"),
        ({"width": 0}, "must be 1 or more"),
    ],
)
def test_bad_input_is_refused(change: dict[str, object], words: str) -> None:
    graph, zero, high, labelled = toy(2)
    model = ByDegree(torch.randn(N, 2), torch.randn(N, 2))
    given = {"zero": zero, "high": high, "labelled": labelled, "width": 4} | change
    with pytest.raises(InputError, match=words):
        measure_gaps(model, {"M2": model}, graph, **given)  # type: ignore[arg-type]
