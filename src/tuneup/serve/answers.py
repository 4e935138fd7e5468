"""Answers in the user's own ids, each with the degree of the node that was asked about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from torch import Tensor

from tuneup.errors import InputError
from tuneup.files import atomic_path
from tuneup.tables import IdMap

from .arrivals import Floats, Ints


@dataclass(frozen=True)
class ClassAnswer:
    """The class of one node."""

    id: Any
    label: str | int
    probability: float
    degree: int


@dataclass(frozen=True, eq=False)
class ClassAnswers:
    """The most likely class of each node asked about.

    Args:
        ids: of the nodes ``[n]``.
        probabilities: of every class ``[n, C]``.
        degree: senders of each node ``[n]``: how much was known about it.
        labels: name of each class ``[C]``.
        skipped: unknown ids that were asked about, or named by edges of new nodes.
    """

    ids: pl.Series
    probabilities: Floats
    degree: Ints
    labels: tuple[str | int, ...]
    skipped: tuple[Any, ...] = ()

    @property
    def best(self) -> Ints:
        """Number of the most likely class of each node, the first of equals ``[n]``."""
        best: Ints = self.probabilities.argmax(1)
        return best

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> ClassAnswer:
        best = int(self.probabilities[row].argmax())
        chance, degree = float(self.probabilities[row, best]), int(self.degree[row])
        return ClassAnswer(self.ids[row], self.labels[best], chance, degree)

    def __iter__(self) -> Iterator[ClassAnswer]:
        return (self[row] for row in range(len(self)))

    def to_frame(self, *, all_classes: bool = False) -> pl.DataFrame:
        """Columns ``id``, ``label``, ``probability``, ``degree``; one more for each class if asked.

        The latter are called ``p(label)``.
        """
        best = self.best
        frame = pl.DataFrame(
            {
                "id": self.ids,
                "label": pl.Series(self.labels).gather(best),
                "probability": self.probabilities[np.arange(len(self)), best],
                "degree": self.degree,
            }
        )
        if not all_classes:
            return frame
        columns = zip(self.labels, self.probabilities.T, strict=True)
        return frame.with_columns(pl.Series(f"p({label})", column) for label, column in columns)


@dataclass(frozen=True)
class RankingAnswer:
    """The best candidates of one node, best first, with their scores."""

    id: Any
    candidates: tuple[Any, ...]
    scores: tuple[float, ...]
    degree: int


@dataclass(frozen=True, eq=False)
class RankingAnswers:
    """The best candidates of each node asked about, best first, none of them known before.

    Args:
        ids: of the nodes ``[n]``.
        numbers: candidates ``[n, k]``, -1 where there are fewer than k.
        scores: theirs ``[n, k]``; equals come in the order of their numbers.
        degree: senders of each node ``[n]``: how much was known about it.
        known: ids of all candidates.
        skipped: unknown ids that were asked about, or named by edges of new nodes.
    """

    ids: pl.Series
    numbers: Ints
    scores: Floats
    degree: Ints
    known: IdMap
    skipped: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> RankingAnswer:
        filled = self.numbers[row] >= 0
        candidates = tuple(self.known.values.gather(self.numbers[row][filled]).to_list())
        scores = tuple(self.scores[row][filled].tolist())
        return RankingAnswer(self.ids[row], candidates, scores, int(self.degree[row]))

    def __iter__(self) -> Iterator[RankingAnswer]:
        return (self[row] for row in range(len(self)))

    def to_frame(self) -> pl.DataFrame:
        """A row for each candidate: ``id``, ``rank`` from 1, its own id, ``score``, ``degree``.

        The candidate's column is called ``item`` for recommendations and ``node`` for links.
        """
        row, place = np.nonzero(self.numbers >= 0)
        return pl.DataFrame(
            {
                "id": self.ids.gather(row),
                "rank": place + 1,
                self.known.kind: self.known.values.gather(self.numbers[row, place]),
                "score": self.scores[row, place],
                "degree": self.degree[row],
            }
        )


def write_embeddings(path: Path, z: Tensor, ids: IdMap, items: IdMap | None) -> tuple[Path, ...]:
    """Write embeddings ``[N, d]`` for a vector index; the answer are the files that were written.

    ``vectors.parquet`` has the columns ``id`` and ``embedding``.  ``vectors.npy`` is the array
    itself, and ``vectors-ids.parquet`` names its rows.  A recommender's users and items come in
    files of their own: ``vectors-users...`` and ``vectors-items...``.
    """
    if path.suffix not in (".parquet", ".npy"):
        raise InputError(f"Embeddings are written as .parquet or .npy; got {path.name}.")
    vectors: Floats = z.detach().float().cpu().numpy()
    sides = {"": ids} if items is None else {"-users": ids, "-items": items}
    written = []
    for side, known in sides.items():
        part, vectors = vectors[: len(known)], vectors[len(known) :]
        place = path.with_stem(f"{path.stem}{side}")
        table = pl.DataFrame({"id": known.values})
        written.append(place)
        if place.suffix == ".parquet":
            table = table.with_columns(embedding=part)
        else:
            with atomic_path(place) as partial, partial.open("wb") as file:
                np.save(file, part, allow_pickle=False)
            table = table.with_columns(number=np.arange(len(known)))
            written.append(place := place.with_name(f"{place.stem}-ids.parquet"))
        with atomic_path(place) as partial:
            table.write_parquet(partial)
    return tuple(written)
