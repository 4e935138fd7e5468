"""`tuneup fit`: tables in, a folder out that answers in the user's own ids."""

import json
import re

import polars as pl
import pytest
import torch

import tuneup
from tuneup.cli import app
from tuneup.data import block_graph, demo_interactions
from tuneup.errors import InputError
from tuneup.tables import FeaturePlan, Shares, TableRequest, read_tables
from tuneup.workflow.fit import Loaded, fit
from tuneup.workflow.options import FitOptions
from tuneup.workflow.run_folders import read_run_folder

CLASSES = ("ant", "bee", "cat", "dog")
BRIEF = ("--epochs", "4", "--width", "16")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    graph = block_graph(300, 1200, 4, 6, seed=1)
    sender, receiver = graph.adjacency.edge_index
    once = sender < receiver
    ends = [[f"p{i}" for i in end[once].tolist()] for end in (sender, receiver)]
    pl.DataFrame({"source": ends[0], "target": ends[1]}).write_csv(folder / "edges.csv")
    columns = {f"f{k}": graph.x[:, k].tolist() for k in range(6)}
    labels = [CLASSES[i] for i in graph.y.tolist()]
    ids = [f"p{i}" for i in range(300)]
    pl.DataFrame({"id": ids, **columns, "topic": labels}).write_parquet(folder / "nodes.parquet")
    pairs = demo_interactions(0)
    few = pairs.user < 200
    users = [f"u{i}" for i in pairs.user[few].tolist()]
    items = [f"i{i}" for i in pairs.item[few].tolist()]
    pl.DataFrame({"user": users, "item": items}).write_csv(folder / "pairs.csv")
    return folder


def run(*words):
    app(["fit", *map(str, words)], standalone_mode=False)


def test_classes_of_known_and_of_new_nodes(tables, tmp_path, capsys):
    edges, nodes = tables / "edges.csv", tables / "nodes.parquet"
    run("--edges", edges, "--nodes", nodes, "--label", "topic", "--out", tmp_path / "m", *BRIEF)
    said = " ".join(capsys.readouterr().out.split())  # lines end where the terminal does
    assert "source is column 'source'" in said
    assert "Stage 2: best validation" in said
    assert "accuracy" in (tmp_path / "m" / "report.html").read_text()
    metrics = json.loads((tmp_path / "m" / "metrics.json").read_text())
    assert metrics["options"]["width"] == 16
    assert metrics["command"].split()[0] == "tuneup"
    predictor = tuneup.Predictor.load(tmp_path / "m", read_plan=FeaturePlan.from_json)
    known = predictor.predict(["p7", "p0"]).to_frame()
    assert known["id"].to_list() == ["p7", "p0"]
    assert set(known["label"]) <= set(CLASSES)
    rows = pl.read_parquet(nodes).head(2).drop("topic")
    new = predictor.predict_new(rows.drop("id"), [["p1", "p2"], []], ids=["a", "b"]).to_frame()
    assert new["degree"].to_list() == [2, 0]
    app(
        ["report", str(tmp_path / "m"), "--out", str(tmp_path / "again.html")],
        standalone_mode=False,
    )
    assert (tmp_path / "again.html").read_text() == (tmp_path / "m" / "report.html").read_text()


