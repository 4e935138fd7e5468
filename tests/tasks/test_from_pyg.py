"""PyG's own data becomes a task, or is refused with the reason and the way out."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GraphSAGE
from torch_geometric.transforms import RandomLinkSplit, ToUndirected

import tuneup
from tuneup.data import block_graph, block_interactions
from tuneup.errors import InputError
from tuneup.nn import HadamardMLP, InnerProduct, LightGCN, Model, NodeFeatures, UserItemVectors
from tuneup.tasks import (
    L2,
    LinkPrediction,
    Recommendation,
    link_task,
    node_task,
    pair_task,
    task_of,
)

BRIEF = tuneup.Schedule(epochs=6, lr=0.02)


def link_parts(**options):
    graph = block_graph(200, 800, 3, 8, seed=0)
    data = Data(x=graph.x, edge_index=graph.adjacency.edge_index)
    torch.manual_seed(0)
    split = RandomLinkSplit(num_val=0.2, num_test=0.1, is_undirected=True, **options)
    return split(data)


def pairs_of(users=60, items=40):
    found = block_interactions(users, items, 500, 3, seed=0)
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = users, items
    data["user", "likes", "item"].edge_index = torch.stack([found.user, found.item])
    return data


def pair_parts(data):
    torch.manual_seed(0)
    split = RandomLinkSplit(
        num_val=0.2,
        num_test=0.1,
        edge_types=[("user", "likes", "item")],
        rev_edge_types=[("item", "rev_likes", "user")],
    )
    return split(ToUndirected()(data))


def keys(edges):
    return {tuple(pair) for pair in edges.t().tolist()}


def test_masks_with_a_metric_and_class_weights():
    graph = block_graph(90, 300, 3, 8, seed=0)
    part = torch.arange(90) % 3
    data = Data(x=graph.x, edge_index=graph.adjacency.edge_index, y=graph.y)
    data.train_mask, data.val_mask = part == 0, part == 1
    task = node_task(data, metric="macro-f1", class_weights="balanced")
    assert (task.metric, task.class_weights) == ("macro-f1", "balanced")
    torch.manual_seed(0)
    model = GraphSAGE(8, 16, num_layers=2, out_channels=3)
    result = tuneup.fit(model, task, pretrain=BRIEF, finetune=BRIEF)
    assert result.record.metric == "macro-f1"
    with torch.no_grad():
        assert task.validate(model) == result.record.validation


def test_links_of_a_random_link_split():
    train, validation, _ = link_parts()
    task = task_of(train, validation)
    assert isinstance(task, LinkPrediction)
    assert keys(torch.stack([task.graph.row, task.graph.col])) == keys(train.edge_index)
    true = validation.edge_label_index[:, validation.edge_label > 0]
    assert keys(task.validation) == keys(true)
    assert true.shape[1] < validation.edge_label_index.shape[1]  # drawn negatives are left out


def test_links_are_learned_by_any_module():
    train, validation, _ = link_parts()
    torch.manual_seed(0)
    encoder = GraphSAGE(8, 16, num_layers=2, out_channels=16)
    model = Model(NodeFeatures(), encoder, HadamardMLP(16, 16))
    result = tuneup.fit(model, train, validation, pretrain=BRIEF, finetune=BRIEF)
    first, second = result.record.stages
    assert first.epochs[-1].loss < first.epochs[0].loss
    assert second.pseudo_labels == 0
    assert result.record.validation > 0.25  # 50 of 200 candidates


def test_pairs_by_masks_and_by_a_split_are_the_same_task():
    data = pairs_of()
    train, validation, _ = pair_parts(data)
    kind = ("user", "likes", "item")
    split = pair_task(train, validation)
    assert keys(torch.stack([split.train.user, split.train.item])) == keys(train[kind].edge_index)

    everything = list(map(tuple, data[kind].edge_index.t().tolist()))
    wanted = keys(torch.stack([split.validation.user, split.validation.item]))
    used = keys(train[kind].edge_index)
    data[kind].train_mask = torch.tensor([pair in used for pair in everything])
    data[kind].val_mask = torch.tensor([pair in wanted for pair in everything])
    assert task_of(data).digest() == split.digest()


@pytest.mark.parametrize("encoder", [LightGCN(2), GraphSAGE(8, 8, num_layers=2, out_channels=8)])
def test_items_are_recommended_from_hetero_data(encoder):
    train, validation, _ = pair_parts(pairs_of())
    torch.manual_seed(0)
    model = Model(UserItemVectors(60, 40, width=8), encoder, InnerProduct())
    task = pair_task(train, validation, L2(input=0.01), metric="recall@10")
    assert isinstance(task, Recommendation)
    result = tuneup.fit(model, task, pretrain=BRIEF, finetune=BRIEF)
    losses = [epoch.loss for epoch in result.record.stages[0].epochs]
    assert losses[-1] < losses[0]
    assert 0 < result.record.validation <= 1
    ranked = tuneup.fit(model, task, metric="ndcg", pretrain=BRIEF, finetune=BRIEF)
    assert (ranked.record.metric, task.metric) == ("ndcg@50", "recall@10")
    with pytest.raises(InputError, match="class_weights: recommendation has no classes"):
        task_of(train, validation, class_weights="balanced")


def disjoint():
    return link_parts(disjoint_train_ratio=0.3)[:2]


def featured():
    data = pairs_of()
    data["item"].x = torch.ones(40, 3)
    return data, None


def rated():
    data = pairs_of()
    data["user", "likes", "item"].edge_attr = torch.ones(10, 1)
    return data, None


def two_relations():
    data = pairs_of()
    data["user", "follows", "user"].edge_index = torch.tensor([[0], [1]])
    data["user", "saves", "item"].edge_index = torch.tensor([[0], [1]])
    return data, None


def uncounted():
    data = pairs_of()
    del data["user"].num_nodes
    return data, data


def unsplit():
    return pairs_of(), None


def unlabelled():
    train, _, _ = link_parts()
    return train, Data(x=train.x, edge_index=train.edge_index)


def all_false():
    train, validation, _ = link_parts()
    validation.edge_label = torch.zeros_like(validation.edge_label)
    return train, validation


def swapped():
    train, validation, _ = link_parts()
    return validation, train


def one_way():
    graph = block_graph(200, 800, 3, 8, seed=0)
    data = Data(x=graph.x, edge_index=graph.adjacency.edge_index)
    torch.manual_seed(0)
    return RandomLinkSplit(num_val=0.2, num_test=0.1)(data)[:2]


def alone():
    return link_parts()[0], None


def bare():
    train, validation, _ = link_parts()
    del train.x
    return train, validation


def our_graph():
    return block_graph(200, 800, 3, 8, seed=0), link_parts()[1]


def rating(values):
    """Edges with labels of the user's own, split without negatives."""
    data = pairs_of()
    kind = ("user", "likes", "item")
    count = data[kind].edge_index.shape[1]
    data[kind].edge_label = torch.arange(count) % values
    torch.manual_seed(0)
    split = RandomLinkSplit(num_val=0.2, num_test=0.1, neg_sampling_ratio=0.0, edge_types=[kind])
    return split(data)[:2]


