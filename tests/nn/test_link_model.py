"""The decoder of links: its formula, its symmetry, and all pairs of two sets at once."""

import pytest
import torch
from torch import nn

from tuneup.metrics.topk import top_k
from tuneup.nn import Encoder, HadamardMLP, HadamardScorer, Model, NodeFeatures


@pytest.fixture
def decoder():
    torch.manual_seed(0)
    return HadamardMLP(6, 16)


def test_the_formula(decoder):
    a, b = torch.randn(9, 6), torch.randn(9, 6)
    found = decoder(a, b)
    assert found.shape == (9,)
    for k in range(9):
        hidden = (decoder.hidden.weight @ (a[k] * b[k]) + decoder.hidden.bias).clamp(min=0)
        expected = decoder.out.weight[0] @ hidden + decoder.out.bias[0]
        torch.testing.assert_close(found[k], expected)


def test_symmetric_to_the_last_bit(decoder):
    a, b = torch.randn(50, 6), torch.randn(50, 6)
    assert torch.equal(decoder(a, b), decoder(b, a))


def test_gradients_reach_everything(decoder):
    a, b = torch.randn(20, 6, requires_grad=True), torch.randn(20, 6, requires_grad=True)
    decoder(a, b).square().sum().backward()
    for tensor in (a, b, *decoder.parameters()):
        assert torch.isfinite(tensor.grad).all()
        assert tensor.grad.abs().sum() > 0


@pytest.mark.parametrize(("sources", "candidates"), [(1, 1), (5, 33), (16, 64)])
def test_the_scorer_is_the_decoder_of_all_pairs(decoder, sources, candidates):
    a, b = torch.randn(sources, 6), torch.randn(candidates, 6)
    out = torch.full((sources, candidates), torch.nan)
    with torch.no_grad():
        HadamardScorer(decoder)(a, b, out)
        expected = torch.stack([decoder(row.expand(candidates, -1), b) for row in a])
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


def test_the_scorer_writes_into_a_part_of_a_larger_table(decoder):
    table = torch.full((8, 10), torch.nan)
    a, b = torch.randn(3, 6), torch.randn(10, 6)
    with torch.no_grad():
        HadamardScorer(decoder)(a, b, table[2:5])
    assert torch.isfinite(table[2:5]).all()
    assert table[:2].isnan().all()
    assert table[5:].isnan().all()


@pytest.mark.parametrize("tile", [(4, 32), (16, 64)])
def test_ranking_by_the_decoder(decoder, tile):
    """More sources and candidates than a tile holds."""
    a, b = torch.randn(21, 6), torch.randn(75, 6)
    found = top_k(a, b, 7, scorer=HadamardScorer(decoder, tile))
    assert not found.scores.requires_grad
    with torch.no_grad():
        scores = torch.stack([decoder(row.expand(75, -1), b) for row in a])
    best = scores.topk(7, dim=1)
    assert torch.equal(found.ids, best.indices)
    torch.testing.assert_close(found.scores, best.values, rtol=1e-5, atol=1e-5)


def test_the_model_holds_both(decoder):
    model = Model(NodeFeatures(), Encoder(4, 6, width=8), decoder)
    names = {name.split(".")[0] for name, _ in model.named_parameters()}
    assert names == {"encoder", "head"}
    assert isinstance(model, nn.Module)
