"""The store: whole or not at all, by any number of processes, and never silently damaged."""

import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from tuneup.bench import Run, Store
from tuneup.errors import InputError
from tuneup.metrics import NodeScores

CURVE = [(0, 1, 0.5, None), (0, 2, 0.25, 0.75)]


def scored(setting="transductive", seed=0, count=7):
    generator = torch.Generator().manual_seed(seed)
    nodes = torch.randperm(count, generator=generator)
    score = torch.rand(count, generator=generator)
    return NodeScores(setting, "accuracy", nodes, nodes % 3, score)


def a_run(method="tuneup", seed=0, **more):
    scores = scored(seed=seed)
    given = {"metric": "accuracy", "means": {"transductive": scores.mean()}, "seconds": 3.0}
    given |= {"validation": 0.7, "stages": []}
    place = ("paper", "node-classification", "dblp", "gcn", "short")
    return Run(*place, method, seed, **{**given, **more}), scores


def filled(folder, seeds=3):
    store = Store(folder)
    for seed in range(seeds):
        run, scores = a_run(seed=seed)
        store.add(run, [scores], CURVE)
    return store


def read_all(folder):
    store = Store(folder)
    return store.scores(store.runs())


@pytest.mark.parametrize("folded", [False, True], ids=["pending", "folded"])
def test_what_is_added_is_read_back(tmp_path, folded):
    store = filled(tmp_path)
    if folded:
        store.fold()
        names = {"runs.parquet", "results.parquet", "scores.parquet", "curves.parquet"}
        assert {path.name for path in tmp_path.glob("*.parquet")} == names
        assert not list((tmp_path / "pending").iterdir())
    found = Store(tmp_path).runs(method="tuneup")
    assert [run.seed for run in found] == [0, 1, 2]
    assert found[1] == a_run(seed=1)[0]
    read = store.scores(found)[found[1].id]["transductive"]
    expected = scored(seed=1)
    for name in ("nodes", "degree", "score"):
        assert torch.equal(getattr(read, name), getattr(expected, name))
    assert store.curve(found[0]) == CURVE
    long = store.long()
    assert long["whose"].unique().to_list() == ["ours"]
    assert sorted(long["mean"]) == sorted(
        a_run(seed=seed)[0].means["transductive"] for seed in range(3)
    )


def test_a_run_replaces_one_of_the_same_settings(tmp_path):
    store = filled(tmp_path)
    store.fold()
    run, scores = a_run(seed=1, seconds=9.0)
    store.add(run, [scores], CURVE)
    for _ in range(2):
        assert [r.seconds for r in store.runs()] == [3.0, 9.0, 3.0]
        assert store.long().height == 3
        store.fold()
    other, _ = a_run(seed=1, point={"alpha": 0.5})
    assert other.id != run.id


def test_an_id_is_of_what_decides_a_run_and_of_nothing_else():
    run, _ = a_run(point={"a": 1, "b": 2})
    assert run.id == replace(run, seconds=1.0, trial=True, point={"b": 2, "a": 1}).id
    for name, value in (
        ("seed", 5),
        ("shared", {"l2": 1}),
        ("config", {"width": 3}),
        ("study", "x"),
    ):
        assert replace(run, **{name: value}).id != run.id


def test_removed_runs_are_gone_with_their_scores(tmp_path):
    store = filled(tmp_path)
    gone, *left = store.runs()
    store.fold([gone.id])
    assert store.runs() == left
    assert store.scores([gone]) == {}
    assert store.curve(gone) == []


def test_means_without_scores_stay_means(tmp_path):
    store = Store(tmp_path)
    run, _ = a_run()
    store.add(run)
    store.fold()
    assert store.runs() == [run]
    assert store.scores([run]) == {}


def test_scores_of_another_run_are_refused(tmp_path):
    store = Store(tmp_path)
    run, _ = a_run()
    store.add(run, [scored(seed=4)])
    with pytest.raises(InputError, match=r"differ: dblp .* tuneup, seed 0"):
        store.scores([run])


@pytest.mark.parametrize("name", ["runs.parquet", "scores.parquet", "pending"])
@pytest.mark.parametrize("damage", ["cut", "other columns"])
def test_a_damaged_file_is_named(tmp_path, name, damage):
    store = filled(tmp_path)
    if name != "pending":
        store.fold()
    path = tmp_path / name if name != "pending" else next((tmp_path / "pending").iterdir())
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    else:
        pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(InputError, match=path.name):
        read_all(tmp_path)


def test_a_killed_fold_loses_nothing(tmp_path, monkeypatch):
    """Whatever file it was at: what is pending stays until all four are written."""
    filled(tmp_path / "whole").fold()
    for number in range(4):
        store = filled(tmp_path / str(number))
        real, calls = pl.DataFrame.write_parquet, []

        def killed(frame, *given, number=number, real=real, calls=calls, **more):
            calls.append(frame)
            if len(calls) > number:
                raise KeyboardInterrupt
            return real(frame, *given, **more)

        monkeypatch.setattr(pl.DataFrame, "write_parquet", killed)
        with pytest.raises(KeyboardInterrupt):
            store.fold()
        monkeypatch.undo()
        assert len(Store(store.folder).runs()) == 3
        Store(store.folder).fold()
        for name in ("runs", "results", "scores", "curves"):
            one, other = (
                pl.read_parquet(f / f"{name}.parquet") for f in (store.folder, tmp_path / "whole")
            )
            assert one.equals(other)


def test_a_run_that_is_replaced_during_a_fold_stays(tmp_path, monkeypatch):
    store = filled(tmp_path, seeds=1)
    run, scores = a_run(seed=0)
    real, better = pl.DataFrame.write_parquet, replace(run, seconds=run.seconds + 1)
    pending = []

    def meanwhile(frame, *given, **more):
        if not pending:
            pending.append(1)
            Store(tmp_path).add(better, [scores], CURVE)
        return real(frame, *given, **more)

    monkeypatch.setattr(pl.DataFrame, "write_parquet", meanwhile)
    store.fold()
    monkeypatch.undo()
    assert [each.seconds for each in Store(tmp_path).runs()] == [better.seconds]


def test_two_processes_add_and_fold_at_once(tmp_path):
    code = """
        import sys
        from pathlib import Path
        from tests.bench.test_store import a_run
        from tuneup.bench import Store
        store = Store(Path(sys.argv[1]))
        for seed in range(int(sys.argv[2]), 24, 2):
            run, scores = a_run(seed=seed)
            store.add(run, [scores])
            store.fold()
            assert run in store.runs()
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    for process in [subprocess.Popen([*command, str(k)]) for k in range(2)]:
        assert process.wait() == 0
    store = Store(tmp_path)
    assert [run.seed for run in store.runs()] == list(range(24))
    means = [store.scores([run])[run.id]["transductive"].mean() for run in store.runs()]
    assert np.allclose(means, [scored(seed=seed).mean() for seed in range(24)])
