"""The one-call form and the two ingredients, on PyG's own models and data."""

from dataclasses import replace
from functools import partial
from typing import ClassVar

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GraphSAGE

import tuneup
from tuneup.curriculum import base
from tuneup.data import block_graph
from tuneup.errors import InputError
from tuneup.nn import HadamardMLP, Model, NodeFeatures
from tuneup.tasks import node_task
from tuneup.train import train

BRIEF = tuneup.Schedule(epochs=4, lr=0.01)


@pytest.fixture
def data():
    graph = block_graph(300, 900, 3, 8, seed=0)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    data = Data(x=graph.x, y=graph.y, edge_index=graph.adjacency.edge_index)
    data.train_mask = torch.zeros(300, dtype=torch.bool)
    data.val_mask = torch.zeros(300, dtype=torch.bool)
    data.train_mask[order[:30]] = True
    data.val_mask[order[30:60]] = True
    return data


@pytest.mark.parametrize("make", [GraphSAGE, GAT])
def test_fit_trains_a_pyg_model_in_place(make, data):
    torch.manual_seed(0)
    model = make(8, 8, num_layers=2, out_channels=3, dropout=0.5)
    result = tuneup.TuneUp(pretrain=BRIEF, finetune=BRIEF).fit(model, data)
    assert result.model is model
    assert not model.training
    assert result.record.selection == "balanced"
    assert result.record.validation == result.record.dial.score
    assert result.record.validation >= result.record.stages[0].best_score
    hits = model(data.x, data.edge_index).argmax(1) == data.y
    chosen = result.record.dial.weights.index(result.record.weight)
    as_they_are = result.record.dial.by_ratio[0.0][chosen]
    assert float(hits[data.val_mask].float().mean()) == pytest.approx(as_they_are)
    assert result.record.stages[1].pseudo_labels == len(result.pseudo_labels[1]) > 200


def test_fit_takes_a_callback_an_optimiser_and_a_folder(data, tmp_path):
    told = []
    model = tuneup.Encoder(8, 3, width=8)
    tuneup.TuneUp(alpha=0.75, pretrain=BRIEF, finetune=BRIEF).fit(
        model,
        data,
        checkpoints=tmp_path / "run",
        callback=told.append,
        optimizer=lambda parameters, lr, decay: torch.optim.SGD(parameters, lr, weight_decay=decay),
    )
    assert [(step.stage, step.epoch) for step in told] == [
        (s, e) for s in (1, 2) for e in (1, 2, 3, 4)
    ]
    assert len([*(tmp_path / "run").glob("stage-*.safetensors")]) == 2


class Recording(torch.optim.SGD):
    seen: ClassVar[list] = []

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.seen.append(self.defaults)


def test_an_optimiser_may_be_a_class_of_torchs(data):
    """Whose third argument is often not the weight decay."""
    decaying = tuneup.Schedule(epochs=1, lr=0.01, weight_decay=0.5)
    for made in (Recording, partial(Recording, nesterov=False), torch.optim.AdamW):
        tuneup.fit(
            tuneup.Encoder(8, 3, width=8),
            data,
            pretrain=decaying,
            finetune=decaying,
            optimizer=made,
        )
    assert {(each["lr"], each["momentum"], each["weight_decay"]) for each in Recording.seen} == {
        (0.01, 0, 0.5)
    }


def adam_object(model):
    return torch.optim.Adam(model.parameters())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (lambda model: {"optimizer": adam_object(model)}, "a class like torch.optim.AdamW"),
        (lambda model: {"optimizer": "adam"}, "optimizer: got"),
        (lambda model: {"optimizer": lambda *_: None}, "it made None"),
        (
            lambda model: {"scheduler": torch.optim.lr_scheduler.StepLR(adam_object(model), 3)},
            "scheduler: got",
        ),
        (lambda model: {"alpha": "auto"}, "0.25, 0.5 and 0.75"),
    ],
)
def test_what_cannot_make_an_optimiser_is_refused(data, arguments, said):
    model = tuneup.Encoder(8, 3, width=8)
    with pytest.raises(InputError, match=said):
        tuneup.fit(model, data, **{"pretrain": BRIEF, "finetune": BRIEF, **arguments(model)})


