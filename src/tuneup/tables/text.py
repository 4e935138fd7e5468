"""Free text as numbers: hashed TF-IDF, projected on the directions in which most texts differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from zlib import crc32

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .kinds import Column, Feature
from .values import as_texts

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Floats = NDArray[np.float64]

BUCKETS = 1 << 14
"""Words share this many numbers: two words of one number count as the same word."""
MOST_WORDS = 4000
"""Buckets that are used, those that occur in most texts, so that a saved plan stays small."""
_TEXTS = 50_000
"""Texts whose words are in memory at once."""
_WORD = r"[\p{L}\p{N}_]{2,}"


@dataclass(frozen=True)
class Text(Feature):
    """The first singular directions of TF-IDF, scaled to a mean square of 1; all 0 where missing.

    With ``c`` occurrences of a word in a text, ``n`` texts and ``d`` of them with that word, a text
    is the row of ``(1 + ln c) (1 + ln((1 + n) / (1 + d)))``, divided by its length, times
    ``directions`` transposed.

    Args:
        name: of the column.
        buckets: numbers of the words that are used, ascending ``[b]``.
        rarity: the second factor for each ``[b]``.
        directions: the right singular vectors, a list for each number of the result ``[w, b]``.
        mean: of each number in training ``[w]``.
        scale: that all are divided by.
        indicator: whether values were missing in training.
    """

    kind: ClassVar[str] = "text"
    title: ClassVar[str] = "free text"
    reader = as_texts

    buckets: tuple[int, ...]
    rarity: tuple[float, ...]
    directions: tuple[tuple[float, ...], ...]
    mean: tuple[float, ...]
    scale: float
    indicator: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "directions", tuple(map(tuple, self.directions)))
        numbers = np.array([*self.rarity, *self.mean, *(v for row in self.directions for v in row)])
        ordered = all(type(b) is int and 0 <= b < BUCKETS for b in self.buckets)
        if not (ordered and np.isfinite(numbers.astype(np.float64)).all() and self.scale > 0):
            raise ValueError(f"the directions of {self.name!r} are no finite numbers")
        lengths = {len(self.rarity), *map(len, self.directions)}
        if (
            list(self.buckets) != sorted({*self.buckets})
            or lengths != {len(self.buckets)}
            or lengths == {0}
            or len(self.mean) != len(self.directions)
        ):
            raise ValueError(f"the directions of {self.name!r} have different lengths")

    @classmethod
    def fit(cls, column: Column, values: pl.Series) -> Text | None:
        """By the texts of training rows; ``None`` if these have no words or no differences."""
        from sklearn.utils.extmath import randomized_svd  # slow to import

        present = values.drop_nulls()
        counted = _count(present)
        texts = counted.group_by("bucket").len().sort("len", "bucket", descending=[True, False])
        used = texts.head(MOST_WORDS).sort("bucket")
        buckets = used["bucket"].to_numpy()
        rarity = 1 + np.log((1 + len(present)) / (1 + used["len"].to_numpy()))
        rarity = _rounded(rarity)
        width = min(column.width, len(buckets), len(present))
        if not width:
            return None
        matrix = _matrix(counted, len(present), buckets, rarity)
        _, sizes, directions = randomized_svd(matrix, width, n_iter=7, random_state=0)
        directions = _rounded(directions[sizes > 1e-6 * sizes.max(initial=0.0)])
        found = matrix @ directions.T
        mean, scale = found.mean(0), float(np.sqrt(found.var(0).mean()))
        if not scale > 1e-9:
            return None
        return cls(
            column.name,
            tuple(buckets.tolist()),
            tuple(rarity.tolist()),
            tuple(map(tuple, directions.tolist())),
            tuple(_rounded(mean).tolist()),
            float(_rounded(np.array(scale))),
            values.null_count() > 0,
        )

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The directions."""
        return tuple(f"{self.name}~{number}" for number in range(len(self.mean)))

    def encode(self, values: pl.Series) -> list[pl.Series]:
        """The texts along each direction."""
        buckets, rarity = np.array(self.buckets), np.array(self.rarity)
        matrix = _matrix(_count(values), len(values), buckets, rarity)
        found = (matrix @ np.array(self.directions).T - self.mean) / self.scale
        found[values.is_null().to_numpy()] = 0.0
        return [pl.Series(column) for column in found.T]


def _rounded(numbers: Floats) -> Floats:
    """To six digits, as they are saved: what is fitted is what is loaded."""
    whole: Floats = np.array([float(f"{n:.6g}") for n in np.ravel(numbers)])
    return whole.reshape(np.shape(numbers))


def _count(values: pl.Series) -> pl.DataFrame:
    """How often each bucket occurs in each text: ``row``, ``bucket`` and ``count``."""
    starts = range(0, max(1, len(values)), _TEXTS)
    return pl.concat([_count_some(values.slice(start, _TEXTS), start) for start in starts])


def _count_some(values: pl.Series, start: int) -> pl.DataFrame:
    words = (
        values.alias("word")
        .to_frame()
        .with_row_index("row", offset=start)
        .with_columns(pl.col("word").str.to_lowercase().str.extract_all(_WORD))
        .explode("word")
        .drop_nulls()
    )
    distinct = words["word"].unique()
    numbers = [crc32(word.encode()) % BUCKETS for word in distinct]
    bucket = words["word"].replace_strict(distinct, numbers, return_dtype=pl.Int64)
    counted = words.with_columns(bucket=bucket).group_by("row", "bucket").len("count")
    return counted.sort("row", "bucket")


def _matrix(
    counted: pl.DataFrame, rows: int, buckets: NDArray[np.int64], rarity: Floats
) -> csr_matrix:
    """TF-IDF ``[rows, b]`` with rows of length 1, or 0 where no word is known."""
    from scipy.sparse import csr_matrix

    row, bucket, count = (counted[name].to_numpy() for name in ("row", "bucket", "count"))
    at = np.searchsorted(buckets, bucket)
    known = buckets[np.minimum(at, len(buckets) - 1)] == bucket
    row, at = row[known], at[known]
    value = (1 + np.log(count[known])) * rarity[at]
    length = np.sqrt(np.bincount(row, value**2, minlength=rows))
    return csr_matrix((value / length[row], (row, at)), shape=(rows, len(buckets)))
