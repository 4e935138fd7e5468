"""``tuneup predict`` reads what ``tuneup fit`` reads, and says as clearly what it cannot read."""

from __future__ import annotations

import io
import json
import shutil
import sys

import polars as pl
import pytest
import torch

from tests.cli.predict_cases import CASES, FILES, NEW, TRAINED, TRAINED_EDGES, TRAINED_PAIRS
from tests.tables.test_malformed import check, listing
from tuneup import cli
from tuneup.nn import Encoder, InnerProduct, LightGCN, Model, UserItemVectors
from tuneup.serve import Predictor
from tuneup.serve.artefact import seal
from tuneup.tables import FeaturePlan, TableRequest, read_tables


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models that were never trained, with the ids and the feature plan of tables."""
    folder = tmp_path_factory.mktemp("models")
    for name, text in (("n", TRAINED), ("e", TRAINED_EDGES), ("p", TRAINED_PAIRS)):
        (folder / f"{name}.csv").write_text(text)
    request = TableRequest((str(folder / "e.csv"),), (str(folder / "n.csv"),))
    read = read_tables(request)
    torch.manual_seed(0)
    model = Encoder(read.plan.width, 2, width=4)
    options = {"ids": read.ids.values, "plan": read.plan, "labels": read.classes}
    Predictor(model, read.graph, **options).save(folder / "classes")
    pairs = read_tables(TableRequest((str(folder / "p.csv"),), task="recommendation"))
    shop, ids = (
        Model(UserItemVectors(2, 3, 4), LightGCN(2), InnerProduct()),
        (pairs.users.values, pairs.items.values),
    )
    Predictor(shop, pairs.interactions, ids=ids[0], items=ids[1]).save(folder / "shop")
    return folder


@pytest.fixture
def ask(models, tmp_path, monkeypatch, capsys):
    """Runs the command on some files beside the models; its exit code and what it said."""

    def run(arguments, files=None, place=tmp_path):
        place.mkdir(exist_ok=True)
        for name, content in {**FILES, **(files or {})}.items():
            path = place / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        for name in ("classes", "shop"):
            if not (place / name).exists():
                (place / name).symlink_to(models / name)
        monkeypatch.chdir(place)
        monkeypatch.setattr(sys, "argv", ["tuneup", "predict", *arguments.split()])
        monkeypatch.setattr(cli, "relaunch", lambda: None)  # it would replace the test's process
        before = listing(place)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        told = capsys.readouterr()
        return stop.value.code, told.out, told.err, before

    return run


def test_malformed(ask, tmp_path, subtests):
    assert len({case.name for case in CASES}) == len(CASES) >= 15
    for number, case in enumerate(CASES):
        with subtests.test(case.name):
            place = tmp_path / str(number)
            code, out, error, before = ask(case.arguments, case.files, place)
            check(code, out, error, case)
            assert listing(place) == before


def expected(models):
    """The good tables' answers, from numbers that are put down by hand."""
    predictor = Predictor.load(models / "classes", read_plan=FeaturePlan.from_json)
    rows = pl.DataFrame(
        {"color": ["red", "07"], "f": [1.0, 2.0], "good": [True, False], "v": [[1, 2], [0, 0]]}
    )
    return predictor.predict_new(rows, [[1], []], between=[(1, 0)], ids=[8, 9]).to_frame()


def test_what_was_guessed_is_told_beside_the_answers(ask, models, tmp_path):
    code, out, error, _ = ask(NEW)
    assert (code, out) == (0, "Wrote 2 answers to answers.csv.\n")
    assert error.splitlines() == [
        "nodes.csv: id is column 'id' (--id).",
        "edges.csv: source is column 'source', target is 'target' (--source, --target).",
    ]
    found, wanted = pl.read_csv(tmp_path / "answers.csv"), expected(models)
    assert found.drop("probability").equals(wanted.drop("probability"))
    assert found["probability"].to_list() == pytest.approx(wanted["probability"].to_list())


def frame(name):
    return pl.read_csv(io.BytesIO(FILES[name].encode()), schema_overrides={"color": pl.String})


def parquet(table):
    out = io.BytesIO()
    table.write_parquet(out)
    return out.getvalue()


def lines(table):
    lists = table.with_columns(pl.col("v").str.json_decode(pl.List(pl.Float64)))
    return lists.write_ndjson().encode()


FORMS = [
    ({"n.tsv": frame("nodes.csv").write_csv(separator="\t")}, "--nodes n.tsv"),
    ({"n.jsonl": lines(frame("nodes.csv"))}, "--nodes n.jsonl"),
    (
        {f"part-{k}.parquet": parquet(frame("nodes.csv")[k : k + 1]) for k in (0, 1)},
        "--nodes part-*.parquet",
    ),
    (
        {f"new/{k}.csv": frame("nodes.csv")[k : k + 1].write_csv() for k in (0, 1)},
        "--nodes new",
    ),
    ({"n.csv": b"\xef\xbb\xbf" + FILES["nodes.csv"].encode("utf-8")}, "--nodes n.csv"),
    (
        {"n.csv": FILES["nodes.csv"].replace("id,", "clé,").encode("latin-1")},
        "--nodes n.csv --encoding latin-1 --id clé",
    ),
]


