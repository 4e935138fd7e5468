"""Calibration: bins against a loop, and temperatures that are known."""

import math

import pytest
import torch

from tuneup.errors import InputError
from tuneup.metrics.calibration import (
    calibration_bins,
    calibration_error,
    fit_temperature,
    fit_temperatures,
)
from tuneup.metrics.classification import log_loss


def answers(count, classes=4, temperature=1.0, seed=0):
    """Logits, and labels drawn from softmax(logits / temperature)."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, classes, generator=generator)
    chances = (logits / temperature).softmax(1)
    return logits, torch.multinomial(chances, 1, generator=generator)[:, 0]


def naive_error(probabilities, y, bins):
    rows = sorted(
        (max(row), row.index(max(row)) == label)
        for row, label in zip(probabilities.tolist(), y.tolist(), strict=True)
    )
    cells = {}
    for confidence, hit in rows:
        first = next(k for k, row in enumerate(rows) if row[0] == confidence)
        cells.setdefault(first * bins // len(rows), []).append((confidence, hit))
    gaps = (abs(sum(hit for _, hit in cell) - sum(c for c, _ in cell)) for cell in cells.values())
    return sum(gaps) / len(rows)


@pytest.mark.parametrize("bins", [1, 4, 15])
@pytest.mark.parametrize("rounded", [False, True])
def test_error_equals_a_loop_over_bins(bins, rounded):
    logits, y = answers(100)
    probabilities = (logits.round() if rounded else logits).double().softmax(1)
    found = calibration_error(probabilities, y, bins)
    assert found == pytest.approx(naive_error(probabilities, y, bins))
    parts = calibration_bins(probabilities, y, bins)
    assert sum(part.count for part in parts) == 100
    assert [part.confidence for part in parts] == sorted(part.confidence for part in parts)
    if not rounded:
        assert {part.count for part in parts} <= {100 // bins, 100 // bins + 1}


def test_the_order_of_nodes_does_not_matter_where_many_are_equal():
    logits, y = answers(90)
    logits[:60] = logits[0]
    order = torch.randperm(90, generator=torch.Generator().manual_seed(1))
    one, other = (calibration_error(logits[k].softmax(1), y[k]) for k in (slice(None), order))
    assert one == pytest.approx(other)


def test_without_nodes_there_is_no_error():
    assert math.isnan(calibration_error(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)))


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_the_temperature_is_found_again(temperature):
    logits, y = answers(20_000, temperature=temperature)
    found = fit_temperature(logits, y)
    assert found == pytest.approx(temperature, rel=0.05)
    best = log_loss(logits / found, y)
    for factor in (0.99, 1.01) if temperature != 1 else ():  # it is a minimum
        assert best <= log_loss(logits / (factor * found), y)
    before, after = (calibration_error((logits / t).softmax(1), y) for t in (1.0, found))
    assert after < 0.015
    assert after < before or temperature == 1.0


def test_temperatures_are_bounded():
    sure = torch.eye(3).repeat(20, 1)
    y = torch.arange(3).repeat(20)
    assert fit_temperature(sure, y) == pytest.approx(0.1)  # all right: the surer, the better
    mixed = torch.where(torch.rand(60, generator=torch.Generator().manual_seed(0)) < 0.6, y, 0)
    assert fit_temperature(30 * sure, mixed) == pytest.approx(10)


def test_without_evidence_it_is_one():
    logits, y = answers(19, temperature=5.0)
    assert fit_temperature(logits, y) == 1.0  # too few
    logits, y = answers(40)
    logits[0::2] *= 4  # one half is too sure, the other not sure enough: neither helps the other
    logits[1::2] /= 4
    assert fit_temperature(logits, y) == 1.0


def test_nan_is_refused():
    with pytest.raises(InputError, match="NaN"):
        fit_temperature(torch.full((40, 2), torch.nan), torch.zeros(40, dtype=torch.long))


def test_nodes_without_an_edge_have_a_temperature_of_their_own():
    logits, y = answers(4000)
    logits[::2] *= 3
    degree = (torch.arange(4000) % 2 == 0).long()
    found = fit_temperatures(logits, y, degree)
    assert found.connected == pytest.approx(3, rel=0.1)
    assert found.isolated == fit_temperature(logits[1::2], y[1::2])
    chances = found.probabilities(logits, degree)
    torch.testing.assert_close(chances[::2], (logits[::2] / found.connected).softmax(1))
    torch.testing.assert_close(chances[1::2], (logits[1::2] / found.isolated).softmax(1))
    few = torch.ones_like(degree)
    few[:19] = 0
    only = fit_temperatures(logits, y, few)
    assert only.isolated == only.connected == fit_temperature(logits[19:], y[19:])
