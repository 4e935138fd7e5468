"""Graph folders: what is written is what a naive reader makes of the same tables or arrays."""

import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import torch

import tuneup
from tuneup.data import NodeSplit
from tuneup.data.disk import (
    EdgeSource,
    NodeSource,
    Scan,
    is_graph_folder,
    open_graph,
    write_graph,
    write_tables,
)
from tuneup.errors import InputError
from tuneup.graph import adjacency_from, receptive_field, sparse_features
from tuneup.train import train

MEMORY = 4 << 30  # with what the process of all tests holds already


def random_graph(seed=0, nodes=200, edges=900):
    """Edges with repeats and self-loops, and nodes without any."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(nodes - 20, (2, edges), generator=generator), nodes


def edge_source(path, format="parquet", **more):
    scan = Scan((str(path),), format, ("source", "target"), **more)
    return EdgeSource(scan, "source", "target")


@pytest.mark.parametrize("undirected", [True, False])
def test_arrays_become_the_same_graph(tmp_path, undirected):
    edge_index, nodes = random_graph()
    x, y = torch.randn(nodes, 5), torch.randint(-1, 4, (nodes,))
    order = torch.randperm(nodes)
    parts = [part.sort().values for part in order.split([20, 100, 30, 30, 20])]
    split = NodeSplit(order[20:].sort().values, parts[0], *parts[1:4])
    folder = write_graph(
        *(tmp_path / "g", edge_index, nodes),
        x=x,
        y=y,
        split=split,
        undirected=undirected,
        memory=MEMORY,
    )
    graph, expected = folder.graph(), adjacency_from(edge_index, nodes, undirected=undirected)
    assert torch.equal(graph.adjacency.rowptr, expected.rowptr)
    assert torch.equal(graph.adjacency.col, expected.col)
    assert folder.header.self_loops == expected.num_self_loops
    assert torch.equal(graph.x, x)
    assert torch.equal(graph.y, y)
    assert graph.num_classes == 4
    for name in ("known", "new", "train", "validation", "test"):
        assert torch.equal(getattr(folder.split, name), getattr(split, name))
    folder.verify()
    assert [path.name for path in tmp_path.iterdir()] == ["g"]


def test_neighbours_answer_as_rows_in_memory_do(tmp_path):
    edge_index, nodes = random_graph(1)
    folder = write_graph(tmp_path / "g", edge_index, nodes, memory=MEMORY)
    expected = adjacency_from(edge_index, nodes, undirected=True)
    some = torch.tensor([7, 199, 3, 0])  # 199 has no edge
    assert folder.neighbours.col.dtype == torch.int32
    assert torch.equal(folder.neighbours.degree(some), expected.neighbours.degree(some))
    mapped, rows = folder.neighbours.take(some), expected.neighbours.take(some)
    assert mapped.col.dtype == torch.int64
    assert torch.equal(mapped.col, rows.col)
    fields = [receptive_field(each, some, 2) for each in (folder.neighbours, expected.neighbours)]
    assert torch.equal(fields[0].nodes, fields[1].nodes)
    for ours, theirs in zip(fields[0].blocks, fields[1].blocks, strict=True):
        assert torch.equal(ours.col, theirs.col)
        assert torch.equal(ours.degree, theirs.degree)


@pytest.mark.parametrize("nodes", [2**31 + 8, 2**32 + 8], ids=["one-key", "two-keys"])
def test_ids_above_two_to_the_31st(tmp_path, nodes):
    """Files are sparse: the row pointer has 17 or 34 GB, of which a few pages are stored."""
    top = torch.tensor([[nodes - 1, nodes - 5, nodes - 1], [nodes - 3, nodes - 1, nodes - 1]])
    folder = write_graph(tmp_path / "g", top, nodes, memory=MEMORY)
    assert folder.neighbours.col.dtype == torch.int64
    assert folder.array("rowptr").shape == (nodes + 1,)
    rows = folder.neighbours.take(torch.tensor([0, nodes - 1, nodes - 3, nodes - 2]))
    assert rows.count.tolist() == [0, 2, 1, 0]
    assert rows.col.tolist() == [nodes - 5, nodes - 3, nodes - 1]
    stored = sum(path.stat().st_blocks * 512 for path in (tmp_path / "g").iterdir())
    assert stored < 1 << 20
    field = receptive_field(folder.neighbours, torch.tensor([nodes - 3]), 2)
    assert field.nodes.tolist() == [nodes - 3, nodes - 1, nodes - 5]


@pytest.mark.parametrize("nodes", [2**31 - 1, 2**31])
def test_int32_while_every_id_fits(tmp_path, nodes):
    edges = torch.tensor([[nodes - 1], [nodes - 2]])
    folder = write_graph(tmp_path / "g", edges, nodes, memory=MEMORY)
    assert folder.neighbours.col.dtype == torch.int32
    assert folder.neighbours.take(torch.tensor([nodes - 2])).col.tolist() == [nodes - 1]


def test_features_of_every_form(tmp_path):
    edge_index, nodes = random_graph(2)
    some = torch.tensor([5, 0, 199])
    dense = torch.randn(nodes, 6) * (torch.rand(nodes, 6) < 0.3)
    half = write_graph(tmp_path / "h", edge_index, nodes, x=dense, dtype="float16", memory=MEMORY)
    assert half.array("x").dtype == np.float16
    assert half.x.take(some).dtype == torch.float32
    assert torch.equal(half.x.take(some), dense[some].half().float())
    sparse = sparse_features(dense.to_sparse())
    folder = write_graph(tmp_path / "s", edge_index, nodes, x=sparse, memory=MEMORY)
    taken = folder.x.take(some)
    assert torch.equal(taken @ torch.eye(6), dense[some])
    multi = (torch.rand(nodes, 3) < 0.5).float()
    multi[7] = -1
    labelled = write_graph(tmp_path / "m", edge_index, nodes, x=dense, y=multi, memory=MEMORY)
    assert torch.equal(labelled.graph().y, multi)
    with pytest.raises(InputError, match="1e\\+06 is not a number that float16 can hold"):
        write_graph(
            *(tmp_path / "o", edge_index, nodes),
            x=dense * 0 + 1e6,
            dtype="float16",
            memory=MEMORY,
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h", "m", "s"]


@pytest.mark.parametrize("kind", ["texts", "numbers"])
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_tables_become_the_same_graph(tmp_path, kind, format):
    edge_index, _ = random_graph(3, 60, 300)
    known = edge_index.unique()
    names = (known * 7919 % 104729).tolist() if kind == "numbers" else [f'n{k}é,"' for k in known]
    id_of = dict(zip(known.tolist(), names, strict=True))
    table = pl.DataFrame(
        {
            name: [id_of[k] for k in row.tolist()]
            for name, row in zip(("source", "target"), edge_index, strict=True)
        }
    )
    path = tmp_path / f"edges.{format}"
    getattr(table, f"write_{format}")(path)
    folder = write_tables(tmp_path / "g", edge_source(path, format), memory=MEMORY)
    ids = folder.ids().to_list()
    assert ids == sorted(names)
    number = {each: place for place, each in enumerate(ids)}
    renumbered = torch.tensor([[number[each] for each in table[c]] for c in table.columns])
    expected = adjacency_from(renumbered, len(ids), undirected=True)
    assert torch.equal(folder.graph().adjacency.rowptr, expected.rowptr)
    assert torch.equal(folder.graph().adjacency.col, expected.col)
    assert folder.ids(torch.tensor([3, 1])).to_list() == [ids[3], ids[1]]


def test_a_table_of_nodes_gives_order_labels_and_split(tmp_path):
    (tmp_path / "e.csv").write_text("source,target\nb,a\nc,b\nc,z\n")
    rows = "key,kind,part\nc, x ,train\na,y,valid\nb,,\nd,x,test\n"
    (tmp_path / "n.csv").write_text(rows)
    scan = Scan((str(tmp_path / "n.csv"),), "csv", ("key", "kind", "part"))
    nodes = NodeSource(scan, "key", "kind", "part")
    edges = edge_source(tmp_path / "e.csv", "csv")
    with pytest.raises(InputError, match=r"e.csv, column 'target': id 'z' has no row in .*n.csv"):
        write_tables(tmp_path / "g", edges, nodes, memory=MEMORY)
    assert not list(tmp_path.glob(".*"))
    folder = write_tables(tmp_path / "g", edges, nodes, add_unknown=True, memory=MEMORY)
    assert folder.ids().to_list() == ["c", "a", "b", "d", "z"]
    assert folder.header.classes == ("x", "y")
    assert folder.y().tolist() == [0, 1, -1, 0, -1]
    split = folder.split
    assert [p.tolist() for p in (split.train, split.validation, split.test)] == [[0], [1], [3]]
    assert folder.neighbours.take(torch.tensor([0])).col.tolist() == [2, 4]


BAD_TABLES = {
    "missing id": ("source,target\na,b\n,c\n", "id\na\n", r"e.csv, column 'source': missing id"),
    "two rows": ("source,target\na,b\n", "id\na\nb\na\n", r"n.csv, column 'id': id 'a' comes more"),
    "no id": ("source,target\na,b\n", "id,q\na,1\n,2\n", r"n.csv, row 2, column 'id': missing id"),
    "no rows": ("source,target\na,b\n", "id\n", r"n.csv: has a header but no rows"),
    "short row": ("source,target\na,b\na\n", "id\na\nb\n", r"e.csv, line 3: Expected Number"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_are_one_line_and_leave_nothing(tmp_path, case):
    edges, nodes, message = BAD_TABLES[case]
    (tmp_path / "e.csv").write_text(edges)
    (tmp_path / "n.csv").write_text(nodes)
    scan = Scan((str(tmp_path / "n.csv"),), "csv", tuple(nodes.split("\n")[0].split(",")))
    with pytest.raises(InputError, match=message) as caught:
        write_tables(
            *(tmp_path / "g", edge_source(tmp_path / "e.csv", "csv"), NodeSource(scan, "id")),
            memory=MEMORY,
        )
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.csv", "n.csv"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    edge_index, nodes = random_graph(4)
    path = tmp_path_factory.mktemp("disk") / "g"
    x, y = torch.randn(nodes, 3), torch.randint(3, (nodes,))
    return write_graph(path, edge_index, nodes, x=x, y=y, memory=MEMORY)


def damaged(written, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in written.path.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


def test_damaged_folders_are_one_clear_line(written, tmp_path):
    with pytest.raises(InputError, match="not a graph folder"):
        open_graph(tmp_path)
    copy = damaged(written, tmp_path)
    header = (copy / "graph.json").read_text()
    for old, new, message in (
        ('"version": 1', '"version": 2', "newer than 1, the newest that this version reads"),
        ('"nodes": 200', '"nodes": 201', "damaged .its checksum is wrong"),
        ("{", "", "damaged, no header"),
    ):
        (copy / "graph.json").write_text(header.replace(old, new, 1))
        with pytest.raises(InputError, match=message):
            open_graph(copy)
    (copy / "graph.json").write_text(header)
    (copy / "x.npy").rename(copy / "elsewhere")
    with pytest.raises(InputError, match=r"incomplete, x\.npy is missing"):
        open_graph(copy)
    (copy / "x.npy").write_bytes((copy / "elsewhere").read_bytes()[:-4])
    with pytest.raises(InputError, match=r"x\.npy: damaged; got [\d,]+ bytes, expected [\d,]+"):
        open_graph(copy)


def test_a_changed_byte_is_found(written, tmp_path):
    copy = damaged(written, tmp_path)
    data = bytearray((copy / "senders.npy").read_bytes())
    data[-1] ^= 0x7F
    (copy / "senders.npy").write_bytes(data)
    folder = open_graph(copy)
    with pytest.raises(InputError, match=r"senders\.npy: damaged, its checksum is wrong"):
        folder.verify()
    with pytest.raises(InputError, match="damaged; got sender"):
        folder.neighbours.take(torch.arange(200))
    assert open_graph(written.path).checksum == folder.checksum  # it is the header's


def test_a_folder_for_another_task(written, tmp_path):
    with pytest.raises(InputError, match="pairs of users and items"):
        open_graph(written.path, "recommendation")
    bare = write_graph(tmp_path / "g", *random_graph(), undirected=False, memory=MEMORY)
    with pytest.raises(InputError, match="has no labels, which node classification needs"):
        open_graph(bare.path, "node-classification")
    with pytest.raises(InputError, match="directed edges; link prediction"):
        open_graph(bare.path, "link-prediction")
    assert open_graph(written.path, "node-classification").num_classes == 3


def test_places_and_budgets_are_checked_first(written, tmp_path):
    edges = random_graph()
    with pytest.raises(InputError, match="there is something already; pass --overwrite"):
        write_graph(written.path, *edges, memory=MEMORY)
    with pytest.raises(InputError, match=r"memory: got 1,048,576 bytes; expected at least"):
        write_graph(tmp_path / "g", *edges, memory=1 << 20)
    with pytest.raises(InputError, match=r"edge_index: column 1 is \(1, 7\); expected ids from 0"):
        write_graph(tmp_path / "g", torch.tensor([[0, 1], [1, 7]]), 7, memory=MEMORY)
    assert not list(tmp_path.iterdir())
    folder = write_graph(tmp_path / "g", *edges, memory=MEMORY)
    again = write_graph(tmp_path / "g", *random_graph(9), overwrite=True, memory=MEMORY)
    assert again.checksum != folder.checksum
    assert [path.name for path in tmp_path.iterdir()] == ["g"]


KILLED = """
import sys, os, signal
from tuneup.data.disk import *
edges, out, stop = sys.argv[1:]
def on_step(step):
    if step.name == stop and step.done:
        os.kill(os.getpid(), signal.SIGKILL)
    if step.resumed:
        print(step.name)
