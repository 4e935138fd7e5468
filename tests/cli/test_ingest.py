"""``tuneup ingest``: the same graph as ``tuneup fit`` reads, in a folder."""

import subprocess
import sys

import polars as pl
import pytest
import torch
import typer
from typer.testing import CliRunner

from tuneup.cli import app
from tuneup.cli.ingest import parse_memory
from tuneup.data.disk import open_graph
from tuneup.errors import InputError
from tuneup.tables import FeaturePlan, TableRequest, read_tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    generator = torch.Generator().manual_seed(0)
    nodes, edges = 300, 1200
    ends = torch.randint(nodes, (2, edges), generator=generator)
    ids = [f"P{number * 37 % 1000:04}" for number in range(nodes)]
    pl.DataFrame(
        {"from": [ids[k] for k in ends[0].tolist()], "to": [ids[k] for k in ends[1].tolist()]}
    ).write_csv(folder / "edges.csv", separator=";")
    draws = torch.rand(nodes, 3, generator=generator).tolist()
    parts = ["train", "train", "validation", "test"]
    pl.DataFrame(
        {
            "paper": ids,
            "year": [1990 + int(30 * draw[0]) for draw in draws],
            "venue": [("a", "b", None, "c")[int(4 * draw[1])] for draw in draws],
            "open": [draw[2] < 0.5 for draw in draws],
            "label": [f"field {number % 4}" for number in range(nodes)],
            "split": [parts[number % 4] for number in range(nodes)],
        }
    ).write_csv(folder / "nodes.csv", separator=";")
    return folder


def words(tables, out):
    return [
        *("ingest", "--edges", str(tables / "edges.csv"), "--nodes", str(tables / "nodes.csv")),
        *("--id", "paper", "--delimiter", ";", "--out", str(out), "--memory", "1GB"),
    ]


def test_a_folder_is_the_graph_that_fit_reads(tables, tmp_path):
    done = CliRunner().invoke(app, words(tables, tmp_path / "g"), catch_exceptions=False)
    assert "300 nodes" in done.output
    assert "sorting edges: " in done.output
    folder = open_graph(tmp_path / "g", "node-classification")
    request = TableRequest(
        edges=(str(tables / "edges.csv"),),
        nodes=(str(tables / "nodes.csv"),),
        id="paper",
        delimiter=";",
    )
    read = read_tables(request)
    read = read.with_split(read.split())
    graph = folder.graph()
    assert torch.equal(graph.adjacency.rowptr, read.graph.adjacency.rowptr)
    assert torch.equal(graph.adjacency.col, read.graph.adjacency.col)
    assert torch.equal(graph.y, read.graph.y)
    assert folder.header.classes == read.classes
    assert folder.ids().to_list() == read.ids.values.to_list()
    assert torch.equal(folder.split.train, read.given.train)
    assert torch.equal(folder.split.validation, read.given.validation)
    # All training rows fit into the budget, so the plan is that of fit.
    assert FeaturePlan.from_json(folder.header.plan) == read.plan
    assert torch.equal(graph.x, read.graph.x)


def test_a_seeded_split_holds_out_the_shares(tables, tmp_path):
    asked = [*words(tables, tmp_path / "g"), "--exclude", "split", "--half"]
    nodes = pl.read_csv(tables / "nodes.csv", separator=";", infer_schema=False).drop("split")
    nodes.write_csv(tmp_path / "nodes.csv", separator=";")
    asked[asked.index(str(tables / "nodes.csv"))] = str(tmp_path / "nodes.csv")
    asked.remove("--exclude")
    asked.remove("split")
    CliRunner().invoke(app, asked, catch_exceptions=False)
    folder = open_graph(tmp_path / "g")
    split = folder.split
    assert folder.array("x").dtype == "float16"
    parts = torch.cat([split.train, split.validation, split.test, split.new])
    assert parts.sort().values.equal(torch.arange(300))
    assert 0.7 < split.train.numel() / split.known.numel() < 0.9
    assert 3 <= split.new.numel() <= 40


def test_errors_name_the_users_files(tables, tmp_path):
    def refused(*changed):
        done = CliRunner().invoke(app, [*words(tables, tmp_path / "g"), *changed])
        assert isinstance(done.exception, InputError), done.output
        assert not list(tmp_path.iterdir())
        return str(done.exception)

    assert "edges.csv" in refused("--source", "nowhere")
    assert "recommendation" in refused("--task", "recommendation")
    assert "no column 'colour'" in refused("--features", "colour")
    assert "memory: got" in refused("--memory", "1MB")


def test_the_program_ends_with_one_line(tables, tmp_path):
    (tmp_path / "edges.csv").write_text("from;to\nP0000;nobody\n")
    asked = words(tables, tmp_path / "g")
    asked[asked.index(str(tables / "edges.csv"))] = str(tmp_path / "edges.csv")
    done = subprocess.run([sys.executable, "-m", "tuneup", *asked], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert "id 'nobody' has no row in" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["edges.csv"]


@pytest.mark.parametrize(
    ("given", "found"), [("2GB", 2 << 30), ("512 MiB", 512 << 20), ("1.5g", 3 << 29), ("7", 7)]
)
def test_amounts_of_memory(given, found):
    assert parse_memory(given) == found
    with pytest.raises(typer.BadParameter, match="no amount of memory"):
        parse_memory(f"{given} parsecs")
