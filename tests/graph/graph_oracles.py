"""What the graph package should compute, as loops that a reader can check by eye.

A graph is here a list of neighbour lists: ``senders[i]`` are the nodes that ``i`` receives from,
ascending.  Nothing below reads a CSR array, so nothing below can share a mistake with the kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from tuneup.graph import Adjacency, adjacency_from, receptive_field

Edges = set[tuple[int, int]]
"""Directed pairs (sender, receiver)."""

SCALINGS = ("sum", "mean", "gcn")
PRODUCTS = (*SCALINGS, "max", "attend", "attend without self-loops")

quick = settings(deadline=None, max_examples=40, derandomize=True)
"""Property tests are the same in every run: a failure is never a matter of luck."""


# ---------------------------------------------------------------------------------------- graphs


def random_edges(num_nodes: int, num_edges: int, seed: int, *, undirected: bool) -> Edges:
    """Distinct random edges without self-loops; both directions if undirected."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(num_nodes, (num_edges, 2), generator=generator).tolist()
    edges = {(u, v) for u, v in pairs if u != v}
    return edges | {(v, u) for u, v in edges} if undirected else edges


def tensor_of(edges: Edges) -> Tensor:
    """An ``edge_index`` of a set of edges."""
    return torch.tensor(sorted(edges), dtype=torch.long).reshape(-1, 2).t()


def edges_of(graph: Adjacency) -> Edges:
    """The edges of a square adjacency, read from its row pointer by hand, in *global* ids."""
    pointer, col = graph.rowptr.tolist(), graph.col.tolist()
    ids = graph.ids.tolist() if graph.ids is not None else list(range(graph.num_cols))
    return {
        (ids[col[k]], ids[i])
        for i in range(graph.num_rows)
        for k in range(pointer[i], pointer[i + 1])
    }


def columns(edge_index: Tensor) -> Edges:
    """The pairs that an ``edge_index`` lists."""
    return {tuple(pair) for pair in edge_index.t().tolist()}


def senders_of(edges: Edges, num_nodes: int) -> list[list[int]]:
    """Neighbour lists, ascending."""
    return [sorted(u for u, v in edges if v == i) for i in range(num_nodes)]


@dataclass
class Case:
    """An adjacency, and the same thing as lists."""

    graph: Adjacency
    senders: list[list[int]]
    degree: list[int]
    """in-degree of every sender in the whole graph"""


def case_of(edges: Edges, num_nodes: int, *, undirected: bool) -> Case:
    senders = senders_of(edges, num_nodes)
    graph = adjacency_from(tensor_of(edges), num_nodes, undirected=undirected)
    return Case(graph, senders, [len(s) for s in senders])


def block_of(edges: Edges, num_nodes: int, rows: list[int], *, undirected: bool) -> Case:
    """The rectangular block of ``rows``: its senders are numbered in the field's own order."""
    whole = case_of(edges, num_nodes, undirected=undirected)
    field = receptive_field(whole.graph.neighbours, torch.tensor(rows, dtype=torch.long), 1)
    nodes = field.nodes.tolist()
    senders = [[nodes.index(j) for j in whole.senders[i]] for i in rows]
    return Case(field.blocks[0], senders, [whole.degree[i] for i in nodes])


def cases() -> dict[str, Case]:
    """Every shape that a kernel can meet.  Nodes 20 and up of the random graphs are isolated."""
    mutual = random_edges(20, 45, seed=1, undirected=True)
    oneway = random_edges(20, 60, seed=2, undirected=False)
    rows = [13, 2, 21, 7, 0]
    return {
        "undirected": case_of(mutual, 23, undirected=True),
        "directed": case_of(oneway, 23, undirected=False),
        "block of undirected": block_of(mutual, 23, rows, undirected=True),
        "block of directed": block_of(oneway, 23, rows, undirected=False),
        "star": case_of({(0, i) for i in range(1, 9)} | {(i, 0) for i in range(1, 9)}, 9,
                        undirected=True),
        "one way star": case_of({(i, 0) for i in range(1, 9)}, 9, undirected=False),
        "no edges": case_of(set(), 4, undirected=True),
        "no edges, directed": case_of(set(), 4, undirected=False),
        "one node": case_of(set(), 1, undirected=True),
        "no nodes": case_of(set(), 0, undirected=True),
        "no nodes, directed": case_of(set(), 0, undirected=False),
        "block without entries": block_of(mutual, 23, [21, 22], undirected=True),
        "block without rows": block_of(mutual, 23, [], undirected=True),
    }  # fmt: skip


def tiny_cases() -> dict[str, Case]:
    """Six nodes, the last one isolated: small enough to perturb every number."""
    mutual = random_edges(5, 6, seed=3, undirected=True)
    oneway = random_edges(5, 9, seed=4, undirected=False)
    return {
        "undirected": case_of(mutual, 6, undirected=True),
        "directed": case_of(oneway, 6, undirected=False),
        "block": block_of(oneway, 6, [4, 5, 0], undirected=False),
        "no edges": case_of(set(), 2, undirected=True),
    }


CASES = cases()
TINY_CASES = tiny_cases()