def test_any_form_gives_the_same_answers(ask, models, tmp_path, subtests):
    for number, (files, arguments) in enumerate(FORMS):
        with subtests.test(arguments):
            place = tmp_path / str(number)
            asked = f"classes {arguments} --edges edges.csv --out a.parquet"
            code, _, error, _ = ask(asked, files, place)
            assert code == 0, error
            assert pl.read_parquet(place / "a.parquet").equals(expected(models))


def test_surprises_are_told_and_answered(ask):
    nodes = FILES["nodes.csv"].replace("9,07,2", "9,mauve,")
    code, out, error, _ = ask("classes --nodes nodes.csv", {"nodes.csv": nodes})
    assert code == 0
    assert out.count("\n") == 3
    assert error.splitlines()[1:] == [
        "nodes.csv, row 2 (line 3), column 'color': 'mauve', which training never saw; counts as "
        "another in 1 of 2 rows.",
        "nodes.csv, row 2 (line 3), column 'f': no value, which training never saw; taken as the "
        "mean in 1 of 2 rows.",
    ]


def test_known_ids_and_carts_from_tables(ask):
    ids = {"ids.csv": "when,node\n2024,3\n2025,1\n"}
    code, out, error, _ = ask("classes --ids-from ids.csv", ids)
    assert (code, error) == (0, "ids.csv: id is column 'node' (--id).\n")
    assert pl.read_csv(out.encode())["id"].to_list() == [3, 1]
    code, out, error, _ = ask("shop --edges pairs.csv --user user --item item --top 2")
    assert (code, error) == (0, "2 ids are unknown to the model and taken as new: 77, 78\n")
    assert pl.read_csv(out.encode())["degree"].to_list() == [1, 1, 1, 1]
    one = {"pairs.csv": "user,item\n77,v\n"}
    _, _, error, _ = ask("shop --edges pairs.csv --user user --item item --top 2", one)
    assert error == "1 id is unknown to the model and taken as new: 77\n"


@pytest.mark.parametrize("given", ["", " , "])
def test_an_empty_list_of_ids_is_no_question(models, monkeypatch, capsys, given):
    monkeypatch.setattr(sys, "argv", ["tuneup", "predict", str(models / "shop"), "--ids", given])
    monkeypatch.setattr(cli, "relaunch", lambda: None)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert "--ids names no id" in capsys.readouterr().err


def test_columns_are_called_as_in_training(ask, models, tmp_path):
    """Names that nobody could guess are looked for first; other names are guessed as before."""
    read = read_tables(TableRequest((str(models / "e.csv"),), (str(models / "n.csv"),)))
    model = Predictor.load(models / "classes").model.artefact.model
    own = {"id": "customer", "source": "payer", "target": "payee"}
    options = {"ids": read.ids.values, "plan": read.plan, "labels": read.classes}
    Predictor(model, read.graph, columns=own, **options).save(tmp_path / "named")
    nodes = FILES["nodes.csv"].replace("id,", "rank,customer,", 1).replace("\n", "\n0,")
    nodes = nodes.removesuffix("0,").replace("\n0,rank", "\nrank")
    edges = FILES["edges.csv"].replace("source,target", "payer,payee", 1)
    files = {"a.csv": nodes, "b.csv": edges.replace("\n", ",1\n").replace("payee,1", "payee,day")}
    code, out, error, _ = ask("named --nodes a.csv --edges b.csv", files)
    assert code == 0, error
    assert error.splitlines() == [
        "a.csv: id is column 'customer', as in training (--id).",
        "a.csv: not used: rank.",
        "b.csv: source is column 'payer', as in training (--source).",
        "b.csv: target is column 'payee', as in training (--target).",
        "b.csv: not used: day.",
    ]
    assert pl.read_csv(out.encode())["degree"].to_list() == expected(models)["degree"].to_list()
    code, again, _, _ = ask("named --nodes nodes.csv --edges edges.csv")
    assert (code, again) == (0, out)


def test_a_model_without_names_of_columns_is_read(models, tmp_path):
    """As earlier versions wrote it: the same folder, without that entry."""
    old = tmp_path / "old"
    shutil.copytree(models / "classes", old)
    config = json.loads((old / "config.json").read_text())
    assert config["format"] == 1
    del config["columns"], config["checksum"]
    (old / "config.json").write_text(json.dumps({**config, "checksum": seal(config)}))
    assert Predictor.load(old).model.artefact.config.columns == {}
