"""What a row of a table says of its method, and a cell of TuneUp."""

from types import SimpleNamespace

import pytest

from tuneup.bench.conditions import means_words
from tuneup.bench.rows import Cell, Row
from tuneup.evaluation import Gain, MeanStd


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.1, 0.3, "<"), (-0.3, -0.1, ">"), (-0.1, 0.3, "")]
)
def test_a_verdict_is_where_the_interval_lies(low, high, verdict):
    gain = Gain(0.1, 0.0, low, high, 0.5, 3, 100)
    score = MeanStd(0.5, 0.1, 3)
    assert Cell(score, None, lambda: None, lambda: gain).verdict == verdict
    assert Cell(score, None, lambda: gain, lambda: None).verdict == ""


def test_a_row_counts_runs_without_scores_by_node():
    runs = [SimpleNamespace(means_only=each) for each in (True, False, True)]
    assert list(means_words(Row("tuneup", runs, None, {}, range(3)))) == ["TuneUp 2 of 3"]
    assert list(means_words(Row("base", runs[1:2], None, {}, range(3)))) == []


def test_settings_that_a_task_does_not_read_are_no_choice():
    def chosen(method, task, **settings):
        record = SimpleNamespace(task=task, chosen=settings)
        return Row(method, [record], None, {}, range(1)).chosen

    assert chosen("localaug", "node-classification", draws=4) == "draws 4"
    assert chosen("localaug", "link-prediction", draws=4, weight=1.0) == ""
    assert chosen("coldbrew", "link-prediction", delta=0, heads_only=True) == "delta 0"
    assert chosen("coldbrew", "link-prediction", delta=2, heads_only=True) == (
        "delta 2, heads_only True"
    )
    assert chosen("tuneup", "link-prediction", alpha=0.5) == "alpha 0.5"
