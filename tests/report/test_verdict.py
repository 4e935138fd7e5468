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
from tuneup.report import ClassSummary, MethodSummary, RunSummary, SeedRun, models_table
from tuneup.report.comparison import BASE, RESULT, STAGE_2
from tuneup.report.page import page_html
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


def summary(record, models=MODELS, floors=None, **more):
    methods = [MethodSummary(name, [SeedRun(0, scores)]) for name, scores in models.items()]
    made = RunSummary(
        *("toy", "node-classification", "sage", "accuracy", methods),
        floors=floors or {},
        record=record,
        **more,
    )
    return replace(made, verdict=verdict(made))


def lines_of(*given, **more):
    return summary(*given, **more).verdict


def test_rows_hold_every_model_and_the_best_simple_one():
    rows = summary(record(0.0), floors=FLOORS).rows
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
    assert rows[4].gains[RESULT].absolute == 0.0
    assert [row.floor for row in summary(record(0.0)).rows] == [""] * 8
    other = {s: replace(v, nodes=v.nodes + 1) for s, v in FLOORS[LOGISTIC].items()}
    with pytest.raises(InputError, match="same nodes"):
        summary(record(0.0), floors={LOGISTIC: other})


def test_a_result_below_a_simple_model_is_said_first():
    lines = lines_of(record(0.0), floors=FLOORS)
    assert lines[0] == (
        f"A simple model does better: {LOGISTIC} on known nodes without links (70.0 % against "
        "50.0 %); new nodes, 90 % of links removed (62.0 % against 46.0 %); new nodes, 90 % of "
        "links removed without links (70.0 % against 10.0 %)."
    )
    assert lines[1].startswith("Result: Base, balanced validation accuracy 72.0 % (stage 2 70.0 %)")


def test_a_result_above_all_simple_models_says_by_how_much():
    weak = {"majority": model(*[(0.1,) * 3] * 2)}
    lines = lines_of(record(1.0), SWAPPED, weak)
    assert lines[0] == (
        "Better than every simple model in every setting: the least lead is +58.0 points over "
        "majority on new nodes, 90 % of links removed."
    )


def test_what_the_other_choice_would_give_is_said():
    lines = lines_of(record(0.0))
    assert lines[1] == (
        "Stage 2 instead would give +22.0 points on new nodes, 90 % of links removed and "
        "\N{MINUS SIGN}4.0 points on known nodes."
    )
    assert lines_of(record(1.0), SWAPPED)[1].startswith("Base instead would")
    middle = {**MODELS, RESULT: model((0.5, 0.8, 0.85), (0.4, 0.6, 0.7))}
    between = lines_of(record(0.5), middle)
    assert "0.5 Base + 0.5 stage 2" in between[0]
    assert [line.split()[0] for line in between[1:]] == ["Base", "Stage"]


def test_a_stage_that_was_still_improving_is_said():
    unfinished = record(1.0)
    unfinished.stages[0].unfinished = True
    assert "Base was still improving when" in lines_of(unfinished)[-1]
    assert "still improving" not in " ".join(lines_of(record(1.0)))


def test_sentences_are_about_the_measure_that_a_classifier_was_selected_by():
    weak, strong = class_summary(3.0, 1.0), class_summary(1.0, 2.0)
    reason = "the rarest class has 3 % of the training labels"
    lines = lines_of(record(0.0, weak.metric), classes=weak, reason=reason)
    first, why, result, instead, found, calibration = lines
    assert first.startswith("Better than every simple model in every setting in average precision")
    assert first.endswith(" over a line on known nodes.")
    assert why == (
        "Models are selected and compared by average precision of class fraud, as the rarest class "
        "has 3 % of the training labels."
    )
    assert result.startswith("Result: Base, balanced validation average precision 72.0 %")
    assert instead.startswith("Stage 2 instead would give ")
    row = weak.result["transductive"].confusion
    assert found == (
        f"Of 30 known nodes of class fraud, {row[1][1]} are predicted as fraud; {row[0][1]} others "
        "are too."
    )
    error = 100 * weak.result["transductive"].measures["calibration-error"]
    assert f"{error:.1f} % on known nodes (before: 12.3 %)" in calibration

    (first, *_) = lines_of(record(0.0, strong.metric), classes=strong)
    own = [
        100 * named["transductive"]["overall"].measures[strong.metric]
        for named in (strong.floors["a line"], strong.models[RESULT])
    ]
    assert first.startswith(
        "A simple model does better in average precision of class fraud: a line on known nodes "
        f"({own[0]:.1f} % against {own[1]:.1f} %); "
    )
    assert lines_of(record(0.0), classes=replace(weak, floors={}))[0].startswith("Models are sel")
    lines = lines_of(record(0.0), floors=FLOORS, classes=replace(weak, metric="accuracy"))
    assert lines[:-1] == lines_of(record(0.0), floors=FLOORS)
    assert lines[-1] == calibration
    many = class_summary(classes=3)
    assert "are predicted as" not in " ".join(lines_of(record(0.0), classes=many))


def test_cards_of_an_imbalanced_classifier_show_its_measure_first():
    found = class_summary()
    made = summary(record(0.0, found.metric), classes=found, floors=FLOORS)
    html = page_html([made]).replace("\xa0", " ")
    cards = html[html.index('class="tiles"') : html.index('id="trained"')]
    assert "average precision of class fraud, Base" in cards
    assert "accuracy" not in cards.split("</div>\n</div>")[0]
    score = found.models[RESULT]["transductive"]["tail"].measures["average-precision"]
    assert f"<strong>{100 * score:.1f} %</strong>" in cards
    assert "Scores in this section are accuracy" in html


def test_a_class_summary_survives_json():
    found = class_summary(classes=3)
    assert ClassSummary.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


@pytest.mark.parametrize("width", [60, 120])
def test_the_table_fits_a_terminal(width):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(models_table(summary(record(0.0), floors=FLOORS).rows, "accuracy"))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    for word in ("0 links", "0-5 links", "6+ links", "known nodes", "Stage 2", "simple"):
        assert word in text
    assert "70.0" in text


def test_the_table_of_a_metric_has_every_model_and_the_best_simple_one():
    found = class_summary()
    table = models_table([*found.rows()], found.score_words)
    assert table.head == ["", "nodes", BASE, STAGE_2, RESULT, "simple"]
    assert len(table.rows) == 8
    groups = [found.models[name]["transductive"]["overall"] for name in (BASE, STAGE_2, RESULT)]
    assert table.rows[0][2:5] == [f"{100 * g.measures[found.metric]:.1f}" for g in groups]
    assert table.caption.startswith("Average precision of class fraud in %; simple: ")
