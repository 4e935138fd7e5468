"""``tuneup datasets`` as a user meets it; no test here can reach a network."""

import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def tuneup(typed, monkeypatch):
    # Nothing listens at port 9: whatever asks for an address is refused at once.
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def run(*words, data, columns=80):
        monkeypatch.setenv("TUNEUP_DATA", str(data))
        return typed("datasets", *words, columns=columns)

    return run


def test_the_list_fits_and_names_the_folder(tmp_path, tuneup):
    for columns in (60, 80):
        done = tuneup(data=tmp_path, columns=columns)
        assert (done.code, done.err) == (0, "")
        *table, folder = done.out.splitlines()
        assert max(map(len, table)) <= columns
        assert folder == f"The folder is {tmp_path}."
        assert "ogbn-products" in done.out
    assert list(tmp_path.iterdir()) == []


def test_a_failed_download_is_one_line_with_what_to_do(tmp_path, tuneup):
    done = tuneup("--download", "photo", data=tmp_path / "data")
    source = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
    url = f"{source}/amazon_electronics_photo.npz"
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    assert line.startswith(f"Error: Photo: {url} cannot be reached (")
    assert f"Fetch {url} as amazon_electronics_photo.npz and put it into {tmp_path}" in line
    done = tuneup("--download", "photo", "--download", "karate", data=tmp_path)
    assert done.code == 2
    assert done.err.startswith("Error: No dataset 'karate'; there are ogbn-arxiv, ")
    assert len(done.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_copy_of_another_size_is_refused(tmp_path, tuneup):
    folder = tmp_path / "dblp" / "raw"
    folder.mkdir(parents=True)
    one = {"data": [1.0], "indices": [0], "indptr": [0, 1], "shape": [1, 1]}
    arrays = {f"{part}_{key}": value for part in ("adj", "attr") for key, value in one.items()}
    np.savez(folder / "dblp.npz", **arrays, labels=[0])
    done = tuneup("--download", "dblp", data=tmp_path)
    assert done.code == 2
    assert "dblp: 1 nodes, 0 edges, 1 features, 1 classes in" in done.err
    assert "17,716 nodes, 52,867 edges" in done.err


@pytest.mark.skipif("TUNEUP_DATA" not in os.environ, reason="TUNEUP_DATA is not set")
def test_a_changed_copy_is_reported(tmp_path, tuneup):
    """It has all of its pairs but one, in whose place there is another."""
    for name in ("train.txt", "test.txt"):
        text = Path(os.environ["TUNEUP_DATA"], "gowalla", name).read_text()
        place = tmp_path / "gowalla" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    assert "published" not in tuneup("--download", "gowalla", data=tmp_path).out
    lines = place.read_text().splitlines()
    first, second = (line.split() for line in lines[:2])
    first[1], second[1] = second[1], first[1]
    place.write_text("\n".join([" ".join(first), " ".join(second), *lines[2:], ""]))
    done = tuneup("--download", "gowalla", data=tmp_path)
    assert done.code == 0
    assert "test.txt has" in done.out
    assert "it is not the published file" in done.out


@pytest.mark.skipif("TUNEUP_DATA" not in os.environ, reason="TUNEUP_DATA is not set")
def test_a_cached_copy_is_verified(tmp_path, tuneup):
    done = tuneup("--download", "dblp", data=os.environ["TUNEUP_DATA"])
    assert done.out.startswith("dblp: 17,716 nodes, 52,867 edges, 1,639 features, 4 classes, in")
