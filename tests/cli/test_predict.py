"""``tuneup predict`` in a process of its own, with tables as users have them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import torch

from tuneup.cli import app
from tuneup.data import Graph, interactions_from
from tuneup.errors import InputError, OutputError
from tuneup.graph import adjacency_from, identities
from tuneup.nn import (
    Classes,
    Encoder,
    HadamardMLP,
    InnerProduct,
    LightGCN,
    Model,
    NodeVectors,
    UserItemVectors,
)
from tuneup.serve import Predictor

TUNEUP = Path(sys.executable).with_name("tuneup")
ENVIRONMENT = {**os.environ, "COLUMNS": "80", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def run(*arguments: str) -> None:
    """The command in this process, which need not load everything anew."""
    app(["predict", *arguments], standalone_mode=False)


def tuneup(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TUNEUP, "predict", *arguments],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])
    graph = Graph(adjacency_from(edges, 6, undirected=True), torch.randn(6, 2))
    ids = [f"{number:03}" for number in range(6)]
    Predictor(Encoder(2, 3, width=4), graph, ids=ids, labels="abc").save(folder / "classes")
    bare = Graph(graph.adjacency, identities(graph.adjacency.degree > 0))
    inner = Model(NodeVectors(4, 2), Encoder(2, 3, width=4), Classes())
    Predictor(inner, bare, ids=ids, labels="abc").save(folder / "bare")
    links = Model(NodeVectors(4, 2), Encoder(2, 4, width=4), HadamardMLP(4, 4))
    Predictor(links, bare, ids=ids).save(folder / "links")
    (folder / "names.csv").write_text("id\n0007\nold-8\nalone\n")
    pairs = interactions_from(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2]), 2, 5)
    model = Model(UserItemVectors(2, 5, 4), LightGCN(2), InnerProduct())
    Predictor(model, pairs, ids=[10, 11], items=list("vwxyz")).save(folder / "shop")
    (folder / "new.csv").write_text("id,a,b\n0007,0.5,1\nold-8,2,-1.5\n")
    (folder / "edges.csv").write_text("from,to\n0007,003\n001,0007\n0007,old-8\n")
    (folder / "old.csv").write_text("from,to\n000,002\n")
    (folder / "carts.csv").write_text("user,item\n77,w\n77,x\n78,v\n")
    return folder


def test_known_nodes(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    run("classes", "--ids", "002, 005")
    frame = pl.read_csv(capsys.readouterr().out.encode(), schema_overrides={"id": pl.String})
    expected = Predictor.load(place / "classes").predict(["002", "005"]).to_frame()
    assert frame["id"].to_list() == ["002", "005"]
    assert frame["label"].to_list() == expected["label"].to_list()
    assert frame["degree"].to_list() == [2, 0]


def test_new_nodes_from_tables(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    run(
        "classes",
        "--nodes",
        "new.csv",
        "--edges",
        "edges.csv",
        "--out",
        "answers.parquet",
    )
    assert capsys.readouterr().out == "Wrote 2 answers to answers.parquet.\n"
    frame = pl.read_parquet(place / "answers.parquet")
    x = torch.tensor([[0.5, 1], [2, -1.5]])
    expected = Predictor.load(place / "classes").predict_new(
        x, [["003", "001"], []], between=[(0, 1)], ids=["0007", "old-8"]
    )
    assert frame.equals(expected.to_frame())
    assert frame["degree"].to_list() == [3, 1]


def test_new_nodes_without_features(place, monkeypatch, capsys):
    """Rows of ids, or no rows at all: who is new is then who the model does not know."""
    monkeypatch.chdir(place)
    predictor = Predictor.load(place / "bare")
    lists, between = [["003", "001"], []], [(0, 1)]
    run("bare", "--nodes", "names.csv", "--edges", "edges.csv", "--out", "named.parquet")
    expected = predictor.predict_new(
        None, [*lists, []], between=between, ids=["0007", "old-8", "alone"]
    ).to_frame()
    assert pl.read_parquet(place / "named.parquet").equals(expected)
    (place / "rest.csv").write_text("id\nalone\n")
    capsys.readouterr()
    run("bare", "--nodes", "rest.csv", "--edges", "edges.csv", "--out", "more.parquet")
    more = pl.read_parquet(place / "more.parquet")  # who has edges needs no row
    assert more["id"].to_list() == ["alone", "0007", "old-8"]
    assert more.sort("id").drop("probability").equals(expected.sort("id").drop("probability"))
    said = "2 ids are unknown to the model and taken as new: '0007', 'old-8'"
    assert said in capsys.readouterr().err
    run("bare", "--edges", "edges.csv", "--out", "edges.parquet")
    assert pl.read_parquet(place / "edges.parquet").equals(expected.head(2))
    capsys.readouterr()
    run("links", "--edges", "edges.csv", "--top", "2")
    frame = pl.read_csv(capsys.readouterr().out.encode(), infer_schema=False)
    ranked = Predictor.load(place / "links").links_new(
        None, lists, 2, between=between, ids=["0007", "old-8"]
    )
    assert frame["node"].to_list() == ranked.to_frame()["node"].to_list()


def test_new_users_from_their_items(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    run("shop", "--edges", "carts.csv", "--top", "2")
    frame = pl.read_csv(capsys.readouterr().out.encode())
    expected = Predictor.load(place / "shop").recommend_new([["w", "x"], ["v"]], 2, ids=[77, 78])
    assert frame.drop("score").equals(expected.to_frame().drop("score"))


def test_a_place_for_answers_is_made_or_refused_before_any_work(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    run("shop", "--ids", "10", "--out", "new/answers.csv")
    assert capsys.readouterr().out == "Wrote 3 answers to new/answers.csv.\n"
    for option in ("--out=names.csv/a.csv", "--embeddings=names.csv/a.npy"):
        with pytest.raises(OutputError, match=r"cannot write names.csv: .*choose another place"):
            run("nowhere", option)
    with pytest.raises(InputError, match="no such folder"):
        run("nowhere", "--out", "more/a.csv")
    assert not (place / "more").exists()


def test_probabilities_of_every_class(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    run("classes", "--ids", "002,005", "--probabilities")
    frame = pl.read_csv(capsys.readouterr().out.encode(), schema_overrides={"id": pl.String})
    assert frame.columns == ["id", "label", "probability", "degree", "p(a)", "p(b)", "p(c)"]
    assert frame["probability"].to_list() == [max(row[-3:]) for row in frame.rows()]
    assert sum(frame.row(0)[-3:]) == pytest.approx(1)


def test_unknown_ids_are_skipped_and_counted_if_asked(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    expected = Predictor.load(place / "classes").predict(["002", "005"]).to_frame()
    run("classes", "--ids", "002,2,x,y,z,005,2", "--skip-unknown")
    told = capsys.readouterr()
    frame = pl.read_csv(told.out.encode(), schema_overrides={"id": pl.String})
    assert frame["id"].to_list() == ["002", "005"]
    assert frame["label"].to_list() == expected["label"].to_list()
    assert told.err == "4 ids are unknown to the model and skipped: '2', 'x', 'y', ...\n"
    (place / "wanted.csv").write_text("user\n11\n12\n")
    run("shop", "--ids-from", "wanted.csv", "--skip-unknown", "--top", "1")
    told = capsys.readouterr()
    assert pl.read_csv(told.out.encode())["id"].to_list() == [11]
    assert "1 id is unknown to the model and skipped: 12" in told.err
    run("links", "--ids", "x", "--skip-unknown")
    told = capsys.readouterr()
    assert told.out == "id,rank,node,score,degree\n"


def test_edges_to_unknown_ids_are_skipped_if_asked(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    (place / "more.csv").write_text((place / "edges.csv").read_text() + "x,0007\nold-8,y\nx,y\n")
    run("classes", "--nodes", "new.csv", "--edges", "edges.csv", "--out", "plain.parquet")
    words = ("--nodes", "new.csv", "--edges", "more.csv", "--out", "skipped.parquet")
    with pytest.raises(InputError, match="no node 'x'"):
        run("classes", *words)
    run("classes", *words, "--skip-unknown")
    assert "2 ids are unknown to the model and skipped: 'x', 'y'\n" in capsys.readouterr().err
    same = [pl.read_parquet(place / f"{name}.parquet") for name in ("plain", "skipped")]
    assert same[0].equals(same[1])
    (place / "cart.csv").write_text("user,item\n77,w\n77,new\n78,new\n")
    run("shop", "--edges", "cart.csv", "--top", "1", "--skip-unknown")
    told = capsys.readouterr()
    assert pl.read_csv(told.out.encode())["degree"].to_list() == [1, 0]
    assert "1 id is unknown to the model and skipped: 'new'" in told.err


def test_embeddings(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    run("shop", "--embeddings", "vectors.parquet")
    assert capsys.readouterr().out == "Wrote vectors-users.parquet.\nWrote vectors-items.parquet.\n"
    assert pl.read_parquet(place / "vectors-items.parquet")["id"].to_list() == list("vwxyz")


MISTAKES = [
    (("nowhere",), "there is no such folder"),
    (("classes", "--ids", "2"), "no node '2'; it knows 6, like '000'"),
    (("classes", "--nodes", "none.csv"), "none.csv: no such file. Did you mean new.csv?"),
    (("classes", "--edges", "edges.csv"), "New nodes need rows"),
    (("classes", "--ids", "002", "--nodes", "new.csv"), "not both"),
    (("bare", "--edges", "old.csv"), "knows both ends of every edge"),
    (("classes", "--ids", "002", "--top", "3"), "--top is for models that rank"),
    (("shop", "--probabilities"), "--probabilities is for models that classify nodes"),
    (("shop", "--ids", "77", "--embeddings", "e.npy"), "--embeddings writes those of all"),
    (("classes", "--verify-key", "no.key"), "--verify-key: no.key cannot be read: No such file"),
    (("classes", "--verify-key", "new.csv"), "it is not signed: there is no config.json.sig"),
    (("classes", "--out", "a.xlsx"), "--out must end in .parquet or .csv"),
    (("shop", "--nodes", "new.csv", "--edges", "edges.csv"), "no item '003'"),
]


def test_mistakes_get_one_clear_line(place, monkeypatch, subtests):
    monkeypatch.chdir(place)
    for arguments, words in MISTAKES:
        with subtests.test(words):
            with pytest.raises(InputError, match=re.escape(words)) as caught:
                run(*arguments)
            assert len(str(caught.value).splitlines()) == 1


def test_a_mistake_ends_the_command_with_that_line_alone(place):
    done = tuneup("nowhere", cwd=place)
    assert done.returncode == 2
    assert done.stderr == (
        "Error: The model in nowhere cannot be used: there is no such folder; a saved model is a "
        "folder with a config.json.\n"
    )
