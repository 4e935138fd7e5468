"""What needs no training, kept beside the records of recommendation and told with them."""

import json

import pytest

from tests.problems import node_classification, recommendation
from tuneup.bench.blocks import chosen_blocks
from tuneup.bench.conditions import conditions
from tuneup.bench.floors import floor_words, floors_above, floors_file, keep_floors
from tuneup.data import block_graph, demo_interactions, split_interactions
from tuneup.evaluation import co_occurrence, popularity


def test_they_are_those_of_the_split_that_is_tested(recorded):
    kept = json.loads(floors_file(recorded / "recommendation", "gowalla").read_text())
    split = split_interactions(demo_interactions(0))
    for name, rank in (("popularity", popularity), ("item co-occurrence", co_occurrence)):
        scores = rank(split)
        assert kept[name]["all"] == pytest.approx(scores.mean())
        alone = scores.score[scores.degree == 0]
        if alone.numel():
            assert kept[name]["without an edge"] == pytest.approx(float(alone.mean()))
        else:
            assert "without an edge" not in kept[name]


def test_they_are_kept_once_and_of_rankings_alone(tmp_path):
    keep_floors(tmp_path, "toy", node_classification(block_graph(200, 800, 2, 4)))
    assert not list(tmp_path.iterdir())
    problem = recommendation(demo_interactions(0))
    keep_floors(tmp_path, "toy", problem)
    path = floors_file(tmp_path, "toy")
    path.write_text(json.dumps({"popularity": {"all": 0.0489, "without an edge": 0.0537}}))
    keep_floors(tmp_path, "toy", problem)
    words = "Without training: popularity 4.89 (5.37 for users without an edge)."
    assert floor_words(tmp_path, "toy") == words
    assert floor_words(tmp_path, "other") == ""
    assert floors_above(tmp_path, "toy", 0.0488) == ["popularity"]
    assert floors_above(tmp_path, "toy", 0.0489) == floors_above(tmp_path, "other", 0.0) == []


def test_tables_tell_of_them(recorded):
    (block,) = chosen_blocks(recorded, task="recommendation")
    assert "Without training: popularity" in conditions(block)
