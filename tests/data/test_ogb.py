"""OGB's raw layout, on small files written exactly like it."""

import gzip
import io
import zipfile

import numpy as np
import pytest
import torch

from tuneup.data import GraphSize, dataset_named
from tuneup.data.ogb import FILES, read_ogb
from tuneup.errors import InputError

EDGES = [(0, 1), (1, 0), (2, 3), (3, 3), (0, 4), (0, 4)]  # one twice, one both ways, one loop
LABELS = [2, 0, 1, 1, 2]


def write(folder, rng=None, **changes):
    """The five files; an argument replaces the text of the file it is named after."""
    rng = rng or np.random.default_rng(0)
    x = rng.normal(size=(5, 3)).round(6)
    texts = {
        "edge": "".join(f"{a},{b}\n" for a, b in EDGES),
        "node_feat": "".join(",".join(map(str, row)) + "\n" for row in x),
        "node_label": "".join(f"{label}\n" for label in LABELS),
        "num_node_list": "5\n",
        "num_edge_list": "6\n",
    }
    paths = [folder / file for file in FILES]
    for path, text in zip(paths, (texts | changes).values(), strict=True):
        with gzip.open(path, "wt") as out:
            out.write(text)
    return paths, x


def test_a_small_graph_is_read_whole(tmp_path):
    paths, x = write(tmp_path)
    graph = read_ogb(paths, "tiny")
    dense = graph.adjacency.adj_t.to_dense() > 0
    expected = torch.zeros(5, 5, dtype=torch.bool)
    for a, b in EDGES:
        expected[a, b] = expected[b, a] = a != b
    assert torch.equal(dense, expected)
    assert graph.adjacency.undirected
    assert graph.adjacency.num_edges == 3
    assert graph.x.dtype == torch.float32
    assert torch.equal(graph.x, torch.tensor(x, dtype=torch.float32))
    assert graph.y.tolist() == LABELS
    assert (graph.name, graph.num_classes) == ("tiny", 3)
    graph.x.add_(1)  # our own memory


def test_whole_numbers_are_features_too(tmp_path):
    paths, _ = write(tmp_path, node_feat="1,0\n" * 5)
    assert read_ogb(paths, "tiny").x.tolist() == [[1.0, 0.0]] * 5


def test_malformed_files_are_named(tmp_path):
    for changes, words in [
        ({"edge": "0,1\n2,5\n" + "1,2\n" * 4}, r"edge\.csv\.gz, line 2: \(2, 5\) is no pair"),
        ({"edge": "0,1\n"}, r"edge\.csv\.gz: 1 lines, but one per edge of num-edge-list.* be 6"),
        ({"edge": "0,1,1\n" * 6}, r"edge\.csv\.gz: 3 columns per line where there must be 2"),
        ({"edge": "0,x\n" * 6}, r"edge\.csv\.gz: not readable as gzipped lines of Int64"),
        ({"edge": "0,1\n2\n" + "1,2\n" * 4}, r"edge\.csv\.gz, line 2: a number is missing"),
        ({"node_feat": "1,2\n" * 4}, r"node-feat\.csv\.gz: 4 lines, but one per node would be 5"),
        ({"node_feat": "1,2\n" * 4 + "nan,1\n"}, "features of node 4 are not all finite"),
        ({"node_label": "0,1\n" * 5}, r"node-label\.csv\.gz: 2 columns"),
        ({"node_label": "0\n" * 4 + "-3\n"}, r"node-label\.csv\.gz: classes are counted from 0"),
        ({"num_node_list": "5\n7\n"}, r"num-node-list\.csv\.gz: must hold one count"),
        ({"num_edge_list": ""}, r"num-edge-list\.csv\.gz: must hold one count"),
    ]:
        paths, _ = write(tmp_path, **changes)
        with pytest.raises(InputError, match=words) as caught:
            read_ogb(paths, "tiny")
        assert "\n" not in str(caught.value)


def test_damaged_files_are_named(tmp_path):
    for which in range(5):
        for damage in ["cut", "text", "gone"]:
            paths, _ = write(tmp_path, np.random.default_rng(1))
            path = paths[which]
            if damage == "cut":
                path.write_bytes(path.read_bytes()[:-9])
            elif damage == "text":
                path.write_text("<html>no such page</html>")
            else:
                path.unlink()
            with pytest.raises(
                InputError, match=rf"{path.name}: (not readable|no such file)"
            ) as caught:
                read_ogb(paths, "tiny")
            assert "\n" not in str(caught.value)


def test_the_archive_has_the_files_where_the_catalogue_says(tmp_path):
    """As OGB packs them: ``arxiv/raw/...``, among others that are not needed."""
    paths, _ = write(tmp_path)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("arxiv/RELEASE_v1.txt", "version 1")
        archive.writestr("arxiv/split/time/train.csv.gz", b"")
        for path in paths:
            archive.write(path, f"arxiv/raw/{path.name}")
    folder = tmp_path / "data" / "ogbn-arxiv" / "raw"
    folder.mkdir(parents=True)
    (folder / "arxiv.zip").write_bytes(packed.getvalue())
    dataset = dataset_named("OGBN-arxiv")
    assert dataset.read is read_ogb
    graph = dataset.load(tmp_path / "data", fetch=False, published=False)
    assert graph.num_nodes == 5
    assert (folder / "arxiv.zip").exists()  # it was not ours to remove
    assert {path.name for path in folder.iterdir()} == {*FILES, "arxiv.zip"}
    assert dataset.size == GraphSize(169_343, 1_157_799, 128, 40)
    with pytest.raises(InputError, match=r"5 nodes, 3 edges, .* published"):
        dataset.load(tmp_path / "data", fetch=False)
