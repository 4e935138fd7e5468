"""GraphSAINT's layout, on small files written exactly like it."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from tuneup.data import dataset_named
from tuneup.data.npz import read_graphsaint
from tuneup.errors import InputError

N = 8
ROLES = {"tr": [0, 1, 2, 7], "va": [3, 4], "te": [5, 6]}
CLASSES = {str(node): node % 3 for node in range(N)}


def write(folder, adj=None, feats=None, class_map=None, role=None):
    """The four files that scipy, numpy and json write."""
    if adj is None:
        rng = np.random.default_rng(0)
        dense = rng.random((N, N)) < 0.3
        np.fill_diagonal(dense, [True] + [False] * (N - 1))  # one self-loop
        adj = sp.csr_matrix(dense | dense.T)
    if feats is None:
        feats = np.random.default_rng(1).normal(size=(N, 5))
    paths = [folder / file for file in dataset_named("flickr").files]
    assert [p.name for p in paths] == ["adj_full.npz", "feats.npy", "class_map.json", "role.json"]
    sp.save_npz(paths[0], adj)
    np.save(paths[1], feats, allow_pickle=True)
    paths[2].write_text(json.dumps(CLASSES if class_map is None else class_map))
    paths[3].write_text(json.dumps(ROLES if role is None else role))
    return paths, adj, feats


def test_a_small_graph_is_read_whole(tmp_path):
    paths, adj, feats = write(tmp_path)
    graph = read_graphsaint(paths, "tiny")
    expected = torch.tensor(adj.toarray()).fill_diagonal_(False)
    assert torch.equal(graph.adjacency.adj_t.to_dense() > 0, expected)
    assert graph.adjacency.undirected
    assert torch.equal(graph.x, torch.tensor(feats, dtype=torch.float32))  # as they are
    assert graph.y.tolist() == [node % 3 for node in range(N)]
    assert (graph.name, graph.num_classes) == ("tiny", 3)


def test_a_class_may_be_a_list_with_a_single_one(tmp_path):
    given = {key: [int(label == k) for k in range(3)] for key, label in CLASSES.items()}
    paths, _, _ = write(tmp_path, class_map=given)
    assert read_graphsaint(paths, "tiny").y.tolist() == list(CLASSES.values())


def test_a_node_without_a_class_is_unknown(tmp_path):
    paths, _, _ = write(tmp_path, class_map={"2": 1})
    assert read_graphsaint(paths, "tiny").y.tolist() == [-1, -1, 1, -1, -1, -1, -1, -1]


def test_malformed_files_are_named(tmp_path):
    for changes, words in [
        (
            {"adj": sp.csr_matrix((8, 9))},
            r"adj_full\.npz: the matrix must be square, nodes by nodes",
        ),
        ({"feats": np.ones((7, 5))}, r"feats\.npy: must be numbers, a row for each of the 8"),
        ({"feats": np.array([{}] * 8)}, r"feats\.npy: .*Pickled arrays are refused"),
        ({"feats": np.full((8, 2), np.inf)}, "features of node 0 are not all finite"),
        ({"class_map": {"8": 1}}, r"class_map\.json: '8' is not a node; they are 0\.\.7"),
        ({"class_map": {"one": 1}}, r"class_map\.json: 'one' is not a node"),
        ({"class_map": {"0": [1, 1]}}, "class of node 0 .* Several classes per node"),
        ({"class_map": {"0": 1.5}}, "class of node 0 must be a whole number"),
        ({"class_map": [1]}, r"class_map\.json: must be a JSON object; got a list"),
        ({"role": {"tr": [0], "va": [1]}}, r"role\.json: must have lists .* under tr, va and te"),
        ({"role": ROLES | {"te": [9]}}, r"role\.json: nodes are 0\.\.7 in adj_full\.npz; got 9"),
        ({"role": ROLES | {"te": [0]}}, r"role\.json: a node has more than one role"),
    ]:
        paths, _, _ = write(tmp_path, **changes)
        with pytest.raises(InputError, match=words) as caught:
            read_graphsaint(paths, "tiny")
        assert "\n" not in str(caught.value)


def test_damaged_files_are_named(tmp_path):
    for which in range(4):
        for damage in ["cut", "text", "gone"]:
            paths, _, _ = write(tmp_path)
            path = paths[which]
            if damage == "cut":
                path.write_bytes(path.read_bytes()[:-10])
            elif damage == "text":
                path.write_text("<html>no such page</html>")
            else:
                path.unlink()
            with pytest.raises(InputError, match=rf"{path.name}: (not |no such file)") as caught:
                read_graphsaint(paths, "tiny")
            assert "\n" not in str(caught.value)


def test_another_format_of_matrix_is_refused(tmp_path):
    paths, adj, _ = write(tmp_path)
    sp.save_npz(paths[0], adj.tocoo())
    with pytest.raises(InputError, match=r"GraphSAINT layout \(it has no indices, indptr;"):
        read_graphsaint(paths, "tiny")
