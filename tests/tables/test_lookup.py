"""The hash table of ids against Python's own, also where keys collide."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneup.tables import lookup
from tuneup.tables.lookup import KeyIndex, distinct_texts, text_finder

quick = settings(max_examples=60, deadline=None)
KEYS = st.integers(0, 2**64 - 1) | st.integers(0, 40).map(lambda key: key << 50)


@quick
@given(st.lists(KEYS, unique=True), st.lists(KEYS))
def test_keys_are_found(keys, asked):
    index = KeyIndex(np.array(keys, dtype=np.uint64))
    expected = [keys.index(one) if one in keys else -1 for one in keys + asked]
    assert index.find(np.array(keys + asked, dtype=np.uint64)).tolist() == expected


@pytest.mark.parametrize("step", [1, 8, 2**20, 2**43])
def test_more_keys_than_are_looked_up_at_once(step):
    keys = np.arange(300_000, dtype=np.uint64) * np.uint64(step)
    asked = np.concatenate([keys[::-1], keys + np.uint64(1)])
    found = KeyIndex(keys).find(asked)
    assert (found[: len(keys)] == np.arange(len(keys))[::-1]).all()
    if step > 1:
        assert (found[len(keys) :] == -1).all()


@quick
@given(st.lists(st.text(max_size=3), unique=True, max_size=6), st.lists(st.text(max_size=2)))
def test_texts_whose_hashes_collide_stay_apart(ids, asked):
    """First hashes of 4 bits: most sets of texts have a collision, so that another seed is used."""
    strong, few = lookup._hashes, np.uint64(15)

    def weak(texts, seed):
        return strong(texts, seed) & (~few if seed % 2 else few)

    expected = [ids.index(one) if one in ids else -1 for one in ids + asked]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "_hashes", weak)
        find = text_finder(pl.Series(ids, dtype=pl.String))
        assert find(pl.Series(ids + asked, dtype=pl.String)).tolist() == expected
        once = distinct_texts(pl.Series(ids * 3, dtype=pl.String))
    assert sorted(once) == sorted(ids)
