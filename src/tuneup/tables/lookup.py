"""Positions of ids among many distinct ones, in time linear in both and without an object an id."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
import polars as pl
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Finder = Callable[[pl.Series], NDArray[np.int64]]
"""The position of each id ``[m]``, -1 where there is none."""

_SLICE = 1 << 17
"""Keys that are looked up at once, so that temporary arrays stay in the processor's cache."""


class KeyIndex:
    """A hash table of distinct 64-bit keys, with open addressing and linear probing.

    At least half of its slots are empty; each holds a position in 4 bytes.
    """

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        bits = max(1, (2 * len(keys) - 1).bit_length())
        self._shift, self._mask = np.uint64(64 - bits), (1 << bits) - 1
        self._slots = np.full(1 << bits, -1, dtype=np.int32)
        waiting = np.arange(len(keys), dtype=np.int32)
        slot = self._first_slot(keys)
        while len(waiting):
            free = self._slots[slot] < 0
            self._slots[slot[free]] = waiting[free]
            left = self._slots[slot] != waiting  # another key has this slot: try the next one
            waiting, slot = waiting[left], (slot[left] + 1) & self._mask

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """The position of each key ``[m]``, -1 where it is not in the index."""
        out = np.full(len(keys), -1, dtype=np.int64)
        for start in range(0, len(keys) if len(self.keys) else 0, _SLICE):
            part = keys[start : start + _SLICE]
            slot = self._first_slot(part)
            found = self._slots[slot]
            waiting = np.flatnonzero((found >= 0) & (self.keys[found] != part))
            while len(waiting):
                slot[waiting] = (slot[waiting] + 1) & self._mask
                other = self._slots[slot[waiting]]
                found[waiting] = other
                waiting = waiting[(other >= 0) & (self.keys[other] != part[waiting])]
            out[start : start + _SLICE] = found
        return out

    def _first_slot(self, keys: Keys) -> NDArray[np.int64]:
        """The high bits of splitmix64, which spreads keys that differ in any bits."""
        mixed = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (mixed >> self._shift).astype(np.int64)


def number_finder(values: pl.Series) -> Finder:
    """Finds whole numbers among distinct ones."""
    index = KeyIndex(values.to_numpy().view(np.uint64))
    return lambda ids: index.find(ids.to_numpy().view(np.uint64))


def text_finder(values: pl.Series) -> Finder:
    """Finds texts among distinct ones.

    Texts are compared by two independent hashes of 64 bits: among 10^9 texts the chance of taking
    any for another is below 10^-20.
    """
    for seed in count(0, 2):
        keys = _hashes(values, seed)
        if pl.Series(keys).n_unique() == len(keys):
            break
    index, checks = KeyIndex(keys), _hashes(values, seed + 1)

    def find(ids: pl.Series) -> NDArray[np.int64]:
        found = index.find(_hashes(ids, seed))
        if len(checks):
            found[checks[found] != _hashes(ids, seed + 1)] = -1
        return found

    return find


def distinct_texts(texts: pl.Series) -> pl.Series:
    """Each text once, in no particular order: ``texts.unique()``, several times as fast."""
    for seed in count(0, 2):
        keys, checks = _hashes(texts, seed), _hashes(texts, seed + 1)
        index = KeyIndex(pl.Series(keys).unique().to_numpy())
        group = index.find(keys)
        row = np.empty(len(index.keys), dtype=np.int64)
        row[group] = np.arange(len(texts))
        if np.array_equal(checks[row[group]], checks):
            break  # else one hash stands for two texts: take another one
    return texts.gather(row)


def _hashes(texts: pl.Series, seed: int) -> Keys:
    return texts.hash(seed).to_numpy()
