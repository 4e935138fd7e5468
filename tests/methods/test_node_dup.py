"""NodeDup: the doubled graph, the positives of the copies, and its place in a curriculum."""

from dataclasses import replace

import pytest
import torch

from tests.methods.toys import link_setup
from tuneup.curriculum import MODEL, Update, full, tails
from tuneup.data import Graph
from tuneup.errors import InputError
from tuneup.graph import adjacency_from
from tuneup.methods import METHODS, prepare, run
from tuneup.methods.node_dup import (
    DoublingEncoder,
    NodeDup,
    NodeDupTuneUp,
    doubled,
    loss_on_copies,
)
from tuneup.methods.parts import PrecomputedEncoder
from tuneup.nn import Forward
from tuneup.tasks import GraphView, LinkPrediction, Moment

MOMENT = Moment(0, 0, 3)


@pytest.mark.parametrize("under", [full, tails(0.5)])
def test_low_degree_nodes_get_a_copy_that_knows_only_them(under):
    graph = link_setup().task.graph
    seen, view = under(graph, MOMENT).graph, doubled(1, under)(graph, MOMENT)
    low = [v for v in range(graph.num_nodes) if graph.degree[v] <= 1]  # whatever `under` drops
    assert view.nodes.tolist() == [*range(graph.num_nodes), *low]
    assert view.extra.tolist() == [low, [graph.num_nodes + k for k in range(len(low))]]
    edges = {tuple(edge) for edge in seen.edge_index.t().tolist()}
    for one, other in view.extra.t().tolist():
        edges |= {(one, other), (other, one)}
    assert {tuple(edge) for edge in view.graph.edge_index.t().tolist()} == edges
    assert view.graph.undirected


def test_the_loss_is_bpr_with_the_copies_positives():
    """Against a loop over triples; a copy's negatives are legal for the node itself."""
    setup = link_setup()
    task, model = setup.task, prepare(METHODS["nodedup"].settings, setup).model
    view = doubled(2)(task.graph, MOMENT)
    loss = loss_on_copies(Update({MODEL: model}, MODEL, task, (view,), task.supervision(), MOMENT))
    x = task.data.x[view.nodes]
    z = Forward(x, view.graph)(model.encoder.encoder, view.graph)
    edges = torch.cat([task.supervision(), view.extra], 1)
    sources = edges.flatten()
    negatives = task._sampler.draw(view.nodes[sources], MOMENT)
    neighbours = [set() for _ in range(task.graph.num_nodes)]
    for one, other in task.graph.edge_index.t().tolist():
        neighbours[one].add(other)
    total, penalty = 0.0, 0.0
    for k, source in enumerate(sources.tolist()):
        target, negative = int(edges.flip(0).flatten()[k]), int(negatives[k])
        origin = int(view.nodes[source])
        assert negative != origin
        assert negative not in neighbours[origin]
        score = model.head(z[source][None], torch.stack([z[target], z[negative]]))
        total = total + torch.nn.functional.softplus(score[1] - score[0])
        penalty = penalty + (z[[source, target, negative]] ** 2).sum() / 2
    count = sources.numel()
    torch.testing.assert_close(loss, total / count + task.l2.output * penalty / count)


@pytest.mark.parametrize("architecture", ["sage", "sage-max", "sage-sum", "gcn", "gat"])
def test_what_is_predicted_on_has_copies_too(architecture):
    """Edge by edge: whoever has few edges in the graph at hand has a copy, as node 0 has here."""
    task, plain = link_setup().task, link_setup(architecture).encoder.build().eval()
    kept = [edge for edge in task.graph.edge_index.t().tolist() if 0 not in edge]  # 0 is isolated
    count, nodes = task.graph.num_nodes, list(range(task.graph.num_nodes))
    copies = [v for v in nodes if sum(1 for one, _ in kept if one == v) <= 2]
    assert 0 in copies
    assert 0 < len(copies) < count
    doubled_edges = [*kept]
    for number, node in enumerate(copies):
        doubled_edges += [[node, count + number], [count + number, node]]
    whole = adjacency_from(torch.tensor(doubled_edges).t(), count + len(copies), undirected=True)
    expected = plain(task.data.x[nodes + copies], whole)[:count]
    seen = torch.tensor(kept).t()
    model = DoublingEncoder(plain, 2)
    torch.testing.assert_close(model(task.data.x, seen), expected)
    assert not torch.allclose(plain(task.data.x, seen), expected)


def test_validation_is_of_the_doubled_graph():
    task = link_setup().task
    model = prepare(NodeDup(delta=1), link_setup()).model
    seen = task.graph.edge_index
    z = DoublingEncoder(model.encoder.encoder, 1)(task.data.x, seen)
    answered = prepare(METHODS["base"].settings, link_setup()).model
    answered.head, answered.encoder = model.head, PrecomputedEncoder(z)
    plain = prepare(METHODS["base"].settings, link_setup()).model
    plain.head, plain.encoder = model.head, model.encoder.encoder
    assert task.validate(model) == task.validate(answered) != task.validate(plain)


def test_without_a_low_degree_node_it_is_base_to_the_last_bit():
    around = torch.arange(20)
    ring = adjacency_from(torch.stack([around, around.roll(1)]), 20, undirected=True)
    x = torch.randn(20, 9, generator=torch.Generator().manual_seed(0))
    task = LinkPrediction(Graph(ring, x), torch.tensor([[0, 3], [9, 15]]), metric="recall@2")
    setup = replace(link_setup(), task=task)
    ours = run(METHODS["nodedup"], setup, settings=NodeDup(delta=1))
    base = run(METHODS["base"], setup)
    assert [epoch.loss for epoch in ours.record.stages[0].epochs] == [
        epoch.loss for epoch in base.record.stages[0].epochs
    ]
    for one, other in zip(ours.model.parameters(), base.model.parameters(), strict=True):
        assert torch.equal(one, other)
    around = task.graph.edge_index
    assert torch.equal(ours.model.encoder(x, around), base.model.encoder(x, around))


def test_a_view_that_hides_nodes_is_refused():
    setup = link_setup()
    graph = setup.task.graph
    nodes = torch.arange(graph.num_nodes - 1)
    view = GraphView(graph.induce(nodes), nodes)
    model = prepare(METHODS["base"].settings, setup).model
    with pytest.raises(InputError, match=f"must show every node; {graph.num_nodes - 1} is missing"):
        setup.task.loss(model, view, setup.task.supervision(), MOMENT)


def test_the_composition_with_tuneup_is_a_line():
    recipe = prepare(NodeDupTuneUp(1, 0.25), link_setup())
    assert [stage.views for stage in recipe.curriculum] == [
        (doubled(1),),
        (doubled(1, tails(0.25)),),
    ]
    assert recipe.model.encoder.delta == 1
    result = run(METHODS["nodedup-tuneup"], link_setup())
    assert len(result.record.stages) == 2


@pytest.mark.parametrize("settings", [NodeDup(1), NodeDupTuneUp(1)])
def test_no_stage_doubles_a_view_that_is_doubled(settings):
    stages = prepare(settings, link_setup()).curriculum
    assert [stage.objective for stage in stages] == [loss_on_copies] * len(stages)


def test_doubling_twice_is_refused():
    graph = link_setup().task.graph
    with pytest.raises(InputError, match="takes a view of the same nodes"):
        doubled(1, doubled(1))(graph, MOMENT)
    with pytest.raises(InputError, match="delta must be 0 or more"):
        doubled(-1)
