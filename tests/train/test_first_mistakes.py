"""What someone who has just opened the documentation gets wrong first, and what they are told."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import tuneup
from tuneup.curriculum import Schedule, Stage, full
from tuneup.data import demo_data
from tuneup.errors import InputError
from tuneup.evaluation import evaluate, paired_gain
from tuneup.metrics import NodeScores
from tuneup.train import train

from .toy import small_task

BRIEF = Schedule(epochs=2)


def sage():
    return GraphSAGE(8, 8, 2, 3)


@pytest.fixture(scope="module")
def task():
    return small_task()


def test_one_stage_is_not_a_curriculum(task):
    with pytest.raises(InputError, match=r"tuple of stages: write \(stage,\) for one"):
        train(sage(), task, Stage(schedule=BRIEF))


def test_a_class_is_not_a_model(task):
    with pytest.raises(InputError, match=r"must be a torch.nn.Module; got <class"):
        train(nn.Linear, task, (Stage(schedule=BRIEF),))


def test_a_model_without_parameters(task):
    with pytest.raises(InputError, match="The model has no parameter that could be trained"):
        train(nn.Identity(), task, (Stage(schedule=BRIEF),))


def test_a_forward_that_takes_a_data(task):
    class TakesData(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 3)

        def forward(self, data):
            return self.lin(data.x)

    message = r"TakesData.forward\(data\) must take \(x, edge_index\)"
    with pytest.raises(InputError, match=message):
        train(TakesData(), task, (Stage(schedule=BRIEF),))


def test_a_view_that_returns_a_graph(task):
    @dataclass(frozen=True)
    class Mine:
        def __call__(self, graph, moment):
            return graph

    with pytest.raises(InputError, match=r"must return a tuneup.tasks.GraphView; got a Adjacency"):
        train(sage_for(task), task, (Stage(views=(Mine(),), schedule=BRIEF),))


def sage_for(task):
    return GraphSAGE(task.data.num_features, 8, 2, task.data.num_classes)


def test_a_result_prints_in_a_line(task):
    result = train(sage_for(task), task, (Stage(schedule=BRIEF), Stage(schedule=BRIEF)))
    text = repr(result)
    assert text.startswith("Result(stage ")
    assert "stage 2: 2 epochs, best 0." in text
    assert "\n" not in text
    assert len(text) < 250


def test_settings_are_what_is_evaluated(task):
    with pytest.raises(InputError, match=r"takes what node_settings\(graph, split\) makes"):
        evaluate(sage_for(task), demo_data())


def test_a_gain_of_two_single_runs():
    nodes = torch.arange(4)
    one = NodeScores("inductive", "accuracy", nodes, nodes, torch.tensor([0.0, 1.0, 0.0, 1.0]))
    two = NodeScores("inductive", "accuracy", nodes, nodes, torch.ones(4))
    assert paired_gain(one, two) == paired_gain([one], [two])


def test_pseudo_labels_of_what_are_no_scores():
    edges, known = torch.tensor([[0, 1], [1, 0]]), torch.tensor([True, False])
    with pytest.raises(InputError, match="known must be a boolean mask over the 2 nodes; got None"):
        tuneup.pseudo_labels(torch.rand(2, 3), edges, None)
    with pytest.raises(InputError, match=r"class scores \[N, K\], floating point; got torch.int64"):
        tuneup.pseudo_labels(torch.tensor([1, 2]), edges, known)
    with pytest.raises(InputError, match="logits of node 1 are not all finite"):
        tuneup.pseudo_labels(torch.tensor([[1.0, 2.0], [torch.nan, 1.0]]), edges, known)


def test_edges_that_are_no_integers():
    with pytest.raises(InputError, match=r"edge_index must hold integers; got torch.float32"):
        tuneup.DropEdge()(torch.rand(2, 5), step=0)


def test_a_number_in_place_of_a_schedule():
    with pytest.raises(InputError, match="finetune must be a Schedule; got 40"):
        tuneup.TuneUp(finetune=40)


def test_a_mask_of_nothing():
    data = demo_data()
    data.val_mask[:] = False
    with pytest.raises(InputError, match=r"Data.val_mask marks no node at all"):
        tuneup.fit(sage(), data)


def test_a_graph_in_adj_t():
    data = demo_data()
    edges = Data(x=data.x, y=data.y, train_mask=data.train_mask, val_mask=data.val_mask)
    edges.adj_t = torch.eye(3).to_sparse()
    with pytest.raises(InputError, match="has adj_t but no edge_index"):
        tuneup.fit(sage(), edges)


def test_a_star_import_leaves_the_package_in_place():
    names = {}
    exec("import tuneup\nfrom tuneup.curriculum import *", names)
    assert names["tuneup"] is tuneup
    assert names["full"] == full
    assert set(dir(tuneup)) == set(tuneup.__all__)
