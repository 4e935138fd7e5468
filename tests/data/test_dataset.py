"""Datasets by name: found, fetched from a server on this machine, refused in one line."""

import os
import re
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from tests.data.web import serving
from tuneup.data import (
    DATASETS,
    Dataset,
    GraphSize,
    PairsSize,
    Remote,
    data_folder,
    dataset_named,
    files_of,
    is_cached,
    load_dataset,
)
from tuneup.data.dataset import size_of
from tuneup.data.download import download_bar
from tuneup.data.npz import read_benchmark
from tuneup.errors import DownloadError, InputError, OutputError
from tuneup.names import TaskName

NAMES = [
    *("ogbn-arxiv", "ogbn-products", "flickr", "gowalla", "amazon-book"),
    *("Computers", "Photo", "CS", "Physics", "dblp", "cora"),
]


def test_the_catalogue_is_complete_and_well_formed():
    assert list(DATASETS) == NAMES
    for dataset in DATASETS.values():
        assert set(dataset.tasks) <= set(get_args(TaskName))
        assert isinstance(dataset.size, PairsSize) == (dataset.tasks == ("recommendation",))
        assert len(set(dataset.files)) == len(dataset.files)
        assert dataset.licence
        for remote in dataset.remotes:
            assert remote.url.startswith("https://")
            for checksum in remote.checksums:
                assert re.fullmatch(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", checksum)


def test_names_in_any_case():
    assert dataset_named("OGBN-Arxiv").name == "ogbn-arxiv"
    with pytest.raises(InputError, match=r"No dataset 'karate'; there are ogbn-arxiv, .*, cora\."):
        dataset_named("karate")


def test_the_folder_is_the_named_one_or_the_users_cache(monkeypatch):
    for name in ("TUNEUP_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert data_folder() == Path("/home/someone/Library/Caches/tuneup")
    monkeypatch.setattr(sys, "platform", "linux")
    assert data_folder() == Path("/home/someone/.cache/tuneup")
    monkeypatch.setenv("XDG_CACHE_HOME", "/big/cache")
    assert data_folder() == Path("/big/cache/tuneup")
    monkeypatch.setenv("TUNEUP_DATA", "~/data")
    assert data_folder() == Path("/home/someone/data")
    assert data_folder("/elsewhere") == Path("/elsewhere")


def small_npz(path):
    """Three nodes in a row, of the gnn-benchmark layout."""
    eye = {"data": np.ones(3), "indices": np.arange(3), "indptr": np.arange(4), "shape": [3, 3]}
    adj = {"data": np.ones(2), "indices": [1, 2], "indptr": [0, 1, 2, 2], "shape": [3, 3]}
    arrays = {f"attr_{key}": value for key, value in eye.items()}
    arrays |= {f"adj_{key}": value for key, value in adj.items()}
    np.savez(path, **arrays, labels=[0, 1, 0])
    return path


@pytest.fixture
def server(tmp_path):
    with serving() as found:
        found.body = small_npz(tmp_path / "original.npz").read_bytes()
        yield found


@pytest.fixture
def small(server):
    """A dataset that the server has."""
    remote = Remote(server.url, "small.npz")
    size = GraphSize(3, 2, 3, 2)
    return Dataset("small", ("node-classification",), size, (remote,), read_benchmark, "none")


@pytest.fixture
def root(tmp_path):
    return tmp_path / "data"


def test_a_dataset_is_fetched_once_and_then_read_from_here(small, server, root, capsys):
    assert not is_cached(small, root)
    graph = small.load(root)
    assert (graph.name, size_of(graph)) == ("small", small.size)
    assert [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()] == [
        "small/raw/small.npz"
    ]
    assert is_cached(small, root)
    server.codes = [404] * 9
    assert small.load(root).num_nodes == 3
    assert len(server.asked) == 1
    assert capsys.readouterr() == ("", "")  # no terminal, no bar


@pytest.mark.parametrize("place", ["small/raw/small.npz", "small/small.npz"])
def test_a_copy_that_is_here_needs_no_network(small, server, root, place):
    (root / place).parent.mkdir(parents=True)
    small_npz(root / place)
    assert is_cached(small, root)
    assert small.load(root).num_nodes == 3
    assert server.asked == []


def test_no_network_and_no_copy_is_one_line_that_says_what_to_do(small, root):
    with serving() as gone:
        url = gone.url
    lost = replace(small, remotes=(Remote(url, "small.npz"), Remote(f"{url}2", "more.npz")))
    with pytest.raises(DownloadError) as caught:
        lost.load(root)
    assert str(caught.value) == (
        f"small: {url} cannot be reached (Connection refused). Fetch {url} as small.npz, "
        f"{url}2 as more.npz and put them into {root}/small/raw, or set TUNEUP_DATA to the folder "
        "that holds small."
    )
    assert not root.exists()


def test_nothing_is_downloaded_without_fetch(small, server, root):
    with pytest.raises(DownloadError, match=rf"small: no small\.npz in {root}\. Fetch http"):
        small.load(root, fetch=False)
    assert server.asked == []


def test_an_interrupted_download_is_resumed(small, server, root):
    server.cuts = [100]
    server.codes = []
    whole = server.answer

    def answer(request):
        if server.asked:
            server.codes = [404]
        whole(request)

    server.answer = answer
    with pytest.raises(DownloadError, match="the server answers 404"):
        small.load(root)
    assert (root / "small" / "raw" / "small.npz.part").stat().st_size == 100
    server.answer = whole
    assert small.load(root).num_nodes == 3
    assert server.asked[-1] == "bytes=100-"


def test_another_size_than_the_published_is_refused(small, root):
    other = replace(small, size=GraphSize(4, 2, 3, 2))
    with pytest.raises(InputError, match=r"small: 3 nodes, 2 edges, .* but 4 nodes, 2 edges, "):
        other.load(root)
    assert other.load(root, published=False).num_nodes == 3


def test_one_of_several_processes_downloads(small, server, root):
    begin, found = threading.Barrier(4), []

    def work():
        begin.wait()
        found.append(files_of(small, root))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[root / "small" / "raw" / "small.npz"]] * 4
    assert len(server.asked) == 1
    assert [path.name for path in (root / "small" / "raw").iterdir()] == ["small.npz"]


@pytest.fixture
def packed(small, server, tmp_path):
    """The same in a zip archive, with something in it that wants to get out."""
    path = tmp_path / "packed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../evil.txt", "evil")
        archive.writestr("/evil.txt", "evil")
        archive.writestr("inner/raw/small.npz", server.body)
    server.body = path.read_bytes()
    remote = Remote(server.url, "packed.zip", members=("inner/raw/small.npz",))
    return replace(small, remotes=(remote,))