def short_mask():
    data = pairs_of()
    data["user", "likes", "item"].train_mask = torch.ones(5, dtype=torch.bool)
    return data, None


def as_tuple():
    return link_parts()[:2], None


def papers():
    data = pairs_of()
    data["user"].y = torch.zeros(60, dtype=torch.long)
    return data, None


def task_and_more():
    train, validation, _ = link_parts()
    return link_task(train, validation), validation


def test_refused_with_a_reason():
    for parts, said in [
        (disjoint, "disjoint_train_ratio=0"),
        (swapped, "pass the training part first"),
        (one_way, "is_undirected=True"),
        (alone, "validation part too, as val_data"),
        (bare, "NodeVectors"),
        (our_graph, "LinkPrediction.from_split"),
        (lambda: rating(2), "is 0 one of your own classes"),
        (lambda: rating(4), "classes or ratings"),
        (short_mask, r"one entry per edge \[\d+\]; got torch.bool of shape \[5\]"),
        (as_tuple, r"parts\[0\], parts\[1\]"),
        (papers, "several kinds is not supported"),
        (featured, r"del data\['item'\].x"),
        (rated, "edge_attr"),
        (two_relations, "user-saves-item"),
        (unsplit, "train_mask .* one entry per edge .*; got nothing.*RandomLinkSplit"),
        (unlabelled, "val_data has no edge_label_index"),
        (all_false, "no true edge"),
        (task_and_more, "leave out val_data"),
    ]:
        data, val_data = parts()
        with pytest.raises(InputError, match=said):
            task_of(data, val_data)


def test_a_number_of_users_must_be_known():
    data, val_data = uncounted()
    with pytest.raises(InputError, match="num_nodes"):
        pair_task(data, val_data)
