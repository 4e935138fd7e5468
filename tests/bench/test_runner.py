"""Runs that are planned from the store: chosen on validation, resumed, never made twice."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import pytest

from tests.bench.toys import METHODS, make, rows_of_pairs, toy
from tuneup.bench import Store
from tuneup.bench import runner as runner_module
from tuneup.bench.runner import (
    best_of,
    describe_plan,
    forget,
    median_seconds,
    plan_trials,
    spread,
    work,
)
from tuneup.bench.studies import Request, plan
from tuneup.errors import DivergenceError, InputError, OutputError


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The toy suite, made."""
    store = Store(tmp_path_factory.mktemp("finished") / "results")
    make(toy(), store)
    return store


@pytest.fixture
def copied(finished, tmp_path):
    """It and its checkpoints, to change."""
    folder = tmp_path / "copied"
    shutil.copytree(finished.folder.parent, folder)
    return Store(folder / "results")


def scored(store):
    return [run for run in store.runs() if run.means]


def plain(run):
    """Without what differs from machine to machine."""
    stages = [{k: v for k, v in stage.items() if k != "seconds"} for stage in run.stages]
    return replace(run, seconds=0.0, stages=stages, machine={}, versions={})


def test_every_method_and_seed_is_made_once(copied):
    store, said, made = copied, [], []
    runs = scored(store)
    assert {(r.method, r.seed) for r in runs} == {(m, s) for m in METHODS for s in (0, 1)}
    assert len(runs) == 8
    assert len({r.shared["dropout"] for r in runs}) == 1
    for run in runs:
        assert run.config == {"width": 128}
        assert set(store.scores([run])[run.id]) == set(run.means)
        assert len({str(r.point) for r in runs if r.method == run.method}) == 1
    base = {r.seed: store.curve(r) for r in runs if r.method == "base"}
    for run in runs:
        if run.method == "tuneup":  # its first stage is the run of Base
            assert store.curve(run)[:2] == base[run.seed]
    make(toy(made=made), store, said)
    assert made == []  # not even the graph was prepared
    assert scored(store) == runs
    assert "all runs are in" in said[-1]


def test_every_method_is_chosen_by_as_many_trials(copied):
    store = copied
    trials = {m: [r for r in store.runs(method=m) if r.trial] for m in METHODS}
    assert {m: len(own) for m, own in trials.items()} == {
        "base": 4,
        "dropedge": 4,
        "tuneup": 4,
        "without-syn-tails": 0,
    }
    tried = [(r.point["alpha"], r.seed) for r in trials["tuneup"]]
    assert sorted(tried) == [(0.25, 0), (0.5, 0), (0.5, 1), (0.75, 0)]
    best = best_of([(r.point, r.seed, r.validation) for r in trials["tuneup"]])
    assert {tuple(r.point.items()) for r in scored(store) if r.method == "tuneup"} == {
        tuple(best.items())
    }
    more = toy(budget=6)  # later: what is there is not trained again
    assert {job.run.method for job in more.jobs(store.runs())} == {"base"}  # then the others
    make(more, store)
    assert more.jobs(store.runs()) == []


def test_links_and_rankings_too(store):
    links = toy(task="link-prediction", methods=("base", "nodedup"), seeds=1, budget=1)
    make(links, store)
    assert all(len(run.means) == 5 for run in scored(store))
    make(rows_of_pairs(), store)
    floors = store.runs(architecture="none")
    assert {"popularity", "co-occurrence"} <= {run.method for run in floors}


def test_another_experiment_is_not_taken_for_this_one(finished):
    for other in (
        toy(config={"width": 64}),
        toy(study="other"),
        toy(preset="paper"),
        toy(grid=({"dropout": 0.0}, {"dropout": 0.3})),
    ):
        assert any(not job.scored for job in other.jobs(finished.runs()))


