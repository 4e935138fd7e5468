"""A counter-based hash: randomness as a pure function, with no state to save or to share.

One draw is ``h = mix(mix(a) ^ mix'(b) ^ ...)`` in 64-bit arithmetic modulo 2^64, where ``mix`` is a
bijection made of two multiply and xor-shift rounds.  The same arguments give the same bits on
every machine, device and thread count; different arguments give unrelated ones.
"""

from __future__ import annotations

from operator import index as as_int

import torch
from torch import Tensor

HASH_BITS = 53
"""Bits of a draw: as many as a float64 holds exactly, so thresholds lose nothing."""

_MASK = (1 << 64) - 1
# Odd multipliers with well-spread bits, as signed 64-bit numbers where torch needs them.
GOLDEN = 0x9E3779B97F4A7C15
FIRST = 0xD6E8FEB86659FD93
SECOND = 0xA0761D6478BD642F


def _signed(value: int) -> int:
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def _mix_int(value: int) -> int:
    value = ((value ^ (value >> 32)) * FIRST) & _MASK
    value = ((value ^ (value >> 29)) * SECOND) & _MASK
    return value ^ (value >> 32)


def _shift_xor_(z: Tensor, bits: int) -> Tensor:
    # ``>>`` on int64 copies the sign bit: the mask makes it the logical shift.
    return z.bitwise_xor_((z >> bits).bitwise_and_((1 << (64 - bits)) - 1))


def _mix_(z: Tensor) -> Tensor:
    z = _shift_xor_(z, 32).mul_(_signed(FIRST))
    z = _shift_xor_(z, 29).mul_(_signed(SECOND))
    return _shift_xor_(z, 32)


def fold_key(*parts: int) -> int:
    """One 64-bit key from any integers; their order matters."""
    key = GOLDEN
    for part in parts:
        key = _mix_int((key + GOLDEN) ^ _mix_int((as_int(part) + FIRST) & _MASK))
    return key


def hash_pairs(first: Tensor, second: Tensor, key: int) -> Tensor:
    """Draws in ``[0, 2^53)`` for pairs of ids ``[E]``, ordered: ``(a, b)`` is not ``(b, a)``."""
    first, second = first.long(), second.long()  # narrower ids would keep only the low bits
    z = _mix_(first + _signed(key))
    z = _mix_(z.add_(second).add_(_signed(GOLDEN ^ key)))
    z = _mix_(z.bitwise_xor_(_mix_(second * _signed(GOLDEN))))
    return (z >> (64 - HASH_BITS)).bitwise_and_((1 << HASH_BITS) - 1)


def threshold(share: float) -> int:
    """The number of draws below it: ``round(share * 2^53)``."""
    return round(share * (1 << HASH_BITS))


def seed_of(*parts: int) -> int:
    """A seed for ``torch.manual_seed`` that depends on every part: 63 bits, never negative."""
    return fold_key(*parts) >> 1


def uniform(index: Tensor, key: int) -> Tensor:
    """Draws in ``[0, 1)``, float64, one per entry of an integer index."""
    return hash_pairs(index, torch.zeros_like(index), key).double() / (1 << HASH_BITS)
