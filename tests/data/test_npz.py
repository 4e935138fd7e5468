"""The npz layout on small generated files, and the real graphs against PyG's own loaders."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.datasets import Amazon, CitationFull, Coauthor

from tuneup.data import Graph, load_dataset, read_npz_graph
from tuneup.errors import DownloadError, InputError
from tuneup.graph import Features, SparseMatrix

Arrays = dict[str, NDArray[Any]]

BENCHMARKS = {
    "Computers": "Computers/raw/amazon_electronics_computers.npz",
    "CS": "CS/raw/ms_academic_cs.npz",
    "dblp": "dblp/raw/dblp.npz",
}
"""Of the real graphs, those that a small data folder has: where PyG's loaders put them too."""


def compressed(name: str, matrix: NDArray[Any]) -> Arrays:
    """A dense matrix as the four arrays of the layout."""
    row, column = matrix.nonzero()
    return {
        f"{name}_data": matrix[row, column].astype(np.float32),
        f"{name}_indices": column.astype(np.int32),
        f"{name}_indptr": np.searchsorted(row, np.arange(len(matrix) + 1)).astype(np.int32),
        f"{name}_shape": np.array(matrix.shape),
    }


def small_arrays(share: float = 0.05, num_nodes: int = 12, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    adj = rng.random((num_nodes, num_nodes)) < 0.2  # directed, with self-loops
    attr = rng.integers(1, 9, (num_nodes, 40)) * (rng.random((num_nodes, 40)) < share)
    labels = rng.integers(0, 3, num_nodes)
    labels[0] = 2
    return compressed("adj", adj) | compressed("attr", attr) | {"labels": labels}


def save(folder: Path, arrays: Arrays, name: str = "small.npz") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, allow_pickle=True, **arrays)
    return path


def full(arrays: Arrays, name: str) -> NDArray[np.float32]:
    out = np.zeros(arrays[f"{name}_shape"], dtype=np.float32)
    pointer = arrays[f"{name}_indptr"]
    for row in range(len(out)):
        for k in range(pointer[row], pointer[row + 1]):
            out[row, arrays[f"{name}_indices"][k]] += arrays[f"{name}_data"][k]
    return out


def dense(x: Features) -> Tensor:
    if isinstance(x, Tensor):
        return x
    rows = (x.rowptr, x.col, x.value)
    return torch.sparse_csr_tensor(*rows, x.shape, check_invariants=True).to_dense()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.03, 0.4]), st.booleans())
def test_a_small_file_is_read_whole(
    tmp_path_factory: pytest.TempPathFactory, seed: int, share: float, binary: bool
) -> None:
    arrays = small_arrays(share, seed=seed)
    path = save(tmp_path_factory.mktemp("npz"), arrays)
    graph = read_npz_graph(path, binary=binary)
    edges = full(arrays, "adj") > 0
    edges = (edges | edges.T) & ~np.eye(12, dtype=bool)
    assert np.array_equal(graph.adjacency.adj_t.to_dense().numpy() > 0, edges)
    assert graph.adjacency.undirected
    attr = full(arrays, "attr")
    expected = np.where(attr > 0, 1, attr) if binary else attr
    assert np.array_equal(dense(graph.x).numpy(), expected)
    assert isinstance(graph.x, SparseMatrix) == ((attr != 0).mean() < 0.10)
    assert graph.y is not None
    assert graph.y.tolist() == arrays["labels"].tolist()
    assert (graph.num_classes, graph.name) == (3, "small")


def test_rows_out_of_order_and_repeated_entries(tmp_path: Path) -> None:
    arrays = small_arrays()
    arrays |= {
        "attr_data": np.array([1.0, 2.0, 4.0, -1.0]),
        "attr_indices": np.array([7, 3, 7, 0]),
        "attr_indptr": np.array([0, 3] + [3] * 10 + [4]),
    }
    path = save(tmp_path, arrays)
    raw = dense(read_npz_graph(path, binary=False).x)
    assert raw[0, [3, 7]].tolist() == [2.0, 5.0]
    assert float(raw[11, 0]) == -1.0
    assert float(raw.abs().sum()) == 8.0
    assert dense(read_npz_graph(path).x)[0, [3, 7]].tolist() == [1.0, 1.0]


def test_pickled_members_that_nobody_needs_are_not_read(tmp_path: Path) -> None:
    """The collection's own files carry names as pickled objects beside the numbers."""
    arrays = small_arrays()
    names = np.array(["a", {"b": 1}], dtype=object)
    assert (
        read_npz_graph(save(tmp_path, arrays | {"idx_to_node": names, "adj_data": names})).num_nodes
        == 12
    )
    path = save(tmp_path, arrays | {"labels": names})
    with pytest.raises(
        InputError, match=r"small.npz: not a readable file.*Pickled arrays are refused.*numpy.savez"
    ):
        read_npz_graph(path)


