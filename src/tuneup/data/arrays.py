"""Arrays out of npz and npy files, checked before use; pickles are never loaded."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneup.errors import InputError


def read_npz(path: Path, keys: Sequence[str], layout: str) -> dict[str, NDArray[Any]]:
    """Some arrays of an npz file; others, which may well be pickles, are left unread."""
    with _clear_errors(path, layout), path.open("rb") as stream:  # np.load leaves a bad file open
        file = np.load(stream, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("it is a single array")
        absent = [key for key in keys if key not in file.files]
        if absent:
            raise ValueError(f"it has no {', '.join(absent)}; there must be {', '.join(keys)}")
        return {key: file[key] for key in keys}


def read_npy(path: Path, layout: str) -> NDArray[Any]:
    """The one array of an npy file."""
    with _clear_errors(path, layout), path.open("rb") as stream:
        array = np.load(stream, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("it is an archive of arrays")
        return array


@contextmanager
def _clear_errors(path: Path, layout: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file.") from error
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"{path}: not a readable file of the {layout} layout ({_reason(error)}). "
            + _remedy(error)
        ) from error


def _remedy(error: Exception) -> str:
    if "pickle" in str(error) and not isinstance(error, EOFError | zipfile.BadZipFile):
        return (
            "Pickled arrays are refused, and other files are no arrays: save it with numpy.savez."
        )
    return "It may be cut short: copy it again."


def _reason(error: Exception) -> str:
    if "pickle" in str(error):  # numpy goes on to advise unpickling it
        return "it holds something else than arrays of numbers"
    lines = str(error).splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def csr_entries(
    path: Path, arrays: Mapping[str, NDArray[Any]], prefix: str = ""
) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Row and column of each stored entry ``[nnz]`` of a CSR matrix, and its shape, checked.

    The matrix is in the arrays ``indices``, ``indptr`` and ``shape``, each after the prefix.
    """
    column, pointer, shape = (
        integers(path, f"{prefix}{part}", arrays[f"{prefix}{part}"])
        for part in ("indices", "indptr", "shape")
    )
    if shape.numel() != 2 or int(shape.min()) < 0:
        raise InputError(f"{path}: {prefix}shape must be two sizes; got {shape.tolist()}.")
    rows, columns = shape.tolist()
    count = pointer.diff()
    fits = pointer.numel() == rows + 1 and int(pointer[0]) == 0
    if not fits or bool((count < 0).any()) or int(pointer[-1]) != column.numel():
        raise InputError(
            f"{path}: {prefix}indptr must rise from 0 to {column.numel():,}, the number of "
            f"{prefix}indices, in {rows + 1:,} entries, one per row and one more."
        )
    if column.numel() and not 0 <= int(column.min()) <= int(column.max()) < columns:
        raise InputError(f"{path}: {prefix}indices must lie in 0..{columns - 1}, its columns.")
    row = torch.arange(rows).repeat_interleave(count)
    return row, column, (rows, columns)


def integers(path: Path, key: str, array: NDArray[Any]) -> Tensor:
    """A list of integers as int64."""
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{path}: {key} must be a list of integers; got {array.dtype} of shape "
            f"{list(array.shape)}."
        )
    return torch.from_numpy(array.astype(np.int64))