def test_what_is_forgotten_is_made_again(copied):
    store, cache = copied, copied.folder.parent / "cache"
    before = [plain(run) for run in scored(store)]
    only = toy(methods=("tuneup",))
    forget([only], store, cache, lambda words: None)
    assert {run.method for run in scored(store)} == {*METHODS} - {"tuneup"}
    assert not only.folder(cache).exists()
    make(toy(), store)
    assert [plain(run) for run in scored(store)] == before

    def missing(shared):
        raise InputError("no data")

    with pytest.raises(InputError, match="no data"):  # what cannot be made again is kept
        forget([toy(build=missing)], store, cache, lambda words: None)
    assert len(scored(store)) == 8


def diverging(monkeypatch, method, **where):
    real = runner_module.run

    def run(found, setup, *, settings, seed, **given):
        fits = all(getattr(settings, k, seed) == v for k, v in where.items())
        if found.name == method and fits:
            raise DivergenceError("the loss is nan")
        return real(found, setup, settings=settings, seed=seed, **given)

    monkeypatch.setattr(runner_module, "run", run)


def test_a_point_that_diverges_is_not_chosen(store, monkeypatch):
    diverging(monkeypatch, "tuneup", alpha=0.5)
    make(toy(), store)
    runs = store.runs(method="tuneup")
    assert {r.validation for r in runs if r.point["alpha"] == 0.5} == {-1.0}
    assert all(r.point["alpha"] != 0.5 for r in runs if r.means)


def test_a_run_that_diverges_leaves_the_others_to_be_made(store, monkeypatch):
    diverging(monkeypatch, "without-syn-tails", seed=1)
    for _ in range(2):  # it is tried again whenever the suite is
        with pytest.raises(DivergenceError, match=r"toy-sage-without-syn-tails-1.*the loss is nan"):
            make(toy(), store)
        assert len(scored(store)) == 7


def test_where_nothing_can_be_written_nothing_is_trained(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "results")
    with pytest.raises(OutputError):
        work([toy(build=lambda shared: pytest.fail("trained"))], store, tmp_path, print)


CHILD = """
    import sys
    from pathlib import Path
    from tests.bench.toys import make, toy
    from tuneup.bench import Store
    make(toy(), Store(Path(sys.argv[1])))
"""


def child(folder):
    code = textwrap.dedent(CHILD)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", code, str(folder)], env=environment)


def test_a_killed_process_loses_one_job_at_most(store):
    process = child(store.folder)
    deadline = time.monotonic() + 120
    while len(list((store.folder / "pending").glob("[!.]*.parquet"))) < 3:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = store.runs()
    assert len(kept) >= 3
    make(toy(), store)
    assert {run.id for run in kept} <= {run.id for run in store.runs()}
    assert len(scored(store)) == 8


