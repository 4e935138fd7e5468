"""The hash is a pure function, stays what it is, and looks random exactly where weak hashes do not.

Statistics are z-scores of fixed inputs: they cannot fail by chance, only by a change of the hash.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from graph_oracles import quick
from hypothesis import given
from hypothesis import strategies as st

from tuneup.graph.hashing import HASH_BITS, fold_key, hash_pairs, seed_of, threshold, uniform

MASK = (1 << 64) - 1
LIMIT = 5.0
"""|z| of any single statistic; the chance of one beyond it is below one in a million."""

any_id = st.integers(-(2**63), 2**63 - 1)


def python_hash(first: int, second: int, key: int) -> int:
    """The hash again, in Python's integers, where no sign bit and no overflow can hide."""

    def mix(z: int) -> int:
        z = ((z ^ (z >> 32)) * 0xD6E8FEB86659FD93) & MASK
        z = ((z ^ (z >> 29)) * 0xA0761D6478BD642F) & MASK
        return z ^ (z >> 32)

    golden = 0x9E3779B97F4A7C15
    z = mix((first + key) & MASK)
    z = mix((z + second + (golden ^ key)) & MASK)
    z = mix(z ^ mix((second * golden) & MASK))
    return z >> 11


# ----------------------------------------------------------------------------- pure and stable


def test_golden_values():
    """These may never change: a checkpoint is resumed, and machines agree, by drawing them again.

    If this fails, every saved run would continue on other graphs than it began with.  Change the
    hash only together with the version of the checkpoint format.
    """
    assert fold_key() == 0x9E3779B97F4A7C15
    assert fold_key(0) == 7154027770929076399
    assert fold_key(0, 0, 0) == 3193266269189044516
    assert fold_key(1, 2, 3) == 2059710142142276304
    assert fold_key(-1) == 4595027671662009655
    assert seed_of(1, 2, 3) == 1029855071071138152
    first = torch.tensor([0, 0, 1, 1_000_000, 2**40, -1])
    second = torch.tensor([0, 1, 0, 1_000_001, 7, -1])
    assert hash_pairs(first, second, fold_key(0, 0, 0)).tolist() == [
        5133913219247134,
        8018336676038123,
        1426993208397846,
        4718235265882502,
        4094687554882208,
        7829985213515306,
    ]
    assert uniform(torch.arange(2), 42).tolist() == [0.13496985745507428, 0.02700706489020821]


@quick
@given(any_id, any_id, st.integers(0, MASK))
def test_tensors_compute_what_integers_do(first, second, key):
    draw = hash_pairs(torch.tensor([first]), torch.tensor([second]), key)
    assert draw.tolist() == [python_hash(first, second, key)]
    assert 0 <= draw.item() < 1 << HASH_BITS


def test_a_draw_depends_on_its_own_arguments_only():
    first, second = torch.arange(1000), torch.arange(1000).flip(0)
    before = first.clone(), second.clone()
    draws = hash_pairs(first, second, 5)
    assert torch.equal(first, before[0])
    assert torch.equal(second, before[1])
    shuffle = torch.randperm(1000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(hash_pairs(first[shuffle], second[shuffle], 5), draws[shuffle])
    assert torch.equal(hash_pairs(first[::7], second[::7], 5), draws[::7])
    assert hash_pairs(first[:0], second[:0], 5).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.uint8])
def test_narrow_ids_are_the_same_ids(dtype):
    """In 32-bit arithmetic the high bits, and with them every dropped edge, would be lost."""
    ids = torch.arange(100)
    key = fold_key(1, 2, 3)
    narrow = hash_pairs(ids.to(dtype), ids.to(dtype), key)
    assert torch.equal(narrow, hash_pairs(ids, ids, key))


def test_keys_tell_every_part_and_their_order_apart():
    parts = [(a, b, c) for a in range(-3, 9) for b in range(9) for c in range(9)]
    parts += [(a, b) for a in range(-3, 9) for b in range(9)] + [(a,) for a in range(-3, 9)]
    keys = {fold_key(*p) for p in parts}
    assert len(keys) == len(parts)
    assert all(0 <= key <= MASK for key in keys)
    assert fold_key(1, 2) != fold_key(2, 1)
    assert fold_key(0) != fold_key(0, 0)


def test_keys_take_any_kind_of_integer_and_nothing_else():
    assert fold_key(np.int64(3), np.uint8(4)) == fold_key(3, 4)
    assert fold_key(torch.tensor(3)) == fold_key(3)
    assert fold_key(True) == fold_key(1)
    with pytest.raises(TypeError):
        fold_key(1.5)


@quick
@given(st.lists(st.integers(), max_size=4))
def test_seeds_suit_every_generator(parts):
    seed = seed_of(*parts)
    assert 0 <= seed < 1 << 63
    torch.Generator().manual_seed(seed)


def test_thresholds_are_the_nearest_whole_number_of_draws():
    assert threshold(0.0) == 0
    assert threshold(0.5) == 1 << (HASH_BITS - 1)
    assert threshold(1.0) == 1 << HASH_BITS
    assert threshold(2.0**-53) == 1
    for share in (0.1, 0.3, 1 / 3, 0.9, math.nextafter(1.0, 0.0)):
        assert abs(threshold(share) - Fraction(share) * 2**53) <= Fraction(1, 2)


