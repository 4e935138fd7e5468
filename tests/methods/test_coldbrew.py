"""ColdBrew: who answers for whom, and that the teacher stays as it was."""

from dataclasses import replace

import pytest
import torch

from tests.methods.toys import link_setup, node_setup, settings_for
from tuneup.curriculum import Schedule
from tuneup.errors import InputError
from tuneup.graph.features import dense
from tuneup.methods import METHODS, prepare, run
from tuneup.methods.coldbrew import ColdBrew, ColdBrewTwoPart, attend
from tuneup.methods.parts import STUDENT

COLDBREW, BASE = METHODS["coldbrew"], METHODS["base"]
NODES, LINKS = "node-classification", "link-prediction"


@pytest.mark.parametrize("make", [node_setup, link_setup])
def test_without_a_tail_it_is_base(make):
    """No degree is below 0: weights, outputs and scores of Base, bit for bit."""
    setup = make("gcn")
    base = run(BASE, setup, seed=1)
    brewed = run(COLDBREW, setup, settings=ColdBrew(delta=-1, neighbours=2), seed=1)
    assert brewed.record.winner == 1
    task = NODES if make is node_setup else LINKS
    for setting in settings_for(task):
        one, other = setting.score(base.model), setting.score(brewed.model)
        assert one.score.equal(other.score)
    kept = {key: value for key, value in brewed.model.state_dict().items() if "teacher" in key}
    for key, value in kept.items():
        original = key.replace("encoder.teacher", "encoder").replace("teacher.", "")
        assert value.equal(base.states[0][original])
    assert kept


def test_its_scores_change_with_the_cold_start_ratio():
    """It is no pure perceptron: heads keep what the GNN says."""
    result = run(COLDBREW, node_setup(), settings=ColdBrew(delta=2))
    scores = {setting.name: setting.score(result.model).score for setting in settings_for(NODES)}
    assert not scores["inductive"].equal(scores["cold-90"])
    x, graph = node_setup().task.data.x, node_setup().task.graph
    bare = graph.thin(torch.zeros(graph.num_entries, dtype=torch.bool))
    with torch.no_grad():
        changed = (result.model(x, graph) != result.model(x, bare)).any(1)
    assert changed.equal(graph.degree > 2)  # without an edge, heads are spoken for too


@torch.no_grad()
@pytest.mark.parametrize("neighbours", [0, 3])
def test_heads_keep_the_teachers_outputs_and_tails_get_the_students(neighbours):
    setup = node_setup("gcn")
    recipe = prepare(ColdBrew(delta=2, neighbours=neighbours), setup)
    brewed = recipe.modules[STUDENT].eval().encoder
    x, graph = setup.task.data.x, setup.task.graph
    z, out, guess = brewed.teacher(x, graph), brewed(x, graph), brewed.student(x)
    heads = [v for v in range(graph.num_nodes) if graph.degree[v] > 2]
    assert 0 < len(heads) < graph.num_nodes
    for v in range(graph.num_nodes):
        expected = z[v]
        if v not in set(heads):
            expected = guess[v]
            if neighbours:
                alike = sorted(heads, key=lambda u: -float(guess[v] @ z[u]))[:neighbours]
                weight = torch.stack([guess[v] @ z[u] for u in alike]).softmax(0)
                mixed = sum(w * z[u] for w, u in zip(weight, alike, strict=True))
                expected = (guess[v] + mixed) / 2
        torch.testing.assert_close(out[v], expected)


def test_attention_over_fewer_than_k():
    known = torch.eye(2)
    torch.testing.assert_close(
        attend(torch.zeros(1, 2), known, 5), torch.full((1, 2), 0.5), rtol=0, atol=0
    )


@pytest.mark.parametrize("heads_only", [True, False])
def test_the_fit_set(heads_only):
    """Changing the features of a node outside it changes no step of the student."""
    setup = node_setup("gcn")
    settings = ColdBrew(delta=3, heads_only=heads_only)
    degree = setup.task.graph.degree
    outside = int(((degree > 0) & (degree <= 3)).nonzero()[0])
    objective = prepare(settings, setup).curriculum[1].objective
    assert objective.least == (3 if heads_only else 0)
    recipe = prepare(settings, setup)
    brewed = recipe.modules[STUDENT].encoder
    asked = []
    brewed.student.register_forward_pre_hook(lambda module, given: asked.append(given[0]))
    from tuneup.curriculum import Update
    from tuneup.tasks import Moment

    modules = {"model": recipe.model, **recipe.modules}
    task = setup.task
    objective(Update(modules, STUDENT, task, (), task.supervision(), Moment(0, 1, 0)))
    rows = {tuple(row.tolist()) for row in asked[0]}
    enough = degree > (3 if heads_only else 0)
    assert enough[task.validation].any()
    enough[task.validation] = False  # they choose the settings
    enough = enough.nonzero().view(-1)
    taught, judged = (objective.fit_set(task, held_out) for held_out in (False, True))
    assert len(asked[0]) == len(taught)
    assert torch.cat([taught, judged]).sort().values.equal(enough)
    assert 0 < len(judged) < 0.2 * len(enough)
    labelled = replace(task, label_validation=True)
    assert len(objective.fit_set(labelled, False)) > len(taught)
    if heads_only:
        assert tuple(task.data.x[outside].tolist()) not in rows
    with torch.no_grad():
        recipe.curriculum[1].score(modules, task)  # the epochs are judged by the other tenth
    assert asked[1].equal(task.data.x[judged])


