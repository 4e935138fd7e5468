"""Sums, means, GCN sums and maxima: values and gradients against loops, on every kind of graph."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from graph_oracles import (
    CASES,
    PRODUCTS,
    SCALINGS,
    every_case,
    every_tiny_case,
    naive_max,
    naive_propagate,
    naive_propagate_grad,
    product,
    randn,
    value_and_grad,
)
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck
from torch.profiler import ProfilerActivity, profile
from torch.testing import assert_close

from tuneup.errors import InputError
from tuneup.graph import Adjacency, SparseMatrix, adjacency_from
from tuneup.graph.kernels import csr_reduce, first_winner, reduce_by_segments, spmax, spmm

# Weights are kept in float32: a float64 product agrees with its loop to float32's precision.
near = {"rtol": 1e-6, "atol": 1e-6}


# ------------------------------------------------------------------------------- sum, mean, gcn


@every_case
@pytest.mark.parametrize("scaling", SCALINGS)
def test_propagation_equals_the_loop(case, scaling):
    x = randn(len(case.degree), 5).requires_grad_()
    out = case.graph.matrix(scaling) @ x
    assert_close(out, naive_propagate(case, scaling, x), **near)
    grad = randn(*out.shape, seed=1)
    out.backward(grad)
    assert_close(x.grad, naive_propagate_grad(case, scaling, grad), **near)


@every_tiny_case
@pytest.mark.parametrize("scaling", SCALINGS)
def test_propagation_passes_gradcheck_twice(case, scaling):
    x = randn(len(case.degree), 2).requires_grad_()
    assert gradcheck(lambda x: case.graph.matrix(scaling) @ x, (x,))
    assert gradgradcheck(lambda x: case.graph.matrix(scaling) @ x, (x,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", PRODUCTS)
def test_the_result_has_the_dtype_of_x(dtype, name):
    graph = CASES["undirected"].graph
    out, grad = value_and_grad(graph, name, randn(23, 4).to(dtype))
    assert out.dtype == grad.dtype == dtype
    reference, reference_grad = value_and_grad(graph, name, randn(23, 4))
    assert_close(out.double(), reference, rtol=1e-5, atol=1e-5)
    assert_close(grad.double(), reference_grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PRODUCTS)
def test_strided_inputs_and_expanded_gradients_give_the_same(name):
    graph, x = CASES["directed"].graph, randn(23, 4)
    strided = randn(4, 23).t().copy_(x).requires_grad_()
    assert not strided.is_contiguous()
    plain = x.clone().requires_grad_()
    product(graph, name, strided).sum().backward()  # the gradient of sum() is an expanded scalar
    out = product(graph, name, plain)
    out.backward(torch.ones_like(out))
    assert_close(strided.grad, plain.grad)


def test_a_sparse_matrix_of_any_values_is_its_dense_self():
    dense = randn(7, 5) * (randn(7, 5, seed=1) > 0)
    dense[3] = 0
    sparse = dense.to_sparse_csr()
    matrix = SparseMatrix(sparse.crow_indices(), sparse.col_indices(), sparse.values(), 5)
    assert matrix.shape == (7, 5)
    x = randn(5, 3).requires_grad_()
    (matrix @ x).backward(randn(7, 3, seed=2))
    assert_close(matrix @ x, dense @ x)
    assert_close(x.grad, dense.t() @ randn(7, 3, seed=2))

    rows = torch.tensor([6, 3, 0, 6])
    assert matrix.take_rows(rows).shape == (4, 5)
    assert_close(matrix.take_rows(rows) @ x, dense[rows] @ x)
    assert_close(matrix.take_rows(rows[:0]) @ x, dense[:0] @ x)


def test_nbytes_counts_the_transpose_too():
    block = CASES["block of directed"].graph
    pointers = 8 * (block.num_rows + 1 + block.num_cols + 1)
    assert block.matrix("sum").nbytes == pointers + 2 * (8 + 4) * block.num_entries


@every_case
@pytest.mark.parametrize("scaling", SCALINGS)
def test_prediction_makes_no_transpose_and_has_the_same_bits(case, scaling, monkeypatch):
    whole, x = case.graph, randn(len(case.degree), 3)
    expected = (whole.matrix(scaling) @ x.requires_grad_()).detach()
    bare = Adjacency(whole.rowptr, whole.col, whole.num_cols, False, degrees=whole.degree)
    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr("tuneup.graph.csr.transpose", lambda *_: pytest.fail("sorted"))
        assert torch.equal(bare.matrix(scaling) @ x, expected)


# ------------------------------------------------------------------------------------------- max


@every_case
def test_max_equals_the_loop(case):
    x = randn(len(case.degree), 5).requires_grad_()
    out = case.graph.max(x)
    grad = randn(*out.shape, seed=1)
    out.backward(grad)
    expected, expected_grad = naive_max(case, x.detach(), grad)
    assert_close(out.detach(), expected)
    assert_close(x.grad, expected_grad)


@every_case
def test_max_gives_the_whole_gradient_to_the_first_of_tied_neighbours(case):
    x = randn(len(case.degree), 6).sign().requires_grad_()  # nearly everything is tied
    out = case.graph.max(x)
    grad = randn(*out.shape, seed=1)
    out.backward(grad)
    expected, expected_grad = naive_max(case, x.detach(), grad)
    assert_close(out.detach(), expected)
    assert_close(x.grad, expected_grad)


def test_max_of_tied_neighbours_by_hand():
    graph = adjacency_from(torch.tensor([[1, 2, 3], [0, 0, 0]]), 5, undirected=False)
    x = torch.tensor([[9.0], [2.0], [5.0], [5.0], [7.0]], requires_grad=True)
    graph.max(x).sum().backward()
    assert graph.max(x).flatten().tolist() == [5.0, 0.0, 0.0, 0.0, 0.0]
    assert x.grad.flatten().tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_max_of_negative_neighbours_is_negative():
    graph = adjacency_from(torch.tensor([[1], [0]]), 2, undirected=False)
    assert graph.max(torch.tensor([[3.0], [-4.0]])).flatten().tolist() == [-4.0, 0.0]


def test_max_passes_on_not_a_number():
    graph = adjacency_from(torch.tensor([[1, 2], [0, 0]]), 3, undirected=False)
    assert graph.max(torch.tensor([[0.0], [float("nan")], [1.0]]))[0].isnan()


@every_tiny_case
def test_max_passes_gradcheck(case):
    order = randn(len(case.degree) * 2).argsort()
    x = (order * 0.1).double().reshape(-1, 2).requires_grad_()
    assert gradcheck(case.graph.max, (x,))  # values 0.1 apart: no perturbation changes a winner


@every_case
def test_winners_are_named_with_and_without_gradients(case):
    graph, x = case.graph, randn(len(case.degree), 3)
    x = torch.cat([x, x.sign()], 1)
    expected = [
        [max(senders, key=lambda j: (x[j, c], -j), default=-1) for c in range(6)]
        for senders in case.senders
    ]
    if graph.num_rows == graph.num_cols:  # in a block the first neighbour is not the lowest number
        assert spmax(graph.rowptr, graph.col, x)[1].tolist() == expected
    for context in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        with context():
            out, winner = spmax(graph.rowptr, graph.col, x)
        assert winner.dtype == torch.int32
        assert winner.shape == out.shape == (graph.num_rows, 6)
        assert_close(winner, spmax(graph.rowptr, graph.col, x)[1])


# ------------------------------------------------- the fallbacks of devices without a CSR kernel


@every_case
@pytest.mark.parametrize("budget", [1, 100, 1 << 26])
def test_segments_equal_the_csr_kernel(case, budget):
    graph, x = case.graph, randn(len(case.degree), 5)
    value = randn(graph.num_entries, seed=3)
    total = csr_reduce(graph.rowptr, graph.col, value, x, "sum")
    assert_close(reduce_by_segments(graph.rowptr, graph.col, value, x, "sum", budget), total)
    ones = torch.ones_like(value)
    largest = reduce_by_segments(graph.rowptr, graph.col, ones, x, "amax", budget)
    assert_close(largest, spmax(graph.rowptr, graph.col, x)[0])


@every_case
def test_first_winner_equals_the_csr_kernel(case):
    graph = case.graph
    x = torch.cat([randn(len(case.degree), 3), randn(len(case.degree), 3, seed=1).sign()], 1)
    out, winner = spmax(graph.rowptr, graph.col, x)
    entry = first_winner(graph.rowptr, graph.col, x, out)
    nobody = torch.tensor([-1])
    assert_close(torch.cat([graph.col, nobody])[entry], winner.long())


# ------------------------------------------------------------- what operators of torch must obey


def _spmm_arguments(graph, scaling):
    m = graph.matrix(scaling)
    return m.rowptr, m.col, m.value, *m.transpose(), m.diagonal


@every_tiny_case
def test_operators_pass_opcheck(case):
    x = randn(len(case.degree), 3).requires_grad_()
    for scaling in ("mean", "gcn"):  # without and with a diagonal
        opcheck(spmm, (*_spmm_arguments(case.graph, scaling), x))
    opcheck(spmax, (case.graph.rowptr, case.graph.col, x))


@pytest.mark.parametrize("name", PRODUCTS)
def test_autocast_runs_in_float32(name):
    graph, x = CASES["directed"].graph, randn(23, 4).float()
    weight = torch.eye(4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow = x @ weight
        out = product(graph, name, narrow)
    assert narrow.dtype == torch.bfloat16
    assert out.dtype == torch.float32
    assert_close(out, product(graph, name, narrow.float()), rtol=1e-2, atol=1e-2)
    out.sum().backward()
    assert weight.grad.dtype == torch.float32
    assert weight.grad.abs().sum() > 0


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("kind", ["undirected", "block of directed"])
def test_a_model_compiles_into_one_graph(name, kind):
    graph = CASES[kind].graph
    x = randn(graph.num_cols, 4)
    expected, expected_grad = value_and_grad(graph, name, x)  # also makes the matrices, once
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: product(graph, name, x * 1.0), backend="aot_eager", fullgraph=True
    )
    x = x.clone().requires_grad_()
    out = compiled(x)
    out.backward(randn(*out.shape, seed=9))
    assert_close(out, expected)
    assert_close(x.grad, expected_grad)


def test_a_graph_that_no_product_was_taken_of_compiles_too():
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    x = randn(4, 4)
    torch._dynamo.reset()
    for name in PRODUCTS:
        graph = adjacency_from(edge_index, undirected=True)
        compiled = torch.compile(lambda x, g=graph, n=name: product(g, n, x), backend="aot_eager")
        assert_close(compiled(x), product(graph, name, x))


# ----------------------------------------------------------------------------- memory and safety


def _memory(work):
    """Bytes of the largest tensor that ``work`` allocates, and of all at the worst time."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        work()
    sizes = [e.nbytes() for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = torch.tensor(sizes).cumsum(0)
    return max(sizes), int(live.max())


NODES, WIDTH = 64, 512
DENSE = adjacency_from(torch.combinations(torch.arange(NODES)).t(), NODES, undirected=True)
EDGES_BY_WIDTH = DENSE.num_entries * WIDTH * 4


def _wide(graph, name, x):
    if name in SCALINGS:
        return graph.matrix(name) @ x
    if name == "max":
        return graph.max(x)
    heads = x.view(-1, 4, WIDTH // 4)
    a = heads.sum(2)
    return graph.attend(a, a[: graph.num_rows], heads, self_loops=name == "attend")


def test_the_watch_on_memory_sees_a_gather():
    """The control: a gather and scatter does hold an edges-by-width tensor, and is caught."""
    x = torch.randn(NODES, WIDTH)

    def gather_scatter():
        torch.zeros_like(x).index_add_(0, DENSE.row, x.index_select(0, DENSE.col))

    largest, peak = _memory(gather_scatter)
    assert largest == EDGES_BY_WIDTH
    assert peak >= EDGES_BY_WIDTH


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("kind", ["undirected", "directed"])
def test_no_edges_by_width_tensor_is_ever_allocated(name, kind):
    graph = DENSE if kind == "undirected" else DENSE.directed
    x = torch.randn(NODES, WIDTH, requires_grad=True)

    def forward_and_backward():
        _wide(graph, name, x).sum().backward()

    forward_and_backward()
    largest, peak = _memory(forward_and_backward)
    nodes_by_width = NODES * WIDTH * 4
    assert largest <= 2 * nodes_by_width + 16 * WIDTH < EDGES_BY_WIDTH / 30
    assert peak < EDGES_BY_WIDTH / 4, "not even in slices that live at the same time"


@pytest.mark.parametrize("rows", [22, 24, 0])
def test_x_with_the_wrong_number_of_rows_is_refused(rows):
    """The CSR kernels would read past the end of a short x."""
    graph, x = CASES["undirected"].graph, randn(rows, 4)
    for name in PRODUCTS:
        with pytest.raises(InputError, match=rf"first of size 23; got shape \[{rows}, "):
            product(graph, name, x)


def test_x_with_the_wrong_dimensions_is_refused():
    graph = CASES["undirected"].graph
    for call in (graph.max, graph.matrix("sum").__matmul__):
        with pytest.raises(InputError, match=r"x must have 2 dimensions.*got shape \[23\]"):
            call(randn(23))


@pytest.mark.parametrize("name", PRODUCTS)
def test_inference_mode_first_and_training_after(name):
    """What is kept from an evaluation must be fit for the training that follows it."""
    graph = CASES["directed"].graph.induce(torch.arange(23))
    assert "reverse" not in graph.__dict__
    x = randn(23, 4)
    with torch.inference_mode():
        seen = product(graph, name, x)
        made_here = x * 1.0
    assert_close(value_and_grad(graph, name, x)[0], seen.clone())
    with torch.no_grad():
        assert_close(product(graph, name, made_here), seen.clone())


def test_importing_and_using_the_package_warns_of_nothing():
    script = """
import torch
from tuneup.graph import DropEdge, adjacency_from, receptive_field
graph = adjacency_from(torch.tensor([[0, 1, 2], [1, 2, 0]]))
for graph in (graph, DropEdge(0.5)(graph, step=0), graph.directed):
    x = torch.ones(3, 2, requires_grad=True)
    for scaling in ("sum", "mean", "gcn"):
        (graph.matrix(scaling) @ x).sum().backward()
    graph.max(x).sum().backward()
    graph.attend(x, x, x[:, :, None]).sum().backward()
    graph.adj_t, graph.edge_index
    receptive_field(graph.neighbours, torch.tensor([0]), 2)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
