"""Training in several processes: the losses of one, whatever the slices are."""

import multiprocessing
import os
import traceback
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

import tuneup
from tuneup.data import block_graph, block_interactions, split_edges, split_interactions
from tuneup.errors import InputError
from tuneup.tasks import L2, Moment
from tuneup.train import Checkpoints, train
from tuneup.train.ranks import Ranks, join

FORK = multiprocessing.get_context("fork")
SCHEDULE = tuneup.Schedule(epochs=3, lr=0.1, validate_every=2)
STAGES = tuneup.curriculum.tuneup(0.5, SCHEDULE, SCHEDULE, whole=True)


def _child(rank, world, store, function, pipe):
    try:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
        pipe.send((True, function(rank)))
    except BaseException as error:
        pipe.send((False, (type(error).__name__, str(error), traceback.format_exc())))
    finally:
        os._exit(0)


def in_ranks(world, function, folder):
    """For each rank whether the function went well, and its answer; or its error as texts."""
    store, children = folder / f"store-{os.urandom(4).hex()}", []
    for rank in range(world):
        ours, theirs = FORK.Pipe()
        child = FORK.Process(target=_child, args=(rank, world, store, function, theirs))
        child.start()
        children.append((child, ours))
    late = (False, ("Timeout", "", "no answer in two minutes"))
    found = [pipe.recv() if pipe.poll(120) else late for _, pipe in children]
    for child, _ in children:
        child.kill()
        child.join()
    return found


def answers(world, function, folder):
    found = in_ranks(world, function, folder)
    for is_fine, answer in found:
        assert is_fine, answer[2]
    return [answer for _, answer in found]


def nodes(train=7, **more):
    graph = block_graph(80, 240, 3, 8, seed=1)
    split = torch.arange(train), torch.arange(40, 60)
    task = tuneup.NodeClassification(graph, *split, **more)
    return task, lambda: tuneup.Encoder(8, 3, width=8, num_layers=2, architecture="gcn")


def links(**more):
    graph = block_graph(60, 151, 3, 8, seed=2)
    task = tuneup.LinkPrediction.from_split(graph, split_edges(graph.adjacency))
    task = replace(task, **more)
    encoder = tuneup.Encoder(8, 8, width=8, num_layers=2)
    return task, lambda: tuneup.Model(tuneup.NodeFeatures(), encoder, tuneup.HadamardMLP(8))


def items(**more):
    pairs = split_interactions(block_interactions(30, 40, 220, 3, seed=3))
    task = tuneup.Recommendation(pairs.train, pairs.validation, metric="recall@5", **more)
    users = pairs.train.num_users, pairs.train.num_items

    def model():
        inputs = tuneup.UserItemVectors(*users, 8)
        encoder = tuneup.Encoder(8, 8, width=8, num_layers=2)
        return tuneup.Model(inputs, encoder, tuneup.InnerProduct())

    return task, model


PROBLEMS = {
    "nodes": lambda: nodes(),
    "nodes, weighted, in batches": lambda: nodes(class_weights="balanced", batch_size=3),
    "two nodes": lambda: nodes(train=2),  # of three ranks one has none
    "links": lambda: links(l2=L2(output=0.1)),
    "links, in batches": lambda: links(batch_size=50),
    "items": lambda: items(l2=L2(0.1, 0.1), negatives=3),
    "items, in batches": lambda: items(batch_size=37),
    # Fan-outs are equal: a node that is both a seed and a neighbour reads as many in any slice.
    "nodes, sampled": lambda: nodes(batch_size=4, num_neighbors=(3, 3)),
    "links, sampled": lambda: links(batch_size=50, num_neighbors=(3, 3)),
    "items, sampled": lambda: items(batch_size=37, num_neighbors=(3, 3)),
}


def run(problem, seed_of_rank=None, **more):
    """Losses, scores and weights; ``seed_of_rank`` spoils the initial weights of a rank."""
    torch.manual_seed(0 if seed_of_rank is None else seed_of_rank)
    task, make = problem()
    model = make()
    result = train(model, task, STAGES, optimizer=torch.optim.SGD, **more)
    epochs = [epoch for stage in result.record.stages for epoch in stage.epochs]
    weights = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
    return (
        [epoch.loss for epoch in epochs],
        [epoch.score for epoch in epochs if epoch.score is not None],
        weights.tolist(),
    )


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("name", PROBLEMS)
def test_several_ranks_have_the_losses_of_one(tmp_path, name, world):
    expected = run(PROBLEMS[name], 0)
    found = answers(world, lambda rank: run(PROBLEMS[name], rank), tmp_path)
    for losses, scores, weights in found:
        assert losses == pytest.approx(expected[0], abs=1e-6)
        assert scores == pytest.approx(expected[1], abs=1e-6)
        assert weights == pytest.approx(expected[2], abs=1e-5)
        assert weights == found[0][2]  # bit for bit


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_slices_cover_a_batch_once(world):
    for task, _ in (nodes(), links(), items()):
        batch, moment = task.supervision(), Moment(0, 0, 0)
        parts = [task.slice(batch, moment, rank, world)[0] for rank in range(world)]
        sizes = [task.size(part) for part in parts]
        assert sum(sizes) == task.size(batch)
        assert max(sizes) - min(sizes) <= 1
        assert sum(map(task.weight, parts)) == pytest.approx(task.weight(batch))


