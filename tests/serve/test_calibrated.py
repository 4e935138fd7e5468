"""A temperature is saved with a classifier and makes the probabilities that it answers with."""

import json

import pytest
import torch
from serving_toys import link_model, node_ids, save_artefact, small_encoder, small_graph

from tuneup.errors import InputError
from tuneup.metrics import Temperature
from tuneup.serve import Predictor


def test_answers_are_divided_by_the_temperature_of_their_degree(tmp_path):
    graph, model, chosen = small_graph(), small_encoder(), Temperature(2.5, 0.5)
    place = save_artefact(tmp_path / "m", model, graph, ids=node_ids(), temperature=chosen)
    predictor = Predictor.load(place)
    with torch.no_grad():
        logits = model(graph.x, graph.adjacency)
    known = predictor.predict(node_ids())
    divisor = torch.where(graph.adjacency.degree > 0, 2.5, 0.5)[:, None]
    assert divisor.unique().tolist() == [0.5, 2.5]
    assert torch.equal(torch.from_numpy(known.probabilities), (logits / divisor).softmax(1))
    assert known.best.tolist() == logits.argmax(1).tolist()
    assert torch.equal(predictor.outputs(), logits)
    new = predictor.predict_new(graph.x[:2], [["n03"], []])
    outputs = predictor.outputs_new(graph.x[:2], [["n03"], []])
    divisor = torch.tensor([[2.5], [0.5]])  # one has an edge, the other has none
    assert torch.equal(torch.from_numpy(new.probabilities), (outputs / divisor).softmax(1))
    assert (
        "2.5 for nodes with an edge and 0.5 for nodes without" in (place / "README.md").read_text()
    )


def test_all_classes_of_an_answer(tmp_path):
    place = save_artefact(
        tmp_path / "m", small_encoder(), small_graph(), labels="vwxyz", temperature=Temperature(0.5)
    )
    answers = Predictor.load(place).predict([7, 3])
    frame = answers.to_frame(all_classes=True)
    assert frame.columns[4:] == ["p(v)", "p(w)", "p(x)", "p(y)", "p(z)"]
    chances = frame.select(frame.columns[4:])
    assert chances.to_numpy().tolist() == answers.probabilities.tolist()
    assert chances.sum_horizontal().to_list() == pytest.approx([1, 1])
    for row in frame.iter_rows(named=True):
        assert row["probability"] == row[f"p({row['label']})"]
        assert row["probability"] == max(row[f"p({name})"] for name in "vwxyz")


def test_models_saved_before_there_were_temperatures_answer_as_they_did(tmp_path):
    graph, model = small_graph(), small_encoder()
    place = save_artefact(tmp_path / "m", model, graph)
    assert "temperature" not in json.loads((place / "config.json").read_text())
    with torch.no_grad():
        expected = model(graph.x, graph.adjacency).softmax(1)
    found = Predictor.load(place).predict(range(60)).probabilities
    assert torch.equal(torch.from_numpy(found), expected)
    assert "not calibrated" in (place / "README.md").read_text()


def test_what_is_no_temperature_is_refused(tmp_path):
    for value in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(InputError, match="temperature: got"):
            Temperature(isolated=value)
    with pytest.raises(InputError, match="for link-prediction; expected none"):
        save_artefact(tmp_path / "m", link_model(), small_graph(), temperature=Temperature(2.0))
    assert list(tmp_path.iterdir()) == []
