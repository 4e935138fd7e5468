"""The loop against loops written by hand: what a reader of the paper would write."""

import pytest
import torch
import torch.nn.functional as F

from tests.train.loop_toys import (
    ALPHA,
    FINETUNE,
    MODELS,
    SCHEDULE,
    SEED,
    run,
    same,
    unpruned_task,
)
from tests.train.toy import small_encoder, small_task
from tuneup.curriculum import base, dropedge, tuneup, without_curriculum, without_syn_tails
from tuneup.graph import DropEdge
from tuneup.graph.hashing import seed_of

task = pytest.fixture(unpruned_task, scope="module")


class ByHand:
    """Plain PyTorch: one method per line of Algorithm 1, nothing of tuneup but the hash."""

    def __init__(self, model, task, ours):
        self.model, self.x, self.y = model, task.data.x, task.data.y
        self.train, self.validation, self.graph = task.train, task.validation, task.graph
        self.ours, self.curve, self.states = ours, [], []

    def forward(self, edge_index):
        return self.model(self.x, self.ours(edge_index))

    def validate(self):
        self.model.eval()
        with torch.no_grad():
            guess = self.forward(self.graph)[self.validation].argmax(1)
        return float((guess == self.y[self.validation]).float().mean())

    def stage(self, index, schedule, loss_of):
        optimizer = torch.optim.Adam(
            self.model.parameters(), lr=schedule.lr, weight_decay=schedule.weight_decay
        )
        best, best_state = -1.0, None
        for epoch in range(schedule.epochs):
            torch.manual_seed(seed_of(SEED, index, epoch))
            self.model.train()
            optimizer.zero_grad()
            loss = loss_of(epoch)
            loss.backward()
            optimizer.step()
            score = self.validate()
            self.curve.append((index, epoch + 1, float(loss.detach()), score))
            if score > best:
                best = score
                best_state = {k: v.clone() for k, v in self.model.state_dict().items()}
        self.model.load_state_dict(best_state)
        self.states.append(best_state)

    def on_graph(self, nodes, y):
        return lambda epoch: F.cross_entropy(self.forward(self.graph)[nodes], y)

    def on_tails(self, index, nodes, y):
        drop = DropEdge(ALPHA, SEED)
        return lambda epoch: F.cross_entropy(self.forward(drop(self.graph, epoch, index))[nodes], y)

    def all_labels(self):
        """True labels, then the model's own on every other node that has an edge."""
        self.model.eval()
        with torch.no_grad():
            guess = self.forward(self.graph).argmax(1)
        taken = {*self.train.tolist(), *self.validation.tolist()}
        degree = self.graph.degree.tolist()
        others = torch.tensor([n for n in range(300) if degree[n] and n not in taken])
        nodes = torch.cat([self.train, others])
        return nodes, torch.cat([self.y[self.train], guess[others]])


@pytest.fixture(params=list(MODELS))
def pair(request, task):
    """A model to train with the loop, and the same one to train by hand."""
    make = MODELS[request.param]
    ours = (lambda graph: graph) if request.param == "ours" else (lambda graph: graph.edge_index)
    return make(), ByHand(make(), task, ours)


def assert_as_by_hand(result, hand):
    assert result.record.curves() == hand.curve
    assert all(map(same, result.states, hand.states))


def test_base_is_a_plain_loop(pair, task):
    model, hand = pair
    hand.stage(0, SCHEDULE, hand.on_graph(hand.train, hand.y[hand.train]))
    assert_as_by_hand(run(model, task, base(SCHEDULE)), hand)


def test_dropedge_is_a_plain_loop_on_thinned_graphs(pair, task):
    model, hand = pair
    hand.stage(0, SCHEDULE, hand.on_tails(0, hand.train, hand.y[hand.train]))
    assert_as_by_hand(run(model, task, dropedge(ALPHA, SCHEDULE)), hand)


def test_tuneup_is_algorithm_1(pair, task):
    model, hand = pair
    hand.stage(0, SCHEDULE, hand.on_graph(hand.train, hand.y[hand.train]))
    nodes, y = hand.all_labels()
    hand.stage(1, FINETUNE, hand.on_tails(1, nodes, y))
    result = run(model, task, tuneup(ALPHA, SCHEDULE, FINETUNE))
    assert_as_by_hand(result, hand)
    found = result.pseudo_labels[1]
    assert torch.equal(found.nodes, nodes[len(hand.train) :])
    assert torch.equal(found.y, y[len(hand.train) :])
    assert result.record.stages[1].pseudo_labels == len(found)


def test_without_synthetic_tails_is_algorithm_1_on_the_full_graph(pair, task):
    model, hand = pair
    hand.stage(0, SCHEDULE, hand.on_graph(hand.train, hand.y[hand.train]))
    hand.stage(1, FINETUNE, hand.on_graph(*hand.all_labels()))
    assert_as_by_hand(run(model, task, without_syn_tails(SCHEDULE, FINETUNE)), hand)


def test_without_curriculum_takes_the_mean_of_both_losses(pair, task):
    model, hand = pair
    whole = hand.on_graph(hand.train, hand.y[hand.train])
    dropped = hand.on_tails(0, hand.train, hand.y[hand.train])
    hand.stage(0, SCHEDULE, lambda epoch: (whole(epoch) + dropped(epoch)) / 2)
    assert_as_by_hand(run(model, task, without_curriculum(ALPHA, SCHEDULE)), hand)


def test_pruning_changes_rounding_only(task):
    """Without dropout the pruned task, the default, learns the same."""
    results = []
    for each in (task, small_task()):
        results.append(run(small_encoder(dropout=0.0), each, tuneup(ALPHA, SCHEDULE, FINETUNE)))
    found, expected = (result.record.curves() for result in results)
    for (_, _, loss, _), (_, _, expected_loss, _) in zip(found, expected, strict=True):
        assert loss == pytest.approx(expected_loss, abs=1e-4)
