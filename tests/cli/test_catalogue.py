"""The tables of methods and datasets: all that a record says, in a narrow terminal too."""

from tuneup.cli.catalogue import dataset_facts, method_facts
from tuneup.data import DATASETS
from tuneup.methods import METHODS


def test_methods_and_datasets_are_listed_in_whole_words(typed, tmp_path, monkeypatch):
    monkeypatch.setenv("TUNEUP_DATA", str(tmp_path))
    (tmp_path / "dblp" / "raw").mkdir(parents=True)
    (tmp_path / "dblp" / "raw" / "dblp.npz").touch()
    known = {
        "methods": {name: method_facts(method) for name, method in METHODS.items()},
        "datasets": {name: dataset_facts(each, False)[:3] for name, each in DATASETS.items()},
    }
    for columns in (60, 80, 120):
        for command, facts in known.items():
            text = typed(command, columns=columns).out
            table = [line for line in text.splitlines() if str(tmp_path) not in line]
            assert max(map(len, table)) <= columns
            words = text.split()
            for name, lines in facts.items():
                assert name in words
                assert all(word in words for line in lines for word in line.split())
    assert text.count("; cached") == 1
    assert text.count("; not cached") == len(DATASETS) - 1


def test_limits_grids_and_downloads_are_listed():
    assert method_facts(METHODS["rawls-gcn"])[1:] == ["with gcn"]
    assert method_facts(METHODS["base"]) == ["conventional training"]
    said = method_facts(METHODS["graphlessnn"])
    assert "for node-classification" in said
    assert "needs node features" in said
    assert "soft: False, True" in said
    assert dataset_facts(DATASETS["ogbn-arxiv"], True) == [
        "node classification or link prediction",
        "169,343 nodes, 1,157,799 edges, 128 features, 40 classes",
        "download: 83.1 MB, checksum known",
        "licence: ODC-BY; cached",
    ]
    assert dataset_facts(DATASETS["flickr"], False)[2:] == [
        "download: size unknown, verified by its nodes and edges",
        "licence: not stated; not cached",
    ]
    assert dataset_facts(DATASETS["gowalla"], False)[0] == "recommendation"