def test_damaged_files_give_one_clear_line(tmp_path: Path) -> None:
    for damage in ["cut", "text", "empty", "flipped", "array", "missing key"]:
        arrays = small_arrays()
        path = save(tmp_path, arrays)
        content = path.read_bytes()
        if damage == "cut":
            path.write_bytes(content[: len(content) // 2])
        elif damage == "text":
            path.write_text("<html>404</html>")
        elif damage == "empty":
            path.write_bytes(b"")
        elif damage == "flipped":
            middle = content.index(b"attr_indices") + 200
            path.write_bytes(content[:middle] + bytes(40) + content[middle + 40 :])
        elif damage == "array":
            np.save(path.with_suffix(".npy"), np.arange(3))
            path.with_suffix(".npy").rename(path)
        else:
            del arrays["attr_indptr"]
            save(tmp_path, arrays)
        with pytest.raises(InputError, match=r"small\.npz: not a readable file") as caught:
            read_npz_graph(path)
        assert "\n" not in str(caught.value)


def test_arrays_that_do_not_fit(tmp_path: Path) -> None:
    for change, message in [
        ({"adj_indptr": np.arange(5)}, "adj_indptr must rise from 0 to"),
        ({"adj_shape": np.array([12, 13])}, r"matrix must be square.*\(12, 13\)"),
        ({"adj_shape": np.array([12])}, "adj_shape must be two sizes"),
        ({"adj_indices": np.array([0.5])}, "adj_indices must be a list of integers; got float64"),
        ({"attr_shape": np.array([12, 5])}, r"attr_indices must lie in 0\.\.4"),
        ({"attr_data": np.ones(2)}, "attr_data must be .* numbers, one per attr_indices"),
        ({"labels": np.zeros(11, dtype=int)}, r"y must be int64 of shape \[12\]"),
        ({"labels": np.full(12, -2)}, "labels must be 0 or more, or -1 for unknown; got -2"),
    ]:
        with pytest.raises(InputError, match=message):
            read_npz_graph(save(tmp_path, small_arrays(0.3) | change))


def test_features_that_are_not_numbers(tmp_path: Path) -> None:
    arrays = small_arrays(0.05)
    arrays["attr_data"][-1] = np.nan
    last = int(np.flatnonzero(np.diff(arrays["attr_indptr"]))[-1])
    with pytest.raises(InputError, match=f"attr_data of node {last} is not a finite number"):
        read_npz_graph(save(tmp_path, arrays))


def load(name: str, root: Path | None = None) -> Graph:
    """A graph from files that are here, of any size."""
    graph = load_dataset(name, root, fetch=False, published=False)
    assert isinstance(graph, Graph)
    return graph


def test_names_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, small_arrays(), BENCHMARKS["dblp"])
    assert load("DBLP", tmp_path).name == "dblp"
    monkeypatch.setenv("TUNEUP_DATA", str(tmp_path))
    assert load("dblp").num_nodes == 12
    with pytest.raises(InputError, match=r"No dataset 'karate'; there are ogbn-arxiv, .*, cora"):
        load("karate")
    with pytest.raises(DownloadError, match=r"CS: no ms_academic_cs.npz in .*Fetch https") as e:
        load("cs")
    assert str((tmp_path / BENCHMARKS["CS"]).parent) in str(e.value)
    assert "TUNEUP_DATA" in str(e.value)
    with pytest.raises(InputError, match=r"nowhere.npz: no such file"):
        read_npz_graph(tmp_path / "nowhere.npz")


STATISTICS = {  # nodes, edges, features, classes: the collection's own table
    "Computers": (13_752, 245_861, 767, 10),
    "CS": (18_333, 81_894, 6_805, 15),
    "dblp": (17_716, 52_867, 1_639, 4),
}


@pytest.mark.skipif(not os.environ.get("TUNEUP_DATA"), reason="TUNEUP_DATA names no data folder")
@pytest.mark.parametrize("name", list(BENCHMARKS))
def test_real_graphs_equal_pygs(name: str, tmp_path: Path) -> None:
    graph = load(name)
    found = (graph.num_nodes, graph.adjacency.num_edges, graph.num_features, graph.num_classes)
    assert found == STATISTICS[name]
    assert isinstance(graph.x, SparseMatrix) == (name != "Computers")
    target = tmp_path / BENCHMARKS[name]
    target.parent.mkdir(parents=True)
    shutil.copy(Path(os.environ["TUNEUP_DATA"]) / BENCHMARKS[name], target)
    data = pyg_data(name, str(tmp_path))
    shutil.rmtree(tmp_path)  # PyG writes CS as 500 MB of dense features
    sender, receiver = graph.adjacency.edge_index  # PyG's come sorted by sender
    order = torch.argsort(sender * graph.num_nodes + receiver)
    assert torch.equal(torch.stack([sender, receiver])[:, order], data.edge_index)
    assert torch.equal(dense(graph.x), data.x)
    assert graph.y is not None
    assert torch.equal(graph.y, data.y)


def pyg_data(name: str, root: str) -> Any:
    if name == "dblp":
        return CitationFull(root, "DBLP")[0]
    return (Amazon if name == "Computers" else Coauthor)(root, name)[0]
