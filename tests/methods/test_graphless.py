"""GraphLessNN: a perceptron, its labels, and nothing of the graph."""

import pytest
import torch
import torch.nn.functional as F

from tests.methods.toys import node_setup, settings_for
from tuneup.curriculum import Update
from tuneup.methods import METHODS, prepare, run
from tuneup.methods.graphless import GraphLessNN, SoftTargets
from tuneup.methods.parts import STUDENT
from tuneup.tasks import Moment


@pytest.mark.parametrize("soft", [False, True])
def test_no_edge_is_used_in_prediction(soft):
    """Inductive and every cold-start score are the same to the last bit."""
    result = run(METHODS["graphlessnn"], node_setup(), settings=GraphLessNN(soft=soft))
    scores = {setting.name: setting.score(result.model) for setting in settings_for_nodes()}
    for name in ("cold-30", "cold-60", "cold-90"):
        assert scores[name].score.equal(scores["inductive"].score)
    degrees = [scores[name].degree for name in ("inductive", "cold-90")]
    assert not degrees[0].equal(degrees[1])  # the graphs do differ
    x, graph = node_setup().task.data.x, node_setup().task.graph
    bare = graph.thin(torch.zeros(graph.num_entries, dtype=torch.bool))
    with torch.no_grad():  # nor do the outputs behind them, of any node
        assert result.model(x, graph).equal(result.model(x, bare))


def settings_for_nodes():
    return settings_for("node-classification")


def test_it_is_a_plain_perceptron_on_the_same_labels():
    """Trained by hand on the pseudo-labels of the run, with torch alone."""
    setup = node_setup()
    result = run(METHODS["graphlessnn"], setup, seed=5)
    labels = setup.task.supervision(result.pseudo_labels[1])
    first, _, second, _, third = layers = plain_perceptron()
    fresh = prepare(GraphLessNN(), setup, seed=5).modules[STUDENT]
    mine = torch.nn.Sequential(*layers)
    for own, given in zip((first, second, third), fresh.layers, strict=True):
        own.load_state_dict(given.state_dict())
    optimizer = torch.optim.Adam(mine.parameters(), lr=setup.pretrain.lr)
    losses = []
    for _ in range(setup.pretrain.epochs):
        optimizer.zero_grad()
        loss = F.cross_entropy(mine(setup.task.data.x)[labels.nodes], labels.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    told = [loss for stage, _, loss, _ in result.record.curves() if stage == 1]
    assert told == pytest.approx(losses, rel=1e-5)
    assert len(set(losses)) == len(losses)


def plain_perceptron():
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    return linear(9, 12), relu(), linear(12, 12), relu(), linear(12, 4)


def test_soft_targets_are_the_teachers_probabilities():
    setup = node_setup()
    recipe = prepare(GraphLessNN(soft=True), setup)
    modules = {"model": recipe.model.eval(), **recipe.modules}
    task = setup.task
    views = (recipe.curriculum[1].views[0](task.graph, Moment(0, 1, 0)),)
    update = Update(modules, STUDENT, task, views, task.supervision(), Moment(0, 1, 0))
    teacher = recipe.model(task.data.x, task.graph).softmax(1)
    student = recipe.modules[STUDENT](task.data.x)
    expected = F.cross_entropy(student[task.train], task.data.y[task.train])
    judges = set(task.validation.tolist())
    nodes = [v for v in task.graph.degree.nonzero().view(-1).tolist() if v not in judges]
    total = 0.0
    for v in nodes:
        p, q = teacher[v], student[v].softmax(0)
        total = total + (p * (p / q).log()).sum()
    torch.testing.assert_close(SoftTargets()(update), expected + total / len(nodes))
    assert not recipe.curriculum[1].pseudo_labels


def test_the_student_is_the_result_even_if_its_teacher_validates_better():
    result = run(METHODS["graphlessnn"], node_setup())
    assert result.record.winner == 1
    assert result.model is result.modules[STUDENT]
