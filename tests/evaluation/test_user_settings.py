"""Settings of recommendation against a reconstruction by hand: graphs, masks, inputs, scores."""

from dataclasses import replace

import pytest
import torch

from tests.tasks.edge_toys import (
    ITEMS,
    USERS,
    naive_recall,
    pair_set,
    recommender,
    some_interactions,
)
from tuneup.curriculum import Schedule, tuneup
from tuneup.data import interactions_from, split_interactions
from tuneup.evaluation import recommendation_settings
from tuneup.evaluation.floors.items import by_co_occurrence, question
from tuneup.tasks import L2, Recommendation
from tuneup.train import train

SPLIT = split_interactions(some_interactions(), train=0.4, validation=0.2, new=0.2, seed=1)
TASK = Recommendation(SPLIT.train, SPLIT.validation, L2(input=0.01), metric="recall@3")
NAMES = ["transductive", "inductive", "cold-30", "cold-60", "cold-90"]
TRAIN, VALIDATION, TEST, INPUT, TARGET = (
    pair_set(getattr(SPLIT, name))
    for name in ("train", "validation", "test", "new_input", "new_target")
)
NEW = set(SPLIT.new.tolist())


@pytest.fixture(scope="module")
def found():
    return {setting.name: setting for setting in recommendation_settings(TASK, SPLIT)}


def edges_of(setting) -> set[tuple[int, int]]:
    graph = setting.graph
    assert graph.undirected
    source, target = graph.edge_index.tolist()
    return {(u, i - USERS) for u, i in zip(source, target, strict=True) if u < USERS}


def items_of(pairs, user) -> set[int]:
    return {item for each, item in pairs if each == user}


def test_without_new_users_there_is_one_setting():
    split = split_interactions(some_interactions(), train=0.3, validation=0.2)
    task = Recommendation(split.train, split.validation)
    assert [each.name for each in recommendation_settings(task, split)] == ["transductive"]


def test_graphs_are_nested_and_lose_inputs_alone(found):
    assert list(found) == NAMES
    assert edges_of(found["transductive"]) == TRAIN
    assert edges_of(found["inductive"]) == TRAIN | INPUT
    before = TRAIN | INPUT
    for name, share in zip(NAMES[2:], (0.3, 0.6, 0.9), strict=True):
        edges = edges_of(found[name])
        assert TRAIN <= edges < before
        removed = 1 - len(edges - TRAIN) / len(INPUT)
        assert abs(removed - share) < 4 * (share * (1 - share) / len(INPUT)) ** 0.5
        before = edges
    other = recommendation_settings(TASK, replace(SPLIT, seed=9))
    assert edges_of(other[3]) != edges_of(found["cold-60"])


@pytest.mark.parametrize(
    ("name", "architecture", "sides"),
    [
        *(("transductive", "lightgcn", False), ("transductive", "gcn", True)),
        *(("inductive", "lightgcn", False), ("cold-30", "gcn", True)),
        *(("cold-60", "lightgcn", False), ("cold-90", "gcn", True)),
    ],
)
def test_scores_and_degrees_user_by_user(found, name, architecture, sides):
    """New users enter with the mean of the trained ones; all of their inputs are masked."""
    setting, model = found[name], recommender(architecture, sides=sides)
    if sides:
        torch.nn.init.normal_(model.inputs.unknown)
    cold = name != "transductive"
    edges, wanted, masked = (
        edges_of(setting),
        TARGET if cold else TEST,
        INPUT if cold else TRAIN | VALIDATION,
    )
    linked = {u for u, _ in edges} | {USERS + i for _, i in edges}
    with torch.no_grad():
        own = model.inputs.vectors.clone()
        trained = sorted({u for u, _ in TRAIN})
        if cold:
            own[sorted(NEW)] = own[trained].mean(0)
        if sides:
            own[:USERS] += model.inputs.shared[0]
            own[USERS:] += model.inputs.shared[1]
            for node in set(range(USERS + ITEMS)) - linked:
                own[node] = model.inputs.unknown[int(node >= USERS)]
        z = model.encoder(own, setting.graph).double()
    scores = (z[:USERS] @ z[USERS:].t()).tolist()
    users = sorted({u for u, _ in wanted})
    expected = [naive_recall(scores[u], items_of(wanted, u), items_of(masked, u), 3) for u in users]
    ours = setting.score(model)
    assert (ours.setting, ours.metric, ours.nodes.tolist()) == (name, "recall@3", users)
    assert ours.score.tolist() == pytest.approx(expected, abs=1e-6)
    assert ours.degree.tolist() == [len(items_of(edges, u)) for u in users]
    assert cold is (set(users) == NEW)
    if name == "cold-90":
        assert 0 in ours.degree.tolist()


