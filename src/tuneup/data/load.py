"""A dataset by its name: fetched if it is not here, read, and compared with what was published."""

from __future__ import annotations

from pathlib import Path

from tuneup.errors import InputError

from .cache import files_of
from .catalogue import dataset_named
from .dataset import Dataset, size_of
from .graph import Graph
from .interactions import Interactions


def load_dataset(
    name: str, root: Path | str | None = None, *, fetch: bool = True, published: bool = True
) -> Graph | Interactions:
    """One of the datasets that ``tuneup datasets`` lists.

    Args:
        name: which one, in any case of letters.
        root: folder of datasets; by default what ``TUNEUP_DATA`` names, or the user's cache.
        fetch: whether to download what is not there.
        published: whether it must have the published size; ``False`` for a stand-in.
    """
    return load(dataset_named(name), root, fetch=fetch, published=published)


def load(
    dataset: Dataset, root: Path | str | None = None, *, fetch: bool = True, published: bool = True
) -> Graph | Interactions:
    """The same from a record, which may be one of your own."""
    paths = files_of(dataset, root, fetch=fetch)
    data = dataset.read(paths, dataset.name)
    if published and size_of(data) != dataset.size:
        raise InputError(
            f"{dataset.name}: {size_of(data)} in {paths[0].parent}, but {dataset.size} were "
            "published. Remove that folder's files and fetch them again."
        )
    return data


def load_graph(
    name: str, root: Path | str | None = None, *, fetch: bool = True, published: bool = True
) -> Graph:
    """A dataset that is a graph; arguments as of :func:`load_dataset`."""
    data = load_dataset(name, root, fetch=fetch, published=published)
    if not isinstance(data, Graph):
        raise InputError(f"{name} is no graph with features but pairs of users and items.")
    return data


def load_pairs(
    name: str, root: Path | str | None = None, *, fetch: bool = True, published: bool = True
) -> Interactions:
    """A dataset of users and items; arguments as of :func:`load_dataset`."""
    data = load_dataset(name, root, fetch=fetch, published=published)
    if not isinstance(data, Interactions):
        raise InputError(f"{name} has no users and items but is a graph with features.")
    return data


def load_benchmark(name: str, root: Path | str | None = None) -> Graph:
    """A graph of the catalogue, or a stand-in of its layout, from files that are here."""
    return load_graph(name, root, fetch=False, published=False)


def load_gowalla(root: Path | str | None = None) -> Interactions:
    """All of gowalla, or a stand-in of its layout, from files that are here."""
    return load_pairs("gowalla", root, fetch=False, published=False)
