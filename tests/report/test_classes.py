"""The class-by-class summary: its sentences, its table and its section of a page."""

import json
from dataclasses import replace

import pytest
import torch

from tests.report.pages import Page, run
from tuneup.evaluation import ClassReport
from tuneup.metrics import Temperature
from tuneup.report.classes import (
    ClassSummary,
    calibration_words,
    floor_words,
    found_words,
)
from tuneup.report.page import page_html
from tuneup.report.tables import measures_table


def report(skill: float, classes: int = 2, seed: int = 0) -> ClassReport:
    """Of 300 nodes, a tenth of them of class 1; more skill ranks them better."""
    generator = torch.Generator().manual_seed(seed)
    y = (torch.arange(300) % 10 == 0).long() * (1 + torch.arange(300) % (classes - 1))
    logits = torch.randn(300, classes, generator=generator)
    logits[torch.arange(300), y] += skill
    degree = torch.arange(300) % 9
    return ClassReport.of(logits.softmax(1), y, degree)


def summary(skill: float = 3.0, floor: float = 1.0, classes: int = 2) -> ClassSummary:
    models = {"Base": 2.0, "Stage 2": 2.5, "TuneUp": skill}
    settings = ("transductive", "cold-90")

    def groups(value):
        return {name: report(value, classes).groups for name in settings}

    return ClassSummary(
        "average-precision" if classes == 2 else "macro-f1",
        ("ok", "fraud") if classes == 2 else tuple(f"c{k}" for k in range(classes)),
        Temperature(1.5, 0.8),
        dict.fromkeys(settings, 0.1234),
        {name: report(skill, classes) for name in settings},
        {name: groups(value) for name, value in models.items()},
        {"a tree": groups(floor - 0.5), "a line": groups(floor)},
    )


def test_it_survives_json():
    found = summary(classes=3)
    assert ClassSummary.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


def test_simple_models_that_are_better_come_first():
    ahead, behind = summary(3.0, 1.0), summary(1.0, 2.0)
    (said,) = floor_words(ahead, "nodes")
    assert said.startswith("A better average precision of class fraud than every simple model")
    assert "over a line on new nodes, 90 % of links removed" in said
    first, second = floor_words(behind, "nodes")
    scores = [100 * behind.score(name, "transductive") for name in ("a line", "TuneUp")]
    assert first == (
        "A simple model has a better average precision of class fraud on known nodes: a line, "
        f"{scores[0]:.1f} % against {scores[1]:.1f} %."
    )
    assert "new nodes, 90 % of links removed" in second
    assert list(floor_words(replace(ahead, floors={}), "nodes")) == []


def test_how_many_are_found_and_how_far_probabilities_are_off():
    found = summary()
    row = found.result["transductive"].confusion
    assert found_words(found, "nodes") == (
        f"Of 30 known nodes of class fraud, {row[1][1]} are predicted as fraud; {row[0][1]} others "
        "are too."
    )
    assert found_words(summary(classes=3), "nodes") == ""
    error = 100 * found.result["transductive"].measures["calibration-error"]
    assert f"{error:.1f} % on known nodes (before: 12.3 %)" in calibration_words(found, "nodes")


def test_a_terminal_has_every_model_and_the_best_simple_one():
    found = summary()
    shown = measures_table(found)
    assert [column.header for column in shown.columns] == [
        *("", "nodes", "Base", "Stage 2", "TuneUp", "simple")
    ]
    assert shown.row_count == 8
    cells = [next(iter(column.cells)) for column in shown.columns]
    expected = [found.score(name, "transductive") for name in ("Base", "Stage 2", "TuneUp")]
    assert cells[2:5] == [f"{100 * score:.1f}" for score in expected]


@pytest.mark.parametrize("classes", [2, 3, 14])
def test_the_section_of_a_page(classes):
    found = replace(run(), classes=summary(classes=classes))
    page = Page(page_html([found]))
    text = page.text
    assert ("#classes", "Classes") in {
        (attributes.get("href"), "Classes") for name, attributes in page.tags if name == "a"
    }
    for words in ("Class by class", "macro-F1", "log loss", "1.50 for those with links"):
        assert words in text, words
    assert ("as c0" in text) == (classes == 3)
    assert ("The commonest confusions" in text) == (classes == 14)
    if classes == 2:
        assert "Average precision of class fraud of every model" in text
    assert "Class by class" not in Page(page_html([run()])).text
