"""Inner products of listed pairs against indexing, forward and backward."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneup.graph.csr import rowptr_of
from tuneup.graph.kernels import pair_dots, pairs


def random_pairs(rows: int, cols: int, count: int, seed: int):
    """Listed row after row, in no order within a row, repeats included."""
    generator = torch.Generator().manual_seed(seed)
    row = torch.randint(0, rows, (count,), generator=generator).sort().values
    col = torch.randint(0, cols, (count,), generator=generator)
    return row, col, pairs(rowptr_of(row, rows), col, cols)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 60), st.integers(0, 100))
def test_equals_indexing(rows, cols, count, seed):
    row, col, listed = random_pairs(rows, cols, count, seed)
    torch.manual_seed(seed)
    a, b = torch.randn(rows, 5, requires_grad=True), torch.randn(cols, 5, requires_grad=True)
    weight = torch.randn(count)
    found, expected = listed.dots(a, b), (a[row] * b[col]).sum(1)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(
        torch.autograd.grad((found * weight).sum(), (a, b)),
        torch.autograd.grad((expected * weight).sum(), (a, b)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_gradcheck_and_opcheck():
    _, _, listed = random_pairs(6, 7, 25, 0)
    a = torch.randn(6, 3, dtype=torch.double, requires_grad=True)
    b = torch.randn(7, 3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(listed.dots, (a, b))
    index = (listed.rowptr, listed.col, listed.t_rowptr, listed.t_col, listed.order)
    torch.library.opcheck(pair_dots, (*index, a.float().detach(), b.float().detach()))


@pytest.mark.parametrize("backward", [False, True])
def test_no_row_per_pair_is_ever_held(backward):
    from torch.profiler import profile

    _, _, listed = random_pairs(200, 200, 20_000, 0)
    a, b = torch.randn(200, 64, requires_grad=True), torch.randn(200, 64, requires_grad=True)
    with profile(profile_memory=True) as profiled:
        out = listed.dots(a, b).sum()
        if backward:
            out.backward()
    assert max(event.cpu_memory_usage for event in profiled.events()) < 20_000 * 64 * 4 / 4