def test_the_frozen_teacher_never_drops_anything():
    """Dropout of the teacher would make its outputs a moving target."""
    setup = node_setup("gcn", dropout=0.5)
    brewed = prepare(ColdBrew(), setup).modules[STUDENT].train().encoder
    assert brewed.student.training
    assert not brewed.teacher.training
    result = run(COLDBREW, setup, seed=2)
    base = run(BASE, setup, seed=2)
    for key, value in base.states[0].items():
        assert value.equal(result.states[1][key.replace("encoder.", "encoder.teacher.", 1)])


def test_a_graph_without_heads_is_refused():
    setup = node_setup()
    with pytest.raises(InputError, match=r"more than 1000000 edges; take a smaller"):
        run(COLDBREW, setup, settings=ColdBrew(delta=1_000_000), callback=pytest.fail)
    with pytest.raises(InputError, match="neighbours must be 0 or more"):
        ColdBrew(neighbours=-1)


def test_the_student_learns_even_if_no_validation_node_is_a_tail():
    """Its epochs are judged by nodes that it was not fitted on, not by the task's score."""
    setup = node_setup("gcn")
    degree, validation = setup.task.graph.degree, setup.task.validation
    task = replace(setup.task, validation=validation[degree[validation] > 0])
    setup = replace(setup, task=task, pretrain=Schedule(epochs=30, lr=0.01))
    result = run(COLDBREW, setup)
    stage = result.record.stages[1]
    assert stage.best_epoch > 5
    assert stage.best_score > stage.epochs[0].score
    assert result.record.winner == 1
    assert result.record.validation == task.validate(result.model)
    base = run(BASE, setup)
    assert result.record.validation == base.record.validation  # heads keep what Base says


TWO_PART = METHODS["coldbrew-two-part"]


def test_two_parts_without_a_tail_are_base():
    setup = node_setup("gcn")
    base = run(BASE, setup, seed=1)
    brewed = run(TWO_PART, setup, settings=ColdBrewTwoPart(delta=-1), seed=1)
    assert brewed.record.winner == 2
    for setting in settings_for(NODES):
        assert setting.score(base.model).score.equal(setting.score(brewed.model).score)


@torch.no_grad()
def test_the_second_part_reads_features_similar_heads_and_the_first():
    setup = node_setup("sage")
    recipe = prepare(ColdBrewTwoPart(delta=2, neighbours=3), setup)
    brewed = recipe.modules[STUDENT].eval()
    x, graph = setup.task.data.x, setup.task.graph
    z, out, guess = brewed.teacher(x, graph), brewed(x, graph), brewed.student(x)
    head = z[graph.degree > 2]
    for v in (graph.degree <= 2).nonzero().view(-1).tolist():
        found = attend(guess[v : v + 1], head, 3)[0]
        read = brewed.reader(torch.cat([dense(x)[v], found, guess[v]])[None])[0]
        torch.testing.assert_close(out[v], read)
    heads = graph.degree > 2
    assert out[heads].equal(z[heads])


def test_each_part_is_trained_in_a_stage_of_its_own():
    """Stage 2 leaves the reader as it was, stage 3 the first part; the teacher never moves."""
    result = run(TWO_PART, node_setup(), settings=ColdBrewTwoPart(delta=2), seed=2)
    first, second = result.states[1], result.states[2]
    fresh = prepare(ColdBrewTwoPart(delta=2), node_setup(), 2).modules[STUDENT].state_dict()
    for key in first:
        moved = not first[key].equal(fresh[key]), not second[key].equal(first[key])
        if "reader" in key:
            assert moved[0] is False
        elif "student" in key:
            assert moved[1] is False
        else:
            assert second[key].equal(result.states[0][key.removeprefix("teacher.")])
    assert any("reader" in key and not second[key].equal(first[key]) for key in first)
    assert any("student" in key and not first[key].equal(fresh[key]) for key in first)
