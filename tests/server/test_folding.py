"""``tuneup compact`` and ``refresh``: a new folder from an old one, without training."""

import polars as pl
import pytest
import torch
from serving_toys import recommender, save_artefact, small_pairs
from typer.testing import CliRunner

from tuneup.cli import app
from tuneup.errors import InputError
from tuneup.nn import Encoder
from tuneup.serve import Predictor
from tuneup.server import refresh
from tuneup.server.engine import Ask, Engine, Piece
from tuneup.server.live import Live
from tuneup.server.questions import AddNode, NewNode
from tuneup.server.store import Write
from tuneup.tables import FeaturePlan, TableRequest, read_tables

COUNT = 30


def tables(folder, count=COUNT, shift=0):
    """Packages with a number, a category and a gap; each depends on two others."""
    folder.mkdir()
    pl.DataFrame(
        {
            "package": [f"p{n}" for n in range(count)],
            "size": [None if n == 7 else 10.0 + 3 * (n % 11) for n in range(count)],
            "section": [("net", "doc", "libs")[n % 3] for n in range(count)],
        }
    ).write_csv(folder / "nodes.csv")
    source = [n for n in range(count) for _ in (0, 1)]
    target = [(n * 3 + 1 + each + shift) % count for n in range(count) for each in (0, 1)]
    pl.DataFrame(
        {"source": [f"p{n}" for n in source], "target": [f"p{n}" for n in target]}
    ).write_csv(folder / "edges.csv")
    return TableRequest(
        edges=(str(folder / "edges.csv"),),
        nodes=(str(folder / "nodes.csv"),),
        task="link-prediction",
        id="package",
    )


@pytest.fixture
def model(tmp_path):
    """A classifier with the plan of a table, as a fit leaves it."""
    found = read_tables(tables(tmp_path / "old"))
    torch.manual_seed(3)
    encoder = Encoder(found.plan.width, 3, width=8, num_layers=2).eval()
    columns = {"id": "package", "source": "source", "target": "target"}
    options = {"ids": found.ids.values, "plan": found.plan, "columns": columns}
    Predictor(encoder, found.graph, labels=["a", "b", "c"], **options).save(tmp_path / "model")
    return tmp_path / "model"


def test_columns_are_read_as_the_tables_were(model):
    engine = Engine.load(model)
    cells = {"size": 22.0, "section": "doc"}
    frame = pl.DataFrame({"size": [22.0], "section": ["doc"]})
    (expected,) = engine.predictor.predict_new(frame, [["p1", "p2"]])

    def answer(**columns):
        node = NewNode(columns={**cells, **columns}, neighbours=["p1", "p2"])
        return engine.answer([Piece(Ask("new", new=(node,)), 0, 1)])[0]

    (found,) = answer().answers
    assert found["probability"] == pytest.approx(expected.probability, abs=1e-6)
    assert answer(size=None).answers
    assert answer(section="never seen").answers
    for wrong, words in (
        ({"size": "large"}, "large"),
        ({"colour": "red"}, "'colour' is no feature"),
        ({"size": [1.0]}, "size"),
    ):
        assert words in str(answer(**wrong))
        assert isinstance(answer(**wrong), InputError)
    lacking = NewNode(columns={"size": 1.0})
    (error,) = engine.answer([Piece(Ask("new", new=(lacking,)), 0, 1)])
    assert "lack 'section'" in str(error)


def test_refresh_is_the_model_on_new_tables(model, tmp_path):
    """With more nodes and other edges: weights and plan stay, and so does nothing of the graph."""
    asked = tables(tmp_path / "new", COUNT + 6, shift=2)
    done = CliRunner().invoke(
        app,
        [
            *("refresh", str(model), "--out", str(tmp_path / "renewed")),
            *("--edges", asked.edges[0], "--nodes", asked.nodes[0]),
        ],
    )
    assert done.exit_code == 0, done.output
    assert f"{COUNT + 6} nodes or users (were {COUNT})" in " ".join(done.output.split())
    old = Predictor.load(model, read_plan=FeaturePlan.from_json)
    found = read_tables(asked)
    assert old.plan is not None
    x = old.plan.apply(pl.read_csv(asked.nodes[0]))
    graph = found.bare.adjacency
    expected = Predictor(
        old.model.artefact.model, type(found.bare)(graph, x), ids=found.ids.values
    ).outputs()
    renewed = Predictor.load(tmp_path / "renewed", read_plan=FeaturePlan.from_json)
    assert torch.allclose(renewed.outputs(), expected, atol=1e-6)
    assert renewed.predict(["p1"])[0].label in ("a", "b", "c")
    with pytest.raises(InputError, match="--nodes"):
        refresh(model, TableRequest(edges=asked.edges), tmp_path / "none")


def test_refresh_of_a_recommender_takes_new_users_and_no_new_items(tmp_path):
    users, items = [f"u{n}" for n in range(20)], [f"i{n}" for n in range(30)]
    model = recommender("lightgcn")
    save_artefact(tmp_path / "model", model, small_pairs(), ids=users, items=items)
    table = {"user": ["u1", "u1", "new", "u3"], "item": ["i3", "i4", "i3", "i9"]}
    pl.DataFrame(table).write_csv(tmp_path / "pairs.csv")
    request = TableRequest(edges=(str(tmp_path / "pairs.csv"),))
    folded = refresh(tmp_path / "model", request, tmp_path / "out")
    assert folded.nodes == (20, 3)
    renewed = Predictor.load(tmp_path / "out")
    assert not {"i3", "i4"} & {*renewed.recommend(["u1"], 5)[0].candidates}
    assert renewed.recommend(["new"], 5)[0].degree == 1
    table["item"][0] = "i99"
    pl.DataFrame(table).write_csv(tmp_path / "pairs.csv")
    with pytest.raises(InputError, match="no item 'i99'"):
        refresh(tmp_path / "model", request, tmp_path / "again")


def test_compact_on_the_command_line(model, tmp_path):
    engine = Engine.load(model)
    live = Live(engine, tmp_path / "graph.db")
    node = AddNode(id="new", columns={"size": None, "section": "net"}, neighbours=["p1"])
    live.commit([Write("add-nodes", [node])])
    arguments = ["compact", str(model), "--live", str(tmp_path / "graph.db")]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    built = Predictor.load(tmp_path / "out", read_plan=FeaturePlan.from_json)
    (grown,) = live.growing.outputs(live.growing.known(["new"]))
    assert torch.allclose(built.outputs()[-1], grown, atol=1e-6)
    again = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert isinstance(again.exception, OSError)
    assert "not empty" in str(again.exception)
