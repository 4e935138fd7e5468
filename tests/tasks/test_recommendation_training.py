"""Which pairs training may read, that scoring spoils nothing, and that it goes on exactly."""

from dataclasses import replace

import pytest
import torch

from tests.tasks.edge_toys import ITEMS, USERS, losses, recommender
from tests.tasks.recommendation_toys import SPLIT, TEST, TRAIN, VALIDATION, pairs_of, small_task
from tests.train.broken_runs import Stop, assert_same, stop_at
from tuneup.curriculum import Schedule, base, tuneup
from tuneup.data import InteractionSplit
from tuneup.errors import InputError
from tuneup.evaluation import RecommendationSetting
from tuneup.nn import InnerProduct, LightGCN, Model, UserItemVectors
from tuneup.tasks import L2, Recommendation
from tuneup.train import Checkpoints, train

CURRICULA = {
    "base": base(Schedule(6, lr=0.05)),
    "tuneup": tuneup(0.5, Schedule(5, lr=0.05), Schedule(4, lr=0.05)),
}


def scored_along(test):
    """A callback that looks at the test pairs after every epoch, and what it saw."""
    seen, model = [], recommender(seed=9)
    setting = RecommendationSetting(small_task(), InteractionSplit(*halves(), test))

    def callback(progress):
        seen.append(setting.score(model).mean())

    return callback, seen


def halves():
    return SPLIT.train, SPLIT.validation


FREE = {(u, i) for u in range(USERS) for i in range(ITEMS)} - TRAIN - VALIDATION
TESTS = {
    "fewer": pairs_of(set(sorted(TEST)[::2])),
    "more": pairs_of(FREE),
    "others": pairs_of(FREE - TEST),
}


def test_a_model_for_other_users_or_items_is_refused():
    other = Model(UserItemVectors(USERS - 1, ITEMS, width=4), LightGCN(1), InnerProduct())
    with pytest.raises(InputError, match=f"got {USERS - 1} users and {ITEMS} items"):
        train(other, small_task(), CURRICULA["base"])


def test_an_evaluation_in_inference_mode_spoils_nothing():
    task = small_task()
    with torch.inference_mode():
        RecommendationSetting(task, SPLIT).score(recommender())
        task.validate(recommender())
    assert_same(
        train(recommender(), task, CURRICULA["base"]),
        train(recommender(), small_task(), CURRICULA["base"]),
    )


def test_test_pairs_change_nothing():
    """Scored along the way, added, removed or replaced: only the test score moves."""
    for name in CURRICULA:
        plain = train(recommender("gcn", dropout=0.3), small_task(), CURRICULA[name], seed=2)
        means = set()
        for test in (SPLIT.test, *TESTS.values()):
            callback, seen = scored_along(test)
            model = recommender("gcn", dropout=0.3)
            assert_same(
                train(model, small_task(), CURRICULA[name], seed=2, callback=callback), plain
            )
            assert len(set(seen)) == 1
            means.add(seen[0])
        assert len(means) == 4


def test_validation_pairs_only_select():
    """Other validation pairs: the same course, other scores, perhaps another epoch."""
    other = Recommendation(SPLIT.train, TESTS["fewer"], metric="recall@3")
    first, second = (
        train(recommender(), task, CURRICULA["base"], seed=2) for task in (small_task(), other)
    )
    assert losses(first, 0) == losses(second, 0)
    scores = [[s for *_, s in result.record.curves()] for result in (first, second)]
    assert scores[0] != scores[1]
    for result in (first, second):
        stage = result.record.stages[0]
        assert stage.best_score == max(e.score for e in stage.epochs)


def test_validation_decides_what_stage_two_starts_from():
    first = train(recommender(), small_task(), CURRICULA["tuneup"], seed=2)
    other = Recommendation(SPLIT.train, TESTS["fewer"], metric="recall@3")
    second = train(recommender(), other, CURRICULA["tuneup"], seed=2)
    assert losses(first, 0) == losses(second, 0)
    epochs = [result.record.stages[0].best_epoch for result in (first, second)]
    assert (losses(first, 1) == losses(second, 1)) == (epochs[0] == epochs[1])


def test_training_pairs_and_seeds_do_matter():
    """What the tests above would not notice if nothing mattered at all."""
    result = train(recommender(), small_task(), CURRICULA["base"], seed=2)
    less = replace(small_task(), train=SPLIT.train.take(torch.arange(1, len(SPLIT.train))))
    for other in (
        train(recommender(), less, CURRICULA["base"], seed=2),
        train(recommender(), small_task(), CURRICULA["base"], seed=3),
        train(recommender(), small_task(l2=L2(0.1)), CURRICULA["base"], seed=2),
    ):
        assert losses(other, 0) != losses(result, 0)


def test_training_learns():
    result = train(recommender(), small_task(), base(Schedule(40, lr=0.05, validate_every=40)))
    assert losses(result, 0)[-1] < 0.5 * losses(result, 0)[0]


@pytest.mark.parametrize("place", [(1, 3), (2, 2)])
def test_an_interrupted_run_goes_on_exactly(tmp_path, place):
    model = recommender("sage", dropout=0.3)
    whole = train(recommender("sage", dropout=0.3), small_task(), CURRICULA["tuneup"])
    folder = Checkpoints(tmp_path, 1)
    with pytest.raises(Stop):
        train(
            model, small_task(), CURRICULA["tuneup"], checkpoints=folder, callback=stop_at(*place)
        )
    fresh, events = recommender("sage", dropout=0.3), []
    found = train(
        fresh, small_task(), CURRICULA["tuneup"], checkpoints=folder, callback=events.append
    )
    assert_same(found, whole)
    assert (events[0].stage, events[0].epoch) == (place[0], place[1] + 1)


def test_another_task_is_trained_from_the_start(tmp_path):
    stages, folder, events = base(Schedule(1)), Checkpoints(tmp_path, 1), []
    options = {"checkpoints": folder, "callback": events.append}
    train(recommender(), small_task(), stages, checkpoints=folder)
    for count, other in enumerate(
        (
            small_task(l2=L2(output=0.1)),
            replace(small_task(), metric="recall@5"),
            replace(small_task(), validation=TESTS["fewer"]),
            replace(small_task(), train=SPLIT.train.take(torch.arange(len(SPLIT.train) - 1))),
        ),
        1,
    ):
        train(recommender(), other, stages, **options)
        assert len(events) == count
    train(recommender(), small_task(), stages, **options)
    assert len(events) == count, "a finished run returns its stored result"
