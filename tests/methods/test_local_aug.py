"""LocalAug: what its generator learns from, and the network with two first halves."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from tests.methods.toys import SETUPS, graph, node_setup, node_split, settings_for
from tuneup.curriculum import Schedule, Update
from tuneup.data import Graph
from tuneup.errors import InputError
from tuneup.graph import adjacency_from, sparse_features
from tuneup.graph.features import Factored, dense
from tuneup.methods import METHODS, prepare, run
from tuneup.methods.local_aug import (
    GENERATOR,
    AgreeingDraws,
    AugmentedEncoder,
    LocalAug,
    NeighbourGenerator,
    disagreement,
    generator_loss,
    is_held_out,
)
from tuneup.methods.parts import encoder_of
from tuneup.nn import EncoderSpec
from tuneup.tasks import GraphView, Moment, NodeClassification

BRIEF = LocalAug(generator=Schedule(epochs=150, lr=0.003, validate_every=25))


def test_the_generators_held_out_loss_falls():
    result = run(METHODS["localaug"], node_setup(), settings=BRIEF)
    scores = [epoch.score for epoch in result.record.stages[0].epochs if epoch.score is not None]
    assert scores[-1] > scores[1] > scores[0]
    assert result.record.winner == 1  # the generator's score is not the task's


def test_edges_of_new_nodes_reach_nothing():
    """Rewiring all of them leaves every weight as it was."""
    whole, split = graph(), node_split()
    new = torch.zeros(whole.num_nodes, dtype=torch.bool)
    new[split.new] = True
    edges = whole.adjacency.edge_index
    inside = edges[:, ~new[edges].any(0)]
    wired = torch.cartesian_prod(split.new, torch.arange(10)).t()
    other = whole.with_adjacency(
        adjacency_from(torch.cat([inside, wired], 1), whole.num_nodes, undirected=True)
    )
    states = []
    for data in (whole, other):
        setup = node_setup()
        task = NodeClassification.from_split(data, split)
        states.append(run(METHODS["localaug"], replaced(setup, task), settings=QUICK).states)
    for one, two in zip(*states, strict=True):
        assert all(one[key].equal(two[key]) for key in one)


QUICK = LocalAug(generator=Schedule(epochs=4, validate_every=2))


def replaced(setup, task):
    return replace(setup, task=task)


def test_held_out_edges_are_a_twentieth_with_both_directions():
    edges = torch.randint(300, (2, 6000), generator=torch.Generator().manual_seed(0))
    many = adjacency_from(edges, 300, undirected=True)
    every = torch.arange(many.num_entries)
    judged = is_held_out(many, every)
    assert 0.04 < float(judged.float().mean()) < 0.06
    pairs = {(int(a), int(b)) for a, b in many.edge_index[:, judged].t()}
    assert {(b, a) for a, b in pairs} == pairs


def test_held_out_edges_never_train_the_generator():
    """A graph of single edges: what the ends of those that judge are like changes nothing."""
    pairs = torch.arange(800).view(2, 400)
    x = torch.randn(800, 6, generator=torch.Generator().manual_seed(0))
    seen = adjacency_from(pairs, 800, undirected=True)
    ends = seen.edge_index[:, is_held_out(seen, torch.arange(800))].unique()
    assert 0 < len(ends) < 100
    generator = NeighbourGenerator(6, latent=3, width=8)
    gradients = []
    for shift in (0.0, 1e3):
        moved = x.index_add(0, ends, torch.full((len(ends), 6), shift))
        data = Graph(seen, moved, torch.arange(800) % 4, 4)
        task = NodeClassification(data, torch.arange(10), torch.arange(10, 20))
        update = Update({GENERATOR: generator}, GENERATOR, task, (), None, Moment(0, 0, 0))
        torch.manual_seed(1)
        loss = generator_loss(update)
        gradients.append(torch.autograd.grad(loss, list(generator.parameters())))
    assert all(one.equal(other) for one, other in zip(*gradients, strict=True))


def test_the_generators_loss_is_the_equation():
    torch.manual_seed(0)
    generator = NeighbourGenerator(5, latent=3, width=8)
    neighbour, own, noise = torch.randn(6, 5), torch.randn(6, 5), torch.randn(6, 3)
    total = 0.0
    for u, v, e in zip(neighbour, own, noise, strict=True):
        code = generator.encoder(torch.cat([u, v])[None])[0]
        mean, log_variance = code[:3], code[3:]
        latent = mean + e * log_variance.exp().sqrt()
        error = ((generator.decoder(torch.cat([latent, v])[None])[0] - u) ** 2).sum()
        normal = torch.distributions.Normal(mean, log_variance.exp().sqrt())
        prior = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
        total = total + error + torch.distributions.kl_divergence(normal, prior).sum()
    torch.testing.assert_close(generator.loss(neighbour, own, noise), total / 6)


@pytest.mark.parametrize("architecture", ["sage", "gcn", "gat", "sage-max", "sage-sum"])
def test_fed_with_x_it_is_the_network_without_a_generator(architecture, monkeypatch):
    spec = EncoderSpec(9, 4, architecture, width=8, num_layers=2, heads=2)
    torch.manual_seed(0)
    plain = AugmentedEncoder(spec, None).train()
    generator = NeighbourGenerator(9)
    drawing = AugmentedEncoder(spec, generator).train()
    drawing.load_state_dict({**drawing.state_dict(), **plain.state_dict()})
    x, edges = graph().x, graph().adjacency
    assert not torch.allclose(drawing(x, edges), plain(x, edges))
    monkeypatch.setattr(generator, "given", lambda own: lambda fixed=None: own)
    assert drawing(x, edges).equal(plain(x, edges))


def test_draws_share_the_half_that_reads_true_features():
    """Outputs and gradients are those of a pass for each draw."""
    spec = EncoderSpec(9, 4, "sage", width=8, num_layers=2)
    torch.manual_seed(0)
    encoder = AugmentedEncoder(spec, None)
    x, edges = graph().x, graph().adjacency
    left, right, bias = torch.randn(2, 240, 3), torch.randn(3, 9), torch.randn(9)
    draws = [Factored(one, right, bias) for one in left]
    together = torch.stack(encoder.with_draws(x, draws, edges))
    apart = torch.stack([encoder.with_draws(x, [dense(draw)], edges)[0] for draw in draws])
    torch.testing.assert_close(together, apart)
    weights = list(encoder.parameters())
    for one, two in zip(
        torch.autograd.grad(together.square().sum(), weights),
        torch.autograd.grad(apart.square().sum(), weights),
        strict=True,
    ):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("task", ["node-classification", "link-prediction"])
def test_an_encoder_in_a_wrapper_trains_alike(task):
    setup = SETUPS[task]("sage")
    plain, compiled = (
        run(METHODS["localaug"], replace(setup, assemble=assemble), settings=QUICK)
        for assemble in (
            setup.assemble,
            lambda encoder: setup.assemble(torch.compile(encoder, backend="eager")),
        )
    )
    one, two = ([epoch[2] for epoch in r.record.curves()] for r in (plain, compiled))
    assert one == pytest.approx(two, rel=1e-4)


def test_the_first_layer_is_two_halves_side_by_side():
    spec = EncoderSpec(9, 4, "gcn", width=8, num_layers=2)
    torch.manual_seed(0)
    encoder = AugmentedEncoder(spec, None)
    x, edges = graph().x, graph().adjacency
    (last,) = encoder.rest.convs
    assert (encoder.drawn.out_channels, encoder.true.out_channels) == (4, 4)
    drawn = torch.randn_like(x)
    h = torch.cat([encoder.drawn(drawn, edges), encoder.true(x, edges)], 1).relu()
    other = torch.randn_like(x)
    one, two = encoder.with_draws(x, [drawn, other], edges)
    torch.testing.assert_close(one, last(h, edges))
    torch.testing.assert_close(two, encoder.with_draws(x, [other], edges)[0])


def test_the_loss_is_the_equation():
    logits = torch.randn(3, 5, 4)
    p = logits.softmax(2)
    total = 0.0
    for v in range(5):
        mean = p[:, v].mean(0)
        sharp = mean**2 / (mean**2).sum()
        total += sum(((p[s, v] - sharp) ** 2).sum() for s in range(3))
    torch.testing.assert_close(disagreement(logits, 0.5), total / 15)


def test_draws_are_averaged_with_the_tasks_loss():
    setup = node_setup()
    recipe = prepare(QUICK, setup)
    model, task = recipe.model.train(), setup.task
    view, moment = GraphView(task.graph), Moment(0, 1, 0)
    modules = {"model": model, **recipe.modules}
    update = Update(modules, "model", task, (view,), task.supervision(), moment)
    torch.manual_seed(5)
    found = AgreeingDraws(3, 0.0, 0.5)(update)
    torch.manual_seed(5)
    losses = [task.loss(model, view, task.supervision(), moment) for _ in range(3)]
    torch.testing.assert_close(found, torch.stack(losses).mean())
    assert len({float(loss.detach()) for loss in losses}) == 3
    assert all(p.grad is None for p in modules[GENERATOR].parameters())


def test_evaluation_is_a_function_of_the_model_alone():
    result = run(METHODS["localaug"], node_setup(), settings=QUICK)
    setting = settings_for("node-classification")[0]
    one = setting.score(result.model).score
    torch.manual_seed(123)
    assert setting.score(result.model).score.equal(one)


def test_a_network_that_cannot_be_halved_is_refused():
    with pytest.raises(InputError, match="two layers or more and an even width; got 1 and 8"):
        AugmentedEncoder(EncoderSpec(9, 4, width=8, num_layers=1), None)
    with pytest.raises(InputError, match="draws must be 1 or more"):
        LocalAug(draws=0)


def test_sparse_features_stay_sparse_in_their_own_half():
    spec = EncoderSpec(9, 4, "gcn", width=8, num_layers=3)
    torch.manual_seed(0)
    encoder = AugmentedEncoder(spec, None)
    edges = graph().adjacency
    x = graph().x * (graph().x > 1)
    torch.testing.assert_close(encoder(sparse_features(x), edges), encoder(x, edges))
    torch.testing.assert_close(dense(sparse_features(x)), x)


@pytest.mark.parametrize("num_features", [5, 40], ids=["narrower", "wider"])
@pytest.mark.parametrize("form", [torch.Tensor.clone, sparse_features], ids=["dense", "sparse"])
def test_draws_are_the_decoders_answers(form, num_features):
    """To the latents and the nodes' own features side by side, with no gradient behind them."""
    torch.manual_seed(0)
    generator = NeighbourGenerator(num_features, latent=3, width=8)
    own = torch.randn(6, num_features).relu()
    draw = generator.given(form(own))
    for _ in range(2):
        fixed = torch.Generator().manual_seed(4)
        drawn = draw(fixed)
        latent = torch.randn(6, 3, generator=torch.Generator().manual_seed(4))
        torch.testing.assert_close(dense(drawn), generator.decoder(torch.cat([latent, own], 1)))
        assert not dense(drawn).requires_grad
    assert isinstance(drawn, Factored) == (num_features > 8)


