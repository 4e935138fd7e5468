"""Our loaders yield what PyG's promise, and batches of the graph that DropEdge leaves."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from tuneup import DropEdge, LinkNeighborLoader, NeighborLoader
from tuneup.data import block_graph
from tuneup.errors import InputError

GRAPH = block_graph(300, 1500, 3, 4)
EDGES = torch.cat([GRAPH.adjacency.edge_index, torch.tensor([[7, 8], [7, 8]])], 1)  # loops too
EDGES = EDGES[:, torch.randperm(EDGES.shape[1], generator=torch.Generator().manual_seed(0))]
COUNT = EDGES.shape[1]
DATA = Data(
    x=GRAPH.x,
    y=GRAPH.y,
    edge_index=EDGES,
    edge_attr=torch.arange(COUNT).view(-1, 1),
    train_mask=torch.arange(300) % 3 == 0,
    name="toy",
)


def loader(kind=NeighborLoader, **options):
    return kind(DATA, **{"num_neighbors": [4, 2], "batch_size": 32, **options})


def check_part(batch):
    """Nodes, edges and attributes of a batch are those of the data."""
    assert torch.equal(batch.x, DATA.x[batch.n_id])
    assert torch.equal(batch.y, DATA.y[batch.n_id])
    assert torch.equal(batch.train_mask, DATA.train_mask[batch.n_id])
    assert torch.equal(batch.n_id[batch.edge_index], EDGES[:, batch.e_id])
    assert torch.equal(batch.edge_attr.view(-1), batch.e_id)
    assert batch.name == "toy"
    assert batch.num_nodes == sum(batch.num_sampled_nodes) == batch.n_id.unique().numel()
    assert sum(batch.num_sampled_edges) == batch.num_edges
    batch.validate()


def test_an_epoch_shows_every_input_once_in_an_order_of_its_own():
    loading = loader(input_nodes=DATA.train_mask, shuffle=True)
    orders = []
    for _ in range(2):
        batches = list(loading)
        assert len(batches) == len(loading) == 4
        for batch in batches:
            check_part(batch)
            inputs = batch.n_id[: batch.batch_size]
            assert torch.equal(inputs, loading.input_nodes[batch.input_id])
            assert batch.num_sampled_nodes[0] == batch.batch_size
        orders.append(torch.cat([batch.n_id[: batch.batch_size] for batch in batches]))
    assert not torch.equal(*orders)
    assert torch.equal(orders[0].sort().values, orders[1].sort().values)
    assert loading.epoch == 2
    assert len(list(loader(input_nodes=DATA.train_mask, drop_last=True))) == 3
    assert sum(batch.batch_size for batch in loader()) == 300


def test_batches_are_a_function_of_seed_epoch_and_number_whatever_the_threads():
    def numbers(**options):
        loading = loader(shuffle=True, drop=DropEdge("graded"), **options)
        return [torch.cat([b.n_id, b.e_id]) for _ in range(2) for b in loading]

    expected = numbers()
    assert all(map(torch.equal, expected, numbers(num_workers=3)))
    assert not torch.equal(expected[0], numbers(seed=1)[0])
    resumed = loader(shuffle=True, drop=DropEdge("graded"))
    resumed.epoch = 1
    batch = next(iter(resumed))
    assert torch.equal(torch.cat([batch.n_id, batch.e_id]), expected[len(resumed)])


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, "graded"])
@pytest.mark.parametrize("paired", [True, False])
def test_edges_are_those_that_the_transform_leaves(alpha, paired):
    drop = DropEdge(alpha, seed=5, paired=paired)
    loading = loader(num_neighbors=[-1, -1], drop=drop)
    loading.epoch = 2
    for number, batch in enumerate(islice(loading, 3)):
        keep = drop.mask(EDGES, step=2 * len(loading) + number)
        for hop in range(2):
            inner = batch.n_id[: sum(batch.num_sampled_nodes[: hop + 1])]
            wanted = (keep & torch.isin(EDGES[1], inner)).nonzero().view(-1)
            found = batch.e_id[: sum(batch.num_sampled_edges[: hop + 1])]
            assert torch.equal(found.sort().values, wanted)


@pytest.mark.parametrize("exclude", [None, "targets", "tails"])
def test_links_come_with_labels_and_send_messages_unless_excluded(exclude):
    loading = loader(
        LinkNeighborLoader, num_neighbors=[-1, -1], neg_sampling_ratio=1.5, shuffle=True,
        exclude=exclude, tail_degree=6, batch_size=64,
    )  # fmt: skip
    known = {tuple(pair) for pair in EDGES.t().tolist()}
    degree = torch.bincount(EDGES[1], minlength=300)
    for batch in islice(loading, 4):
        check_part(batch)
        pairs = batch.n_id[batch.edge_label_index]
        assert torch.equal(pairs[:, :64], EDGES[:, batch.input_id])
        assert batch.edge_label.tolist() == [1.0] * 64 + [0.0] * 96
        assert not known & {tuple(pair) for pair in pairs[:, 64:].t().tolist()}
        assert int(batch.edge_label_index.max()) < batch.batch_size
        for u, v in pairs[:, :64].t().tolist():
            left_out = exclude == "targets" or (exclude and min(degree[u], degree[v]) <= 6)
            sent = (EDGES[0] == u) & (EDGES[1] == v)
            assert bool(torch.isin(sent.nonzero().view(-1), batch.e_id).all()) != bool(left_out)


def test_labels_of_links_are_raised_where_pairs_are_drawn():
    labels = torch.arange(COUNT) % 3
    plain = next(iter(loader(LinkNeighborLoader, edge_label=labels)))
    assert torch.equal(plain.edge_label, labels[:32])
    drawn = next(iter(loader(LinkNeighborLoader, edge_label=labels, neg_sampling_ratio=0.5)))
    assert torch.equal(drawn.edge_label, torch.cat([labels[:32] + 1, torch.zeros(16).long()]))


def test_a_transform_sees_every_batch_and_a_loop_may_be_left():
    marked = loader(transform=lambda batch: batch.update({"mark": 1}), num_workers=2)
    assert next(iter(marked)).mark == 1
    assert "300 inputs, batch_size=32, num_neighbors=[4, 2]" in repr(marked)


BAD = {
    "num_neighbors: got": {"num_neighbors": [0]},
    "batch_size: got 301; expected 1 to 300": {"batch_size": 301},
    "batch_size: got 0": {"batch_size": 0},
    "exact=True compares": {"drop": DropEdge(0.5, exact=True)},
    "num_workers: got -1": {"num_workers": -1},
    "nodes must be distinct": {"input_nodes": torch.zeros(40, dtype=torch.long)},
    "node 300 is not one": {"input_nodes": torch.arange(200, 301)},
    "expected a Data with edge_index": {"data": HeteroData()},
}


@pytest.mark.parametrize("problem", BAD)
def test_bad_input_is_one_line(problem):
    options = {"data": DATA, "num_neighbors": [4, 2], "batch_size": 32, **BAD[problem]}
    with pytest.raises(InputError, match=problem):
        NeighborLoader(**options)


@pytest.mark.parametrize(
    ("problem", "given"),
    [
        ('exclude: got "all"', {"exclude": "all"}),
        ("edge_label: got shape", {"edge_label": torch.zeros(3)}),
        ("neg_sampling_ratio: got -1", {"neg_sampling_ratio": -1}),
    ],
)
def test_bad_links_are_one_line(problem, given):
    with pytest.raises(InputError, match=problem.replace('"all"', "'all'")):
        loader(LinkNeighborLoader, **given)
