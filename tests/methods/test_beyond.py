"""Other pseudo-labels, tails of a degree, hidden targets, denser graphs and SGL: naive oracles."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from tests.methods.toys import link_setup, node_setup, pair_setup
from tuneup.curriculum import MODEL, Update, full
from tuneup.errors import InputError
from tuneup.graph import SparseMatrix, adjacency_from
from tuneup.methods import prepare
from tuneup.methods.beyond import Variant
from tuneup.methods.densify import Densify, DensifyingEncoder, nearest
from tuneup.methods.labels import SmoothedLabels, SoftLabels, WeightedLabels, probabilities
from tuneup.methods.sgl import SGL, Agreement
from tuneup.methods.spot_target import HiddenTargets, SpotTarget
from tuneup.methods.targeted import TargetDegree
from tuneup.nn import MLP
from tuneup.tasks import Moment

MOMENT = Moment(3, 1, 5)


def _teacher():
    setup = node_setup()
    return setup.task, prepare(Variant(), setup).model.eval()


@torch.no_grad()
def test_soft_and_weighted_labels_are_the_loss_that_they_say():
    task, model = _teacher()
    p, hard = probabilities(task, model).detach(), task.pseudo_labels(model)
    logits = torch.randn(task.data.num_nodes, 4)
    for labeller in (SoftLabels(), WeightedLabels()):
        labels = labeller(task, model)
        assert torch.equal(labels.nodes, hard.nodes)
        supervision = task.supervision(labels)
        found = task.cross_entropy(logits[supervision.nodes], supervision.y)
        total = 0.0
        for v in supervision.nodes.tolist():
            log_f = logits[v].log_softmax(0)
            if v in task.train:
                total -= float(log_f[task.data.y[v]])
            elif isinstance(labeller, SoftLabels):
                total -= float((p[v] * log_f).sum())
            else:
                best = int(p[v].argmax())
                total -= float(p[v, best] * log_f[best])
        assert float(found) == pytest.approx(total / len(supervision.nodes), rel=1e-5)


@torch.no_grad()
def test_smoothed_labels_equal_dense_iterations():
    task, model = _teacher()
    p = probabilities(task, model).detach().double()
    n = task.data.num_nodes
    a = torch.zeros(n, n, dtype=torch.float64)
    a[task.graph.row, task.graph.col] = 1.0
    scale = a.sum(1).clamp(min=1e-12).rsqrt() * (a.sum(1) > 0)
    s = scale[:, None] * a * scale
    truth = F.one_hot(task.data.y[task.train], 4).double()
    error = torch.zeros_like(p)
    error[task.train] = truth - p[task.train]
    spread = error.clone()
    for _ in range(50):
        spread = 0.2 * error + 0.8 * s @ spread
    mean = error[task.train].abs().sum(1).mean()
    for v in range(n):
        size = spread[v].abs().sum()
        spread[v] *= min(1.0, float(mean / size)) if size > 1e-12 else 0.0
    labels = (p + spread).clamp(min=0)
    labels[task.train] = truth
    smooth = labels.clone()
    for _ in range(50):
        smooth = 0.2 * labels + 0.8 * s @ smooth
    found = SmoothedLabels().smooth(task, p.float())
    torch.testing.assert_close(found.double(), smooth, atol=1e-5, rtol=1e-4)
    assert torch.equal(
        SmoothedLabels()(task, model).y, smooth[task.pseudo_labels(model).nodes].argmax(1)
    )


@torch.no_grad()
def test_labels_of_links_are_refused():
    setup = link_setup()
    with pytest.raises(InputError, match="soft pseudo-labels"):
        SoftLabels()(setup.task, prepare(Variant(), setup).model)


def test_nodes_keep_a_degree_uniform_up_to_k():
    star = torch.stack([torch.arange(1, 401), torch.zeros(400, dtype=torch.long)])
    graph = adjacency_from(star, 401, undirected=True)
    kept = torch.tensor(
        [int(TargetDegree(5)(graph, Moment(0, 0, t)).graph.degree[0]) for t in range(600)]
    )
    # The mean of U{0..5}; its variance, and that of 400 draws of t / 400: t (1 - t / 400).
    variance = 35 / 12 + sum(t * (1 - t / 400) for t in range(6)) / 6
    assert float(kept.double().mean()) == pytest.approx(2.5, abs=4 * math.sqrt(variance / 600))
    assert float(kept.double().var()) == pytest.approx(variance, rel=0.25)
    small = torch.stack(
        [TargetDegree(5)(graph, Moment(0, 0, t)).graph.degree[1:] for t in range(50)]
    )
    assert float(small.double().mean()) == pytest.approx(0.5, abs=0.02)  # of one edge, U{0, 1}
    again = TargetDegree(5)(graph, Moment(0, 0, 7)).graph
    assert torch.equal(again.col, TargetDegree(5)(graph, Moment(0, 0, 7)).graph.col)


def test_targets_at_tails_send_no_messages_and_only_targets_are_positives():
    task = link_setup().task
    seen = []

    class Watched(type(task)):
        def loss(self, model, view, supervision, moment):
            seen.append((view.graph, supervision))
            return torch.zeros(())

    watched = Watched(task.data, task.validation)
    edges = watched.supervision()
    update = Update(
        {MODEL: torch.nn.Identity()}, MODEL, watched, (full(task.graph, MOMENT),), edges, MOMENT
    )
    HiddenTargets(0.5, 3)(update)
    ((graph, targets),) = seen
    chosen = {tuple(edge) for edge in targets.t().tolist()}
    assert 0.3 < len(chosen) / edges.shape[1] < 0.7
    expected = set()
    for u, v in task.graph.edge_index.t().tolist():
        low = min(int(task.graph.degree[u]), int(task.graph.degree[v])) <= 3
        if not (low and (min(u, v), max(u, v)) in chosen):
            expected.add((u, v))
    assert {tuple(edge) for edge in graph.edge_index.t().tolist()} == expected


@pytest.mark.parametrize("sparse", [False, True])
def test_low_degree_nodes_hear_from_the_most_similar(sparse):
    data = link_setup().task.data
    x, graph = data.x, data.adjacency
    cosine = F.normalize(x, dim=1) @ F.normalize(x, dim=1).t()
    cosine.fill_diagonal_(-math.inf)
    low = (graph.degree <= 2).nonzero().view(-1)
    expected = {tuple(edge) for edge in graph.edge_index.t().tolist()}
    for v in low.tolist():
        expected |= {(int(u), v) for u in cosine[v].topk(3).indices}
    given = x
    if sparse:
        rows = x.to_sparse_csr()
        given = SparseMatrix(rows.crow_indices(), rows.col_indices(), rows.values(), x.shape[1])
    encoder = DensifyingEncoder(MLP(9, 4, width=4), 2, 3)
    denser = encoder.densify(given, graph)
    assert {tuple(edge) for edge in denser.edge_index.t().tolist()} == expected
    assert nearest(x, low[:0], 3).shape == (0, 3)


def test_the_contrast_is_info_nce():
    one, two = torch.randn(5, 3), torch.randn(5, 3)
    cosine = F.cosine_similarity(one[:, None], two[None], dim=2) / 0.2
    naive = -sum(math.log(float(cosine[v, v].exp() / cosine[v].exp().sum())) for v in range(5)) / 5
    assert float(Agreement(0.1, 1.0, 0.2, 5).contrast(one, two)) == pytest.approx(naive, rel=1e-5)


@torch.no_grad()
def test_sgl_adds_its_contrast_to_the_loss():
    setup = pair_setup()
    model = prepare(SGL(), setup).model
    update = Update(
        {MODEL: model},
        MODEL,
        setup.task,
        (full(setup.task.graph, MOMENT),),
        setup.task.supervision(),
        MOMENT,
    )
    plain = setup.task.loss(model, update.views[0], update.supervision, MOMENT)
    one, two = (float(Agreement(0.3, weight, 0.2, 30)(update) - plain) for weight in (1.0, 2.0))
    assert one > 0
    assert two == pytest.approx(2 * one, rel=1e-4)
    same = Agreement(0.0, 1.0, 0.2, 1)(update) - plain  # nothing dropped, nothing to tell apart
    assert float(same) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TargetDegree(0), "k: got 0"),
        (lambda: Variant(degree=0), "k: got 0"),
        (lambda: HiddenTargets(share=0.0), "share: got 0.0"),
        (lambda: SpotTarget(delta=-1), "delta: got -1"),
        (lambda: Densify(k=0), "delta and k"),
        (lambda: SGL(weight=0), "weight: got 0"),
        (lambda: SmoothedLabels(smoothing=1.0), "smoothing: got 1.0"),
    ],
)
def test_bad_settings_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()