def test_the_generators_loss_is_the_same_on_sparse_features():
    torch.manual_seed(0)
    generator = NeighbourGenerator(30, latent=3, width=8)
    pair = [torch.randn(7, 30).sub(0.8).relu() for _ in range(2)]
    noise = torch.randn(7, 3)
    losses, gradients = [], []
    for form in (torch.Tensor.clone, sparse_features):
        loss = generator.loss(*map(form, pair), noise)
        losses.append(loss)
        gradients.append(torch.autograd.grad(loss, list(generator.parameters())))
    torch.testing.assert_close(*losses)
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two)


def test_training_on_sparse_features_is_that_on_dense_ones():
    wide = torch.randn(240, 300, generator=torch.Generator().manual_seed(1)).sub(1.0).relu()
    whole = replace(graph(), x=wide)  # wider than the generator's layers: draws stay factored
    setup = node_setup()
    setup = replace(setup, encoder=replace(setup.encoder, in_channels=300))
    states = []
    for x in (wide, sparse_features(wide)):
        task = NodeClassification.from_split(replace(whole, x=x), node_split())
        result = run(METHODS["localaug"], replace(setup, task=task), settings=QUICK)
        states.append(result.states[-1])
    for key, value in states[0].items():
        torch.testing.assert_close(value, states[1][key], rtol=1e-3, atol=1e-4)