scan = Scan((edges,), "csv", ("source", "target"))
write_tables(out, EdgeSource(scan, "source", "target"), memory=1 << 30, on_step=on_step)
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    edge_index, _ = random_graph(5)
    pl.DataFrame(edge_index.T.numpy(), ["source", "target"]).write_csv(tmp_path / "e.csv")
    expected = write_tables(
        tmp_path / "undisturbed",
        edge_source(tmp_path / "e.csv", "csv"),
        name="graph",
        memory=MEMORY,
    )
    out = tmp_path / "g"

    def run(stop):
        words = [sys.executable, "-c", KILLED, str(tmp_path / "e.csv"), str(out), stop]
        return subprocess.run(words, capture_output=True, text=True)

    for stop in ("sorting edges", "writing edges"):
        assert run(stop).returncode == -signal.SIGKILL
        assert not is_graph_folder(out)
    last = run("")
    assert last.returncode == 0, last.stderr
    assert "sorting edges" in last.stdout.splitlines()
    assert open_graph(out).checksum == expected.checksum
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.csv", "g", "undisturbed"]


def test_pyg_reads_a_folder_through_its_stores(written):
    from torch_geometric.data.graph_store import EdgeLayout

    features, edges = written.feature_store(), written.graph_store()
    graph, some = written.graph(), torch.tensor([4, 150, 0])
    assert [attr.attr_name for attr in features.get_all_tensor_attrs()] == ["x", "y"]
    assert torch.equal(features.get_tensor("node", "x", index=some), graph.x[some])
    assert torch.equal(features["node", "y", None], graph.y)
    assert torch.equal(features["node", "x", slice(3, 9)], graph.x[3:9])
    assert features.get_tensor_size("node", "x") == (200, 3)
    with pytest.raises(InputError, match="read only"):
        features.put_tensor(graph.x, "node", "z", None)
    row, colptr = edges.get_edge_index(edges.get_all_edge_attrs()[0])
    assert torch.equal(row.long(), graph.adjacency.col)
    assert torch.equal(colptr, graph.adjacency.rowptr)
    with pytest.raises(KeyError):
        edges.get_edge_index(("node", "to", "node"), EdgeLayout.CSR)
    rows, cols, _ = edges.coo()
    found = torch.stack([rows["node", "to", "node"].long(), cols["node", "to", "node"].long()])
    assert torch.equal(found, graph.adjacency.edge_index)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_training_on_a_mapped_graph_is_training_in_memory(tmp_path, dtype):
    edge_index, count = random_graph(6)
    x, y = torch.randn(count, 4).half().float(), torch.arange(count) % 3
    folder = write_graph(tmp_path / "g", edge_index, count, x=x, y=y, dtype=dtype, memory=MEMORY)
    found = []
    for mapped in (False, True):
        graph = folder.graph(mapped=mapped)
        task = tuneup.NodeClassification(
            *(graph, torch.arange(40), torch.arange(50, 90)),
            batch_size=16,
            num_neighbors=(4, 3),
        )
        torch.manual_seed(0)
        model = tuneup.Encoder(4, 3, width=8, num_layers=2, architecture="gcn")
        schedule = tuneup.Schedule(epochs=2, lr=0.01)
        record = train(model, task, tuneup.curriculum.tuneup(0.5, schedule, schedule)).record
        found.append([(e.loss, e.score) for stage in record.stages for e in stage.epochs])
    assert found[0] == found[1]
