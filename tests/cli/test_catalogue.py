"""The tables of methods and datasets: all that a record says, in a narrow terminal too."""

import pytest
from rich.console import Console

from tuneup.cli.datasets import datasets_table, facts_of, readable
from tuneup.cli.methods import lines_of, methods_table
from tuneup.data import DATASETS
from tuneup.methods import METHODS


def printed(width, table=None):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table or methods_table(METHODS.values()))
    console.file.close()
    return console.export_text()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_method_is_there_in_whole_words(width):
    text = printed(width)
    assert max(map(len, text.splitlines())) <= width
    words = text.split()
    for name, method in METHODS.items():
        assert name in words
        for line in lines_of(method):
            for word in line.split():
                assert word in words


def test_limits_and_grids_are_said():
    assert lines_of(METHODS["rawls-gcn"])[1:] == ["with gcn"]
    assert lines_of(METHODS["base"]) == ["conventional training"]
    said = lines_of(METHODS["graphlessnn"])
    assert "for node-classification" in said
    assert "needs node features" in said
    assert "soft: False, True" in said


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_dataset_is_there_in_whole_words(width, tmp_path):
    (tmp_path / "dblp").mkdir()
    (tmp_path / "dblp" / "dblp.npz").touch()
    text = printed(width, datasets_table(DATASETS.values(), tmp_path))
    assert max(map(len, text.splitlines())) <= width
    words = text.split()
    for name, dataset in DATASETS.items():
        assert name in words
        for line in facts_of(dataset, False):
            for word in line.split():
                assert word in words
    assert text.count("; cached") == 1
    assert text.count("; not cached") == len(DATASETS) - 1


def test_what_is_known_of_a_download_is_said():
    assert facts_of(DATASETS["ogbn-arxiv"], True) == [
        "node classification or link prediction",
        "169,343 nodes, 1,157,799 edges, 128 features, 40 classes",
        "download: 83.1 MB, checksum known",
        "licence: ODC-BY; cached",
    ]
    assert facts_of(DATASETS["flickr"], False)[2:] == [
        "download: size unknown, verified by its nodes and edges",
        "licence: not stated; not cached",
    ]
    assert facts_of(DATASETS["gowalla"], False)[0] == "recommendation"
    assert [readable(size) for size in (900, 6_005_973, 1_480_993_786)] == [
        *("0.9 kB", "6.0 MB", "1.5 GB")
    ]
