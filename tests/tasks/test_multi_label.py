"""Nodes with any number of classes: labels, loss, pseudo-labels, validation and training."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import tuneup
from tests.train.broken_runs import Stop, assert_same, stop_at
from tuneup.data import Graph, block_graph, graph_from, split_nodes
from tuneup.errors import InputError
from tuneup.evaluation import evaluate, node_settings
from tuneup.metrics import MULTI_LABEL_METRICS, node_f1
from tuneup.serve import Predictor
from tuneup.tasks import GraphView, Moment, NodeClassification, PseudoLabels, task_of
from tuneup.train import Checkpoints

BLOCKS = block_graph(300, 1200, 4, 8, seed=0)
MOMENT = Moment(0, 0, 0)
BRIEF = tuneup.Schedule(epochs=30, lr=0.01)


def two_of_three() -> torch.Tensor:
    """Three labels, each on the nodes of two of the four blocks, and seven nodes without any."""
    sets = torch.tensor([[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]]).float()
    y = sets[BLOCKS.y]
    y[5:12] = -1
    return y


GRAPH = Graph(BLOCKS.adjacency, BLOCKS.x, two_of_three())
SPLIT = split_nodes(300, labelled=0.4, new=0.1, y=GRAPH.y)
TASK = NodeClassification.from_split(GRAPH, SPLIT)
WEIGHTS = torch.tensor([2.0, 0.5, 3.0])


def data_of(y):
    data = Data(x=GRAPH.x, edge_index=GRAPH.adjacency.edge_index, y=y)
    for name, nodes in (("train_mask", SPLIT.train), ("val_mask", SPLIT.validation)):
        data[name] = torch.zeros(300, dtype=torch.bool).index_fill_(0, nodes, True)
    return data


def test_labels_come_in_any_type_and_unknown_ones_as_nan():
    y = two_of_three()
    known = y[:, 0] >= 0
    nan = torch.where(known[:, None], y, torch.nan)
    for given in (y, y.long(), nan, y.double()):
        assert torch.equal(graph_from(data_of(given)).y, y)
    graph = graph_from(data_of(y.clamp(min=0).bool()))
    assert graph.multi_label
    assert graph.num_classes == 3
    assert torch.equal(graph.y, y.clamp(min=0))
    assert torch.equal(GRAPH.has_label, known)
    for wrong in (y + 1, y.clone().fill_(0.5), y[:, :1].contiguous()):
        with pytest.raises(InputError, match="one integer class per node, or a column of 0 and 1"):
            graph_from(data_of(wrong))
    half = y.clone()
    half[0, 1] = -1
    with pytest.raises(InputError, match="-1 in all columns of a node without labels"):
        Graph(GRAPH.adjacency, GRAPH.x, half)
    with pytest.raises(InputError, match=r"train holds node \d+, which has no label"):
        NodeClassification(GRAPH, torch.arange(10), torch.arange(20, 40))


@pytest.mark.parametrize("weights", [None, "balanced", WEIGHTS])
@pytest.mark.parametrize("renumbered", [False, True])
def test_the_loss_is_binary_cross_entropy_over_nodes_and_classes(weights, renumbered):
    task = replace(TASK, class_weights=weights)
    model = tuneup.Encoder(8, 3, width=8)
    logits = model(task.data.x, task.graph)
    pseudo = task.pseudo_labels(model)
    supervision = task.supervision(pseudo)
    nodes, y = supervision.nodes, supervision.y
    assert torch.equal(y[: supervision.num_true], task.data.y[task.train])
    view = GraphView(task.graph)
    if renumbered:
        order = torch.randperm(task.data.num_nodes, generator=torch.Generator().manual_seed(0))
        view = GraphView(task.graph.induce(order), order)
    factor = WEIGHTS
    if weights == "balanced":
        labels = task.data.y[task.train]
        factor = torch.stack([(column == 0).sum() / column.sum() for column in labels.T])
    p = logits[nodes].sigmoid()
    each = -((1.0 if weights is None else factor) * y * p.log() + (1 - y) * (1 - p).log())
    loss = task.loss(model, view, supervision, MOMENT)
    torch.testing.assert_close(loss, each.mean())


def test_pseudo_labels_are_decided_class_by_class():
    model = tuneup.Encoder(8, 3, width=8)
    found = TASK.pseudo_labels(model)
    p = model(TASK.data.x, TASK.graph)[found.nodes].sigmoid()
    assert torch.equal(found.y, (p > 0.5).float())
    torch.testing.assert_close(found.confidence, torch.maximum(p, 1 - p).mean(1))
    labelled = {*TASK.train.tolist(), *TASK.validation.tolist()}
    assert not labelled & {*found.nodes.tolist()}
    proposed = PseudoLabels(TASK.train, 1 - TASK.data.y[TASK.train], torch.ones(len(TASK.train)))
    supervision = TASK.supervision(proposed)
    assert torch.equal(supervision.y, TASK.data.y[TASK.train]), "true labels are never overwritten"


def test_validation_is_by_the_metric_that_is_named():
    for metric in [*MULTI_LABEL_METRICS]:
        task, model = replace(TASK, metric=metric), tuneup.Encoder(8, 3, width=8)
        logits = model(task.data.x, task.graph)[task.validation]
        expected = MULTI_LABEL_METRICS[metric](logits, task.data.y[task.validation])
        assert task.validate(model) == pytest.approx(expected)


def test_fit_learns_from_a_data_and_every_node_is_scored():
    torch.manual_seed(0)
    model, data = GraphSAGE(8, 16, num_layers=2, out_channels=3), data_of(two_of_three().long())
    before = node_f1(model(data.x, data.edge_index), GRAPH.y.clamp(min=0)).mean()
    result = tuneup.fit(
        model, data, metric="macro-f1", class_weights="balanced", pretrain=BRIEF, finetune=BRIEF
    )
    assert (result.task.metric, result.record.metric) == ("macro-f1", "macro-f1")
    assert result.task.class_weights == "balanced"
    assert result.pseudo_labels[1].y.shape[1] == 3
    scores = evaluate(model, node_settings(GRAPH, SPLIT))
    assert float(scores["transductive"].score.mean()) > float(before) + 0.2
    assert TASK.metric == task_of(data).metric == "micro-f1"


def test_what_has_no_meaning_is_refused():
    with pytest.raises(InputError, match="metric: got 'balanced-accuracy'; expected one of micro"):
        replace(TASK, metric="balanced-accuracy")
    same = torch.zeros_like(TASK.data.y)
    with pytest.raises(InputError, match="validation: got no class"):
        replace(TASK, data=replace(TASK.data, y=same), metric="auroc")
    with pytest.raises(InputError, match="class_weights"):
        replace(TASK, class_weights=torch.ones(2))
    with pytest.raises(InputError, match="one class a node"):
        TASK.temperature(tuneup.Encoder(8, 3))
    with pytest.raises(InputError, match="several classes a node"):
        Predictor(tuneup.Encoder(8, 3), GRAPH)


def test_a_run_with_several_classes_is_resumed_exactly(tmp_path):
    """Pseudo-labels of every class are stored with the run."""

    def fitted(**options):
        torch.manual_seed(0)
        model = tuneup.Encoder(8, 3, width=8, dropout=0.3)
        schedule = tuneup.Schedule(epochs=4, lr=0.01)
        data = data_of(two_of_three())
        return tuneup.fit(model, data, pretrain=schedule, finetune=schedule, **options)

    folder = Checkpoints(tmp_path, 1)
    with pytest.raises(Stop):
        fitted(checkpoints=folder, callback=stop_at(2, 2))
    whole, resumed = fitted(), fitted(checkpoints=folder)
    assert_same(resumed, whole)
    assert torch.equal(resumed.pseudo_labels[1].y, whole.pseudo_labels[1].y)
    batched = replace(TASK, batch_size=16)
    result = tuneup.fit(tuneup.Encoder(8, 3), batched, pretrain=BRIEF, finetune=BRIEF)
    assert 0 < result.record.validation <= 1
