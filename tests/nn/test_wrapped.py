"""Wrapped encoders: torch.compile and DistributedDataParallel, in a world of one process."""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tuneup.curriculum import Schedule, tuneup, without_curriculum
from tuneup.data import block_graph, block_interactions, split_edges, split_interactions
from tuneup.errors import InputError
from tuneup.graph import Adjacency, identities
from tuneup.nn import (
    Classes,
    Encoder,
    Forward,
    HadamardMLP,
    InnerProduct,
    Model,
    NodeFeatures,
    NodeVectors,
    UserItemVectors,
)
from tuneup.nn.model import unwrapped
from tuneup.tasks import LinkPrediction, NodeClassification, Recommendation
from tuneup.train import train

BRIEF = Schedule(3, lr=0.02)
STAGES = tuneup(0.5, BRIEF, BRIEF)
GRAPH = block_graph(60, 300, 3, 8, seed=0)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    place = tmp_path_factory.mktemp("world") / "store"
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def compiled(module):
    return torch.compile(module, backend="aot_eager", fullgraph=True)


def parallel(module):
    """Data-parallel, with a count of how often its gradients were reduced."""
    wrapped = DistributedDataParallel(module)
    wrapped.reduced = []

    def reduce(state, bucket):
        wrapped.reduced.append(bucket.index())
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    wrapped.register_comm_hook(None, reduce)
    return wrapped


def encoder(out=8):
    torch.manual_seed(0)
    return Encoder(8, out, width=8, num_layers=2)


def nodes(wrap):
    return wrap(encoder(3)), NodeClassification(GRAPH, torch.arange(20), torch.arange(20, 40))


def embedded(wrap):
    inner = encoder(3)
    x = identities(torch.ones(60, dtype=torch.bool))
    task = NodeClassification(replace(GRAPH, x=x), torch.arange(20), torch.arange(20, 40))
    return Model(NodeVectors(60, 8), wrap(inner), Classes()), task


def links(wrap):
    model = Model(NodeFeatures(), wrap(encoder()), HadamardMLP(8, 8))
    return model, LinkPrediction.from_split(GRAPH, split_edges(GRAPH.adjacency, seed=0))


def items(wrap):
    split = split_interactions(block_interactions(60, 40, 500, 3, seed=0), seed=0)
    inner = wrap(encoder())
    model = Model(UserItemVectors(60, 40, width=8, unknown=True), inner, InnerProduct())
    return model, Recommendation(split.train, split.validation, metric="recall@10")


def watched(made, kept):
    """The wrapper that was made, and what the module inside it is called with."""

    def wrap(module):
        module.register_forward_pre_hook(lambda inner, inputs: kept.append(type(inputs[1])))
        return made(module)

    return wrap


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("stages", [STAGES, without_curriculum(0.5, BRIEF)], ids=["two", "one"])
@pytest.mark.parametrize("case", [nodes, embedded, links, items])
def test_a_data_parallel_encoder_trains_as_the_bare_one_does(case, stages):
    """By way of the wrapper, whose hooks reduce gradients, and on the graph as it is."""
    seen, wrappers = [], []

    def wrap(module):
        wrappers.append(parallel(module))
        return wrappers[0]

    model, task = case(watched(wrap, seen))
    found = train(model, task, stages)
    bare, task = case(lambda module: module)
    expected = train(bare, task, stages)
    assert len(wrappers[0].reduced) == 3 * len(stages)
    assert seen
    assert all(issubclass(kind, Adjacency) for kind in seen)
    for ours, theirs in zip(found.record.curves(), expected.record.curves(), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6)


@pytest.mark.usefixtures("world")
def test_wrappers_may_be_stacked():
    torch._dynamo.reset()
    inner = encoder(3)
    for wrapped in (inner, compiled(inner), parallel(inner), parallel(compiled(inner))):
        assert unwrapped(wrapped) is inner
        out = Forward(GRAPH.x, GRAPH.adjacency)(wrapped, GRAPH.adjacency)
        torch.testing.assert_close(out, inner(GRAPH.x, GRAPH.adjacency))
    torch._dynamo.reset()


class Transposed(nn.Module):
    """A user's module, which asks for the sparse form by the name of its argument."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)

    def forward(self, x, adj_t):
        assert adj_t.layout == torch.sparse_csr
        return self.layer(adj_t @ x)


@pytest.mark.usefixtures("world")
def test_a_wrapped_module_of_a_user_gets_the_form_that_it_names():
    module = Transposed()
    found = Forward(GRAPH.x, GRAPH.adjacency)(parallel(module), GRAPH.adjacency)
    torch.testing.assert_close(found, module(GRAPH.x, GRAPH.adjacency.adj_t))


@pytest.mark.usefixtures("world")
def test_what_wraps_a_whole_model_is_refused():
    model, task = links(lambda module: module)
    with pytest.raises(InputError, match="wrap the encoder inside the Model, not all of it"):
        train(DistributedDataParallel(model), task, STAGES)


@pytest.mark.usefixtures("world")
def test_the_width_of_a_wrapped_encoder_is_known():
    with pytest.raises(InputError, match="embeddings of width 8, but the head reads 5"):
        Model(NodeFeatures(), parallel(encoder()), HadamardMLP(5))
