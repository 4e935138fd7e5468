"""Several updates an epoch where the supervision is edges, and models that a task cannot ask."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import GraphSAGE

from tests.tasks.edge_toys import (
    EDGES,
    GRAPH,
    ITEMS,
    USERS,
    edge_set,
    link_model,
    pair_set,
    recommender,
    some_split,
)
from tests.train.broken_runs import Stop, assert_same, stop_at
from tuneup.curriculum import Schedule, tuneup
from tuneup.errors import InputError
from tuneup.evaluation import RecommendationSetting, link_settings
from tuneup.evaluation.floors import popularity
from tuneup.graph.csr import rows_of
from tuneup.nn import HadamardMLP, InnerProduct, LightGCN, Model, NodeFeatures, UserItemVectors
from tuneup.tasks import L2, GraphView, LinkPrediction, Moment, Recommendation
from tuneup.tasks.ranking import NegativeSampler
from tuneup.train import Checkpoints, train

SPLIT = some_split()
STAGES = tuneup(0.5, Schedule(3, lr=0.01), Schedule(2, lr=0.01))


def pair_task(**options):
    return Recommendation(SPLIT.train, SPLIT.validation, **options)


def link_task(batch_size=None):
    whole = LinkPrediction.from_split(GRAPH, EDGES, L2(output=0.1))
    return LinkPrediction(whole.data, whole.validation, whole.l2, batch_size=batch_size)


def pairs_of(batch):
    return list(
        zip(rows_of(batch.rowptr, len(batch.col)).tolist(), batch.col.tolist(), strict=True)
    )


def test_an_epoch_reads_every_pair_once_in_an_order_of_its_own():
    task = pair_task(batch_size=20)
    epochs = []
    for step in range(2):
        batches = list(task.batches(task.supervision(), Moment(0, 0, step)))
        assert {len(batch.col) for batch in batches[:-1]} == {20}
        listed = [pairs_of(batch) for batch in batches]
        flat = [pair for batch in listed for pair in batch]
        assert len(flat) == len(set(flat))
        assert set(flat) == pair_set(SPLIT.train)
        epochs.append(listed)
    assert epochs[0] != epochs[1]


def test_an_epoch_reads_every_edge_once_in_an_order_of_its_own():
    task = link_task(20)
    whole = task.supervision()
    epochs = [list(task.batches(whole, Moment(0, 0, step))) for step in range(2)]
    for batches in epochs:
        assert {batch.shape[1] for batch in batches[:-1]} == {20}
        assert edge_set(torch.cat(batches, 1)) == edge_set(whole)
    assert not epochs[0][0].equal(epochs[1][0])


def still(parameters, lr, weight_decay):
    return torch.optim.SGD(parameters, lr=0.0)


@pytest.mark.parametrize(
    ("task", "model"),
    [(pair_task(batch_size=33), recommender()), (link_task(33), link_model())],
    ids=["pairs", "links"],
)
def test_the_loss_of_an_epoch_weighs_batches_by_what_they_hold(task, model):
    """Of batches of unequal size, with the negatives that the run draws for each."""
    total = 0.0
    sizes = []
    for step, batch in enumerate(task.batches(task.supervision(), Moment(0, 0, 0))):
        moment = Moment(0, 0, step)
        sizes.append(task.size(batch))
        loss = task.loss(model, GraphView(task.graph), batch, moment).detach()
        total += float(loss) * sizes[-1]
    assert len(set(sizes)) == 2
    assert sum(sizes) == task.size(task.supervision())
    result = train(model, task, STAGES[:1], optimizer=still)
    assert result.record.stages[0].epochs[0].loss == pytest.approx(total / sum(sizes), rel=1e-6)


def test_the_loss_of_some_pairs_is_the_loop_over_them():
    task, model, moment = (
        pair_task(batch_size=15, l2=L2(0.3, 0.2)),
        recommender("gcn"),
        Moment(1, 0, 2),
    )
    batch = next(iter(task.batches(task.supervision(), moment)))
    found = task.loss(model, GraphView(task.graph), batch, moment)
    listed = pairs_of(batch)
    sources = torch.tensor([u for u, _ in listed])
    drawn = NegativeSampler(task.graph, USERS, ITEMS).draw(sources, moment).tolist()
    z, e, total = model(None, task.graph), model.inputs.vectors, 0.0
    for (u, i), n in zip(listed, drawn, strict=True):
        t = USERS + i
        total = total + F.softplus(z[u] @ z[n] - z[u] @ z[t])
        total = total + 0.15 * sum(e[k] @ e[k] for k in (u, t, n))
        total = total + 0.1 * sum(z[k] @ z[k] for k in (u, t, n))
    torch.testing.assert_close(found, total / 15)


def test_the_loss_of_some_edges_is_the_loop_over_them():
    task, model, moment = link_task(15), link_model(), Moment(1, 0, 2)
    batch = next(iter(task.batches(task.supervision(), moment)))
    found = task.loss(model, GraphView(task.graph), batch, moment)
    sources = batch.flatten()
    drawn = NegativeSampler(task.graph, 0, task.graph.num_nodes).draw(sources, moment).tolist()
    z, total = model.encoder(task.data.x, task.graph), 0.0
    for s, t, n in zip(sources.tolist(), batch.flip(0).flatten().tolist(), drawn, strict=True):
        negative, positive = (model.head(z[s : s + 1], z[k : k + 1])[0] for k in (n, t))
        total = total + F.softplus(negative - positive)
        total = total + 0.05 * (z[s] @ z[s] + z[t] @ z[t] + z[n] @ z[n])
    torch.testing.assert_close(found, total / 30)


@pytest.mark.parametrize(
    ("make_task", "make_model"),
    [(lambda: pair_task(batch_size=20), recommender), (lambda: link_task(20), link_model)],
)
def test_an_interrupted_run_of_batches_goes_on_exactly(tmp_path, make_task, make_model):
    whole = train(make_model(), make_task(), STAGES)
    with pytest.raises(Stop):
        train(
            make_model(),
            make_task(),
            STAGES,
            checkpoints=Checkpoints(tmp_path, 1),
            callback=stop_at(2, 1),
        )
    again = train(make_model(), make_task(), STAGES, checkpoints=Checkpoints(tmp_path, 1))
    assert_same(again, whole)


def test_the_size_of_an_update_is_part_of_a_task():
    assert len({pair_task(batch_size=size).digest() for size in (None, 5, 6)}) == 3
    assert len({link_task(size).digest() for size in (None, 5, 6)}) == 3
    for make in (lambda: pair_task(batch_size=0), lambda: link_task(0)):
        with pytest.raises(InputError, match="batch_size must be 1 or more, or None; got 0"):
            make()


def test_a_model_of_another_kind_is_refused_by_name():
    for make_task, kind in [(pair_task, "UserItemVectors"), (link_task, "HadamardMLP")]:
        task = make_task()
        with pytest.raises(InputError, match=f"got Linear; expected .*{kind}"):
            task.loss(nn.Linear(1, 1), GraphView(task.graph), task.supervision(), Moment(0, 0, 0))


def test_the_popularity_fallback_is_for_users_without_pairs_alone():
    task, model = pair_task(metric="recall@5"), recommender("gcn")
    plain = RecommendationSetting(task, SPLIT).score(model)
    helped = RecommendationSetting(task, SPLIT, popularity_fallback=True).score(model)
    popular = popularity(SPLIT, "recall@5")
    alone = plain.degree == 0
    assert alone.any()
    assert not alone.all()
    assert helped.score[alone].equal(popular.score[alone])
    assert helped.score[~alone].equal(plain.score[~alone])
    assert not helped.score.equal(plain.score)


def test_what_is_known_cannot_be_asked_for():
    with pytest.raises(InputError, match="are a training and a validation pair"):
        Recommendation(SPLIT.train, SPLIT.train)
    whole = link_task()
    with pytest.raises(InputError, match="a training and a validation edge"):
        LinkPrediction(whole.data, whole.supervision()[:, :3])


@pytest.mark.parametrize("ruin", ["nan", "huge"])
def test_a_decoder_or_embedding_that_diverged_validates_as_nan(ruin):
    links, pairs = link_model(), recommender()
    with torch.no_grad():
        links.head.out.weight[0, 0] = torch.nan if ruin == "nan" else 1e30
        pairs.inputs.vectors[0, 0] = torch.nan if ruin == "nan" else 1e30
    assert math.isnan(link_task().validate(links))
    assert math.isnan(pair_task().validate(pairs))


def test_one_ranking_serves_several_metrics():
    names = ["recall@3", "ndcg@20", "hit@7"]
    task, model = pair_task(), recommender("gcn")
    found = RecommendationSetting(task, SPLIT).scores(model, names)
    assert [scores.metric for scores in found] == names
    for scores in found:
        alone = RecommendationSetting(pair_task(metric=scores.metric), SPLIT).score(model)
        assert scores.score.equal(alone.score)
    setting, links = link_settings(GRAPH, EDGES)[0], link_model()
    for scores in setting.scores(links, names):
        assert scores.score.equal(replace(setting, metric=scores.metric).score(links).score)


def test_any_encoder_will_do():
    """PyG's takes an ``edge_index``, LightGCN an ``Adjacency``: both work in both models."""
    for kind in ["pyg", "lightgcn under links"]:
        if kind == "pyg":
            model, task = (
                Model(
                    UserItemVectors(USERS, ITEMS, width=8), GraphSAGE(8, 8, 2, 6), InnerProduct()
                ),
                pair_task(),
            )
        else:
            model, task = Model(NodeFeatures(), LightGCN(2), HadamardMLP(6, 8)), link_task()
        before = {name: value.clone() for name, value in model.named_parameters()}
        result = train(model, task, STAGES)
        assert all(loss > 0 for _, _, loss, _ in result.record.curves())
        still = {name for name, value in result.states[-1].items() if value.equal(before[name])}
        assert still <= {"head.out.bias"}  # which BPR's differences cancel
