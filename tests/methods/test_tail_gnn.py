"""Tail-GNN: its loss by the equation, its adversary, and Base where it has no tails."""

import pytest
import torch
import torch.nn.functional as F

from tests.methods.toys import SETUPS, node_setup, settings_for
from tuneup.curriculum import Update
from tuneup.errors import InputError
from tuneup.methods import METHODS, prepare, run
from tuneup.methods.parts import PrecomputedEncoder, encoder_of, with_encoder
from tuneup.methods.tail_gnn import DISCRIMINATOR, DiscriminatorLoss, Passes, TailGNN, TailLoss
from tuneup.nn.tail import receive, send
from tuneup.tasks import GraphView, Moment

TAIL, BASE = METHODS["tail-gnn"], METHODS["base"]


@pytest.mark.parametrize("task", SETUPS)
@pytest.mark.parametrize("architecture", ["sage", "gcn"])
def test_without_tails_and_weights_it_is_base(task, architecture):
    """K = 0, eta = mu = 0: curves, weights and scores of Base, bit for bit.

    Base computes all nodes here: what it skips otherwise only changes the order of additions.
    """
    whole = {"prune": False} if task == "node-classification" else {}
    setup = SETUPS[task](architecture, **whole)
    base = run(BASE, setup, seed=6)
    tail = run(TAIL, setup, settings=TailGNN(0, 0.0, 0.0), seed=6)
    assert base.record.curves() == tail.record.curves()
    for key, value in base.states[0].items():
        inner = f"encoder.{key}"
        assert value.equal(tail.states[0][inner if inner in tail.states[0] else key])
    for setting in settings_for(task):
        assert setting.score(base.model).score.equal(setting.score(tail.model).score)


def update_of(settings, setup):
    recipe = prepare(settings, setup)
    task, moment = setup.task, Moment(0, 0, 7)
    views = tuple(view(task.graph, moment) for view in recipe.curriculum[0].views)
    modules = {"model": recipe.model, **recipe.modules}
    return Update(modules, "model", task, views, task.supervision(), moment)


def test_the_loss_is_the_equation():
    setup = node_setup("sage")
    update = update_of(TailGNN(4, 0.3, 0.05), setup)
    task, judge = setup.task, update.modules[DISCRIMINATOR]
    encoder = update.modules["model"].encoder
    whole, forged = (view.graph for view in update.views)
    heads = task.graph.degree > 4
    assert (forged.rowptr.diff()[heads] <= 4).all()
    z_head, missing = encoder.head_pass(task.data.x, whole, torch.arange(whole.num_nodes))
    z_tail = encoder(task.data.x, forged)
    y = task.data.y[task.train]
    expected = (F.cross_entropy(z_head[task.train], y) + F.cross_entropy(z_tail[task.train], y)) / 2
    fooled = -torch.log(1 - torch.sigmoid(judge(z_tail[heads]))).mean()
    norms = sum(m[heads].square().sum(1).sqrt().mean() for m in missing)
    expected = expected - 0.3 * fooled + 0.05 * norms
    torch.testing.assert_close(TailLoss(Passes(4, 0.05), 0.3)(update), expected)


def test_the_adversary_tells_heads_from_their_forged_selves():
    setup = node_setup("gcn")
    update = update_of(TailGNN(4), setup)
    model, judge = update.modules["model"], update.modules[DISCRIMINATOR]
    own = Update({**update.modules}, DISCRIMINATOR, *(getattr(update, n) for n in REST))
    heads = setup.task.graph.degree > 4
    z = model.encoder.head_pass(setup.task.data.x, update.views[0].graph)[0][heads]
    forged = model(setup.task.data.x, update.views[1].graph)[heads]
    right = torch.log(torch.sigmoid(judge(z))).mean()
    wrong = torch.log(1 - torch.sigmoid(judge(forged))).mean()
    loss = DiscriminatorLoss(Passes(4, 0.0))(own)
    torch.testing.assert_close(loss, -(right + wrong) / 2)
    loss.backward()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_forged_pass_has_negatives_of_its_own():
    setup = SETUPS["link-prediction"]("gcn")
    update = update_of(TailGNN(4, 0.0, 0.0), setup)
    task, model = setup.task, update.modules["model"]
    encoder, x = model.encoder, task.data.x
    outputs = encoder.head_pass(x, update.views[0].graph)[0], encoder(x, update.views[1].graph)
    both = []
    for stage in (0, 1 << 20):
        moment = update.moment._replace(stage=stage)
        answered = [with_encoder(model, PrecomputedEncoder(z)) for z in outputs]
        both.append([task.loss(m, update.views[0], update.supervision, moment) for m in answered])
    torch.testing.assert_close(TailLoss(Passes(4, 0.0), 0.0)(update), (both[0][0] + both[1][1]) / 2)
    assert not torch.isclose(both[0][1], both[1][1])


def test_an_update_runs_either_pass_once():
    """Both steps of the adversary and the model's own read the same outputs."""
    setup = node_setup("gcn", norm="batch")
    update = update_of(TailGNN(4), setup)
    model = update.modules["model"].train()
    own = Update({**update.modules}, DISCRIMINATOR, *(getattr(update, n) for n in REST))
    passes = Passes(4, 0.01)
    adversary = DiscriminatorLoss(passes)
    first, second = adversary(own), adversary(own)
    assert first.equal(second)
    second.backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    TailLoss(passes, 0.1)(update).backward()
    assert all(parameter.grad is not None for parameter in model.encoder.parameters())
    assert not passes._cache
    counts = [v for k, v in model.state_dict().items() if k.endswith("num_batches_tracked")]
    assert counts
    assert all(count == 2 for count in counts)


