"""Top-k of computed scores against a sort of every row, with many equals."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.test_topk import random_rows
from tuneup.metrics.dense import top_k_dense


@given(
    st.integers(0, 5), st.integers(1, 40), st.integers(1, 60), st.integers(1, 4), st.integers(0, 99)
)
def test_a_sort_of_every_row(rows, columns, k, values, seed):
    """Fewer candidates than k leave -1; of equals the first columns are taken, in their order."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-1, values, (rows, columns), generator=generator).float()
    known = random_rows(rows, columns, columns, generator)
    expected = []
    for row, line in enumerate(scores.tolist()):
        hidden = set(known.col[known.rowptr[row] : known.rowptr[row + 1]].tolist())
        order = sorted((-score, c) for c, score in enumerate(line) if c not in hidden)[:k]
        expected.append([c for _, c in order] + [-1] * (k - len(order)))
    found = top_k_dense(scores.clone(), k, known=known)
    assert found.ids.tolist() == expected
    ranked = found.ids >= 0
    assert found.scores[~ranked].eq(-torch.inf).all()
    assert found.scores[ranked].equal(scores.gather(1, found.ids.clamp(min=0))[ranked])


@pytest.mark.parametrize("k", [1, 5])
def test_nothing_known(k):
    scores = torch.tensor([[0.5, 2.0, 0.5, -1.0]])
    assert top_k_dense(scores, k).ids[0].tolist() == [1, 0, 2, 3, -1][:k]
