"""``tuneup datasets`` as a user meets it; no test here can reach a network."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TUNEUP = Path(sys.executable).with_name("tuneup")


def tuneup(*arguments, data, columns=80):
    # Nothing listens at port 9: whatever asks for an address is refused at once.
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:9")
    more = {"COLUMNS": str(columns), "NO_COLOR": "1", "TUNEUP_DATA": str(data)} | proxies
    return subprocess.run(
        [TUNEUP, "datasets", *arguments],
        env={key: value for key, value in os.environ.items() if key.lower() != "no_proxy"} | more,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("columns", [60, 80])
def test_the_list_fits_and_says_where_the_folder_is(tmp_path, columns):
    done = tuneup(data=tmp_path, columns=columns)
    assert (done.returncode, done.stderr) == (0, "")
    *table, folder = done.stdout.splitlines()
    assert max(map(len, table)) <= columns
    assert folder == f"The folder is {tmp_path}."
    assert "ogbn-products" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_without_a_network_one_line_says_what_to_do(tmp_path):
    done = tuneup("--download", "photo", data=tmp_path / "data")
    source = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
    url = f"{source}/amazon_electronics_photo.npz"
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: Photo: {url} cannot be reached (")
    assert f"Fetch {url} as amazon_electronics_photo.npz and put it into {tmp_path}" in line
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_name_is_refused_before_anything_is_fetched(tmp_path):
    done = tuneup("--download", "photo", "--download", "karate", data=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: No dataset 'karate'; there are ogbn-arxiv, ")
    assert len(done.stderr.splitlines()) == 1


def test_a_copy_that_is_not_the_published_one_is_refused(tmp_path):
    folder = tmp_path / "dblp" / "raw"
    folder.mkdir(parents=True)
    one = {"data": [1.0], "indices": [0], "indptr": [0, 1], "shape": [1, 1]}
    arrays = {f"{part}_{key}": value for part in ("adj", "attr") for key, value in one.items()}
    np.savez(folder / "dblp.npz", **arrays, labels=[0])
    done = tuneup("--download", "dblp", data=tmp_path)
    assert done.returncode == 2
    assert "dblp: 1 nodes, 0 edges, 1 features, 1 classes in" in done.stderr
    assert "17,716 nodes, 52,867 edges" in done.stderr


@pytest.mark.skipif("TUNEUP_DATA" not in os.environ, reason="TUNEUP_DATA is not set")
def test_a_copy_that_was_changed_is_told_of(tmp_path):
    """It has all of its pairs but one, in whose place there is another."""
    for name in ("train.txt", "test.txt"):
        text = Path(os.environ["TUNEUP_DATA"], "gowalla", name).read_text()
        place = tmp_path / "gowalla" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    assert "published" not in tuneup("--download", "gowalla", data=tmp_path).stdout
    lines = place.read_text().splitlines()
    first, second = (line.split() for line in lines[:2])
    first[1], second[1] = second[1], first[1]
    place.write_text("\n".join([" ".join(first), " ".join(second), *lines[2:], ""]))
    done = tuneup("--download", "gowalla", data=tmp_path)
    assert done.returncode == 0
    assert "test.txt has" in done.stdout
    assert "it is not the published file" in done.stdout


@pytest.mark.skipif("TUNEUP_DATA" not in os.environ, reason="TUNEUP_DATA is not set")
def test_a_copy_that_is_here_is_verified(tmp_path):
    done = tuneup("--download", "dblp", data=os.environ["TUNEUP_DATA"])
    assert done.stdout.startswith("dblp: 17,716 nodes, 52,867 edges, 1,639 features, 4 classes, in")
