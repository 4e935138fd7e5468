"""The gowalla command, on a small file set of gowalla's layout."""

import subprocess
import sys

import pytest

from benchmarks import gowalla, gowalla_tables
from benchmarks.gowalla import CURRICULA, parse, schedules, variant
from benchmarks.records import ROOT
from tuneup.bench.records import RunRecord, read_records
from tuneup.data import block_interactions

RECORDED = gowalla.RESULTS
BRIEF = ["--epochs", "3", "2", "--width", "4", "--hidden", "8", "--threads", "1"]


@pytest.fixture(autouse=True)
def small_gowalla(tmp_path, monkeypatch):
    data = block_interactions(80, 100, 2400, 4)
    folder = tmp_path / "data" / "gowalla"
    folder.mkdir(parents=True)
    rows = data.rows()
    lists = [items.tolist() for items in rows.col.split(rows.count.tolist())]
    for part, name in enumerate(("train", "test")):
        lines = [" ".join(map(str, [user, *items[part::2]])) for user, items in enumerate(lists)]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("TUNEUP_DATA", str(folder.parent))
    monkeypatch.setattr(gowalla, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(gowalla, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(gowalla_tables, "RESULTS", tmp_path / "results")
    return tmp_path


def test_a_run_prints_and_records(small_gowalla, capsys):
    gowalla.main(["--architecture", "gcn", "--unknown", "--l2-input", "0.01", *BRIEF])
    said = capsys.readouterr().out
    for word in ("paper 0.1094", "popularity alone", "item co-occurrence alone", "without pairs"):
        assert word in said
    (record,) = read_records(small_gowalla / "results")
    assert (record.dataset, record.task, record.method) == ("gowalla", "recommendation", "tuneup")
    assert set(record.test) == set(gowalla.METRICS)
    assert {"popularity", "item co-occurrence", "popularity-fallback"} <= set(record.settings)
    assert all("by_degree" in stage for stage in record.stages)  # the stage that lost too
    assert len(record.curve) == 5
    table = gowalla_tables.section()
    command = gowalla_tables.command_of(record)
    assert command in table
    again = vars(gowalla.parse(command.split()[3:])) | {"threads": 1}
    assert again == {key: value for key, value in record.config.items() if key in again}
    assert f"{record.test['recall@50']:.4f}" in table
    assert f"{record.stages[0]['test']:.4f}" in table  # its Base
    gowalla_tables.draw([record], small_gowalla / "curves.png")
    assert (small_gowalla / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_runs_with_other_settings_do_not_overwrite_each_other(small_gowalla):
    for penalty in ("0.01", "0.02"):
        options = ["--architecture", "lightgcn", "--method", "base", "--l2-input", penalty]
        gowalla.main([*options, *BRIEF])
    assert len(read_records(small_gowalla / "results")) == 2


def test_tuneup_goes_on_from_the_base_run(small_gowalla, capsys):
    for method in ("base", "tuneup"):
        gowalla.main(["--architecture", "sage", "--method", method, *BRIEF])
    assert capsys.readouterr().out.count("stage 1 epoch 3:") == 1
    base, tuned = read_records(small_gowalla / "results")
    assert tuned.curve[:3] == base.curve
    assert tuned.stages[0]["test"] == base.test["recall@50"]


def test_milestones_and_patience_of_either_stage():
    plain = parse([])
    words = "--milestones 3 --finetune-milestones 5 9 --epochs 8 8 --patience 20 70"
    given = parse(words.split())
    assert [stage.patience for stage in schedules(given)] == [20, 70]
    assert schedules(plain)[1].milestones == ()
    assert [stage.milestones for stage in schedules(given)] == [(3,), (5,)]  # 9 comes too late


def name_of(words):
    options = parse(words.split())
    return variant(options, CURRICULA["tuneup"](options.alpha, *schedules(options)))


def test_every_option_that_changes_a_run_changes_its_name():
    options = ["", "--finetune-milestones 5", "--patience 60 41", "--negatives 8", "--alpha 0.25"]
    options += ["--milestones 5", "--lr 0.01 0.002", "--width 32", "--unknown", "--seed 1"]
    assert len({name_of(words) for words in options}) == len(options)
    assert name_of("--negatives 1") == name_of("--threads 1") == name_of("")


@pytest.mark.parametrize("path", sorted(RECORDED.glob("gowalla-*-short-*.json")), ids=str)
def test_recorded_runs_are_named_after_their_commands(path):
    record = RunRecord.read(path)
    assert name_of(gowalla_tables.command_of(record).split("gowalla ")[1]) == record.variant


def test_negatives_reach_the_task():
    assert gowalla.Gowalla(parse(["--negatives", "3"])).task.negatives == 3


def test_a_missing_file_is_one_clear_line(small_gowalla):
    (small_gowalla / "data" / "gowalla" / "test.txt").unlink()
    with pytest.raises(SystemExit, match=r"Error: .*gowalla.*test\.txt"):
        gowalla.main(["--method", "base", *BRIEF])


def test_a_variant_is_the_same_in_every_process():
    """Else a run that was stopped would begin anew, and Base would never be shared."""
    probe = (
        "from benchmarks.gowalla import CURRICULA, parse, schedules, variant\n"
        "options = parse(['--weights-lr', '0.01', '0.1'])\n"
        "print(variant(options, CURRICULA['tuneup'](0.5, *schedules(options))))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
        for _ in range(2)
    }
    assert len(said) == 1
    assert "short-" in said.pop()
