"""A run record survives the disk, with its scores."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from tests.bench.conftest import recorded_suite
from tuneup.bench.records import RunRecord, read_records, record_of
from tuneup.curriculum import Schedule, tuneup
from tuneup.data import block_graph, split_nodes
from tuneup.errors import InputError
from tuneup.evaluation.settings import evaluate, node_settings
from tuneup.nn import Encoder
from tuneup.tasks import NodeClassification
from tuneup.train import train
from tuneup.workflow import provenance


def test_round_trip(tmp_path):
    graph = block_graph(400, 1200, 3, 8, seed=2)
    split = split_nodes(400, labelled=0.1)
    torch.manual_seed(0)
    model = Encoder(8, 3, width=8)
    brief = Schedule(epochs=2)
    task = NodeClassification.from_split(graph, split)
    result = train(model, task, tuneup(0.5, brief, brief), seed=4)
    scores = evaluate(result.model, node_settings(graph, split))
    record = record_of(
        result,
        scores,
        dataset="blocks",
        task="node-classification",
        architecture="sage",
        method="tuneup",
        config={"alpha": 0.5},
    )
    record.write(tmp_path, scores.values())
    (found,) = read_records(tmp_path)
    assert found.name == "blocks-sage-tuneup-4"
    assert found == RunRecord(**{**vars(record), "curve": [list(row) for row in record.curve]})
    kept = found.scores(tmp_path)
    assert {k: s.mean() for k, s in kept.items()} == pytest.approx(found.settings)
    assert found.test["accuracy"] == found.settings["transductive"]
    assert len(found.curve) == 4
    assert found.machine["threads"] == torch.get_num_threads()
    assert found.machine["peak_rss"] > 10**7


def test_a_mean_that_the_scores_do_not_have_is_refused(recorded, tmp_path):
    """A number that was typed in, or the files of two runs under one name."""
    folder = recorded / "node-classification"
    for name in ("dblp-gcn-tuneup-0.json", "dblp-gcn-tuneup-0.parquet"):
        shutil.copy(folder / name, tmp_path / name)
    (true,) = read_records(tmp_path)
    assert true.scores(tmp_path).keys() == true.settings.keys()
    path = tmp_path / "dblp-gcn-tuneup-0.json"
    fields = json.loads(path.read_text())
    fields["settings"]["cold-90"] += 0.001
    path.write_text(json.dumps(fields))
    (false,) = read_records(tmp_path)
    with pytest.raises(InputError, match=r"parquet has a mean of .* for cold-90, and dblp-gcn-"):
        false.scores(tmp_path)


def test_a_file_that_is_no_record_is_refused(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({"dataset": "x"}))
    with pytest.raises(InputError, match=r"x\.json is not a run record"):
        read_records(tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"stages": []}, "is not a run record"),
        ({"settings": None}, "is not a run record"),
        ({"settings": {}}, "it has no scores"),
        ({"seed": 1}, "is the record of dblp-gcn-tuneup-1, under another name"),
    ],
)
def test_a_damaged_record_is_refused_with_what_to_do(recorded, tmp_path, change, reason):
    text = (recorded / "node-classification" / "dblp-gcn-tuneup-0.json").read_text()
    path = tmp_path / "dblp-gcn-tuneup-0.json"
    path.write_text(json.dumps(json.loads(text) | change))
    with pytest.raises(InputError, match=rf"{reason}.* or remove it: tuneup bench run"):
        read_records(tmp_path)


def test_a_copy_of_a_record_is_no_run_of_another_seed(recorded, tmp_path):
    folder = recorded / "node-classification"
    for name in ("dblp-gcn-tuneup-0.json", "dblp-gcn-tuneup-0 (1).json"):
        shutil.copy(folder / "dblp-gcn-tuneup-0.json", tmp_path / name)
    with pytest.raises(InputError, match=r"\(1\)\.json is the record of dblp-gcn-tuneup-0, under"):
        read_records(tmp_path)


def test_a_record_whose_scores_are_gone_is_made_again(recorded, tmp_path):
    folder = shutil.copytree(recorded / "node-classification", tmp_path / "node-classification")
    assert recorded_suite(folder).plan().runs == []
    (folder / "dblp-gcn-dropedge-1.parquet").unlink()
    assert recorded_suite(folder).plan().runs == [("dropedge", 1)]
    (lost,) = [r for r in read_records(folder) if (r.method, r.seed) == ("dropedge", 1)]
    with pytest.raises(InputError, match=r"dropedge-1\.json lacks its scores: .*no such file"):
        lost.scores(folder)


def test_the_revision_is_that_of_a_checkout_of_this_package(monkeypatch, tmp_path):
    """Changed files show; a copy inside another repository does not pass for one of its commits."""

    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True)

    revision = provenance.source_revision.__wrapped__  # which a process asks only once
    copy = tmp_path / "package" / "bench" / "provenance.py"
    copy.parent.mkdir(parents=True)
    copy.write_text(Path(provenance.__file__).read_text())
    monkeypatch.setattr(provenance, "__file__", str(copy))
    assert revision() is None
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "theirs")
    assert revision() is None
    git("add", ".")
    git("commit", "-q", "-m", "ours")
    clean = revision()
    assert re.fullmatch("[0-9a-f]{12}", clean)
    copy.write_text("changed")
    assert revision() == clean + "+"


def test_what_is_being_written_is_no_record(tmp_path):
    """A killed process leaves half a file behind; another may be replacing a record just now."""
    (tmp_path / ".dblp-gcn-base-0.0123abcd.partial.json").write_text('{"dataset": "db')
    (tmp_path / "dblp-gcn-base-1.json").symlink_to(tmp_path / "gone")  # listed, and not there
    assert read_records(tmp_path) == []
    assert read_records(tmp_path, "dblp-gcn-") == []
