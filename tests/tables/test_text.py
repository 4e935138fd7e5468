"""Free text as features: against scikit-learn, fitted to training rows, saved as JSON."""

from __future__ import annotations

import math
import re
import sys
from zlib import crc32

import numpy as np
import polars as pl
import pytest
import torch

from tuneup import cli
from tuneup.errors import InputError
from tuneup.serve import Predictor
from tuneup.tables import FeaturePlan, Table, TableRequest, read_tables
from tuneup.tables.nodes import choose_features
from tuneup.tables.reading import Notes
from tuneup.tables.text import BUCKETS

WORDS = [
    "graph",
    "neural",
    "tail",
    "node",
    "Ärger",
    "édition",
    "python3",
    "市場",
    "learning",
    "ate",
]
SHARES = np.array([0.3, 0.2, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02])
CHOSEN = np.random.default_rng(0).choice(WORDS, (60, 6), p=SHARES)
TEXTS = [f"{' '.join(words)} no. {i}" for i, words in enumerate(CHOSEN)]


def frame(texts=TEXTS, **columns) -> pl.DataFrame:
    return pl.DataFrame({"about": texts, **columns})


def fit(given: pl.DataFrame, training=None, **options) -> tuple[FeaturePlan, Notes]:
    notes = Notes()
    raw = choose_features(
        Table.of(given, "n.parquet"), given.columns, TableRequest(**options), notes
    )
    return raw.fit(training, notes), notes


def tfidf(texts: list[str]) -> np.ndarray:
    """By loops, over all buckets."""
    counts = np.zeros((len(texts), BUCKETS))
    for row, text in enumerate(texts):
        for word in re.findall(r"\w{2,}", text.lower()):
            counts[row, crc32(word.encode()) % BUCKETS] += 1
    idf = 1 + np.log((1 + len(texts)) / (1 + (counts > 0).sum(0)))
    rows = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * idf
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_texts_are_their_tf_idf_along_the_first_singular_vectors():
    plan, _ = fit(frame(), text_width=3)
    assert plan.columns == ("about~0", "about~1", "about~2")
    assert [*plan.lines()] == ["Features as free text: about (3)."]
    x = plan.apply(frame())
    assert x.mean(0).abs().max() < 1e-4
    assert float(x.var(correction=0)) == pytest.approx(1, abs=1e-3)
    matrix = tfidf(TEXTS)
    _, _, right = np.linalg.svd(matrix, full_matrices=False)
    found = matrix @ right[:3].T
    found = (found - found.mean(0)) / math.sqrt(found.var(0).mean())
    # Singular vectors have a sign each, and the distances between texts have none.
    same = torch.from_numpy(found).float()
    torch.testing.assert_close(torch.cdist(x, x), torch.cdist(same, same), atol=0.01, rtol=0)


def test_a_plan_with_text_is_json_that_comes_back_bit_for_bit():
    plan, _ = fit(frame([*TEXTS[:-1], None]), text_width=5)
    again = FeaturePlan.from_json(plan.to_json())
    assert again == plan
    assert torch.equal(again.apply(frame()), plan.apply(frame()))
    assert plan.columns[-1] == "about is missing"
    for part in ('"buckets": [', '"rarity": [', '"mean": [', '"directions": [[', '"scale": '):
        for wrong in ("-1, ", '"x", ', "NaN, "):
            broken = plan.to_json().replace(part, part + wrong)
            with pytest.raises(InputError, match="Not a plan of features"):
                FeaturePlan.from_json(broken)


def test_words_that_training_never_saw_say_nothing():
    plan, _ = fit(frame(), text_width=4)
    blank = plan.apply(frame(["zzz yyy", "! ?", "", None]))
    assert torch.equal(blank[0], blank[1]), "no known word, and no word at all"
    assert blank[2:].tolist() == [[0.0] * 4] * 2, "a missing text is the mean"
    assert not torch.equal(blank[0], blank[2])
    assert torch.equal(plan.apply(frame(TEXTS[:3])), plan.apply(frame())[:3]), "row by row"


