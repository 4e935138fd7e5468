r"""Theorem 1 of the paper, measured: the gaps between cold test and warm training errors.

For nodes A without edges (tested) and nodes B with many (trained on, S of them labelled) the paper
bounds, with probability ``1 - delta`` and for three ways M to train a second stage::

    Delta(M) <= sqrt((8 (d - 1) [M = M1] + 8) ln(16 e |S| / delta) / |S|)
                + [M != M1] Q + [M = M3] tau + G
    G         = sqrt(8 d ln(16 e |B| / delta) / |B|) + sqrt(ln(4 / delta) / (2 |A|))

=====  ==========================  ============================================
M1     without pseudo-labels       Delta = error(A) - dropped error(S)
M2     TuneUp                      Delta = error(A) - dropped pseudo-error(B)
M3     without synthetic tails     Delta = error(A) - pseudo-error(B)
=====  ==========================  ============================================

*Dropped* errors are made on the graph without any edge, *pseudo*-errors are against the true labels
of S and the first stage's answers for the rest of B. ``Q`` is the first stage's error on S, and
``tau`` what M3's model loses on B without edges. The labels of the theorem are binary: with C
classes, each is taken against the rest and the C results are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from tuneup.data import Graph
from tuneup.errors import InputError
from tuneup.graph import DropEdge
from tuneup.nn import Forward
from tuneup.tasks import evaluating

Kind = Literal["M1", "M2", "M3"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""TuneUp without pseudo-labels, TuneUp, and TuneUp without synthetic tails."""


@dataclass(frozen=True)
class Bound:
    """The terms of the bound on ``Delta(M)``.

    Args:
        complexity: the square root with ``|S|``.
        q: the first stage's training error, 0 for M1.
        tau: the error that M3 adds on nodes that lose their edges, 0 for the others.
        g: what vanishes as the graph grows.
    """

    complexity: float
    q: float
    tau: float
    g: float

    @property
    def total(self) -> float:
        """The bound."""
        return self.complexity + self.q + self.tau + self.g

    @property
    def vacuous(self) -> bool:
        """Whether it says nothing: a gap between two error rates is at most 1."""
        return self.total >= 1.0


@dataclass(frozen=True)
class Gap:
    """A measured gap ``Delta(M)`` and its bound."""

    kind: Kind
    test_error: float
    training_error: float
    bound: Bound

    @property
    def delta(self) -> float:
        """Test error of nodes without edges minus training error of nodes with many."""
        return self.test_error - self.training_error


def bound(
    kind: Kind,
    *,
    labelled: int,
    high: int,
    zero: int,
    width: int,
    q: float = 0.0,
    tau: float = 0.0,
    delta: float = 0.05,
) -> Bound:
    """The right-hand side of the theorem.

    Args:
        kind: how the second stage was trained.
        labelled: ``|S|``, the labelled nodes among those with many edges.
        high: ``|B|``, the nodes with many edges.
        zero: ``|A|``, the tested nodes without edges.
        width: ``d``, of the last hidden layer.
        q: training error of the first stage on S.
        tau: mean over B of the error without minus the error with edges.
        delta: the probability with which the bound may fail.
    """
    if kind not in KINDS:
        raise InputError(f"kind: got {kind!r}; expected one of {', '.join(KINDS)}.")
    if not 0 < delta < 1:
        raise InputError(f"delta: got {delta}; expected a probability between 0 and 1.")
    if min(labelled, high, zero, width) < 1:
        raise InputError(
            "labelled, high, zero and width must be 1 or more; got "
            f"{labelled}, {high}, {zero} and {width}."
        )
    rank = width if kind == "M1" else 1
    complexity = math.sqrt(8 * rank * math.log(16 * math.e * labelled / delta) / labelled)
    g = math.sqrt(8 * width * math.log(16 * math.e * high / delta) / high)
    g += math.sqrt(math.log(4 / delta) / (2 * zero))
    return Bound(complexity, 0.0 if kind == "M1" else q, tau if kind == "M3" else 0.0, g)


def measure_gaps(
    first: nn.Module,
    seconds: Mapping[Kind, nn.Module],
    graph: Graph,
    *,
    zero: Tensor,
    high: Tensor,
    labelled: Tensor,
    width: int,
    delta: float = 0.05,
) -> list[Gap]:
    """Gaps and bounds of second stages that went on from one first stage.

    Args:
        first: the model at the end of the first stage.
        seconds: the models of the second stages, by how they were trained.
        graph: of all nodes, with their labels.
        zero: nodes without any edge ``[T]``; they are tested.
        high: nodes with many edges ``[R]``.
        labelled: those of them whose labels were trained on ``[m]``.
        width: of the last hidden layer.
        delta: the probability with which a bound may fail.
    """
    if graph.y is None or graph.multi_label:
        raise InputError("graph: needs one class a node.")
    if bool((graph.adjacency.degree[zero] > 0).any()):
        raise InputError("zero: names a node that has an edge.")
    if not bool(torch.isin(labelled, high).all()):
        raise InputError("labelled: names a node that is not among high.")
    y, classes = graph.y, graph.num_classes
    bare = graph.with_adjacency(DropEdge(1.0)(graph.adjacency))
    before = _answers(first, graph)
    known = torch.isin(high, labelled)
    pseudo = torch.where(known, y[high], before[high])
    q = _error(before[labelled], y[labelled], classes)
    found = []
    for kind, model in seconds.items():
        whole, dropped = _answers(model, graph), _answers(model, bare)
        tested = _error(whole[zero], y[zero], classes)
        if kind == "M1":
            trained = _error(dropped[labelled], y[labelled], classes)
        else:
            trained = _error((dropped if kind == "M2" else whole)[high], pseudo, classes)
        lost = _error(dropped[high], y[high], classes) - _error(whole[high], y[high], classes)
        sizes = {"labelled": len(labelled), "high": len(high), "zero": len(zero)}
        terms = bound(kind, **sizes, width=width, q=q, tau=lost, delta=delta)
        found.append(Gap(kind, tested, trained, terms))
    return found


def _answers(model: nn.Module, graph: Graph) -> Tensor:
    """The most probable class of every node ``[N]``."""
    with evaluating(model):
        logits = Forward(graph.x, graph.adjacency)(model, graph.adjacency)
    return logits[:, : graph.num_classes].argmax(1)


def _error(found: Tensor, y: Tensor, classes: int) -> float:
    """0-1 loss; of more than two classes the mean over each against the rest.

    A wrong answer is wrong for two of the C questions: its own class and the true one.
    """
    wrong = float((found != y).double().mean())
    return wrong if classes == 2 else 2 * wrong / classes
