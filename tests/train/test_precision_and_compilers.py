"""``torch.autocast`` around a whole fit, and models from ``torch.compile``."""

import shutil
import sys
from dataclasses import replace

import pytest
import torch
from torch_geometric.nn import GCN, GraphSAGE

import tuneup
from tuneup.data import block_graph, block_interactions, split_edges, split_interactions
from tuneup.errors import InputError
from tuneup.graph import identities
from tuneup.nn import (
    Classes,
    HadamardMLP,
    InnerProduct,
    LightGCN,
    Model,
    NodeFeatures,
    NodeVectors,
    UserItemVectors,
)
from tuneup.tasks import LinkPrediction, NodeClassification, Recommendation
from tuneup.train import Checkpoints
from tuneup.train.optimizers import NotFiniteError, step

# What torch says to its own compilers.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch\\.jit\\.:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

ARCHITECTURES = ["sage", "sage-max", "sage-sum", "gcn", "gat"]
BRIEF = tuneup.Schedule(epochs=8, lr=0.02)


def task():
    graph = block_graph(200, 700, 3, 8, seed=0)
    return NodeClassification(graph, torch.arange(60), torch.arange(60, 120))


def built(kind):
    torch.manual_seed(0)
    if isinstance(kind, str):
        return tuneup.Encoder(8, 3, architecture=kind, width=8, num_layers=2)
    return kind(8, 8, num_layers=2, out_channels=3)


def fit(model, problem=None):
    return tuneup.fit(model, problem or task(), pretrain=BRIEF, finetune=BRIEF)


def losses(result):
    return [epoch.loss for stage in result.record.stages for epoch in stage.epochs]


@pytest.mark.parametrize("kind", [*ARCHITECTURES, GraphSAGE, GCN], ids=str)
def test_a_fit_under_autocast_learns_as_without(kind):
    plain = losses(fit(built(kind)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model = built(kind)
        result = fit(model)
        logits = model(task().data.x, task().graph.edge_index)
        score = task().validate(model)
    # Autocast keeps casts of weights: a loop that forgets it trains without ever seeing a change.
    assert losses(result) == pytest.approx(plain, abs=0.08)
    assert plain[7] < plain[0] - 0.15
    assert score == pytest.approx(result.record.validation, abs=1e-6)
    assert logits.shape == (200, 3)
    assert all(value.dtype == torch.float32 for value in model.state_dict().values())


def link_case():
    graph = block_graph(60, 300, 3, 8, seed=0)
    torch.manual_seed(0)
    model = Model(NodeFeatures(), tuneup.Encoder(8, 8, width=8, num_layers=2), HadamardMLP(8, 8))
    return model, LinkPrediction.from_split(graph, split_edges(graph.adjacency, seed=0))


def pair_case():
    split = split_interactions(block_interactions(60, 40, 500, 3, seed=0), seed=0)
    torch.manual_seed(0)
    encoder = tuneup.Encoder(8, 8, architecture="gcn", width=8)
    model = Model(UserItemVectors(60, 40, width=8), encoder, InnerProduct())
    return model, Recommendation(split.train, split.validation, metric="recall@10")


def embedded_case():
    plain = task()
    graph = replace(plain.data, x=identities(torch.ones(200, dtype=torch.bool)))
    torch.manual_seed(0)
    encoder = tuneup.Encoder(8, 3, width=8, num_layers=2)
    problem = NodeClassification(graph, torch.arange(60), torch.arange(60, 120))
    return Model(NodeVectors(200, 8), encoder, Classes()), problem


@pytest.mark.parametrize("case", [link_case, pair_case, embedded_case])
def test_so_do_links_items_and_learned_features(case):
    plain = losses(fit(*case()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert losses(fit(*case())) == pytest.approx(plain, abs=0.08)
    assert plain[7] < plain[0] - 0.01


@pytest.fixture
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("kind", [*ARCHITECTURES, GraphSAGE, GCN], ids=str)
def test_a_compiled_model_trains_as_it_does_uncompiled(kind):
    plain = fit(built(kind))
    compiled = torch.compile(built(kind), backend="aot_eager", fullgraph=True)
    result = fit(compiled)
    assert losses(result) == pytest.approx(losses(plain), rel=1e-3, abs=1e-4)
    assert result.record.validation == pytest.approx(plain.record.validation, abs=0.02)


@pytest.mark.usefixtures("fresh_compiler")
def test_the_encoder_of_a_recommender_may_be_compiled():
    split = split_interactions(block_interactions(60, 40, 500, 3, seed=0), seed=0)
    problem = Recommendation(split.train, split.validation, metric="recall@10")

    def made(encoder):
        torch.manual_seed(0)
        return Model(UserItemVectors(60, 40, width=8), encoder, InnerProduct())

    plain = fit(made(LightGCN(2)), problem)
    compiled = fit(made(torch.compile(LightGCN(2), backend="aot_eager", fullgraph=True)), problem)
    assert losses(compiled) == pytest.approx(losses(plain), rel=1e-4)
    with pytest.raises(InputError, match="Compile or wrap the encoder inside the Model"):
        fit(torch.compile(made(LightGCN(2))), problem)


def test_a_whole_link_model_is_not_compiled():
    graph = block_graph(60, 200, 3, 8, seed=0)
    split = split_edges(graph.adjacency, seed=0)
    links = LinkPrediction.from_split(graph, split)
    model = torch.compile(Model(NodeFeatures(), built("sage"), HadamardMLP(3, 4)))
    with pytest.raises(InputError, match="Compile or wrap the encoder inside the Model"):
        fit(model, links)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("g++") is None,
    reason="inductor needs a C++ compiler with OpenMP",
)
def test_inductor_trains_as_eager_does(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    plain = fit(built("sage"))
    compiled = fit(torch.compile(built("sage")))
    assert losses(compiled) == pytest.approx(losses(plain), rel=1e-2, abs=1e-3)


@pytest.mark.parametrize("kind", ["sage", "gcn", GraphSAGE], ids=str)
def test_float16_scales_its_losses_and_resumes_exactly(kind, tmp_path):
    plain = losses(fit(built(kind)))

    class StopError(Exception):
        pass

    def stop(progress):
        if (progress.stage, progress.epoch) == (2, 5):
            raise StopError

    def half(**more):
        with torch.autocast("cpu", dtype=torch.float16):
            return tuneup.fit(built(kind), task(), pretrain=BRIEF, finetune=BRIEF, **more)

    whole = losses(half())
    assert whole == pytest.approx(plain, abs=0.08)
    store = Checkpoints(tmp_path, every=2)
    with pytest.raises(StopError):
        half(checkpoints=store, callback=stop)
    assert losses(half(checkpoints=store)) == whole


def test_a_step_that_overflows_in_float16_is_left_out():
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer, scaler = torch.optim.SGD([weight], lr=0.1), torch.amp.GradScaler("cpu")
    overflow = weight.sum() * 1e36  # times 65,536: infinite
    step(optimizer, overflow, None, scaler=scaler)
    assert weight.item() == 1.0
    assert scaler.get_scale() == 2**15
    step(optimizer, weight.sum(), None, scaler=scaler)
    assert weight.item() == pytest.approx(0.9)
    with pytest.raises(NotFiniteError, match="a gradient is not finite"):
        step(optimizer, (weight - weight.detach()).abs().sqrt().sum(), None)