def test_a_model_of_another_task_is_refused(data):
    links = Model(NodeFeatures(), GraphSAGE(8, 8, num_layers=2, out_channels=4), HadamardMLP(4))
    with pytest.raises(InputError, match="give the data in two parts"):
        tuneup.fit(links, data)
    for encoder in (GraphSAGE(8, 8, num_layers=2, out_channels=4), tuneup.Encoder(8, 4, width=8)):
        with pytest.raises(InputError, match="width 4, but the head reads 5"):
            Model(NodeFeatures(), encoder, HadamardMLP(5))


def test_numbers_are_numbers():
    with pytest.raises(InputError, match="lr must be a number; got 'fast'"):
        tuneup.Schedule(lr="fast")


def test_the_short_form_is_the_long_form(data):
    runs = []
    for call in (
        lambda model: tuneup.fit(model, data, alpha=0.25, seed=3),
        lambda model: tuneup.TuneUp(alpha=0.25, seed=3).fit(model, data),
    ):
        torch.manual_seed(0)
        runs.append(call(tuneup.Encoder(8, 3, width=4)))
    assert runs[0].record.curves() == runs[1].record.curves()


@pytest.mark.parametrize("name", ["train_mask", "val_mask"])
def test_a_missing_mask_is_named(name, data):
    del data[name]
    with pytest.raises(InputError, match=name):
        tuneup.fit(GraphSAGE(8, 8, num_layers=2, out_channels=3), data)


def test_masks_that_overlap_are_refused(data):
    data.val_mask = data.train_mask
    with pytest.raises(InputError, match=r"share \d+ nodes"):
        tuneup.fit(GraphSAGE(8, 8, num_layers=2, out_channels=3), data)


def test_a_wrong_alpha_is_refused_before_training(data):
    with pytest.raises(InputError, match=r"alpha .* got 2"):
        tuneup.fit(GraphSAGE(8, 8, num_layers=2, out_channels=3), data, alpha=2)


def test_ingredients_alone(data):
    drop = tuneup.DropEdge(alpha=0.5, seed=1)
    thinner = drop(data.edge_index, step=0)
    pairs = set(map(tuple, thinner.t().tolist()))
    assert {(b, a) for a, b in pairs} == pairs
    assert 0.3 < thinner.shape[1] / data.edge_index.shape[1] < 0.7
    logits = torch.randn(300, 3)
    labels = tuneup.pseudo_labels(logits, data.edge_index, data.train_mask | data.val_mask)
    assert not (data.train_mask | data.val_mask)[labels.nodes].any()
    assert torch.equal(labels.y, logits[labels.nodes].argmax(1))


def test_our_encoder_takes_an_edge_index_like_any_pyg_model(data):
    model = tuneup.Encoder(8, 3, width=8)
    tuneup.TuneUp(pretrain=BRIEF, finetune=BRIEF).fit(model, data)
    from tuneup.graph import adjacency_from

    expected = model(data.x, adjacency_from(data))
    assert torch.equal(model(data.x, data.edge_index), expected)


def test_edge_features_are_refused_not_ignored(data):
    data.edge_attr = torch.ones(data.edge_index.shape[1])
    with pytest.raises(InputError, match="has edge_attr, which would be ignored"):
        tuneup.fit(tuneup.Encoder(8, 3, width=8), data)


def test_layers_that_keep_their_graph_are_refused(data):
    """A cached normalisation would never notice that edges were dropped."""
    model = GCN(8, 8, num_layers=2, out_channels=3, cached=True)
    with pytest.raises(InputError, match="cached=True"):
        tuneup.fit(model, data)
    fine = train(model, node_task(data), base(BRIEF))  # all edges, always
    assert fine.model is model


def test_edges_that_training_leaves_out_are_told_of(data):
    loops = torch.tensor([[0, 1], [0, 1]])
    data.edge_index = torch.cat([data.edge_index, loops, data.edge_index[:, :3]], 1)
    with pytest.warns(UserWarning, match="2 self-loops and 3 repeated edges"):
        node_task(data)


def test_masks_of_several_splits_are_told_apart(data):
    data.train_mask = data.train_mask[:, None].repeat(1, 20)
    with pytest.raises(InputError, match=r"shape \[300, 20\]: choose one split") as caught:
        node_task(data)
    assert len(str(caught.value).splitlines()) == 1


