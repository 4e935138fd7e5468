"""The suite behind the tables on real graphs: chosen on validation, resumed, never run twice."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from benchmarks.suite import Suite

from benchmarks import growth, pairs, real_tables, suite, tables
from benchmarks.case import Case
from benchmarks.records import RESULTS
from tuneup.bench.problems import link_prediction, node_classification
from tuneup.bench.records import read_records
from tuneup.curriculum import Schedule
from tuneup.data import block_graph
from tuneup.errors import InputError

BRIEF = Schedule(epochs=2, lr=0.01)
METHODS = ("base", "dropedge", "tuneup", "without-syn-tails")


@pytest.fixture(autouse=True)
def checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "CHECKPOINTS", tmp_path / "runs")


def small(results, made=None, problem=node_classification, task="node-classification"):
    data = block_graph(200, 800, 2, 4)

    def make(value):
        if made is not None:
            made.append(value)
        return problem(data).scheduled(BRIEF, BRIEF)

    return Suite(
        "toy", task, "sage", results, "dropout", (0.0, 0.5), make, METHODS, (0, 1), {"width": 128}
    )


def test_every_method_and_seed_leaves_a_record(tmp_path):
    small(tmp_path).run_all()
    records = read_records(tmp_path)
    assert {(r.method, r.seed) for r in records} == {(m, s) for m in METHODS for s in (0, 1)}
    shared = {r.config["dropout"] for r in records}
    assert len(shared) == 1
    for record in records:
        assert record.config["width"] == 128
        assert (record.config["alpha"] > 0) == (record.method in ("dropedge", "tuneup"))
        assert len({r.config["alpha"] for r in records if r.method == record.method}) == 1
        assert set(record.scores(tmp_path)) == set(record.settings)
    base = {r.seed: r for r in records if r.method == "base"}
    for record in records:
        if record.method == "tuneup":  # its first stage is the base's run
            assert record.curve[: len(base[record.seed].curve)] == base[record.seed].curve


def test_what_has_a_record_is_not_run_again(tmp_path, capsys):
    small(tmp_path).run_all()
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("toy-*")}
    made = []
    capsys.readouterr()
    small(tmp_path, made).run_all()
    assert made == []  # not even the graph was prepared
    said = capsys.readouterr().out
    assert said.startswith(f"toy sage: all 8 runs are recorded in {tmp_path}; pass --fresh")
    assert before == {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("toy-*")}


def test_a_stopped_suite_goes_on_to_the_same_records(tmp_path):
    small(tmp_path).run_all()
    lost = [tmp_path / f"toy-sage-tuneup-{seed}.json" for seed in (0, 1)]
    kept = [without_times(path) for path in lost]
    for path in lost:
        path.unlink()
    small(tmp_path).run_all()
    assert [without_times(path) for path in lost] == kept


def test_what_is_forgotten_is_run_again(tmp_path, capsys):
    """Its checkpoints go too: from them it would only be copied."""
    runs = small(tmp_path)
    runs.run_all()
    other = tmp_path / "toy-sage-max-base-0.json"
    other.write_text("another architecture's")
    runs.forget()
    assert "toy sage: removing 8 records from" in capsys.readouterr().out
    assert [path.name for path in tmp_path.glob("toy-*")] == [other.name]
    assert not list((tmp_path / "runs").glob("*/toy-*"))


def test_nothing_is_forgotten_that_could_not_be_made_again(tmp_path):
    small(tmp_path).run_all()

    def missing(value):
        raise InputError("no data")

    with pytest.raises(InputError, match="no data"):
        replace(small(tmp_path), problem=missing, _problems={}).forget()
    assert len(read_records(tmp_path)) == 8


def without_times(path):
    noisy = ("seconds", "machine")
    return {key: value for key, value in json.loads(path.read_text()).items() if key not in noisy}


def test_links_too(tmp_path):
    links = small(tmp_path, problem=link_prediction, task="link-prediction")
    links.run_all()
    assert {record.task for record in read_records(tmp_path)} == {"link-prediction"}
    assert len(read_records(tmp_path)[0].settings) == 5


@pytest.mark.parametrize(
    ("name", "parts"), [("speed", tables.SPEED), ("growth", tables.GROWTH)], ids=["speed", "growth"]
)
def test_the_measured_tables_are_what_the_files_say(name, parts):
    text = tables.README.read_text()
    assert tables.replace_between(text, name, tables.render(parts, RESULTS)) == text
    assert growth.PICTURE.exists() == (RESULTS / "growth.json").exists()


def test_what_was_not_measured_says_how_to(tmp_path, monkeypatch):
    growing = tables.render(tables.GROWTH, tmp_path)
    assert "run `python -m benchmarks.growth`, then `python -m benchmarks.tables`." in growing
    assert "run `python -m benchmarks.speed gat`, then" in tables.render(tables.SPEED, tmp_path)
    for family in real_tables.FAMILIES:
        monkeypatch.setattr(family.module, "RESULTS", tmp_path)
        command = f"`python -m {family.module.__name__} run`"
        assert real_tables.render(family) == (
            f"Not measured yet: run {command}, then `python -m benchmarks.real_tables`."
        )


@pytest.mark.parametrize("problem", ["pairs", "ranking"])
def test_the_recommendation_cases_agree(problem):
    """Ours and the naive model lose alike; both rankings run."""
    case = Case("gcn", "ours", nodes=700, warmup=1, epochs=1, problem=problem)
    other = "pyg-edge-index" if problem == "pairs" else "bare-products"
    found = [
        pairs.trainer(variant, pairs.load(variant))
        for variant in (case, replace(case, variant=other))
    ]
    losses = [[epoch(step) for step in range(3)] for epoch in found]
    if problem == "pairs":
        assert losses[0] == pytest.approx(losses[1], abs=1e-4)


PROBE = """
from tests.bench.test_suite import METHODS, small, suite
from pathlib import Path
suite.run = lambda *given, checkpoints, **options: print(checkpoints.folder.name)
small(Path("unused")).train("tuneup", 0, 0.0, suite.METHODS["tuneup"].settings)
"""


def test_a_suite_finds_its_checkpoints_in_another_process():
    """Its folders are named by what decides a run, never by where something is in memory."""
    said = [
        subprocess.run(
            [sys.executable, "-c", PROBE],
            capture_output=True,
            text=True,
            check=True,
            cwd=suite.ROOT,
        ).stdout
        for _ in range(2)
    ]
    assert said[0] == said[1]
    assert len(said[0].split()) == 2  # the run and its Base