def test_a_graph_too_small_to_judge_by_is_refused():
    few = graph().with_adjacency(adjacency_from(torch.tensor([[0, 1], [1, 2]]), 240))
    task = NodeClassification(few, torch.arange(10), torch.arange(10, 20))
    with pytest.raises(InputError, match="none of the 2 edges is held out to validate"):
        run(METHODS["localaug"], replaced(node_setup(), task), settings=QUICK, callback=pytest.fail)


def test_the_networks_loss_is_the_equation():
    """Cross-entropy over three draws, and the weight times how much these three disagree."""
    setup = node_setup()
    recipe = prepare(QUICK, setup)
    encoder, task = recipe.model.train(), setup.task
    modules, view = {"model": encoder, **recipe.modules}, GraphView(task.graph)
    update = Update(modules, "model", task, (view,), task.supervision(), Moment(0, 1, 0))
    torch.manual_seed(5)
    found = AgreeingDraws(3, 0.7, 0.5)(update)
    torch.manual_seed(5)
    logits = torch.stack([encoder(task.data.x, task.graph) for _ in range(3)])
    y = task.data.y[task.train]
    plain = torch.stack([F.cross_entropy(out[task.train], y) for out in logits]).mean()
    apart = disagreement(logits, 0.5)
    assert apart > 0.001
    torch.testing.assert_close(found, plain + 0.7 * apart)


def test_links_take_a_single_draw_that_has_nothing_to_agree_with():
    asked = LocalAug(draws=2, weight=0.5, temperature=0.25)
    for task, expected in (
        ("node-classification", AgreeingDraws(2, 0.5, 0.25)),
        ("link-prediction", AgreeingDraws(1, 0.0, 0.25)),
    ):
        recipe = prepare(asked, SETUPS[task]("gcn"))
        assert recipe.curriculum[1].objective == expected
        assert encoder_of(recipe.model).draws == expected.draws


def test_evaluation_is_the_mean_over_fixed_draws():
    torch.manual_seed(0)
    generator = NeighbourGenerator(9, latent=3, width=8)
    encoder = AugmentedEncoder(EncoderSpec(9, 4, "sage", width=8, num_layers=2), generator, 3)
    x, edges = graph().x, graph().adjacency
    fixed, draw = torch.Generator().manual_seed(0), generator.given(x)
    outs = [encoder.with_draws(x, [draw(fixed)], edges)[0] for _ in range(3)]
    with torch.no_grad():
        torch.testing.assert_close(encoder.eval()(x, edges), torch.stack(outs).mean(0))
    assert not torch.allclose(outs[0], outs[1])