def test_the_vector_of_a_new_user_is_read_nowhere(found):
    model, other = recommender("sage", sides=True), recommender("sage", sides=True)
    with torch.no_grad():
        other.inputs.vectors[SPLIT.new] = 1e6
    for setting in found.values():
        assert setting.score(model).score.equal(setting.score(other).score)


def test_popular_items_for_new_users_without_an_edge(found):
    plain = found["cold-90"]
    helped = replace(plain, popularity_fallback=True)
    model = recommender("gcn")
    scores, without = plain.score(model), helped.score(model)
    count = torch.bincount(SPLIT.train.item, minlength=ITEMS).tolist()
    for k, user in enumerate(scores.nodes.tolist()):
        popular = naive_recall(count, items_of(TARGET, user), items_of(INPUT, user), 3)
        own = float(scores.score[k])
        assert float(without.score[k]) == pytest.approx(popular if scores.degree[k] == 0 else own)


def test_co_occurrence_reads_the_inputs_of_a_new_user(found):
    ours = question(found["inductive"]).score(by_co_occurrence(SPLIT.train))
    assert (ours.setting, ours.nodes.tolist()) == ("inductive", sorted(NEW))
    users_of = {i: {u for u, j in TRAIN if i == j} for i in range(ITEMS)}
    for user, score in zip(ours.nodes.tolist(), ours.score.tolist(), strict=True):
        mine = items_of(INPUT, user)
        sums = [sum(len(users_of[i] & users_of[j]) for j in mine) for i in range(ITEMS)]
        ranks = [s * 1000 + len(users_of[i]) for i, s in enumerate(sums)]
        assert score == pytest.approx(naive_recall(ranks, items_of(TARGET, user), mine, 3))


def test_training_reads_nothing_of_the_test_or_of_new_users():
    """Other test pairs and other pairs of new users: the same losses, scores and weights."""
    every = interactions_from(
        SPLIT.new.repeat_interleave(ITEMS),
        torch.arange(ITEMS).repeat(SPLIT.new.numel()),
        USERS,
        ITEMS,
    )
    poisoned = replace(
        SPLIT, test=SPLIT.train, new_input=every.take(torch.arange(9)), new_target=every
    )
    records, states = [], []
    for split in (SPLIT, poisoned):
        task = replace(TASK, train=split.train, validation=split.validation, selection="balanced")
        settings = recommendation_settings(task, split)
        model = recommender("gcn", sides=True)
        settings[1].score(model)  # an evaluation before leaves no trace either
        result = train(model, task, tuneup(0.5, Schedule(4, lr=0.05), Schedule(4, lr=0.05)))
        records.append([stage.epochs for stage in result.record.stages])
        states.append(result.states[-1])
    for one, other in zip(*records, strict=True):
        assert [(e.loss, e.score) for e in one] == [(e.loss, e.score) for e in other]
    for name, tensor in states[0].items():
        assert tensor.equal(states[1][name])
    start = recommender("gcn", sides=True).inputs.vectors
    assert states[0]["inputs.vectors"][SPLIT.new].equal(start[SPLIT.new])  # they are never trained