def test_only_training_rows_are_fitted():
    training = torch.arange(60) < 40
    one, _ = fit(frame(), training)
    other, _ = fit(frame([*TEXTS[:40], *["other words entirely here"] * 20]), training)
    assert one == other
    assert one != fit(frame())[0]


CHOICES = [
    ({}, TEXTS, "text"),
    ({"text_width": 0}, TEXTS, None),
    ({"exclude": ("about",)}, TEXTS, None),
    ({"categorical": ("about",)}, TEXTS, "categorical"),
    ({}, [f"n{i}" for i in range(60)], None),
    ({}, [("red wine", "white wine")[i % 2] for i in range(60)], "categorical"),
    ({"text": ("about",)}, [("red wine", "white wine")[i % 2] for i in range(60)], "text"),
    ({}, [f"{i}-02-2024 at noon here" for i in range(60)], "text"),
]


@pytest.mark.parametrize(("options", "texts", "kind"), CHOICES)
def test_which_columns_are_text(options, texts, kind):
    nodes = frame(texts, f=[0.5 * (i % 7) for i in range(60)])
    raw_names = [name for name in nodes.columns if name not in options.get("exclude", ())]
    notes = Notes()
    raw = choose_features(Table.of(nodes, "n"), raw_names, TableRequest(**options), notes)
    assert {each.name: each.kind for each in raw.columns} == {
        **({"about": kind} if kind else {}),
        "f": "numeric",
    }
    if kind is None and "exclude" not in options:
        assert any("left out 'about': free text or an id" in note for note in notes)


def test_texts_without_words_are_left_out():
    for texts in (["! ?", "? !", "! !", "- ?"], ["same old words"] * 4):
        plan, notes = fit(frame(texts), text=("about",))
        assert plan.width == 0
        assert "left out 'about': the same" in notes[-1]


def test_from_files_with_vectors_beside(tmp_path, monkeypatch):
    """A description and a sentence encoder's output, as list and as array, from Parquet and CSV."""
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"source": range(59), "target": range(1, 60)}).write_csv("edges.csv")
    nodes = pl.DataFrame({"id": range(60), "label": [*"ab"] * 30, "about": TEXTS})
    nodes.write_csv("nodes.csv")
    vector = pl.Series([[i / 7, -i] for i in range(60)], dtype=pl.List(pl.Float32))
    nodes.with_columns(v=vector, a=vector.list.to_array(2)).write_parquet("nodes.parquet")
    found = {}
    for name in ("nodes.csv", "nodes.parquet"):
        request = TableRequest(("edges.csv",), (name,), text_width=6)
        tables = read_tables(request)
        found[name] = tables.with_split(tables.split()).plan
        assert any("Features as free text: about (6)." in n for n in tables.with_split(None).notes)
    assert found["nodes.parquet"].inputs == ("about", "v", "a")
    assert found["nodes.parquet"].width == 10
    assert found["nodes.parquet"].features[0] == found["nodes.csv"].features[0]


def test_a_saved_model_reads_the_text_of_new_nodes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "relaunch", lambda: None)

    def tuneup(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["tuneup", *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capsys.readouterr()
        assert not stop.value.code, printed.err
        return printed.out

    pl.DataFrame({"source": range(59), "target": range(1, 60)}).write_csv("edges.csv")
    nodes = pl.DataFrame({"id": range(60), "label": [*"ab"] * 30, "about": TEXTS})
    nodes.write_csv("nodes.csv")
    tables = ("--edges", "edges.csv", "--nodes", "nodes.csv")
    out = tuneup("fit", *tables, "--epochs", "3", "--width", "8", "--out", "m")
    assert "Features as free text: about (32)." in out
    predictor = Predictor.load("m", read_plan=FeaturePlan.from_json)
    same = predictor.plan.apply(nodes)
    torch.testing.assert_close(same, predictor.model.artefact.x)
    pl.DataFrame({"id": ["x", "y"], "about": [TEXTS[0], "words never seen"]}).write_csv("new.csv")
    rows = pl.read_csv(tuneup("predict", "m", "--nodes", "new.csv").encode())
    alone = predictor.predict_new(same[:1], [[]]).to_frame()
    assert rows["probability"][0] == pytest.approx(alone["probability"][0], abs=1e-6)
