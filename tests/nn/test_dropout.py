"""Dropout: torch's distribution, from torch's generator, with one mask for both directions."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneup.nn.linear import dropout

LEVELS = 1 << 16


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.75, 0.9])
def test_share_and_scale(share):
    torch.manual_seed(0)
    n = 200_000
    out = dropout(torch.ones(n), share, training=True)
    kept = out != 0
    deviation = math.sqrt(share * (1 - share) / n)
    assert abs(float((~kept).double().mean()) - share) < 5 * deviation
    scale = 1 / (1 - share)
    torch.testing.assert_close(out[kept], torch.full_like(out[kept], scale), rtol=1e-4, atol=0)
    assert abs(float(out.double().mean()) - 1) < 5 * deviation * scale


def test_neighbouring_numbers_are_independent():
    """Four numbers share one 64-bit draw: none may tell about another, nor the next draw."""
    torch.manual_seed(1)
    kept = (dropout(torch.ones(400_000), 0.5, training=True) != 0).double() - 0.5
    for lag in (1, 2, 3, 4, 5, 8):
        product = kept[lag:] * kept[:-lag]
        assert abs(float(product.mean())) < 5 * 0.25 / math.sqrt(product.numel())
    lanes = kept.view(-1, 4).mean(0).abs()
    assert float(lanes.max()) < 5 * 0.5 / math.sqrt(100_000)


def test_the_same_distribution_as_torchs():
    """Dropped per column: both are binomial, so their means and variances agree."""
    counts = []
    for function in (dropout, F.dropout):
        torch.manual_seed(2)
        counts.append((function(torch.ones(300, 2000), 0.3, True) == 0).sum(0).double())
    ours, theirs = counts
    expected = 300 * 0.3 * 0.7
    assert abs(float(ours.mean() - theirs.mean())) < 5 * math.sqrt(2 * expected / 2000)
    for count in counts:
        assert abs(float(count.var()) / expected - 1) < 0.2


@settings(max_examples=50, deadline=None, derandomize=True)
@given(rows=st.integers(0, 9), cols=st.integers(0, 9), share=st.floats(0.01, 0.99))
def test_any_shape_backward_mask_is_forward_mask(rows, cols, share):
    h = torch.randn(rows, cols).requires_grad_()
    out = dropout(h, share, training=True)
    assert out.shape == h.shape
    out.sum().backward()
    scale = LEVELS / (LEVELS - round(share * LEVELS))
    assert set(h.grad.unique().tolist()) <= {0.0, torch.tensor(scale).item()}
    torch.testing.assert_close(out.detach(), h.detach() * h.grad)


def test_draws_come_from_the_global_generator():
    h = torch.ones(1000)
    torch.manual_seed(3)
    first, second = dropout(h, 0.5, True), dropout(h, 0.5, True)
    torch.manual_seed(3)
    again = dropout(h, 0.5, True)
    torch.manual_seed(4)
    other = dropout(h, 0.5, True)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("share", "training"), [(0.5, False), (0.0, True), (0.0, False)])
def test_off_is_the_identity_and_draws_nothing(share, training):
    h, before = torch.randn(50, 3), torch.get_rng_state()
    assert torch.equal(dropout(h, share, training), h)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_input_is_left_alone():
    h = torch.randn(100)
    kept = h.clone()
    dropout(h, 0.5, training=True)
    assert torch.equal(h, kept)


@pytest.mark.parametrize("share", [1e-9, 1 - 1e-9])
def test_shares_beyond_the_rounding(share):
    """Encoder accepts any share from 0 to below 1: neither end may drop all or divide by zero."""
    torch.manual_seed(5)
    out = dropout(torch.ones(1000), share, training=True)
    assert torch.isfinite(out).all()
    assert float((out == 0).double().mean()) == pytest.approx(round(share), abs=0.01)


def test_other_types_and_second_derivatives():
    h = torch.randn(20, dtype=torch.float64, requires_grad=True)

    def squared(h):
        torch.manual_seed(6)
        return dropout(h, 0.4, training=True) ** 2

    assert squared(h).dtype == torch.float64
    assert torch.autograd.gradcheck(squared, (h,))
    assert torch.autograd.gradgradcheck(squared, (h,))
