"""The two resampling kernels under every interval and test: bootstrap means and sign-flip sums.

Both draw in batches of a bounded size, and both first merge equal values: the scores of 150,000
nodes are often only zeros and ones, and how often each of a few values is drawn is a multinomial
(or binomial) number. That is the same distribution as drawing node by node, for far less work.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BATCH = 1 << 16  # numbers live at once, few enough for the cache
# A multinomial number costs about as much as drawing this many single nodes.
_MERGE_AT = 8


def resampled_means(values: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Means of ``draws`` samples of n rows, taken with replacement from the n rows of ``values``.

        mean_b = 1/n sum_i w_{b,i} values_i,   w_b ~ Multinomial(n; 1/n, ..., 1/n)

    Args:
        values: ``[n, k]`` with n > 0; the k entries of a row are always drawn together.
        draws: the number of samples.
        rng: the source of randomness.

    Returns:
        ``[draws, k]``.
    """
    n = len(values)
    distinct, counts = np.unique(values, axis=0, return_counts=True)
    if len(distinct) == 1:  # nothing to resample, and no rounding of w @ values
        return np.repeat(distinct, draws, axis=0)
    if len(distinct) * _MERGE_AT <= n:
        means = [
            rng.multinomial(n, counts / n, size=rows) @ distinct
            for rows in _batches(draws, len(distinct))
        ]
    else:
        means = [_draw_counts(n, rows, rng) @ values for rows in _batches(draws, n)]
    return np.asarray(np.concatenate(means) / n, dtype=np.float64)


def sign_flip_p_value(differences: Floats, draws: int, rng: np.random.Generator) -> float:
    """Two-sided p-value of the paired sign-flip (permutation) test of no difference.

    If the two methods were interchangeable, each difference d_i would be as likely as -d_i:

        p = P(|sum_i s_i d_i| >= |sum_i d_i|),   s_i independent, +1 or -1 with probability 1/2

    Exact, over all sign patterns of the non-zero differences, if there are at most ``draws``
    patterns (13 non-zero differences at 10,000); otherwise estimated as (1 + hits) / (1 + draws),
    which is never 0 and keeps the test valid.

    Args:
        differences: ``[n]``.
        draws: the number of sign patterns to try.
        rng: the source of randomness; unused if the result is exact.
    """
    size = np.abs(differences[differences != 0])
    # Sums that are equal on paper differ by rounding, float32 scores by up to 6e-8 of their size.
    threshold = abs(differences.sum()) - 1e-7 * size.sum()
    if 2 ** min(len(size), 63) <= draws:
        sums = np.zeros(1)
        for each in size:
            sums = np.concatenate([sums + each, sums - each])
        return float(np.mean(np.abs(sums) >= threshold))
    hits = sum(int((np.abs(sums) >= threshold).sum()) for sums in _flipped(size, draws, rng))
    return (1 + hits) / (1 + draws)


def _flipped(size: Floats, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Batches of sums of ``size`` under random signs, ``draws`` sums in all."""
    distinct, counts = np.unique(size, return_counts=True)
    total = size.sum()
    if len(distinct) * _MERGE_AT <= len(size):
        for rows in _batches(draws, len(distinct)):
            positive = rng.binomial(counts, 0.5, size=(rows, len(distinct)))
            yield 2 * (positive @ distinct) - total
    else:
        for rows in _batches(draws, len(size)):
            bits = np.frombuffer(rng.bytes(rows * -(-len(size) // 8)), dtype=np.uint8)
            signs = np.unpackbits(bits.reshape(rows, -1), axis=1, count=len(size))
            yield 2 * (signs.astype(np.float64) @ size) - total


def _draw_counts(n: int, rows: int, rng: np.random.Generator) -> Floats:
    """How often each of n items is among n draws with replacement, ``[rows, n]``."""
    drawn = rng.integers(0, n, size=(rows, n)) + n * np.arange(rows)[:, None]
    counts = np.bincount(drawn.reshape(-1), minlength=rows * n)
    return counts.reshape(rows, n).astype(np.float64)


def _batches(draws: int, width: int) -> Iterator[int]:
    """Row counts that add up to ``draws``, so that ``[rows, width]`` stays within the budget."""
    rows = max(1, _BATCH // width)
    for start in range(0, draws, rows):
        yield min(rows, draws - start)