# -------------------------------------------------------------------------------------- randomness


def chi_square_z(bins: torch.Tensor, count: int) -> float:
    """How far the occupation of ``count`` equally likely bins is from chance."""
    expected = bins.numel() / count
    occupied = torch.bincount(bins, minlength=count).double()
    chi_square = float(((occupied - expected) ** 2 / expected).sum())
    freedom = count - 1
    return (chi_square - freedom) / math.sqrt(2 * freedom)


def sequences() -> dict[str, torch.Tensor]:
    """Draws along every line of arguments that a training run walks down."""
    n = 1 << 16
    line, zero, key = torch.arange(n), torch.zeros(n, dtype=torch.long), fold_key(0, 0, 0)
    pair = torch.tensor([1]), torch.tensor([2])
    steps = torch.cat([hash_pairs(*pair, fold_key(0, 0, step)) for step in range(1 << 14)])
    seeds = torch.cat([hash_pairs(*pair, fold_key(seed, 1, 7)) for seed in range(1 << 14)])
    raw_keys = torch.cat([hash_pairs(*pair, key) for key in range(1 << 14)])
    return {
        "consecutive first ids": hash_pairs(line, zero, key),
        "consecutive second ids": hash_pairs(zero, line, key),
        "both ids together": hash_pairs(line, line + 1, key),
        "ids in opposite directions": hash_pairs(line, n - line, key),
        "first ids 2^32 apart": hash_pairs(line << 32, zero, key),
        "second ids 2^32 apart": hash_pairs(zero, line << 32, key),
        "a square of ids": hash_pairs(line // 256, line % 256, key),
        "consecutive steps": steps,
        "consecutive seeds": seeds,
        "consecutive raw keys": raw_keys,
    }


SEQUENCES = sequences()
every_sequence = pytest.mark.parametrize("draws", SEQUENCES.values(), ids=SEQUENCES.keys())


@every_sequence
@pytest.mark.parametrize("bits", ["high", "middle", "low"])
def test_high_and_low_bits_are_spread_evenly(draws, bits):
    shift = {"high": HASH_BITS - 8, "middle": 22, "low": 0}[bits]
    assert abs(chi_square_z((draws >> shift) & 255, 256)) < LIMIT


@every_sequence
def test_neighbouring_draws_are_not_correlated(draws):
    centred = (draws.double() / 2**HASH_BITS - 0.5) * math.sqrt(12)
    for lag in (1, 2, 3, 4, 8, 16, 64, 256, 1024):
        z = float((centred[:-lag] * centred[lag:]).sum()) / math.sqrt(draws.numel() - lag)
        assert abs(z) < LIMIT, f"lag {lag}"


@every_sequence
def test_pairs_of_neighbouring_draws_fill_the_square(draws):
    """Correlation sees straight lines only; a 16 by 16 chess board sees any dependence."""
    top = draws >> (HASH_BITS - 4)
    for lag in (1, 2, 256):
        pairs = (top[:-lag] * 16 + top[lag:])[:: lag + 1]  # disjoint, so the counts are binomial
        if pairs.numel() > 2000:
            assert abs(chi_square_z(pairs, 256)) < LIMIT


def test_no_two_of_half_a_million_pairs_collide():
    line = torch.arange(1 << 19)
    draws = hash_pairs(line // 1024, line % 1024, fold_key(3))
    assert draws.unique().numel() == draws.numel()
    assert not torch.isin(hash_pairs(line % 1024, line // 1024, fold_key(4)), draws).any()


def test_order_matters():
    a, b = torch.arange(1, 1001), torch.arange(1001, 2001)
    assert not (hash_pairs(a, b, 0) == hash_pairs(b, a, 0)).any()


@pytest.mark.parametrize("argument", ["first", "second", "key"])
def test_every_bit_of_the_input_flips_half_the_bits_of_the_output(argument):
    count = 2048
    ids = torch.arange(count)
    for bit in range(0, 64, 3):
        flip = 1 << bit
        signed = flip - (1 << 64) if bit == 63 else flip
        first, second, key = ids * 3, ids + 1, 12345
        plain = hash_pairs(first, second, key)
        if argument == "first":
            flipped = hash_pairs(first ^ signed, second, key)
        elif argument == "second":
            flipped = hash_pairs(first, second ^ signed, key)
        else:
            flipped = hash_pairs(first, second, key ^ flip)
        changed = plain ^ flipped
        share = torch.stack([(changed >> k) & 1 for k in range(HASH_BITS)]).double().mean(1)
        z = (share - 0.5) * 2 * math.sqrt(count)
        assert float(z.abs().max()) < LIMIT, f"input bit {bit}, output bit {int(z.abs().argmax())}"


def test_uniform_draws_are_uniform():
    draws = uniform(torch.arange(100_000), fold_key(1))
    assert draws.dtype == torch.float64
    assert float(draws.min()) >= 0
    assert float(draws.max()) < 1
    assert abs(float(draws.mean()) - 0.5) * math.sqrt(12 * 100_000) < LIMIT
    assert abs(chi_square_z((draws * 1000).long(), 1000)) < LIMIT
