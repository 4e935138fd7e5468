"""What came out of a fit: all models beside simple ones, and sentences read off that."""

import io
import json
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from tests.report.pages import class_summary
from tuneup.errors import InputError
from tuneup.metrics import NodeScores
from tuneup.report.comparison import class_standings, standings, standings_table
from tuneup.report.summary import BASE, RESULT, STAGE_2, ClassSummary
from tuneup.report.verdict import verdict
from tuneup.train import Dial, StageRecord, TrainingRecord

DEGREE = torch.tensor([0] * 20 + [3] * 40 + [9] * 40)
LOGISTIC = "logistic regression on features"


def scores(setting, isolated, tail, head):
    """Shares of nodes that are right, among those of degree 0, 3 and 9."""
    right = [torch.arange(n) < round(s * n) for s, n in ((isolated, 20), (tail, 40), (head, 40))]
    return NodeScores(
        setting, "accuracy", torch.arange(100), DEGREE, torch.cat(right).to(torch.float32)
    )


def model(known, cold):
    return {
        "transductive": scores("transductive", *known),
        "cold-90": scores("cold-90", *cold),
    }


MODELS = {
    BASE: model((0.5, 0.8, 0.9), (0.1, 0.5, 0.6)),
    STAGE_2: model((0.5, 0.75, 0.85), (0.5, 0.7, 0.75)),
    RESULT: model((0.5, 0.8, 0.9), (0.1, 0.5, 0.6)),
}
SWAPPED = {**MODELS, RESULT: MODELS[STAGE_2]}
FLOORS = {LOGISTIC: model((0.7, 0.6, 0.6), (0.7, 0.6, 0.6)), "majority": model(*[(0.1,) * 3] * 2)}


def record(weight, metric="accuracy"):
    stages = [StageRecord(k, "model", "", best_epoch=9, best_score=0.7) for k in (0, 1)]
    dial = Dial((0.0, 0.5, 1.0), (0.72, 0.71, 0.7), {0.0: (0.8, 0.8, 0.78)}, weight)
    return TrainingRecord(0, metric, stages, 1 if weight else 0, 0.72, "balanced", dial)


def test_rows_hold_every_model_and_the_best_simple_one():
    rows = standings(MODELS, FLOORS)
    assert [(row.setting, row.group, row.nodes) for row in rows[:4]] == [
        ("transductive", "overall", 100),
        ("transductive", "isolated", 20),
        ("transductive", "tail", 60),
        ("transductive", "head", 40),
    ]
    isolated = rows[1]
    assert isolated.scores == pytest.approx({BASE: 0.5, STAGE_2: 0.5, RESULT: 0.5})
    assert (isolated.floor, isolated.floor_score) == (LOGISTIC, pytest.approx(0.7))
    assert isolated.lead == pytest.approx(-0.2)
    assert rows[4].gain.absolute == 0.0
    assert [row.floor for row in standings(MODELS)] == [""] * 8
    other = {s: replace(v, nodes=v.nodes + 1) for s, v in FLOORS[LOGISTIC].items()}
    with pytest.raises(InputError, match="same nodes"):
        standings(MODELS, {LOGISTIC: other})


def test_a_result_below_a_simple_model_is_said_first():
    lines = verdict(record(0.0), standings(MODELS, FLOORS), "nodes")
    assert lines[0] == (
        f"A simple model does better: {LOGISTIC} on known nodes without links (70.0 % against "
        "50.0 %); new nodes, 90 % of links removed (62.0 % against 46.0 %); new nodes, 90 % of "
        "links removed without links (70.0 % against 10.0 %)."
    )
    assert lines[1].startswith("Result: Base, balanced validation accuracy 72.0 % (stage 2 70.0 %)")


def test_a_result_above_all_simple_models_says_by_how_much():
    weak = {"majority": model(*[(0.1,) * 3] * 2)}
    lines = verdict(record(1.0), standings(SWAPPED, weak), "nodes")
    assert lines[0] == (
        "Better than every simple model in every setting: the least lead is +58.0 points over "
        "majority on new nodes, 90 % of links removed."
    )


