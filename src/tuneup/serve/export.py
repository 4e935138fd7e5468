"""Embeddings for a vector index, with the ids that its answers are turned back by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from torch import Tensor

from tuneup.errors import InputError
from tuneup.files import atomic_path

from .field import Floats
from .ids import Ids


def write_embeddings(path: Path, z: Tensor, ids: Ids, items: Ids | None) -> tuple[Path, ...]:
    """Write embeddings ``[N, d]``; the answer are the files that were written.

    ``vectors.parquet`` has the columns ``id`` and ``embedding``.  ``vectors.npy`` is the array
    itself, and ``vectors-ids.parquet`` names its rows.  A recommender's users and items come in
    files of their own: ``vectors-users...`` and ``vectors-items...``.
    """
    if path.suffix not in (".parquet", ".npy"):
        raise InputError(f"Embeddings are written as .parquet or .npy; got {path.name}.")
    vectors: Floats = z.detach().float().cpu().numpy()
    if items is None:
        return _write(path, vectors, ids)
    users = _write(path.with_stem(f"{path.stem}-users"), vectors[: len(ids)], ids)
    return users + _write(path.with_stem(f"{path.stem}-items"), vectors[len(ids) :], items)


def _write(path: Path, vectors: Floats, ids: Ids) -> tuple[Path, ...]:
    if path.suffix == ".parquet":
        with atomic_path(path) as partial:
            pl.DataFrame({"id": ids.values, "embedding": vectors}).write_parquet(partial)
        return (path,)
    names = path.with_name(f"{path.stem}-ids.parquet")
    with atomic_path(names) as partial:
        ids.write(partial)
    with atomic_path(path) as partial, partial.open("wb") as file:
        np.save(file, vectors, allow_pickle=False)
    return path, names