def test_the_loss_is_of_the_weights_as_they_are():
    """What the adversary looked at is taken once; nothing outlives the update."""
    setup = node_setup("sage")
    update = update_of(TailGNN(4), setup)
    own = Update({**update.modules}, DISCRIMINATOR, *(getattr(update, n) for n in REST))
    passes = Passes(4, 0.01)
    with torch.no_grad():
        DiscriminatorLoss(passes)(own)
    first = TailLoss(passes, 0.1)(update)
    first.backward()
    with torch.no_grad():
        for parameter in update.modules["model"].parameters():
            parameter *= 0.5
    second = TailLoss(passes, 0.1)(update)
    assert not second.isclose(first)
    second.backward()


def test_without_forging_and_weights_its_loss_is_that_of_two_plain_passes():
    """Through the passes themselves, with the whole graph in the place of the forged one.

    The heads' pass is Base's own encoder, the other treats nodes by their degree; eta = mu = 0.
    """
    setup = node_setup("sage")
    update = update_of(TailGNN(4, 0.0, 0.0), setup)
    whole = Update(update.modules, "model", update.task, (update.views[0],) * 2, *rest_of(update))
    task, graph = setup.task, update.views[0].graph
    heads = graph.degree > 4
    loss = TailLoss(Passes(4, 0.0), 0.0)(whole)
    tail = update.modules["model"].encoder
    z_head = tail.head_pass(task.data.x, graph)[0]
    base = tail.encoder(task.data.x, graph)
    torch.testing.assert_close(z_head, base)
    y = task.data.y[task.train]
    mixed = update.modules["model"](task.data.x, graph)
    expected = (F.cross_entropy(base[task.train], y) + F.cross_entropy(mixed[task.train], y)) / 2
    torch.testing.assert_close(loss, expected)
    assert heads.any()


def rest_of(update):
    return update.supervision, update.moment


REST = ("task", "views", "supervision", "moment")


def test_the_adversary_learns_in_two_steps_an_update():
    setup = node_setup()
    before = prepare(TAIL.settings, setup).modules[DISCRIMINATOR].state_dict()
    result = run(TAIL, setup)
    after = result.modules[DISCRIMINATOR].state_dict()
    assert not any(before[key].equal(after[key]) for key in before)
    (extra,) = result.curriculum[0].extra_steps
    assert extra.repeats == 2
    assert not run(TAIL, setup, settings=TailGNN(eta=0.0)).curriculum[0].extra_steps


def test_prediction_treats_nodes_by_their_degree_in_the_graph_at_hand():
    """A node that lost its edges is a tail there, whatever it was in training."""
    setup = node_setup("gcn")
    model = prepare(TailGNN(3), setup).model.eval().encoder
    x, graph = setup.task.data.x, setup.task.graph
    heads = graph.degree > 3
    mixed, head = model(x, graph), model.head_pass(x, graph)[0]
    near_tail = torch.zeros_like(heads)
    near_tail[graph.row[~heads[graph.col]]] = True
    far = heads & ~near_tail  # two layers: no tail within reach of the second one's input
    torch.testing.assert_close(mixed[far], head[far])
    assert not torch.isclose(mixed[~heads], head[~heads]).all()


def test_a_graph_without_heads_trains_like_base_and_its_adversary_rests():
    setup = node_setup()
    update = update_of(TailGNN(1000), setup)
    loss = TailLoss(Passes(1000, 0.1), 0.1)(update)
    view = GraphView(setup.task.graph)
    plain = setup.task.loss(update.trained, view, update.supervision, update.moment)
    torch.testing.assert_close(loss, plain)
    result = run(TAIL, setup, settings=TailGNN(1000))
    before = prepare(TailGNN(1000), setup).modules[DISCRIMINATOR].state_dict()
    after = result.modules[DISCRIMINATOR].state_dict()
    assert all(before[key].equal(after[key]) for key in before)


def test_negative_settings_are_refused():
    with pytest.raises(InputError, match="must not be negative"):
        TailGNN(eta=-0.1)


@pytest.mark.parametrize("architecture", ["sage", "sage-sum", "gcn"])
def test_tails_are_the_nodes_of_degree_up_to_k(architecture):
    """Those of degree K are given what they miss, those of K + 1 are not; in either way to ask."""
    setup = node_setup(architecture)
    model = prepare(TailGNN(3), setup).model.eval().encoder
    x, graph = setup.task.data.x, setup.task.graph
    assert {3, 4} <= set(graph.degree.tolist())
    tails, h = (graph.degree <= 3).nonzero().view(-1), x
    for k, (conv, lack) in enumerate(zip(model.encoder.convs, model.lacks, strict=True)):
        h = model.encoder.between(k - 1, h) if k else h
        h, _ = receive(conv, lack, send(conv, h), graph, tails, added=True)
    torch.testing.assert_close(model(x, graph), h)
    torch.testing.assert_close(model.both_passes(x, graph, graph)[2], h)


def test_beside_learned_inputs_the_missing_begins_without_a_translation():
    for task in SETUPS:
        encoder = encoder_of(prepare(TAIL.settings, SETUPS[task]("gcn")).model)
        for lack in encoder.lacks:
            begins = [bool(p.count_nonzero()) for p in lack.parameters()]
            assert begins == [task != "recommendation"] * 3