def test_what_the_other_choice_would_give_is_said():
    lines = verdict(record(0.0), standings(MODELS), "nodes")
    assert lines[1] == (
        "Stage 2 instead would give +22.0 points on new nodes, 90 % of links removed and "
        "\N{MINUS SIGN}4.0 points on known nodes."
    )
    assert verdict(record(1.0), standings(SWAPPED), "nodes")[1].startswith("Base instead would")
    middle = {**MODELS, RESULT: model((0.5, 0.8, 0.85), (0.4, 0.6, 0.7))}
    between = verdict(record(0.5), standings(middle), "nodes")
    assert "0.5 Base + 0.5 stage 2" in between[0]
    assert [line.split()[0] for line in between[1:]] == ["Base", "Stage"]


def test_a_stage_that_was_still_improving_is_said():
    unfinished = record(1.0)
    unfinished.stages[0].unfinished = True
    assert "Stage 1 was still improving" in verdict(unfinished, standings(MODELS), "nodes")[-1]
    assert "still improving" not in " ".join(verdict(record(1.0), standings(MODELS), "nodes"))


def test_sentences_are_about_the_metric_that_a_classifier_was_selected_by():
    weak, strong = class_summary(3.0, 1.0), class_summary(1.0, 2.0)
    first, result, found, calibration = verdict(record(0.0, weak.metric), [], "nodes", weak)
    assert first.startswith("Better than every simple model in every setting, in average precision")
    assert first.endswith(" over a line on known nodes.")
    assert result.startswith("Result: Base, balanced validation average-precision 72.0 %")
    row = weak.result["transductive"].confusion
    assert found == (
        f"Of 30 known nodes of class fraud, {row[1][1]} are predicted as fraud; {row[0][1]} others "
        "are too."
    )
    error = 100 * weak.result["transductive"].measures["calibration-error"]
    assert f"{error:.1f} % on known nodes (before: 12.3 %)" in calibration

    (first, *_) = verdict(record(0.0, strong.metric), [], "nodes", strong)
    own = [100 * strong.score(name, "transductive") for name in ("a line", RESULT)]
    assert first.startswith(
        "A simple model does better in average precision of class fraud: a line on known nodes "
        f"({own[0]:.1f} % against {own[1]:.1f} %); new nodes, 90 % of links removed ("
    )
    alone = verdict(record(0.0), [], "nodes", replace(weak, floors={}))
    assert alone[0].startswith("Result: ")
    accuracy = replace(weak, metric="accuracy")
    lines = verdict(record(0.0), standings(MODELS, FLOORS), "nodes", accuracy)
    assert lines[:-1] == verdict(record(0.0), standings(MODELS, FLOORS), "nodes")
    assert lines[-1] == calibration
    many = class_summary(classes=3)
    assert "are predicted as" not in " ".join(verdict(record(0.0), [], "nodes", many))


def test_a_class_summary_survives_json():
    found = class_summary(classes=3)
    assert ClassSummary.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


@pytest.mark.parametrize("width", [60, 120])
def test_the_table_fits_a_terminal(width):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(standings_table(standings(MODELS, FLOORS), "accuracy"))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    for word in ("no links", "few links", "many links", "known nodes", "Stage 2", "simple"):
        assert word in text
    assert "70.0" in text


def test_the_table_of_a_metric_has_every_model_and_the_best_simple_one():
    found = class_summary()
    table = standings_table(class_standings(found), found.score_words)
    assert table.head == ["", "nodes", BASE, STAGE_2, RESULT, "simple"]
    assert len(table.rows) == 8
    expected = [found.score(name, "transductive") for name in (BASE, STAGE_2, RESULT)]
    assert table.rows[0][2:5] == [f"{100 * score:.1f}" for score in expected]
    assert table.caption.startswith("average precision of class fraud in %; simple: ")
