"""What the experiments run on: datasets of the catalogue, by default the small ones."""

import polars as pl
import pytest

from tests.methods.toys import pair_setup
from tuneup.bench.cells import suites
from tuneup.bench.experiments import experiment
from tuneup.bench.paper import published
from tuneup.bench.presets import DATASETS, SMALL, applicable, shared_grid, table_methods
from tuneup.data import dataset_named
from tuneup.errors import InputError
from tuneup.methods import METHODS, prepare
from tuneup.workflow.problems import slow_encoder


def chosen(tmp_path, *datasets, task=None):
    found = suites(
        *(None, datasets, task, ("sage",), ("base",), None),
        preset="short",
        trials=None,
        results=tmp_path / "results",
        runs=tmp_path / "runs",
    )
    return [(suite.task, suite.dataset) for suite in found]


def test_every_dataset_is_in_the_catalogue_and_fits_its_task():
    for task, names in DATASETS.items():
        assert set(SMALL[task]) <= set(names)
        for name in names:
            assert dataset_named(name).name == name
            assert task in dataset_named(name).tasks


def test_big_datasets_are_run_only_by_name(tmp_path):
    assert chosen(tmp_path) == [(task, name) for task, names in SMALL.items() for name in names]
    assert chosen(tmp_path, "ogbn-arxiv") == [
        ("node-classification", "ogbn-arxiv"),
        ("link-prediction", "ogbn-arxiv"),
    ]
    assert chosen(tmp_path, "amazon-book") == [("recommendation", "amazon-book")]
    with pytest.raises(InputError, match=r"dataset is one of .*; got 'karate'"):
        chosen(tmp_path, "karate")


@pytest.mark.parametrize(
    ("name", "labelled", "width"),
    [("dblp", 0.02, 256), ("ogbn-arxiv", 0.10, 256), ("ogbn-products", 0.02, 64)],
)
def test_shares_and_widths_are_the_papers(tmp_path, name, labelled, width):
    found = experiment(name, "node-classification", "sage", results=tmp_path, runs=tmp_path)
    assert (found.config["labelled"], found.config["width"]) == (labelled, width)


@pytest.mark.parametrize("task", ["link-prediction", "recommendation"])
def test_the_papers_preset_chooses_from_the_whole_grid(task):
    grid = shared_grid(task, "sage", "paper")
    assert grid["dropout"] == (0.0, 0.5)
    assert grid["l2"] == (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 0.1)
    assert "dropout" not in shared_grid(task, "sage", "short")  # its tables say so


def test_what_a_method_puts_around_a_slow_encoder_is_as_slow():
    setup = pair_setup("gcn")
    base, tail = (prepare(METHODS[name].settings, setup).model for name in ("base", "tail-gnn"))
    for model in (base, tail):
        optimizer = slow_encoder(0.1)(model)(model.parameters(), 0.01, 0.0)
        rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
        for name, parameter in model.named_parameters():
            slow = "encoder" in name
            assert rates[id(parameter)] == pytest.approx(0.001 if slow else 0.01), name
    names = {name for name, _ in tail.named_parameters()}
    assert any("lacks" in name for name in names)
    assert any("convs" in name for name in names)


@pytest.mark.parametrize("task", DATASETS)
def test_tables_of_other_architectures_have_the_rows_that_the_paper_has(task):
    """All methods are compared with SAGE and GCN; with others, Base and TuneUp."""
    assert table_methods(task, "sage") == applicable(task, "sage")
    for name in ("sage-max", "sage-sum", "gat"):
        rows = published().filter(pl.col("task") == task, pl.col("architecture") == name)["method"]
        assert set(rows) == set(table_methods(task, name)) == {"base", "tuneup"}