def for_every(cases: dict[str, Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test's argument ``case`` through all of these in one test; a failure names its case."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(**others: object) -> None:
            for name, case in cases.items():
                try:
                    test(case=case, **others)
                except BaseException as error:
                    error.add_note(f"in the case {name!r}")
                    raise

        of_test = signature(test)
        kept = [each for name, each in of_test.parameters.items() if name != "case"]
        run.__signature__ = of_test.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate


every_case, every_tiny_case = for_every(CASES), for_every(TINY_CASES)


@st.composite
def edge_lists(draw: st.DrawFn, max_nodes: int = 12) -> tuple[int, list[tuple[int, int]]]:
    """A node count and any list of pairs: repeated, reversed and looping ones included."""
    num_nodes = draw(st.integers(0, max_nodes))
    node = st.integers(0, max(0, num_nodes - 1))
    pairs = draw(st.lists(st.tuples(node, node), max_size=40)) if num_nodes else []
    return num_nodes, pairs


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 12, undirected: bool | None = None) -> Adjacency:
    """Any small graph, isolated nodes included."""
    num_nodes, pairs = draw(edge_lists(max_nodes))
    if undirected is None:
        undirected = draw(st.booleans())
    edge_index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
    return adjacency_from(edge_index, num_nodes, undirected=undirected)


# -------------------------------------------------------------------------------------- products


def naive_weight(case: Case, scaling: str, i: int, j: int) -> float:
    """The weight of the message from ``j`` to ``i``."""
    if scaling == "sum":
        return 1.0
    if scaling == "mean":
        return 1.0 / len(case.senders[i])
    return ((case.degree[i] + 1) * (case.degree[j] + 1)) ** -0.5


def naive_propagate(case: Case, scaling: str, x: Tensor) -> Tensor:
    out = x.new_zeros(len(case.senders), x.shape[1])
    for i, senders in enumerate(case.senders):
        for j in senders:
            out[i] += naive_weight(case, scaling, i, j) * x[j]
        if scaling == "gcn":
            out[i] += naive_weight(case, scaling, i, i) * x[i]
    return out


def naive_propagate_grad(case: Case, scaling: str, grad: Tensor) -> Tensor:
    """Every message sends its gradient back along the edge it came by."""
    grad_x = grad.new_zeros(len(case.degree), grad.shape[1])
    for i, senders in enumerate(case.senders):
        for j in senders:
            grad_x[j] += naive_weight(case, scaling, i, j) * grad[i]
        if scaling == "gcn":
            grad_x[i] += naive_weight(case, scaling, i, i) * grad[i]
    return grad_x


def naive_max(case: Case, x: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Largest neighbour value, and the gradient: all of it to the first neighbour that has it."""
    out = x.new_zeros(len(case.senders), x.shape[1])
    grad_x = torch.zeros_like(x)
    for i, senders in enumerate(case.senders):
        for c in range(x.shape[1]):
            winner = None
            for j in senders:
                if winner is None or x[j, c] > x[winner, c]:
                    winner = j
            if winner is not None:
                out[i, c] = x[winner, c]
                grad_x[winner, c] += grad[i, c]
    return out, grad_x


def naive_attend(
    case: Case, a: Tensor, b: Tensor, x: Tensor, slope: float, self_loops: bool
) -> Tensor:
    """Attention by its definition; autograd through this loop is the oracle of the gradients."""
    rows = []
    for i, senders in enumerate(case.senders):
        senders = [*senders, i] if self_loops else senders
        heads = []
        for h in range(x.shape[1]):
            out = 0.0 * x.sum((0, 1)) + 0.0 * (a.sum() + b.sum())  # zero, but part of the graph
            if senders:
                logits = torch.stack([a[j, h] + b[i, h] for j in senders])
                logits = torch.where(logits > 0, logits, slope * logits)
                weights = logits.exp() / logits.exp().sum()
                out = out + sum(w * x[j, h] for w, j in zip(weights, senders, strict=True))
            heads.append(out)
        rows.append(torch.stack(heads))
    return torch.stack(rows) if rows else x.new_zeros(0, *x.shape[1:])


# ------------------------------------------------------------------------ any product of a graph


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def product(graph: Adjacency, name: str, x: Tensor) -> Tensor:
    """One aggregation ``[C, 4] -> [R, 4]`` by name, so that a test can run through all of them."""
    if name in SCALINGS:
        return graph.matrix(name) @ x
    if name == "max":
        return graph.max(x)
    heads = x.reshape(-1, 2, 2)
    a, b = heads.sum(2), heads.prod(2)[: graph.num_rows]
    self_loops = name == "attend"
    return graph.attend(a, b, heads, self_loops=self_loops).reshape(-1, 4)


def value_and_grad(graph: Adjacency, name: str, x: Tensor) -> tuple[Tensor, Tensor]:
    """A product and the gradient of a fixed random projection of it."""
    x = x.clone().requires_grad_()
    out = product(graph, name, x)
    (grad,) = torch.autograd.grad((out * randn(*out.shape, seed=9).to(out)).sum(), x)
    return out.detach(), grad
