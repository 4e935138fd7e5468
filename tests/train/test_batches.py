"""Mini-batches are the same training: with all neighbours and one batch, to six digits."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from tests.tasks import link_toys, recommendation_toys
from tests.train.toy import NUM_CLASSES, NUM_FEATURES, distil, small_encoder, small_task
from tuneup import HadamardMLP, InnerProduct, Model, NodeFeatures, UserItemVectors, fit
from tuneup.curriculum import Schedule, Stage, full, tails, tuneup
from tuneup.data import graph_from
from tuneup.errors import InputError
from tuneup.graph import identities
from tuneup.methods import METHODS
from tuneup.nn import Classes, Encoder, LightGCN, NodeVectors, forward
from tuneup.tasks import L2, GraphView, Moment, NodeClassification
from tuneup.tasks.base import in_batches
from tuneup.train import Checkpoints, train
from tuneup.train.optimizers import RowAdam, step

ALL = (-1, -1)
ARCHITECTURES = ("sage", "sage-max", "sage-sum", "gcn", "gat")
BRIEF = Schedule(3, lr=0.01, validate_every=1)
STAGES = tuneup(0.5, BRIEF, BRIEF, whole=True)


def pyg_model(name: str):
    import torch_geometric.nn as pyg

    torch.manual_seed(0)
    return getattr(pyg, name)(NUM_FEATURES, 8, num_layers=2, out_channels=NUM_CLASSES)


def problem(task: str, name: str):
    """A task, and a fresh model of an architecture for it."""
    if task == "nodes":
        return small_task(), small_encoder(architecture=name, dropout=0.0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        options = {"architecture": name, "width": 8, "num_layers": 2}
        if task == "links":
            data = link_toys.small_task(l2=L2(output=0.01))
            encoder = Encoder(data.data.num_features, 8, **options)
            return data, Model(NodeFeatures(), encoder, HadamardMLP(8))
        data = recommendation_toys.small_task(l2=L2(0.02, 0.01), negatives=2)
        inputs = UserItemVectors(
            data.train.num_users, data.train.num_items, 8, shared=True, unknown=True
        )
        torch.nn.init.normal_(inputs.unknown)
        encoder = LightGCN(2) if name == "lightgcn" else Encoder(8, 8, **options)
        return data, Model(inputs, encoder, InnerProduct())


def loss_and_gradients(task, model, view, moment):
    supervision = task.supervision()
    seen = task.sampled(view(task.graph, moment), supervision, moment)
    assert (seen.sample is None) == (task.num_neighbors is None)
    loss = task.loss(model, seen, supervision, moment)
    gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    dense = [g if g is None or not g.is_sparse else g.to_dense() for g in gradients]
    unread = [torch.zeros(()) if g is None else g for g in dense]
    return loss.detach(), unread


CASES = [
    *((task, name) for task in ("nodes", "links", "items") for name in ARCHITECTURES),
    ("items", "lightgcn"),
]


@pytest.mark.parametrize(("task", "name"), CASES)
@pytest.mark.parametrize(
    "view", [full, tails(0.5), tails("graded"), tails(0.4, exact=True)], ids=repr
)
def test_all_neighbours_in_one_batch_give_the_loss_and_gradients_of_a_full_pass(task, name, view):
    whole, model = problem(task, name)
    moment = Moment(3, 1, 2)
    expected = loss_and_gradients(whole, model, view, moment)
    found = loss_and_gradients(in_batches(whole, None, ALL), model, view, moment)
    assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["GraphSAGE", "GCN", "GAT", "GIN"])
def test_so_do_modules_of_pyg_with_one_hop_more(name):
    """Their GCN counts the edges of the senders in the batch itself: one hop more shows them."""
    task, model, moment = small_task(), pyg_model(name), Moment(3, 1, 2)
    for view in (full, tails(0.5)):
        expected = loss_and_gradients(task, model, view, moment)
        found = loss_and_gradients(in_batches(task, None, (-1, -1, -1)), model, view, moment)
        assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_learned_vectors_of_nodes_are_sampled_too():
    task = small_task()
    known = torch.ones(task.graph.num_nodes, dtype=torch.bool)
    task = replace(task, data=replace(task.data, x=identities(known)))
    torch.manual_seed(0)
    inputs = NodeVectors(task.graph.num_nodes, 6)
    model = Model(
        inputs,
        Encoder(6, NUM_CLASSES, width=8, num_layers=2),
        Classes(),
    )
    moment = Moment(0, 0, 0)
    expected = loss_and_gradients(task, model, full, moment)
    assert_close(
        loss_and_gradients(in_batches(task, None, ALL), model, full, moment),
        expected, rtol=1e-5, atol=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("task", ["nodes", "links", "items"])
def test_training_runs_in_both_stages_and_resumes_exactly(task, tmp_path):
    def run(folder, stop=None, **options):
        data, model = problem(task, "gcn")
        size = data.size(data.supervision())

        def leave(progress):
            if stop is not None and (progress.stage, progress.epoch) == stop:
                raise KeyboardInterrupt

        batches = {"batch_size": size // 3, "num_neighbors": (4, 3), **options}
        return train(model, data, STAGES, seed=1, checkpoints=folder, callback=leave, **batches)

    expected = run(None)
    store = Checkpoints(tmp_path, every=1)
    for stop in ((1, 2), (2, 1)):
        with pytest.raises(KeyboardInterrupt):
            run(store, stop)
    resumed = run(store)
    assert resumed.record.curves() == expected.record.curves()
    for ours, theirs in zip(resumed.states, expected.states, strict=True):
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    digests = {run(None, num_neighbors=n).record.stages[1].digest for n in ((4, 3), (4, 4))}
    assert len(digests) == 1 + 1, "fan-outs decide weights"


FUSE: list[bool] = []


def stop_if_due(*_: object) -> None:
    if FUSE and FUSE.pop():
        raise KeyboardInterrupt


def fused(parameters, lr, weight_decay):
    optimizer = RowAdam(parameters, lr=lr, weight_decay=weight_decay)
    optimizer.register_step_pre_hook(stop_if_due)
    return optimizer


def test_a_run_goes_on_within_an_epoch(tmp_path):
    def run(store):
        given = {"batch_size": 4, "num_neighbors": (3, 2), "optimizer": fused}
        return train(small_encoder(), small_task(), STAGES[:1], checkpoints=store, **given)

    FUSE.clear()
    expected = run(None)
    for fuse in ([False] * 5, [False] * 11):  # batches 6 of epoch 1 and 4 of epoch 2
        FUSE[:] = [True, *fuse]
        with pytest.raises(KeyboardInterrupt):
            run(Checkpoints(tmp_path, every=100, steps=1))
    again = run(Checkpoints(tmp_path, minutes=1e-9))
    assert again.record.curves() == expected.record.curves()
    assert all(torch.equal(again.states[0][k], v) for k, v in expected.states[0].items())
    for bad in ({"steps": 0}, {"minutes": -1.0}):
        with pytest.raises(InputError, match="must be above 0"):
            Checkpoints(tmp_path, **bad)


def test_an_update_changes_only_the_vectors_that_it_reads():
    task, model = problem("items", "sage")
    task = in_batches(task, 4, (2, 2))
    optimizer = RowAdam(model.parameters(), lr=0.1)
    before, read = model.inputs.vectors.detach().clone(), set()
    for number in range(2):
        moment = Moment(0, 0, number)
        batch = next(iter(task.batches(task.supervision(), moment)))
        view = task.sampled(GraphView(task.graph), batch, moment)
        read |= set(view.sample.field.nodes.tolist())
        step(optimizer, task.loss(model, view, batch, moment), None, clip=1.0)
    changed = (model.inputs.vectors != before).any(1).nonzero().view(-1).tolist()
    assert changed
    assert set(changed) <= read
    assert len(read) < task.graph.num_nodes


def test_rows_are_stepped_as_adam_steps_them():
    """With every row in every gradient, it is Adam."""
    start = torch.randn(6, 3)
    made = []
    for sparse in (True, False):
        weight = torch.nn.Parameter(start.clone())
        optimizer = RowAdam([weight], lr=0.1, weight_decay=0.01)
        for k in range(4):
            optimizer.zero_grad()
            loss = (torch.nn.functional.embedding(torch.arange(6), weight, sparse=sparse) - k) ** 2
            loss.sum().backward()
            optimizer.step()
        made.append(weight.detach())
    assert_close(*made)


@pytest.mark.parametrize("name", [*ARCHITECTURES, "GraphSAGE", "GCN"])
@pytest.mark.parametrize("norm", ["none", "batch"])
def test_layer_by_layer_gives_the_outputs_of_a_full_pass(name, norm, monkeypatch):
    monkeypatch.setattr(forward, "PLAIN", 1000)
    task = small_task()
    if name in ARCHITECTURES:
        model = small_encoder(architecture=name, norm=norm, num_layers=3).eval()
    else:
        model = pyg_model(name).eval()
    with torch.no_grad():
        expected = task.outputs(model)
        for rows in (None, task.validation):
            found = forward.layer_by_layer(model, task.data.x, task.graph, rows, part=500)
            assert_close(found, expected if rows is None else expected[rows], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("task", ["nodes", "links", "items"])
def test_validation_is_that_of_full_passes(task):
    data, model = problem(task, "gcn")
    data = replace(data, selection="balanced")
    found = in_batches(data, None, ALL).validation_scores(model, (0.0, 0.3, 0.9))
    assert found == pytest.approx(data.validation_scores(model, (0.0, 0.3, 0.9)), abs=1e-6)


def test_the_front_door_takes_batches():
    from torch_geometric.data import Data

    task = small_task()
    data = Data(x=task.data.x, y=task.data.y, edge_index=task.graph.edge_index)
    for name, nodes in (("train_mask", task.train), ("val_mask", task.validation)):
        data[name] = torch.zeros(task.graph.num_nodes, dtype=torch.bool).index_fill(0, nodes, True)
    given = {"pretrain": BRIEF, "finetune": BRIEF, "batch_size": 10, "num_neighbors": [3, 2]}
    result = fit(small_encoder(), data, control=True, **given)
    assert result.task.batch_size == 10
    assert result.control.task.num_neighbors == [3, 2]
    assert graph_from(data).num_nodes == 300


BAD = {
    "batch_size: got 31; expected 1 to 30": {"batch_size": 31},
    "batch_size must be 1 or more": {"batch_size": 0},
    "num_neighbors: got 3 fan-outs": {"num_neighbors": (5, 5, 5)},
    "num_neighbors: got 1 fan-outs": {"num_neighbors": (5,)},
    "num_neighbors: got \\(5, 0\\)": {"num_neighbors": (5, 0)},
    "num_neighbors: got \\(5, -3\\)": {"num_neighbors": (5, -3)},
}


@pytest.mark.parametrize("problem", BAD)
def test_bad_batches_are_refused_before_training(problem):
    model = small_encoder()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(InputError, match=problem):
        train(model, small_task(), STAGES, **BAD[problem])
    assert all(torch.equal(before[name], t) for name, t in model.state_dict().items())


def test_what_reads_whole_graphs_is_refused():
    with pytest.raises(InputError, match="objective of its own"):
        train(small_encoder(), small_task(), (Stage(objective=distil),), num_neighbors=(2, 2))
    task = in_batches(small_task(), None, (2, 2))
    view = GraphView(task.graph, nodes=torch.arange(task.graph.num_nodes))
    with pytest.raises(InputError, match="adds nodes or labels"):
        task.sampled(view, task.supervision(), Moment(0, 0, 0))
    weighted = copy.copy(task.graph)
    object.__setattr__(weighted, "weight", torch.ones(weighted.num_entries))
    with pytest.raises(InputError, match="edge weights"):
        in_batches(
            NodeClassification(task.data.with_adjacency(weighted), task.train, task.validation),
            None, (2, 2),
        )  # fmt: skip
    assert "tuneup" in METHODS
