"""Attention-weighted sums: values and all three gradients against the definition, edge by edge."""

from __future__ import annotations

import pytest
import torch
from graph_oracles import (
    CASES,
    every_case,
    every_tiny_case,
    naive_attend,
    randn,
)
from torch.autograd import gradcheck
from torch.library import opcheck
from torch.testing import assert_close

from tuneup.errors import InputError
from tuneup.graph import adjacency_from
from tuneup.graph.attention import CHUNK, attend, attend_backward
from tuneup.graph.kernels import sampled_by_parts, sampled_product

with_and_without_self_loops = pytest.mark.parametrize("self_loops", [True, False])


def _inputs(case, heads=2, width=3):
    rows, cols = len(case.senders), len(case.degree)
    a, b, x = randn(cols, heads), randn(rows, heads, seed=1), randn(cols, heads, width, seed=2)
    return a.requires_grad_(), b.requires_grad_(), x.requires_grad_()


@every_case
@with_and_without_self_loops
@pytest.mark.parametrize("slope", [0.2, 0.0])
def test_values_and_gradients_equal_the_loop(case, self_loops, slope):
    a, b, x = _inputs(case)
    out = case.graph.attend(a, b, x, slope=slope, self_loops=self_loops)
    expected = naive_attend(case, a, b, x, slope, self_loops)
    assert_close(out, expected)
    if not out.numel():
        return
    grad = randn(*out.shape, seed=3)
    ours = torch.autograd.grad(out, (a, b, x), grad)
    theirs = torch.autograd.grad(expected, (a, b, x), grad)
    for name, left, right in zip("abx", ours, theirs, strict=True):
        assert_close(left, right, msg=lambda text, n=name: f"gradient of {n}: {text}")


@every_case
def test_every_gradient_has_the_shape_of_its_input(case):
    inputs = _inputs(case)
    grads = torch.autograd.grad(case.graph.attend(*inputs).sum(), inputs)
    assert [g.shape for g in grads] == [t.shape for t in inputs]


@every_tiny_case
@with_and_without_self_loops
def test_passes_gradcheck(case, self_loops):
    def call(a, b, x):
        return case.graph.attend(a, b, x, self_loops=self_loops)

    assert gradcheck(call, _inputs(case, heads=2, width=2))


@every_case
def test_weights_sum_to_one_wherever_there_is_a_neighbour(case):
    a, b, x = _inputs(case)
    ones = torch.ones_like(x)
    assert_close(case.graph.attend(a, b, ones), ones[: len(case.senders)])
    alone = torch.tensor([not s for s in case.senders], dtype=torch.bool)
    out = case.graph.attend(a, b, ones, self_loops=False)
    assert_close(out[~alone], ones[: len(case.senders)][~alone])
    assert not out[alone].any()


@with_and_without_self_loops
def test_equal_logits_give_the_mean(self_loops):
    case = CASES["undirected"]
    zeros, x = torch.zeros(23, 1, dtype=torch.float64), randn(23, 1, 2)
    out = case.graph.attend(zeros, zeros, x, self_loops=self_loops)
    for i, senders in enumerate(case.senders):
        group = [*senders, i] if self_loops else senders
        expected = x[group].mean(0) if group else torch.zeros(1, 2, dtype=torch.float64)
        assert_close(out[i], expected)


@with_and_without_self_loops
def test_huge_logits_neither_overflow_nor_vanish(self_loops):
    """Maxima are taken off first: a thousand, of either sign, is an ordinary logit."""
    case = CASES["undirected"]
    a, b, x = (t.detach().float() for t in _inputs(case))
    a, b = a * 1000, b * 1000
    inputs = [t.requires_grad_() for t in (a, b, x)]
    out = case.graph.attend(*inputs, self_loops=self_loops)
    assert out.isfinite().all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), inputs))
    for i, senders in enumerate(case.senders):
        group = [*senders, i] if self_loops else senders
        if group:  # so far apart, the softmax is the maximum
            winner = group[int(a[group, 0].argmax())]
            assert_close(out[i, 0], x[winner, 0], rtol=0.05, atol=0.05)


def test_a_negative_slope_is_refused():
    with pytest.raises(InputError, match=r"slope of the LeakyReLU must be at least 0; got -0\.1"):
        CASES["undirected"].graph.attend(*_inputs(CASES["undirected"]), slope=-0.1)


