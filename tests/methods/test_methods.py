"""The registry: every method on every task and architecture that it says it applies to."""

from dataclasses import dataclass, replace
from itertools import product
from math import prod

import pytest
import torch

from tests.methods.toys import SETUPS, link_setup, node_setup, pair_setup, settings_for
from tuneup.errors import InputError
from tuneup.methods import (
    METHODS,
    Method,
    Recipe,
    Setup,
    configured,
    digests,
    prepare,
    run,
)
from tuneup.methods.base import ARCHITECTURES, TASKS
from tuneup.methods.curricula import FromCurriculum
from tuneup.methods.graphless import GraphLessNN
from tuneup.methods.node_dup import NodeDup, NodeDupTuneUp
from tuneup.methods.rawls import RawlsGCN
from tuneup.train import Checkpoints

PAPER = ["localaug", "coldbrew", "graphlessnn", "tail-gnn", "rawls-gcn"]
PLAIN = ("dropedge", "without-curriculum", "without-syn-tails", "without-pseudo-labels")
"""Curricula on Base's model: one encoder stands for all."""


def quick(method):
    """The method's defaults, but a generator that is trained for a moment."""
    if method.name != "localaug":
        return method.settings
    from tuneup.curriculum import Schedule

    return replace(method.settings, generator=Schedule(epochs=4, validate_every=2))


def test_the_paper_rows_are_all_there():
    assert set(PAPER) <= set(METHODS)
    assert [name for name in METHODS if name in PAPER] == PAPER


@pytest.mark.parametrize(("name", "task"), [*product(METHODS, TASKS)])
def test_a_method_trains_wherever_it_applies_and_is_refused_elsewhere(name, task):
    method, trained = METHODS[name], 0
    for architecture in ARCHITECTURES:
        setup = SETUPS[task](architecture)
        if method.refusal(task, architecture, task != "recommendation") is not None:
            with pytest.raises(InputError, match=f"^{name} ") as caught:
                run(method, setup, callback=pytest.fail)
            assert len(str(caught.value).splitlines()) == 1
        elif not trained or name not in PLAIN:
            trained += 1
            model = run(method, setup, settings=quick(method)).model.eval()
            for setting in settings_for(task):
                assert torch.isfinite(setting.score(model).score).all()
            if task == "node-classification" and architecture == "gcn":  # called as PyG's are
                x, seen = setup.task.data.x, setup.task.graph
                torch.testing.assert_close(model(x, seen.edge_index), model(x, seen))
    assert trained or task not in method.tasks


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda setup: run("tuneup", setup), r"run takes a record of the registry.*'tuneup'\.$"),
        (
            lambda setup: Setup(setup.task, torch.nn.Linear(9, 4)),
            "give Setup an EncoderSpec.*, not a Linear",
        ),
        (lambda setup: Setup(setup.task.data, setup.encoder), "task_of makes one of a PyG Data"),
    ],
)
def test_what_a_method_is_run_on_is_checked(wrong, reason):
    with pytest.raises(InputError, match=reason):
        wrong(node_setup())


def test_only_a_module_that_is_trained_already_is_fine_tuned():
    later = object()
    for name, expected in {
        "tuneup": [None, later],
        "localaug": [None, None],  # its network comes second, and starts afresh
        "graphlessnn": [None, None],
        "nodedup-tuneup": [None, later],
    }.items():
        setup = SETUPS[METHODS[name].tasks[0]]()
        setup = replace(setup, finetune_optimizer=lambda model: later)
        stages = prepare(METHODS[name].settings, setup).curriculum
        assert [stage.optimizer for stage in stages] == expected


@pytest.mark.parametrize(
    ("name", "setup", "reason"),
    [
        ("graphlessnn", link_setup(), "not link-prediction: it distils class labels"),
        ("rawls-gcn", node_setup("sage"), "works with gcn, not sage: it rescales GCN's operator"),
        ("localaug", pair_setup(), "not recommendation: its generator draws features"),
    ],
)
def test_a_refusal_says_why(name, setup, reason):
    with pytest.raises(InputError, match=reason):
        run(METHODS[name], setup)


def test_points_are_those_of_the_grid_with_the_defaults_first():
    cases = [(method, task) for method in METHODS.values() for task in method.tasks]
    for method, task in cases:
        points = method.points(task)
        assert points[0] == {key: getattr(method.settings, key) for key in method.grid}
        texts = {str(point) for point in points}
        assert len(texts) == len(points) <= prod(map(len, method.grid.values()))
        for point in points:
            assert configured(method, point) is not None
            assert all(value in method.grid[key] for key, value in point.items())


def test_points_that_train_the_same_are_one():
    coldbrew = METHODS["coldbrew"].points("node-classification")
    assert len(coldbrew) == 3 * (1 + 2 + 2)  # at delta 0 the heads are all nodes with an edge
    assert len(METHODS["localaug"].points("node-classification")) == 4
    assert len(METHODS["localaug"].points("link-prediction")) == 1


def test_a_grid_over_nothing_is_refused():
    @dataclass(frozen=True)
    class Mine:
        size: int = 1

        def __call__(self, setup):
            return Recipe(setup.base_model(), ())

    with pytest.raises(InputError, match=r"no such setting: \['sise'\]"):
        Method("mine", "", "", Mine(), grid={"sise": (1, 2)})


_OWN_FIRST_STAGE = ("localaug", "nodedup-tuneup", "spottarget-tuneup", "densify-tuneup")