def test_dropout_differs_between_ranks_and_not_between_runs(tmp_path):
    from tuneup.train.loop import seeded

    def masks(rank):
        with seeded(Moment(5, 1, 2), Ranks.current().rank):
            return torch.nn.functional.dropout(torch.ones(64)).tolist()

    first, second = answers(2, masks, tmp_path)
    assert first != second
    assert answers(2, masks, tmp_path) == [first, second]
    with seeded(Moment(5, 1, 2)):
        assert torch.nn.functional.dropout(torch.ones(64)).tolist() == first


def test_checkpoints_are_rank_0s_alone_and_fit_any_number_of_ranks(tmp_path):
    def store(rank):
        return Checkpoints(tmp_path / f"rank-{rank}", every=1)

    def stopped(rank):
        def stop(progress):
            if progress.stage == 2 and progress.epoch == 2:
                raise KeyboardInterrupt

        return run(PROBLEMS["nodes"], rank, checkpoints=store(rank), callback=stop)

    expected = run(PROBLEMS["nodes"], 0)
    interrupted = in_ranks(2, stopped, tmp_path)
    assert interrupted[0][1][0] == "KeyboardInterrupt"
    assert interrupted[1][1][0] == "PeerError"
    assert not (tmp_path / "rank-1").exists()
    seen = []
    for world in (3, 1):  # the second one finds a finished run

        def resumed(rank):
            return run(*(PROBLEMS["nodes"], rank), checkpoints=store(rank), callback=seen.append)

        for losses, _, weights in answers(world, resumed, tmp_path):
            assert losses == pytest.approx(expected[0], abs=1e-6)
            assert weights == pytest.approx(expected[2], abs=1e-5)
    assert seen == []  # callbacks ran in the children


def test_ranks_with_other_graphs_end_with_one_message(tmp_path):
    def other(rank):
        return run(lambda: nodes(train=7 + (rank == 1)), 0)

    found = [answer for _, answer in in_ranks(3, other, tmp_path)]
    assert [each[0] for each in found] == ["InputError", "PeerError", "PeerError"]
    assert "the graph or its task differs between processes: got " in found[0][1]
    assert "on rank 1, expected" in found[0][1]


def test_a_rank_that_fails_ends_the_others(tmp_path):
    def one_fails(rank):
        with Ranks.current().together():
            if rank == 1:
                raise InputError("no such file")

    found = [answer for _, answer in in_ranks(3, one_fails, tmp_path)]
    assert [each[0] for each in found] == ["PeerError", "InputError", "PeerError"]

    def one_is_gone(rank):
        return None if rank == 1 else run(PROBLEMS["nodes"], rank)

    found = in_ranks(2, one_is_gone, tmp_path)[:1]
    assert found[0][1][0] == "PeerError"


def test_sparse_gradients_are_added_by_rows(tmp_path):
    def gradients(rank):
        table = torch.nn.Parameter(torch.ones(6, 2))
        unread = torch.nn.Parameter(torch.ones(2))
        if rank < 2:  # the third rank has no example
            rows = torch.tensor([[1, 1, 4], [4, 5, 0]][rank][: 3 - rank])
            picked = torch.nn.functional.embedding(rows, table, sparse=True)
            (picked.sum() * (rank + 1)).backward()
        Ranks.current().add_gradients([table, unread])
        assert unread.grad is None
        assert table.grad.is_sparse
        return table.grad.to_dense()[:, 0].tolist()

    assert answers(3, gradients, tmp_path) == [[0, 2, 0, 0, 3, 2]] * 3


def test_variables_of_torchrun_must_fit_together():
    assert join({}) == Ranks()
    assert join({"WORLD_SIZE": "4", "RANK": "1"}) == Ranks()  # of another program
    whole = {"WORLD_SIZE": "2", "RANK": "2", "LOCAL_RANK": "0"}
    with pytest.raises(InputError, match="MASTER_ADDR: not set, though WORLD_SIZE is 2"):
        join(whole)
    with pytest.raises(InputError, match=r"RANK: got 2; expected 0 to 1 \(WORLD_SIZE 2\)"):
        join({**whole, "MASTER_ADDR": "localhost", "MASTER_PORT": "1"})
