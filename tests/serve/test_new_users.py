"""A saved recommender answers for held-out users as the evaluation scored it for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.serve.serving_toys import close, recommender, save_artefact, small_pairs
from tuneup.data import merge, split_interactions
from tuneup.evaluation import RecommendationSetting
from tuneup.metrics.ranking import is_hit, ranking_scores
from tuneup.metrics.topk import TopK
from tuneup.serve import Predictor
from tuneup.tasks import Recommendation

SPLIT = split_interactions(small_pairs(), train=0.6, validation=0.2, new=0.2, seed=0)
TASK = Recommendation(SPLIT.train, SPLIT.validation)
METRICS = [f"{name}@{k}" for name in ("recall", "ndcg") for k in (1, 2, 5, 10, 20)]
KINDS = [("lightgcn", {}), ("gcn", {"unknown": True}), ("sage", {"shared": True, "unknown": True})]


def scores_of(answers, targets, users) -> list[torch.Tensor]:
    wanted = targets.rows().take(users)
    best = TopK(torch.from_numpy(answers.numbers), torch.from_numpy(answers.scores))
    hits = is_hit(best, wanted, targets.num_items)
    return [ranking_scores(hits, wanted, metric) for metric in METRICS]


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_held_out_users_of_the_saved_graph_are_ranked_for_as_in_the_setting(
    kind, options, tmp_path
):
    model = recommender(kind, **options)
    setting = RecommendationSetting(TASK, SPLIT, ratio=0.0)
    expected = setting.scores(model, METRICS)
    assert len({float(each.score.sum()) for each in expected}) > 5
    mean = model.inputs.mean_user(TASK.graph)
    model.inputs.fill_untrained(TASK.graph)
    place = save_artefact(tmp_path / "m", model, merge(SPLIT.train, SPLIT.new_input))
    predictor = Predictor.load(place)
    assert close(predictor.model.new_user, mean)
    answers = predictor.recommend(SPLIT.new.tolist(), k=20)
    assert answers.degree.tolist() == expected[0].degree.tolist()
    for ours, score in zip(expected, scores_of(answers, SPLIT.new_target, SPLIT.new), strict=True):
        assert ours.score.tolist() == pytest.approx(score.tolist())


@pytest.mark.parametrize("ratio", [0.0, 0.6])
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_new_user_who_arrives_alone_is_the_one_of_the_setting(kind, options, ratio, tmp_path):
    """The setting has the user in its graph; a served model inserts the user into its own."""
    model = recommender(kind, **options)
    model.inputs.fill_untrained(TASK.graph)
    predictor = Predictor.load(save_artefact(tmp_path / "m", model, SPLIT.train))
    for user in SPLIT.new[:, None]:
        shown, asked = (
            part.take(torch.isin(part.user, user).nonzero().view(-1))
            for part in (SPLIT.new_input, SPLIT.new_target)
        )
        alone = replace(SPLIT, new=user, new_input=shown, new_target=asked)
        setting = RecommendationSetting(TASK, alone, ratio)
        z = model(None, setting.graph, setting.arriving)
        inside = setting.graph.col[setting.graph.row == user] - model.inputs.num_users
        served = predictor.outputs_new(None, [inside.tolist()])
        assert close(served, z[user].detach())
        if not inside.numel():  # the graphs are the same, so the items are too
            answers = predictor.recommend_new([[]], k=20)
            z = predictor.outputs()
            assert answers.numbers[0].tolist() == (z[20:] @ served[0]).topk(20).indices.tolist()