@pytest.mark.parametrize("wrong", ["a", "b", "x"])
def test_inputs_with_too_few_rows_are_refused(wrong):
    case = CASES["block of undirected"]
    inputs = dict(zip("abx", _inputs(case), strict=True))
    inputs[wrong] = inputs[wrong][:-1]
    with pytest.raises(InputError, match=f"{wrong} must have . dimensions, the first of size"):
        case.graph.attend(*inputs.values())


@every_case
@pytest.mark.parametrize("budget", [1, 10, 1 << 26])
def test_the_sampled_product_and_its_fallback_equal_the_loop(case, budget):
    graph = case.graph
    g, x = randn(len(case.senders), 4), randn(len(case.degree), 4, seed=1)
    pairs = [(i, j) for i, senders in enumerate(case.senders) for j in senders]
    expected = torch.tensor([float(g[i] @ x[j]) for i, j in pairs], dtype=torch.float64)
    assert_close(sampled_product(graph.rowptr, graph.col, graph.row, g, x), expected)
    assert_close(sampled_by_parts(graph.col, graph.row, g, x, budget), expected)


@every_tiny_case
def test_operators_pass_opcheck(case):
    graph, inputs = case.graph, _inputs(case)
    index = (graph.rowptr, graph.col, *graph.transposed)
    fixed = [t.detach() for t in inputs]
    for average in (False, True):
        options = (0.2, True, average, CHUNK)
        opcheck(attend, (*index, *inputs, *options))
        out, peak, total = attend(*index, *fixed, *options)
        opcheck(attend_backward, (*index, *fixed, peak, total, torch.ones_like(out), *options))


# In parts


def _by_parts(graph, inputs, chunk, self_loops=True, average=False):
    index = (graph.rowptr, graph.col, *graph.transposed)
    return attend(*index, *inputs, 0.2, self_loops, average, chunk)[0]


@every_case
@with_and_without_self_loops
@pytest.mark.parametrize("average", [False, True])
def test_parts_of_any_size_give_what_the_whole_gives(case, self_loops, average):
    """Values and gradients bit for bit, down to one entry at a time, rows without any included."""
    inputs = _inputs(case)
    whole = _by_parts(case.graph, inputs, CHUNK, self_loops, average)
    grad = randn(*whole.shape, seed=3)
    expected = (whole, *torch.autograd.grad(whole, inputs, grad))
    for chunk in (1, 2, 7, max(1, case.graph.num_entries - 1)):
        out = _by_parts(case.graph, inputs, chunk, self_loops, average)
        found = (out, *torch.autograd.grad(out, inputs, grad))
        assert all(map(torch.equal, found, expected)), f"{chunk} entries at a time"


@every_tiny_case
@pytest.mark.parametrize("average", [False, True])
def test_one_entry_at_a_time_passes_gradcheck(case, average):
    def call(a, b, x):
        return _by_parts(case.graph, (a, b, x), 1, average=average)

    assert gradcheck(call, _inputs(case, heads=2, width=2))


@every_case
@with_and_without_self_loops
def test_the_average_is_the_mean_over_heads(case, self_loops):
    inputs = _inputs(case, heads=3)
    found = case.graph.attend(*inputs, self_loops=self_loops, average=True)
    expected = case.graph.attend(*inputs, self_loops=self_loops).mean(1)
    assert_close(found, expected)
    grad = randn(*found.shape, seed=3)
    for left, right in zip(
        torch.autograd.grad(found, inputs, grad),
        torch.autograd.grad(expected, inputs, grad),
        strict=True,
    ):
        assert_close(left, right)


def test_an_undirected_graph_is_never_sorted():
    case = CASES["undirected"]
    graph = case.graph.thin(torch.ones(case.graph.num_entries, dtype=torch.bool))
    graph.attend(*_inputs(case)).sum().backward()
    assert "reverse" not in graph.__dict__


def test_a_parallel_pair_of_heads_is_two_calls_of_one_head():
    case = CASES["directed"]
    a, b, x = _inputs(case, heads=3)
    together = case.graph.attend(a, b, x)
    for h in range(3):
        alone = case.graph.attend(a[:, [h]], b[:, [h]], x[:, [h]])
        assert_close(together[:, [h]], alone)


def test_a_second_derivative_is_refused_rather_than_wrong():
    graph = adjacency_from(torch.tensor([[0, 1], [1, 0]]))
    a = torch.ones(2, 1, requires_grad=True)
    out = graph.attend(a, a, a[:, :, None] * 2)
    (grad,) = torch.autograd.grad(out.sum(), a, create_graph=True)
    with pytest.raises(RuntimeError):
        grad.sum().backward()
