"""Labels as people write them: spaces, and words that mean that there is none."""

from __future__ import annotations

import polars as pl
import pytest

from tuneup.tables import TableRequest, read_tables


@pytest.fixture(params=["csv", "parquet", "jsonl"])
def load(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"source": [0, 1], "target": [1, 2]}).write_csv("edges.csv")

    def read(labels, missing=(), **more):
        frame = pl.DataFrame({"id": range(len(labels)), "label": labels, **more})
        name = f"nodes.{request.param}"
        {"csv": frame.write_csv, "parquet": frame.write_parquet, "jsonl": frame.write_ndjson}[
            request.param
        ](name)
        return read_tables(TableRequest(("edges.csv",), (name,), missing=missing))

    return read


def notes(found) -> str:
    return "\n".join(note for note in found.notes if "'label'" in note)


def test_spaces_around_labels_are_cut_off(load):
    found = load(["a ", " a", "b", "b", "  "])
    assert found.classes == ("a", "b")
    assert found.graph.y.tolist() == [0, 0, 1, 1, -1]
    assert "spaces around 3 labels are cut off" in notes(found)


def test_words_for_no_label_are_questioned(load):
    words = ["n/a", "N/A", "none", "-", "null", "unknown", "?", "NaN"]
    labels = ["a", "b", "a", "b", *words, *words[:-1], " NaN "]
    found = load(labels)
    assert {*words} < {*found.classes}
    for word in words:
        assert f"{word!r} (2 rows) counts as a class; if it means no label, pass" in notes(found)
        assert f"--missing {word!r}." in notes(found)
    again = load(labels, missing=tuple(words))
    assert again.classes == ("a", "b")
    assert again.graph.y.tolist()[4:] == [-1] * 16
    assert "counts as a class" not in notes(again)


def test_minus_one_is_questioned_among_other_numbers(load):
    found = load([0, 1, 0, 1, -1])
    assert found.classes == (-1, 0, 1)
    assert "'-1' (1 row) counts as a class" in notes(found)
    assert load([0, 1, 0, 1, -1], missing=("-1",)).classes == (0, 1)
    assert "counts as a class" not in notes(load([-1, 1, 1, -1]))


def test_labels_without_a_part_are_noted(load):
    found = load(["a", "b", "a", "b", None], split=["train", "val", None, None, None])
    assert "not in the split, so unused: 2 labels" in notes(found)


def test_missing_holds_for_features_in_every_format(load):
    found = load(["a", "b", "a", "b"], missing=("NA",), f=["1.5", "2", "NA", "4"])
    assert found.plan.columns == ("f", "f is missing")