def test_a_fit_warns_of_more_memory_than_is_free(tables, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tuneup.tables.inspection.free_memory", lambda: 10**6)
    words = ("--edges", tables / "edges.csv", "--nodes", tables / "nodes.parquet", *BRIEF)
    run(*words, "--label", "topic", "--out", tmp_path / "m")
    assert "1.0 MB are free; lower --width" in " ".join(capsys.readouterr().out.split())


def test_the_saved_model_is_the_one_that_validated_best(tables):
    """The scores are those of the selected state, and the same run gives the same model."""
    request = TableRequest(
        (str(tables / "edges.csv"),), (str(tables / "nodes.parquet"),), label="topic"
    )
    options = FitOptions(width=16, epochs=4)
    results = []
    for _ in range(2):
        loaded = Loaded.of(read_tables(request), Shares(), 0)
        assert loaded.task == "node-classification"
        results.append(fit(loaded.problem(options), options))
    one, other = (found.result.states for found in results)
    assert all(one[1][name].equal(other[1][name]) for name in one[1])
    split = loaded.split
    parts = torch.cat([split.train, split.validation, split.test])
    assert parts.unique().numel() == parts.numel() == 300
    assert results[0].tuneup["transductive"].score.numel() == split.test.numel()


def test_log_has_every_epoch(tables, tmp_path):
    words = ("--edges", tables / "edges.csv", "--nodes", tables / "nodes.parquet", *BRIEF)
    words = (*words, "--label", "topic")
    run(*words, "--out", tmp_path / "m", "--tensorboard", tmp_path / "board")
    assert {path.name for path in tmp_path.iterdir()} == {"board", "m"}  # no log beside them
    log = (tmp_path / "m" / "log.jsonl").read_text().splitlines()
    epochs = [(line["stage"], line["epoch"]) for line in map(json.loads, log)]
    assert epochs == [(stage, epoch) for stage in (1, 2) for epoch in (1, 2, 3, 4)]
    assert len(list((tmp_path / "board").glob("stage-*/events*"))) == 2
    assert "log.jsonl" in json.loads((tmp_path / "m" / "config.json").read_text())["extras"]
    saved = ("--checkpoints", tmp_path / "c")
    run(*words, "--out", tmp_path / "one", *saved)
    log = (tmp_path / "c" / "log.jsonl").read_text()
    (tmp_path / "c" / "log.jsonl").write_text("".join(log.splitlines(keepends=True)[:6]) + '{"st')
    run(*words, "--out", tmp_path / "two", *saved)  # as after a kill between training and saving
    assert (tmp_path / "one" / "log.jsonl").read_text() == log
    again = (tmp_path / "two" / "log.jsonl").read_text().splitlines()
    assert again[:6] == log.splitlines()[:6]
    assert [json.loads(line)["loss"] for line in again] == [
        json.loads(line)["loss"] for line in log.splitlines()
    ]


SETTINGS = ["transductive", "inductive", "cold-30", "cold-60", "cold-90"]


def scored(folder):
    return json.loads((folder / "metrics.json").read_text())


def test_held_out_nodes_are_in_the_saved_model(tables, tmp_path):
    words = ("--edges", tables / "edges.csv", "--nodes", tables / "nodes.parquet", *BRIEF)
    links = ("--task", "link-prediction", "--exclude", "topic")
    for task, own in (("classes", ("--label", "topic")), ("links", links)):
        run(*words, *own, "--out", tmp_path / task)
        found = scored(tmp_path / task)
        for method in ("base", "tuneup"):
            assert list(found["scores"][method]) == SETTINGS
        assert found["data"]["nodes held out as new"] == "15"
        assert len(tuneup.Predictor.load(tmp_path / task).ids) == 300
        page = (tmp_path / task / "report.html").read_text()
        assert "New nodes with few links" in page
        assert re.search("Result: (Base|stage 2|0[.][1-9] Base)", page)
        assert "How cold are your nodes?" in page
    assert scored(tmp_path / "classes")["scores"]["base"]["inductive"]["overall"]["count"] == 15
    run(*words, "--label", "topic", "--out", tmp_path / "none", "--new", "0")
    assert list(scored(tmp_path / "none")["scores"]["base"]) == ["transductive"]


def test_a_split_column_has_no_new_nodes_unless_asked(tables, tmp_path):
    rows = pl.read_parquet(tables / "nodes.parquet").with_row_index()
    part = pl.col("index").map_elements(lambda k: ("train", "val", "test")[k % 3])
    rows.with_columns(split=part).drop("index").write_parquet(tmp_path / "nodes.parquet")
    words = ("--edges", tables / "edges.csv", "--nodes", tmp_path / "nodes.parquet", *BRIEF)
    words = (*words, "--label", "topic")
    run(*words, "--out", tmp_path / "usual")
    assert list(scored(tmp_path / "usual")["scores"]["base"]) == ["transductive"]
    run(*words, "--out", tmp_path / "asked", "--new", "0.1")
    found = scored(tmp_path / "asked")
    assert list(found["scores"]["base"]) == SETTINGS
    assert found["data"]["nodes to test on"] == "70"
    with pytest.raises(InputError, match=r"--new 0.5 holds out 150 nodes.*the 100 that the split"):
        run(*words, "--out", tmp_path / "more", "--new", "0.5")


def test_alpha_is_chosen_by_validation(tables, tmp_path, capsys):
    words = ("--edges", tables / "edges.csv", "--nodes", tables / "nodes.parquet", *BRIEF)
    words = (*words, "--label", "topic", "--checkpoints", tmp_path / "c")
    run(*words, "--alpha", "auto", "--out", tmp_path / "m", "--tensorboard", tmp_path / "board")
    assert sorted(path.name for path in (tmp_path / "board").iterdir()) == [
        *("stage-1", "stage-2-alpha-0.25", "stage-2-alpha-0.5", "stage-2-alpha-0.75"),
        "stage-2-alpha-graded",
    ]
    found = scored(tmp_path / "m")
    seconds = [
        sum(epoch["seconds"] for epoch in stage["epochs"]) for stage in found["training"]["stages"]
    ]
    shown = {each.name: each.runs[0].seconds for each in read_run_folder(tmp_path / "m").methods}
    assert shown["Base"] == pytest.approx(seconds[0])
    assert shown["Result"] == found["selection"]["seconds"] > sum(seconds)  # of all candidates
    trials = {each["point"]["alpha"]: each["score"] for each in found["selection"]["trials"]}
    assert list(trials) == [0.25, 0.5, 0.75, "graded"]
    chosen = found["selection"]["chosen"]["alpha"]
    assert trials[chosen] == max(trials.values())
    assert found["training"]["validation"] == trials[chosen]
    assert f"SyntheticTails(alpha={chosen!r}" in found["training"]["stages"][1]["description"]
    assert f"alpha {chosen} validated best of 0.25, 0.5, 0.75, graded." in capsys.readouterr().out
    assert "Trials of Result" in (tmp_path / "m" / "report.html").read_text()
    log = [json.loads(line) for line in (tmp_path / "m" / "log.jsonl").read_text().splitlines()]
    assert [line["stage"] for line in log] == [k for k in range(1, 6) for _ in range(4)]
    run(*words, "--alpha", "auto", "--out", tmp_path / "again")  # from checkpoints, all of it
    again = scored(tmp_path / "again")
    assert (again["training"], again["selection"]) == (found["training"], found["selection"])
    alone = tmp_path / "alone"
    run(*words[:-2], "--alpha", chosen, "--out", alone)  # stage 1 was shared, and nothing else
    weights = [(path / "weights.safetensors").read_bytes() for path in (alone, tmp_path / "m")]
    assert weights[0] == weights[1]


def test_a_rare_boolean_is_judged_by_average_precision(tables, tmp_path, capsys):
    rows = pl.read_parquet(tables / "nodes.parquet").with_row_index()
    rows = rows.with_columns(good=pl.col("index") % 10 == 0).drop("topic", "index")
    rows.write_parquet(tmp_path / "nodes.parquet")
    run(
        *("--edges", tables / "edges.csv", "--nodes", tmp_path / "nodes.parquet"),
        *("--label", "good", "--out", tmp_path / "m", *BRIEF),
    )
    predictor = tuneup.Predictor.load(tmp_path / "m")
    assert set(predictor.predict(["p1", "p2", "p3"]).to_frame()["label"]) <= {"True", "False"}
    said = " ".join(capsys.readouterr().out.split())
    assert "validation score: average-precision, as the rarest class has 1" in said
    judged = "Models are selected and compared by average precision of class True, as the rarest"
    assert judged in said
    run_read = read_run_folder(tmp_path / "m")
    assert judged in " ".join(run_read.verdict)
    assert run_read.measure == "average precision of class True"
    assert "(--metric)" not in run_read.reason


def test_links_are_predicted_in_the_ids_of_the_tables(tables, tmp_path):
    edges, nodes = tables / "edges.csv", tables / "nodes.parquet"
    run(
        *("--edges", edges, "--nodes", nodes, "--task", "link-prediction"),
        *("--exclude", "topic", "--out", tmp_path / "m", *BRIEF),
    )
    predictor = tuneup.Predictor.load(tmp_path / "m")
    best = predictor.links(["p3"], 5).to_frame()
    known = pl.read_csv(edges)
    mine = known.filter((pl.col("source") == "p3") | (pl.col("target") == "p3"))
    floors = scored(tmp_path / "m")["floors"]
    assert floors.keys() == {"degree", "common neighbours", "paths of length three"}
    card = (tmp_path / "m" / "README.md").read_text()
    assert "| recall@50 | value |" in card
    assert f"common neighbours reaches {floors['common neighbours']:.4g}" in card
    assert "paths of length three" in (tmp_path / "m" / "report.html").read_text()
    assert best.height == 5
    assert not set(best["node"]) & ({*mine["source"], *mine["target"]})


def test_items_for_known_and_new_users(tables, tmp_path, capsys):
    """Both architectures are tried, as none is asked for."""
    run(
        *("--edges", tables / "pairs.csv", "--task", "recommendation"),
        *("--out", tmp_path / "m", *BRIEF),
    )
    said = " ".join(capsys.readouterr().out.split())
    assert "architecture gcn: " in said
    assert "architecture sage: " in said
    predictor = tuneup.Predictor.load(tmp_path / "m")
    assert predictor.recommend(["u0"], 3).to_frame().height == 3
    floors = scored(tmp_path / "m")["floors"]
    assert floors.keys() == {"popularity", "item co-occurrence", "item cosine", "EASE"}
    assert "EASE" in (tmp_path / "m" / "report.html").read_text()
    new = predictor.recommend_new([["i0"], []], 3).to_frame()
    assert new["degree"].to_list() == [1, 1, 1, 0, 0, 0]
    assert "i0" not in new.filter(pl.col("degree") == 1)["item"].to_list()


def test_held_out_users_are_scored_as_new(tables, tmp_path):
    words = ("--edges", tables / "pairs.csv", "--task", "recommendation", *BRIEF)
    run(*words, "--out", tmp_path / "m")
    found = scored(tmp_path / "m")
    names = ["transductive", "inductive", "cold-30", "cold-60", "cold-90"]
    assert list(found["scores"]["base"]) == names
    assert found["data"]["users held out as new"] == "10"
    run(*words, "--out", tmp_path / "none", "--new", "0")
    none = scored(tmp_path / "none")
    assert list(none["scores"]["base"]) == ["transductive"]
    assert "users held out as new" not in none["data"]
    pairs = read_tables(TableRequest((str(tables / "pairs.csv"),), task="recommendation"))
    split = Loaded.of(pairs, Shares(new=0.05), 0).split
    model = tuneup.Predictor.load(tmp_path / "m").model
    vectors, degree = model.artefact.model.inputs.vectors, split.train.rows().count
    mean = vectors[:200][degree > 0].mean(0)
    torch.testing.assert_close(model.new_user, mean)
    torch.testing.assert_close(vectors[split.new], mean.expand(10, -1))
    assert (model.graph.degree[split.new] > 1).all()  # all their pairs are served


def test_links_and_items_are_selected_by_another_metric(tables, tmp_path):
    links = ("--edges", tables / "edges.csv", "--nodes", tables / "nodes.parquet")
    links = (*links, "--task", "link-prediction", "--exclude", "topic", "--metric", "mrr")
    items = ("--edges", tables / "pairs.csv", "--task", "recommendation", "--metric", "ndcg@20")
    for words, metric in ((links, "mrr@50"), (items, "ndcg@20")):
        folder = tmp_path / metric
        run(*words, "--out", folder, *BRIEF)
        found = scored(folder)
        assert found["metric"] == metric
        assert 0 < found["training"]["validation"] <= 1
        assert metric in (folder / "report.html").read_text()


def test_invalid_options_are_refused_and_nothing_is_written(tables, tmp_path):
    for words, reason in {
        "--task link-prediction --width 2": "--width is a multiple of 4, 4 or more; got 2",
        "--width 30": "--width is a multiple of 4, 4 or more; got 30",
        "--epochs 0": "--epochs is 1 or more; got 0",
        "--patience 0": "--patience is 1 or more; got 0",
        "--dropout 1": "--dropout is a share, 0 to below 1",
        "--lr 0": "--lr is above 0",
        "--alpha 2": "alpha",
        "--alpha often": "--alpha is a share from 0 to 1, graded or auto; got often",
        "--architecture sagee": "--architecture is one of sage, .* or auto; got sagee",
        "--architecture auto --budget 2x": "--budget is a number of trials or a time: got '2x'",
        "--task link-prediction --metric auroc": "got 'auroc'; expected one of recall",
        "--task link-prediction --class-weights balanced": "--class-weights is for node",
        "--metric f1": "got 'f1'; expected one of accuracy",
    }.items():
        with pytest.raises(InputError, match=reason):
            run("--edges", tables / "edges.csv", *words.split(), "--out", tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_saved_model_is_replaced_only_with_overwrite(tables, tmp_path):
    words = ("--edges", tables / "edges.csv", "--nodes", tables / "nodes.parquet", *BRIEF)
    run(*words, "--label", "topic", "--out", tmp_path / "m")
    before = (tmp_path / "m" / "config.json").read_bytes()
    with pytest.raises(InputError, match="is not empty: choose another --out, or pass --overwrite"):
        run(*words, "--label", "topic", "--out", tmp_path / "m", "--seed", "1")
    assert (tmp_path / "m" / "config.json").read_bytes() == before
    run(*words, "--label", "topic", "--out", tmp_path / "m", "--seed", "1", "--overwrite")
    assert (tmp_path / "m" / "config.json").read_bytes() != before
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not empty: choose another --out"):
        run(*words, "--label", "topic", "--out", other, "--overwrite")
    assert (other / "thesis.tex").read_text() == "years of work"


def test_the_architecture_is_searched_on_validation(tables, tmp_path, capsys):
    words = ("--edges", tables / "edges.csv", "--nodes", tables / "nodes.parquet", *BRIEF)
    words = (*words, "--label", "topic", "--architecture", "auto", "--budget", "2")
    run(*words, "--out", tmp_path / "m")
    said = " ".join(capsys.readouterr().out.split())
    assert "tried 2 of 6 settings by validation accuracy:" in said
    found = scored(tmp_path / "m")
    chosen = re.search(r"architecture (\w+), dropout [\d.]+: [\d.]+ %, 4 epochs \(chosen\)", said)
    assert found["architecture"] == found["options"]["architecture"] == chosen[1]