def test_only_the_members_are_extracted_from_an_archive(packed, root):
    assert packed.load(root).num_nodes == 3
    assert [path.name for path in root.parent.rglob("*") if path.is_file()].count("evil.txt") == 0
    assert [path.name for path in (root / "small" / "raw").iterdir()] == ["small.npz"]


def test_an_archive_that_is_here_is_enough(packed, server, root):
    (root / "small").mkdir(parents=True)
    (root / "small" / "packed.zip").write_bytes(server.body)
    assert is_cached(packed, root)
    assert packed.load(root, fetch=False).num_nodes == 3
    assert server.asked == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "other"])
def test_a_damaged_archive_is_named(packed, server, root, damage):
    middle = server.body.index(b"small.npz") + 60
    if damage == "cut":
        server.body = server.body[:-200]
    elif damage == "flipped":
        server.body = server.body[:middle] + bytes(40) + server.body[middle + 40 :]
    else:
        packed = replace(packed, remotes=(replace(packed.remotes[0], members=("a/small.npz",)),))
    with pytest.raises(InputError, match=r"packed\.zip: .*small\.npz cannot be extracted") as e:
        packed.load(root)
    assert "\n" not in str(e.value)
    assert not list((root / "small" / "raw").glob("*.npz"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(small, root):
    root.mkdir(mode=0o500)
    with pytest.raises(OutputError, match=r"Permission denied; check the permissions"):
        small.load(root)


def test_on_a_terminal_there_is_a_bar(monkeypatch, capsys):
    for columns in [40, 80]:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        with download_bar("small: small.npz") as report:
            report(0, None)
            report(50_000, 100_000)
        shown = capsys.readouterr().err
        assert "small: small.npz" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)


REAL = ("gowalla", "Computers", "CS", "dblp")


@pytest.mark.skipif("TUNEUP_DATA" not in os.environ, reason="TUNEUP_DATA is not set")
@pytest.mark.parametrize("name", REAL)
def test_real_files_have_the_published_size_and_checksums(name):
    dataset = dataset_named(name)
    if not is_cached(dataset):
        pytest.skip(f"{name} is not in TUNEUP_DATA")
    assert size_of(load_dataset(name)) == dataset.size
    if dataset.has_checksums:
        for remote, path in zip(dataset.remotes, files_of(dataset), strict=True):
            assert remote.mismatch(path) is None
