"""Validation on copies of the training graph whose validation nodes lost edges."""

from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import pytest
import torch

from tests.tasks.link_toys import small_task as small_links
from tests.train.toy import PygNet, small_encoder, small_task
from tuneup.errors import InputError
from tuneup.graph.dropping import edge_draws
from tuneup.graph.hashing import fold_key, threshold
from tuneup.nn import Encoder, HadamardMLP, Model, NodeFeatures
from tuneup.tasks.base import COLD_SEED, EVERY_RATIO, RATIOS

COLD_TAG = 0x636F6C64
"""What `cold_start` mixes into its draws."""


def surviving(graph, nodes, ratio):
    """Edges (receiver, sender) of a cold copy, edge by edge."""
    chosen = set(nodes.tolist())
    ids, kept = graph.global_ids, set()
    for receiver, sender in zip(graph.row.tolist(), graph.col.tolist(), strict=True):
        one, other = ids[receiver : receiver + 1], ids[sender : sender + 1]
        draw = edge_draws(one, other, fold_key(COLD_TAG, COLD_SEED), symmetric=True)
        touched = receiver in chosen or sender in chosen
        if not touched or int(draw) >= threshold(ratio):
            kept.add((receiver, sender))
    return kept


def edges_of(graph):
    return set(zip(graph.row.tolist(), graph.col.tolist(), strict=True))


@pytest.mark.parametrize("ratio", [0.3, 0.9])
def test_a_cold_copy_lacks_edges_of_validation_nodes_alone(ratio):
    task = small_task()
    assert edges_of(task._copy(ratio).graph) == surviving(task.graph, task.validation, ratio)


def test_copies_are_nested():
    for make in [small_task, small_links]:
        task = make()
        copies = [edges_of(task._copy(ratio).graph) for ratio in EVERY_RATIO]
        assert copies[0] == edges_of(task.graph)
        assert all(more > fewer for more, fewer in pairwise(copies))


def test_scores_of_nodes_are_those_of_a_plain_pass():
    for make in [small_encoder, PygNet]:
        task, model = small_task(), make().eval()
        scores = task.validation_scores(model, EVERY_RATIO)
        for ratio, score in scores.items():
            edges = torch.tensor(sorted(surviving(task.graph, task.validation, ratio))).t()
            with torch.no_grad():
                guess = model(task.data.x, edges.flip(0)).argmax(1)
            hits = (guess == task.data.y)[task.validation].double()
            assert score == pytest.approx(float(hits.mean()))


def test_the_selection_is_the_mean_over_its_ratios():
    for selection in RATIOS:
        task, model = replace(small_task(), selection=selection), small_encoder().eval()
        scores = task.validation_scores(model, RATIOS[selection])
        assert list(scores) == list(RATIOS[selection])
        assert task.validate(model) == pytest.approx(fmean(scores.values()))


def link_model(task):
    torch.manual_seed(0)
    width = 8
    encoder = Encoder(task.data.num_features, width, width=width, num_layers=2)
    return Model(NodeFeatures(), encoder, HadamardMLP(width, width)).eval()


def test_sources_of_links_are_shared_among_ratios():
    task = small_links(selection="balanced")
    model, count = link_model(task), task._sources.numel()
    parts = [torch.arange(count)[place::4] for place in range(4)]
    expected = {r: task._score(model, r, p) for r, p in zip(EVERY_RATIO, parts, strict=True)}
    assert task.validation_scores(model, EVERY_RATIO) == expected
    assert task.validate(model) == pytest.approx(fmean(expected.values()))


def test_what_a_source_lost_is_no_candidate():
    """A removed message edge is a training edge: it is neither sought nor ranked."""
    task = small_links()
    model, every = link_model(task), torch.arange(task._sources.numel())
    everything = replace(task, metric=f"recall@{task.graph.num_nodes}")
    assert everything._score(model, 0.9, every) == 1.0


def test_only_training_data_is_read():
    """Poisoned labels and features' order of other nodes leave the scores as they are."""
    task, model = small_task(), small_encoder().eval()
    y = task.data.y.clone()
    other = torch.ones_like(y, dtype=torch.bool)
    other[torch.cat([task.train, task.validation])] = False
    y[other] = (y[other] + 1) % 3
    poisoned = replace(task, data=replace(task.data, y=y))
    assert task.validation_scores(model, EVERY_RATIO) == poisoned.validation_scores(
        model, EVERY_RATIO
    )


def test_the_selection_is_part_of_a_tasks_digest():
    for task in (small_task(), small_links()):
        assert task.digest() == replace(task, selection="transductive").digest()
        digests = {replace(task, selection=each).digest() for each in RATIOS}
        assert len(digests) == 3


def test_validation_on_copies_is_due_less_often():
    assert small_task().validation_interval == 1
    for task in (small_task(), small_links()):
        assert replace(task, selection="balanced").validation_interval >= 6


def test_a_name_that_is_no_selection():
    with pytest.raises(InputError, match="one of transductive, cold, balanced; got 'warm'"):
        small_links(selection="warm")
    with pytest.raises(InputError, match="got 'warm'"):
        replace(small_task(), selection="warm")