def test_two_processes_share_the_work_and_agree_with_one(store, finished):
    processes = [child(store.folder) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert [plain(run) for run in store.runs()] == [plain(run) for run in finished.runs()]


def test_a_plan_tells_jobs_and_medians(store, finished):
    (line, total) = describe_plan([toy()], store)
    assert "4 jobs, 4 of them trials: 4 of base" in line
    assert "never timed" in total
    runs = finished.runs()
    spec = toy().spec("tuneup", 9, {}, {})
    timed = sorted(r.seconds for r in runs if r.method == "tuneup" and r.seconds)
    assert median_seconds(runs, spec) == pytest.approx(
        (timed[(len(timed) - 1) // 2] + timed[len(timed) // 2]) / 2
    )
    assert median_seconds(runs, replace(spec, task="recommendation")) is None
    assert "nothing to do" in next(describe_plan([toy()], finished))


def grid(**values):
    from itertools import product

    return [dict(zip(values, each, strict=True)) for each in product(*values.values())]


def test_few_points_are_tried_again_with_other_seeds():
    points = grid(alpha=(0.5, 0.25, 0.75))
    plan = plan_trials(points, 5, str)
    assert [(p["alpha"], s) for p, s in plan] == [
        (0.5, 0),
        (0.25, 0),
        (0.75, 0),
        (0.5, 1),
        (0.25, 1),
    ]
    assert plan_trials(points[:1], 5, str) == []


def test_many_points_are_spread_over_the_grid():
    points = grid(a=(1, 2, 3), b=(1, 2, 3), c=(1, 2))
    shown = spread(points, 6)
    assert shown[0] == points[0]
    for name in "abc":
        assert {p[name] for p in shown} == {p[name] for p in points}
    assert len(shown) == 6
    assert spread(points, 6) == shown


def test_points_of_one_training_are_tried_together():
    points = grid(trained=(1, 2), read=(1, 2, 3))
    plan = plan_trials(points, 2, lambda point: point["trained"])
    assert sorted((p["trained"], p["read"], s) for p, s in plan) == [
        (t, r, 0) for t in (1, 2) for r in (1, 2, 3)
    ]


def test_the_best_point_allows_for_its_seeds():
    a, b = {"alpha": 1}, {"alpha": 2}
    assert best_of([(a, 0, 0.5), (b, 0, 0.6)]) == b
    # Seed 1 is a bad one, and only the better point was tried with it.
    assert best_of([(a, 0, 0.5), (b, 0, 0.6), (b, 1, 0.1)]) == b
    assert best_of([(a, 0, -1.0), (b, 0, 0.1), (a, 1, 0.9)]) == b
    assert best_of([(a, 0, 0.5), (b, 0, 0.5)]) == a
    assert best_of([(a, 0, 0.5), (b, 0, 0.5 + 1e-9)], made=[b]) == b


def test_coldbrews_readings_share_their_trainings(store):
    suite = toy(methods=("base", "coldbrew"), seeds=1, budget=2)
    trials = suite.trials("coldbrew", {"dropout": 0.0})
    assert {r.point["neighbours"] for r in trials} == {0, 2, 3}  # which only reads the student
    assert len({(r.point["delta"], r.point["heads_only"]) for r in trials}) * 3 == len(trials) > 3


def test_users_own_tables_are_run_the_same_way(tmp_path, store):
    from tuneup.data import block_graph

    folder = tmp_path / "mine"
    folder.mkdir()
    graph = block_graph(300, 900, 2, 3)
    rows = [f"{a},{b}" for a, b in graph.adjacency.edge_index.t().tolist() if a < b]
    (folder / "edges.csv").write_text("\n".join(["source,target", *rows]) + "\n")
    values = [",".join(f"{v:.4f}" for v in row) for row in graph.x.tolist()]
    nodes = [f"{k},{y},{v}" for k, (y, v) in enumerate(zip(graph.y.tolist(), values, strict=True))]
    (folder / "nodes.csv").write_text("\n".join(["id,label,a,b,c", *nodes]) + "\n")
    given = {"methods": ["base", "dropedge"], "seeds": [0], "trials": 1}
    (suite,), _ = plan(Request(None, [str(folder)], None, ["sage"], **given), store)
    assert suite.task == "node-classification"
    from tests.bench.toys import BRIEF

    brief = replace(suite, build=lambda shared: suite.usual_problem(shared).scheduled(BRIEF, BRIEF))
    make(brief, store)
    assert {r.method for r in scored(store) if r.architecture == "sage"} == {"base", "dropedge"}
    floors = {r.method for r in store.runs(architecture="none")}
    assert len(floors) >= 3
    with pytest.raises(InputError, match="folder of tables"):
        Request(datasets=["/nowhere"])


def test_users_own_methods_are_run_the_same_way(tmp_path, store, monkeypatch):

    (tmp_path / "half_dropped.py").write_text(
        "from tuneup import METHODS\n"
        "from dataclasses import replace\n"
        "MINE = replace(METHODS['dropedge'], name='mine', grid={'alpha': (0.5, 0.1)})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    name = "half_dropped:MINE"
    request = Request(None, ["dblp"], "node-classification", ["sage"], ["base", name])
    (suite,), _ = plan(request, store)
    assert suite.methods == ["base", name]
    make(toy(methods=suite.methods, seeds=1, budget=2), store)
    found = {run.method: run for run in scored(store)}
    assert set(found) == {"base", name}
    assert found[name].point["alpha"] in (0.5, 0.1)
