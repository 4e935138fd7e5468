"""The report of a classifier: groups by degree, confusion, calibration, and JSON and back."""

import json

import pytest
import torch

from tests.train.toy import small_encoder, small_task
from tuneup.data import split_nodes
from tuneup.errors import InputError
from tuneup.evaluation import ClassReport, node_settings
from tuneup.evaluation.classes import MEASURES
from tuneup.metrics import Temperature, calibration_error, class_metric, log_loss

GRAPH = small_task().data


def drawn(classes, count=200):
    generator = torch.Generator().manual_seed(classes)
    logits = torch.randn(count, classes, generator=generator)
    y = torch.randint(0, classes, (count,), generator=generator)
    return logits, y, torch.randint(0, 12, (count,), generator=generator)


@pytest.mark.parametrize("classes", [2, 3])
def test_groups_are_measured_like_the_whole(classes):
    logits, y, degree = drawn(classes)
    found = ClassReport.of(logits.softmax(1), y, degree)
    masks = {
        "overall": degree >= 0,
        "isolated": degree == 0,
        "tail": degree <= 5,
        "head": degree > 5,
    }
    assert list(found.groups) == list(masks)
    for name, mask in masks.items():
        group = found.groups[name]
        assert group.nodes == int(mask.sum())
        assert tuple(group.measures) == MEASURES
        for metric in MEASURES[:5]:
            own = class_metric(metric, found.positive)(logits[mask], y[mask])
            assert group.measures[metric] == pytest.approx(own), metric
        assert group.measures["log-loss"] == pytest.approx(log_loss(logits[mask], y[mask]))
        error = calibration_error(logits[mask].softmax(1), y[mask])
        assert group.measures["calibration-error"] == pytest.approx(error)
    assert found.measures == found.groups["overall"].measures
    assert sum(each.count for each in found.calibration) == 200


def test_rows_of_classes_are_read_off_the_confusion():
    y = torch.tensor([0, 0, 0, 1, 1, 3])
    predicted = torch.tensor([0, 0, 1, 1, 0, 2])
    found = ClassReport.of(torch.eye(4)[predicted], y)
    assert found.confusion == ((2, 1, 0, 0), (1, 1, 0, 0), (0, 0, 0, 0), (0, 0, 1, 0))
    shown = [(row.nodes, row.precision, row.recall) for row in found.classes]
    assert shown == [
        (3, pytest.approx(2 / 3), pytest.approx(2 / 3)),
        (2, 0.5, 0.5),
        (0, 0.0, None),
        (1, None, 0.0),
    ]
    assert found.measures["log-loss"] is None  # probability 0 of what was true
    assert found.positive is None


def test_the_positive_class_and_what_a_group_leaves_undefined():
    logits, y, degree = drawn(2)
    y[degree == 0] = 0
    rarer = int(y.sum() <= 100)
    assert ClassReport.of(logits.softmax(1), y).positive == rarer
    found = ClassReport.of(logits.softmax(1), y, degree, positive=1)
    assert found.groups["isolated"].measures["auroc"] is None
    assert found.groups["isolated"].measures["average-precision"] is None
    assert found.groups["isolated"].measures["accuracy"] is not None


def test_it_survives_json():
    logits, y, degree = drawn(3)
    found = ClassReport.of(logits.softmax(1), y, degree)
    plain = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert ClassReport.from_json(plain) == found


def test_what_is_no_probability_is_refused():
    logits, y, _ = drawn(3)
    with pytest.raises(InputError, match=r"got .* in row 0; expected probabilities"):
        ClassReport.of(logits, y)
    with pytest.raises(InputError, match="got no node"):
        ClassReport.of(logits[:0].softmax(1), y[:0])


def test_a_setting_reports_what_it_predicts():
    model = small_encoder()
    for setting in node_settings(GRAPH, split_nodes(300, labelled=0.2, new=0.1)):
        temperature = Temperature(2.0, 0.5)
        scores, found = setting.score(model), setting.report(model, temperature)
        probabilities = setting.predict(model, temperature)
        divisor = torch.where(scores.degree > 0, 2.0, 0.5)[:, None]
        torch.testing.assert_close(probabilities, (setting.logits(model) / divisor).softmax(1))
        assert found == ClassReport.of(probabilities, GRAPH.y[setting.ids], scores.degree)
        assert found.measures["accuracy"] == pytest.approx(scores.mean())
