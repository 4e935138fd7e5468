"""NodeDup: the doubled graph, the positives of the copies, and its place in a curriculum."""

import pytest
import torch

from tests.methods.toys import link_setup
from tuneup.curriculum import full, tails
from tuneup.errors import InputError
from tuneup.methods import METHODS, prepare, run
from tuneup.methods.node_dup import NodeDupTuneUp, doubled
from tuneup.nn import Forward
from tuneup.tasks import GraphView, Moment

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
    loss = task.loss(model, view, task.supervision(), MOMENT)
    x = task.data.x[view.nodes]
    z = Forward(x, view.graph)(model.encoder, view.graph)
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
        score = model.decoder(z[source][None], torch.stack([z[target], z[negative]]))
        total = total + torch.nn.functional.softplus(score[1] - score[0])
        penalty = penalty + (z[[source, target, negative]] ** 2).sum() / 2
    count = sources.numel()
    torch.testing.assert_close(loss, total / count + task.l2.output * penalty / count)


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
    result = run(METHODS["nodedup-tuneup"], link_setup())
    assert len(result.record.stages) == 2


def test_doubling_twice_is_refused():
    graph = link_setup().task.graph
    with pytest.raises(InputError, match="takes a view of the same nodes"):
        doubled(1, doubled(1))(graph, MOMENT)
    with pytest.raises(InputError, match="delta must be 0 or more"):
        doubled(-1)
