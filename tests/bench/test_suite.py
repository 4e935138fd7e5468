"""The suite behind the tables on real graphs: chosen on validation, resumed, never run twice."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.problems import link_prediction, node_classification
from tuneup.bench.records import read_records
from tuneup.bench.suite import Suite
from tuneup.bench.trainings import Trainings
from tuneup.curriculum import Schedule
from tuneup.data import block_graph
from tuneup.errors import DivergenceError, InputError, OutputError

ROOT = Path(__file__).parents[2]
BRIEF = Schedule(epochs=2, lr=0.01)
METHODS = ("base", "dropedge", "tuneup", "without-syn-tails")


def small(results, made=None, problem=node_classification, task="node-classification", budget=4):
    data = block_graph(200, 800, 2, 4)

    def make(shared):
        if made is not None:
            made.append(shared)
        return problem(data).scheduled(BRIEF, BRIEF)

    return Suite(
        "toy",
        task,
        "sage",
        {"dropout": (0.0, 0.5)},
        make,
        results,
        results / "runs",
        METHODS,
        (0, 1),
        budget,
        {"width": 128},
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
    logs = list((tmp_path / "runs").glob("*/toy-sage-tuneup-*/log.jsonl"))
    assert logs
    for log in logs:
        told = [json.loads(line) for line in log.read_text().splitlines()]
        places = [(line["stage"], line["epoch"]) for line in told]
        assert places == [(1, 1), (1, 2), (2, 1), (2, 2)]
        assert [line["time"] is None for line in told] == [True, True, False, False]  # Base's own
    assert not list(tmp_path.glob("*.jsonl"))
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
    assert said == (
        f"toy node-classification sage: all 8 runs are recorded in {tmp_path}; "
        "pass --fresh to run them anew\n"
    )
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
    """Its checkpoints go too, those of trials as well: from them it would only be copied."""
    runs = small(tmp_path, budget=6)  # more than one seed of each point
    runs = replace(runs, seeds=(0,))
    runs.run_all()
    other = tmp_path / "toy-sage-max-base-0.json"
    other.write_text("another architecture's")
    runs.forget()
    assert "toy node-classification sage: removing 4 records from" in capsys.readouterr().out
    assert [path.name for path in tmp_path.glob("toy-*")] == [other.name]
    assert not list((tmp_path / "selection").iterdir())
    left = [path for path in (tmp_path / "runs").glob("*/toy-*") if path.suffix != ".lock"]
    assert left == []  # a lock may be somebody's at this moment
    assert len(runs.plan().runs) == 4
    assert len(runs.plan().trials) == 18


def move_first_loss(path, by):
    """As if the run had come out otherwise."""
    record = json.loads(path.read_text())
    record["curve"][0][2] += by
    path.write_text(json.dumps(record))


def test_a_row_never_goes_on_from_another_run_of_base(tmp_path):
    """Its record is of a run that came out otherwise, as on another machine."""
    small(tmp_path).run_all()
    for seed in (0, 1):
        (tmp_path / f"toy-sage-tuneup-{seed}.json").unlink()
    path = tmp_path / "toy-sage-base-1.json"
    move_first_loss(path, 1e-3)
    with pytest.raises(InputError, match=r"Base of seed 1 came out otherwise .*toy-sage-base-1"):
        small(tmp_path).run_all()
    assert (tmp_path / "toy-sage-tuneup-0.json").exists()
    assert not (tmp_path / "toy-sage-tuneup-1.json").exists()
    path.unlink()  # recorded anew, the row goes on from it
    small(tmp_path).run_all()
    assert (tmp_path / "toy-sage-tuneup-1.json").exists()


def test_nothing_is_chosen_on_another_run_of_base(tmp_path):
    small(tmp_path).run_all()
    chosen = tmp_path / "selection" / "toy-sage-tuneup.json"
    for path in (chosen, *(tmp_path / f"toy-sage-tuneup-{seed}.json" for seed in (0, 1))):
        path.unlink()
    move_first_loss(tmp_path / "toy-sage-base-0.json", 1e-3)
    small(tmp_path)._choices.forget("tuneup")
    with pytest.raises(InputError, match="Base of seed 0 came out otherwise"):
        small(tmp_path).run_all()
    assert not chosen.exists()


def test_what_is_only_rounded_otherwise_is_the_same_run_of_base(tmp_path):
    small(tmp_path).run_all()
    row = tmp_path / "toy-sage-tuneup-1.json"
    kept = without_times(row)
    row.unlink()
    move_first_loss(tmp_path / "toy-sage-base-1.json", 1e-6)
    small(tmp_path).run_all()
    assert without_times(row) == kept
    assert small(tmp_path).plan().runs == []


def test_rows_are_not_forgotten_that_would_go_on_from_another_run_of_base(tmp_path):
    small(tmp_path).run_all()
    move_first_loss(tmp_path / "toy-sage-base-1.json", 1e-3)
    before = {path: path.read_bytes() for path in tmp_path.glob("**/toy-*.json")}
    with pytest.raises(InputError, match=r"Base of seed 1 came out otherwise .*naming base too"):
        replace(small(tmp_path), methods=("tuneup",)).forget()
    assert before == {path: path.read_bytes() for path in tmp_path.glob("**/toy-*.json")}
    replace(small(tmp_path), methods=("dropedge",)).forget()  # which begins by itself
    replace(small(tmp_path), methods=("base", "tuneup")).forget()
    assert {record.method for record in read_records(tmp_path)} == {"without-syn-tails"}


def test_nothing_is_forgotten_that_could_not_be_made_again(tmp_path):
    small(tmp_path).run_all()

    def missing(value):
        raise InputError("no data")

    with pytest.raises(InputError, match="no data"):
        replace(small(tmp_path), problem=missing).forget()
    for place in ("results", "runs", "tensorboard"):
        with pytest.raises(OutputError):
            replace(small(tmp_path), **{place: Path("/dev/null/x")}).forget()
    assert len(read_records(tmp_path)) == 8


def without_times(path):
    noisy = ("seconds", "machine")
    return {key: value for key, value in json.loads(path.read_text()).items() if key not in noisy}


def test_links_too(tmp_path):
    links = small(tmp_path, problem=link_prediction, task="link-prediction")
    links.run_all()
    assert {record.task for record in read_records(tmp_path)} == {"link-prediction"}
    assert len(read_records(tmp_path)[0].settings) == 5


def test_every_method_is_chosen_by_as_many_trials(tmp_path):
    small(tmp_path).run_all()
    for record in read_records(tmp_path):
        expected = {"without-syn-tails": 0}.get(record.method, 4)
        assert record.config["trials"] == expected
    chosen = json.loads((tmp_path / "selection" / "toy-sage-tuneup.json").read_text())
    assert [(t["point"]["alpha"], t["seed"]) for t in chosen["trials"]] == [
        (0.5, 0),
        (0.25, 0),
        (0.75, 0),
        (0.5, 1),
    ]
    assert chosen["points"] == 3


def test_a_plan_counts_what_is_left(tmp_path):
    runs = small(tmp_path)
    plan = runs.plan()
    assert len(plan.runs) == 8
    assert len(plan.trials) == 4 + 4 + 4  # Base's, and those of the two that have an alpha
    runs.run_all()
    assert runs.plan().runs == []
    assert runs.plan().trials == []
    wider = small(tmp_path, budget=5)
    assert {method for method, _ in wider.plan().trials} == {"base", "dropedge", "tuneup"}
    narrow = small(tmp_path, budget=1)
    assert [method for method, _ in narrow.plan().trials].count("base") == 2  # all of its points


def test_a_record_of_the_same_settings_stands_for_a_trial(tmp_path, monkeypatch):
    """More trials later: what is recorded is not trained again to choose by."""
    from tuneup.bench.trainings import Trainings

    small(tmp_path).run_all()
    chosen = json.loads((tmp_path / "selection" / "toy-sage-tuneup.json").read_text())["chosen"]
    for name in ("dropedge", "without-syn-tails"):
        (tmp_path / "selection" / f"toy-sage-{name}.json").unlink(missing_ok=True)
    trained = []
    real = Trainings.train

    def watched(self, method, seed, shared, settings):
        trained.append((method, seed, settings.alpha))
        return real(self, method, seed, shared, settings)

    monkeypatch.setattr(Trainings, "train", watched)
    small(tmp_path, budget=6).choose("tuneup")
    again = [entry for entry in trained if entry[0] == "tuneup" and entry[2] == chosen["alpha"]]
    assert again == []
    assert len([entry for entry in trained if entry[0] == "tuneup"]) == 4


def test_a_record_of_other_settings_is_made_anew(tmp_path):
    """Another choice after more trials: rows of two choices are never mixed."""
    small(tmp_path).run_all()
    path = tmp_path / "selection" / "toy-sage-tuneup.json"
    chosen = json.loads(path.read_text())
    other = next(a for a in (0.25, 0.5, 0.75) if a != chosen["chosen"]["alpha"])
    path.write_text(json.dumps({**chosen, "chosen": {"alpha": other}}))
    assert small(tmp_path).plan().runs == [("tuneup", 0), ("tuneup", 1)]
    small(tmp_path).run_all()
    records = [r for r in read_records(tmp_path) if r.method == "tuneup"]
    assert {r.config["alpha"] for r in records} == {other}


def test_a_record_of_another_schedule_is_another_experiments(tmp_path):
    """Neither runs nor choices of before a change are taken for those of after it."""
    before = small(tmp_path)
    before.config = {"pretrain": {"epochs": 2, "milestones": ()}}
    before.run_all()
    assert before.plan().runs == []
    after = small(tmp_path)
    after.config = {"pretrain": {"epochs": 3, "milestones": ()}}
    assert len(after.plan().runs) == 8
    assert len(after.plan().trials) == 12
    silent = small(tmp_path)
    silent.config = {"width": 64}  # which those records say nothing of
    assert silent.plan().runs == []


def test_a_choice_belongs_to_its_grid_and_to_what_base_chose(tmp_path):
    small(tmp_path).run_all()
    other = replace(small(tmp_path), shared={"dropout": (0.0, 0.3)})
    assert {method for method, _ in other.plan().trials} == {"base", "dropedge", "tuneup"}
    path = tmp_path / "selection" / "toy-sage-tuneup.json"
    chosen = json.loads(path.read_text())
    wrong = {"dropout": 0.5 - chosen["config"]["shared"]["dropout"]}
    path.write_text(json.dumps({**chosen, "config": {"shared": wrong}}))
    assert {method for method, _ in small(tmp_path).plan().trials} == {"tuneup"}


def test_presets_do_not_touch_each_others_work(tmp_path):
    first = replace(small(tmp_path / "short"), runs=tmp_path / "runs")
    second = replace(small(tmp_path / "paper"), runs=tmp_path / "runs")
    first.run_all()
    second.run_all()
    kept = set((tmp_path / "runs" / "paper").glob("toy-*"))
    first.forget()
    assert kept == set((tmp_path / "runs" / "paper").glob("toy-*"))
    assert second.plan().runs == []


def test_a_point_that_diverges_loses_and_the_others_go_on(tmp_path, monkeypatch):
    real = Trainings.train

    def diverging(self, method, seed, shared, settings):
        if method == "tuneup" and settings.alpha == 0.5:
            raise DivergenceError("the loss is nan")
        return real(self, method, seed, shared, settings)

    monkeypatch.setattr(Trainings, "train", diverging)
    found = small(tmp_path).choose("tuneup")
    assert found.chosen["alpha"] != 0.5
    assert [t.score for t in found.trials if t.point["alpha"] == 0.5] == [-1.0, -1.0]


def test_a_run_that_diverges_leaves_the_others_to_be_made(tmp_path, monkeypatch):
    real = Trainings.train

    def diverging(self, method, seed, shared, settings):
        if method == "dropedge" and seed == 1:
            raise DivergenceError("the loss is nan")
        return real(self, method, seed, shared, settings)

    monkeypatch.setattr(Trainings, "train", diverging)
    said = r"toy .* without a record: dropedge of seed 1\. All other .* the loss is nan"
    for _ in range(2):  # it is tried again whenever the suite is
        with pytest.raises(DivergenceError, match=said):
            small(tmp_path).run_all()
        names = {record.name for record in read_records(tmp_path)}
        assert names == {f"toy-sage-{m}-{s}" for m in METHODS for s in (0, 1)} - {
            "toy-sage-dropedge-1"
        }


def test_a_base_that_diverges_is_no_end_of_a_choice(tmp_path, monkeypatch):
    small(tmp_path).run_all()

    def diverging(self, seed, shared):
        raise DivergenceError("the loss is nan")

    suite = small(tmp_path)
    monkeypatch.setattr(Trainings, "base", diverging)
    assert suite._score("tuneup", {"alpha": 0.33}, 1) == -1.0


def test_where_nothing_can_be_written_nothing_is_trained(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(Trainings, "train", lambda *given: pytest.fail("it was trained"))
    with pytest.raises(OutputError, match="a part of this path is a file"):
        small(tmp_path / "file" / "results").run_all()


def test_two_stages_of_its_own_are_not_taken_for_another_run_of_base(tmp_path):
    """Ranking losses begin alike whatever the method: the stages tell beginnings apart."""
    from tuneup.bench.tables import Block

    suite = replace(
        small(tmp_path / "links", problem=link_prediction, task="link-prediction"),
        methods=("base", "nodedup-tuneup"),
        seeds=(0,),
        budget=1,
    )
    suite.run_all()
    paths = [tmp_path / "links" / f"toy-sage-{m}-0.json" for m in ("base", "nodedup-tuneup")]
    base, other = (json.loads(path.read_text()) for path in paths)
    base["curve"][0][2] = other["curve"][0][2]  # the first loss, to the last digit
    paths[0].write_text(json.dumps(base))
    assert suite.plan().runs == []
    rows = Block(tmp_path / "links", "toy", "link-prediction", "sage").rows
    assert len(next(row for row in rows if row.method == "nodedup-tuneup").records) == 1
