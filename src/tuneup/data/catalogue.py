"""The datasets that can be loaded by name: addresses, sizes, checksums and licences.

Sizes and checksums are only what is known.  gowalla's were computed from the files.  The others are
taken from public projects: each checksum is used by at least two that seem unrelated to verify this
very download (RecZoo's Datasets is one of those for amazon-book).  The size of ogbn-products has a
single such source.  Where no checksum is known, a file is verified by what it holds: the
published numbers of nodes, edges, features and classes, after reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tuneup.errors import InputError
from tuneup.names import TaskName

from .dataset import Dataset, GraphSize, PairsSize
from .download import Remote
from .graph import Graph
from .interactions import Interactions
from .item_lists import read_halves, read_item_lists
from .npz import read_benchmark, read_graphsaint
from .ogb import FILES as OGB_FILES
from .ogb import read_ogb

_NODES: tuple[TaskName, ...] = ("node-classification", "link-prediction")
_PAIRS: tuple[TaskName, ...] = ("recommendation",)

# The addresses are those in the code of ogb 1.3.6 and of PyG 2.8.
_OGB = "https://snap.stanford.edu/ogb/data/nodeproppred"
_SHCHUR = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
_GAUSS = "https://github.com/abojchevski/graph2gauss/raw/master/data"
_DRIVE = "https://drive.usercontent.google.com/download?confirm=t&id="
_LIGHTGCN = "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/master/data"


def _ogb(name: str, size: int, sha256: str) -> tuple[Remote, ...]:
    members = tuple(f"{name}/raw/{file}" for file in OGB_FILES)
    return (Remote(f"{_OGB}/{name}.zip", f"{name}.zip", size, (f"sha256:{sha256}",), members),)


def _lists(name: str, *files: tuple[str, int | None, str]) -> tuple[Remote, ...]:
    return tuple(
        Remote(f"{_LIGHTGCN}/{name}/{file}", file, size, (checksum,))
        for file, size, checksum in files
    )


def _npz(name: str, address: str, size: GraphSize, *checksums: str) -> Dataset:
    url = f"{address}.npz"
    remote = Remote(url, url.rpartition("/")[2], checksums=checksums)
    return Dataset(name, _NODES, size, (remote,), read_benchmark, "MIT (repository's)")


_ALL = (
    Dataset(
        "ogbn-arxiv",
        _NODES,
        GraphSize(169_343, 1_157_799, 128, 40),
        _ogb(
            "arxiv",
            83_058_288,
            "49f85c801589ecdcc52cfaca99693aaea7b8af16a9ac3f41dd85a5f3193fe276",
        ),
        read_ogb,
        "ODC-BY",
    ),
    Dataset(
        "ogbn-products",
        _NODES,
        GraphSize(2_449_029, 61_859_012, 100, 47),
        _ogb(
            "products",
            1_480_993_786,
            "5ea0a112edaec2141c0a2a612dd4aed58df97ff3e1ab1a0ca8238f43cbbb50a8",
        ),
        read_ogb,
        "Amazon license",
    ),
    Dataset(
        "flickr",
        _NODES,
        GraphSize(89_250, 449_878, 500, 7),
        (
            Remote(f"{_DRIVE}1crmsTbd1-2sEXsGwa2IKnIB7Zd3TmUsy", "adj_full.npz"),
            Remote(f"{_DRIVE}1join-XdvX3anJU_MLVtick7MgeAQiWIZ", "feats.npy"),
            Remote(f"{_DRIVE}1uxIkbtg5drHTsKt-PAsZZ4_yJmgFmle9", "class_map.json"),
            Remote(f"{_DRIVE}1htXCtuktuCW8TR8KiKfrFDAxUgekQoV7", "role.json"),
        ),
        read_graphsaint,
        "not stated",
    ),
    Dataset(
        "gowalla",
        _PAIRS,
        PairsSize(29_858, 40_981, 1_027_370),
        _lists(
            "gowalla",
            (
                "train.txt",
                4_633_414,
                "sha256:7244696fdeb23911319cf7b689f2e15a3c4c92549c873a5677b44e3f13cc3e62",
            ),
            (
                "test.txt",
                1_372_559,
                "sha256:099a2a73924e4b754dc6efd730d764f492321b53c38eb93298850c83acf57be3",
            ),
        ),
        read_halves,
        "not stated",
    ),
    Dataset(
        "amazon-book",
        _PAIRS,
        PairsSize(52_643, 91_599, 2_984_108),
        _lists(
            "amazon-book",
            ("train.txt", None, "md5:c916ecac04ca72300a016228258b41ed"),
            ("test.txt", None, "md5:30f8ccfea18d25007ba9fb9aba4e174d"),
        ),
        read_item_lists,
        "not stated",
    ),
    _npz(
        "Computers",
        f"{_SHCHUR}/amazon_electronics_computers",
        GraphSize(13_752, 245_861, 767, 10),
    ),
    _npz("Photo", f"{_SHCHUR}/amazon_electronics_photo", GraphSize(7_650, 119_081, 745, 8)),
    _npz("CS", f"{_SHCHUR}/ms_academic_cs", GraphSize(18_333, 81_894, 6_805, 15)),
    _npz("Physics", f"{_SHCHUR}/ms_academic_phy", GraphSize(34_493, 247_962, 8_415, 5)),
    _npz("dblp", f"{_GAUSS}/dblp", GraphSize(17_716, 52_867, 1_639, 4)),
    _npz(
        "cora",
        f"{_GAUSS}/cora",
        GraphSize(19_793, 63_421, 8_710, 70),
        "sha256:62e054f93be00a3dedb15b7ac15a2a07168ceab68b40bf95f54d2289d024c6bc",
    ),
)

DATASETS: Mapping[str, Dataset] = MappingProxyType({dataset.name: dataset for dataset in _ALL})
"""Every dataset by its name: the paper's five, then those for small machines."""


def dataset_named(name: str) -> Dataset:
    """The record of a dataset; upper and lower case are the same."""
    names = {known.lower(): known for known in DATASETS}
    if name.lower() not in names:
        raise InputError(f"No dataset {name!r}; there are {', '.join(DATASETS)}.")
    return DATASETS[names[name.lower()]]


def load_dataset(
    name: str, root: Path | str | None = None, *, fetch: bool = True, published: bool = True
) -> Graph | Interactions:
    """Load one of the datasets that ``tuneup datasets`` lists, downloaded if need be.

    Example::

        graph = tuneup.load_dataset("Photo")        # a Graph: adjacency, x, y
        pairs = tuneup.load_dataset("gowalla")      # Interactions of users and items

    Args:
        name: which one, in upper or lower case.
        root: folder of datasets; by default what ``TUNEUP_DATA`` names, or the user's cache.
        fetch: whether to download what is missing.
        published: whether it must have the published size; ``False`` for a stand-in.

    Raises:
        DownloadError: if a file is missing and cannot be downloaded.
        InputError: if there is no such dataset, or its files are damaged.
    """
    return dataset_named(name).load(root, fetch=fetch, published=published)