@pytest.mark.parametrize("name", METHODS)
def test_a_stored_base_run_is_the_first_stage(name):
    """Bit for bit the same as training it again."""
    setup, store = SETUPS[METHODS[name].tasks[0]]("gcn"), Checkpoints()
    run(METHODS["base"], setup, seed=4, checkpoints=store)
    options, seen = {"settings": quick(METHODS[name]), "seed": 4}, []
    alone = run(METHODS[name], setup, **options)
    after = run(METHODS[name], setup, **options, checkpoints=store, callback=seen.append)
    goes_on = len(alone.states) > 1 and name not in _OWN_FIRST_STAGE
    first = min((progress.stage for progress in seen), default=None)
    assert first == (None if name == "base" else 2 if goes_on else 1)
    assert alone.record.curves() == after.record.curves()
    for one, other in zip(alone.states, after.states, strict=True):
        assert all(one[key].equal(other[key]) for key in one)


def test_methods_share_what_they_begin_with():
    link, node = SETUPS["link-prediction"], SETUPS["node-classification"]
    nodedup, both = (digests(METHODS[name], link("gcn")) for name in ("nodedup", "nodedup-tuneup"))
    assert both[0] == nodedup[0]
    other = configured(METHODS["nodedup-tuneup"], {"delta": 5})
    assert digests(METHODS["nodedup-tuneup"], link("gcn"), settings=other)[0] != nodedup[0]
    # LocalAug's generator knows nothing of the encoder or of the settings of the second stage.
    localaug = METHODS["localaug"]
    points = [configured(localaug, point) for point in localaug.points("node-classification")]
    generators = {
        digests(localaug, node(kind), settings=settings)[0]
        for kind in ("gcn", "sage")
        for settings in points
    }
    assert len(generators) == 1


def test_settings_that_only_change_the_reading_share_their_training():
    """And are read as if trained alone."""
    method, setup, store = METHODS["coldbrew"], SETUPS["node-classification"]("gcn"), Checkpoints()
    found = {}
    for point in method.points("node-classification"):
        settings = configured(method, point)
        *_, last = digests(method, setup, settings=settings)
        found.setdefault(last, set()).add(settings.delta if settings.heads_only else 0)
        shared = run(method, setup, settings=settings, checkpoints=store)
        if point["delta"] == 2:
            alone = run(method, setup, settings=settings)
            assert shared.record.validation == alone.record.validation
            task = setup.task
            z = (task.forward(result.copy(1), task.graph) for result in (shared, alone))
            assert torch.equal(*z)
    assert len(found) == 3
    assert all(len(fitted) == 1 for fitted in found.values())


class Stop(Exception):
    pass


def check_that_it_goes_on(name, setup, stage, folder):
    """Stopped at epoch 3 of a stage, which is between two checkpoints, and started again."""
    settings = quick(METHODS[name])
    whole = run(METHODS[name], setup, settings=settings, seed=2)

    def stop(progress):
        if progress.stage == stage and progress.epoch == 3:
            raise Stop

    kept = Checkpoints(folder, every=2)
    with pytest.raises(Stop):
        run(METHODS[name], setup, settings=settings, seed=2, checkpoints=kept, callback=stop)
    seen = []
    again = run(
        METHODS[name], setup, settings=settings, seed=2, checkpoints=kept, callback=seen.append
    )
    assert (seen[0].stage, seen[0].epoch) == (stage, 3)
    assert again.record.curves() == whole.record.curves()
    for one, other in zip(again.states, whole.states, strict=True):
        assert all(one[key].equal(other[key]) for key in one)


@pytest.mark.parametrize(
    ("name", "setup", "stage"),
    [
        ("tuneup", lambda: pair_setup("gcn"), 2),
        ("coldbrew-two-part", lambda: node_setup("sage", dropout=0.5), 3),
        ("localaug", lambda: node_setup("sage", dropout=0.5), 1),  # in its generator
        ("localaug", lambda: link_setup("gcn"), 2),
        ("graphlessnn", lambda: node_setup("gat", dropout=0.5), 1),  # in its teacher
        ("coldbrew", lambda: link_setup("sage"), 2),
        ("tail-gnn", lambda: pair_setup("sage"), 1),
        ("tail-gnn", lambda: node_setup("sage-sum", dropout=0.5), 1),
        ("nodedup-tuneup", lambda: link_setup("gat"), 1),
    ],
)
def test_it_goes_on_from_any_stage_of_any_task(name, setup, stage, tmp_path):
    check_that_it_goes_on(name, setup(), stage, tmp_path)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FromCurriculum("tuneup2"),
        lambda: FromCurriculum("tuneup", alpha=7.0),
        lambda: GraphLessNN(dropout=3.0),
        lambda: NodeDup(delta=-1),
        lambda: NodeDupTuneUp(alpha=2.0),
        lambda: RawlsGCN("balanced"),
    ],
)
def test_bad_settings_are_refused_when_they_are_made(make):
    with pytest.raises(InputError):
        make()


def test_settings_of_another_method_are_refused():
    with pytest.raises(InputError, match=r"NodeDup\(delta=2\) are not the settings of base"):
        run(METHODS["base"], node_setup(), settings=NodeDup())


def test_settings_that_could_change_are_refused():
    @dataclass
    class Loose:
        def __call__(self, setup):
            return Recipe(setup.base_model(), ())

    with pytest.raises(InputError, match="must be an instance of a frozen dataclass"):
        Method("loose", "", "", Loose())