def test_the_selection_and_the_result_are_the_callers(data):
    paper = tuneup.TuneUp(pretrain=BRIEF, finetune=BRIEF, select="transductive", interpolate=False)
    result = paper.fit(tuneup.Encoder(8, 3, width=8), data)
    assert result.record.selection == "transductive"
    assert result.record.dial is None
    task = replace(node_task(data), selection="cold")
    by_task = tuneup.TuneUp(pretrain=BRIEF, finetune=BRIEF).fit(tuneup.Encoder(8, 3, width=8), task)
    assert by_task.record.selection == "cold"
    with pytest.raises(InputError, match="selection must be one of"):
        tuneup.TuneUp(select="warm")


def test_the_control_trains_base_on_for_as_long(data):
    model = tuneup.Encoder(8, 3, width=8)
    result = tuneup.TuneUp(pretrain=BRIEF, finetune=BRIEF).fit(model, data, control=True)
    stage = result.control.record.stages[0]
    assert len(stage.epochs) == len(result.record.stages[1].epochs)
    assert result.control.curriculum[0].views == result.curriculum[0].views
    assert result.control.model is not model
    assert result.record.weight in result.record.dial.weights
    for name, weight in result.best().state_dict().items():
        assert torch.equal(weight, model.state_dict()[name])


def test_fit_takes_a_metric_and_class_weights(data):
    weights = torch.tensor([1.0, 2.0, 3.0])
    for options in ({"metric": "balanced-accuracy"}, {"metric": "auroc", "class_weights": weights}):
        result = tuneup.fit(
            tuneup.Encoder(8, 3, width=8), data, pretrain=BRIEF, finetune=BRIEF, **options
        )
        assert result.record.metric == result.task.metric == options["metric"]
        assert result.task.class_weights is options.get("class_weights")
    task = node_task(data)
    result = tuneup.fit(
        tuneup.Encoder(8, 3), task, metric="macro-f1", pretrain=BRIEF, finetune=BRIEF
    )
    assert (result.task.metric, task.metric) == ("macro-f1", "accuracy")
    with pytest.raises(InputError, match="metric: got 'recall'; expected one of accuracy"):
        tuneup.fit(tuneup.Encoder(8, 3), data, metric="recall")


def test_history_and_html_of_a_result(data):
    schedule = tuneup.Schedule(epochs=3, lr=0.01, validate_every=2, clip=1e-3)
    result = tuneup.fit(
        tuneup.Encoder(8, 3, width=8), data, pretrain=schedule, finetune=schedule, verbose=True
    )
    history = result.history
    assert history.columns == ["stage", "epoch", "loss", "score", "lr", "seconds"]
    assert history["stage"].to_list() == [1] * 3 + [2] * 3
    assert history["score"].is_null().to_list() == [True, False, False] * 2
    page = result._repr_html_()
    assert page.count("<tr>") == 3
    assert "best accuracy" in page


def test_clipped_gradients_have_at_most_that_norm(data):
    sgd = partial(torch.optim.SGD, lr=1.0)
    moved = {}
    for clip in (None, 1e-3, 1e9):
        torch.manual_seed(0)
        model = tuneup.Encoder(8, 3, width=8)
        before = [w.detach().clone() for w in model.parameters()]
        brief = tuneup.Schedule(epochs=1, lr=1.0, clip=clip)
        result = tuneup.fit(
            model, data, pretrain=brief, finetune=brief, optimizer=sgd, interpolate=False
        )
        after = [*result.copy(0).parameters()]
        moves = [(w - old).flatten() for w, old in zip(after, before, strict=True)]
        moved[clip] = float(torch.cat(moves).detach().norm())
    assert moved[1e-3] == pytest.approx(1e-3, rel=1e-3)
    assert moved[None] == moved[1e9] > 0.01
    for wrong in (0, -1.0, "1"):
        with pytest.raises(InputError, match="clip"):
            tuneup.Schedule(clip=wrong)


def test_a_device_is_moved_to_or_refused(data):
    model = tuneup.Encoder(8, 3, width=8)
    options = {"pretrain": BRIEF, "finetune": BRIEF}
    result = tuneup.fit(model, data, device="cpu", **options)
    assert result.model is model
    for wrong in ("abacus", "cuda:99"):
        with pytest.raises(InputError, match=f"device: got '{wrong}'"):
            tuneup.fit(model, data, device=wrong, **options)
