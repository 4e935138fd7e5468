"""Small problems of all three tasks that every method can be tried on."""

from functools import cache

from tuneup.curriculum import Schedule
from tuneup.data import (
    block_graph,
    block_interactions,
    split_edges,
    split_interactions,
    split_nodes,
)
from tuneup.evaluation import RecommendationSetting, link_settings, node_settings
from tuneup.methods import Setup
from tuneup.nn import EncoderSpec, HadamardMLP, InnerProduct, Model, NodeFeatures, UserItemVectors
from tuneup.tasks import L2, LinkPrediction, NodeClassification, Recommendation

SCHEDULES = (Schedule(epochs=6, lr=0.01, validate_every=2), Schedule(epochs=4, lr=0.01))


@cache
def graph():
    return block_graph(240, 700, 4, 9, seed=3)


@cache
def node_split():
    return split_nodes(240, labelled=0.2, y=graph().y)


def node_setup(architecture="sage", dropout=0.0, prune=True, norm="none"):
    task = NodeClassification.from_split(graph(), node_split(), prune=prune)
    spec = EncoderSpec(
        9, 4, architecture, width=12, num_layers=2, dropout=dropout, norm=norm, heads=2
    )
    return Setup(task, spec, pretrain=SCHEDULES[0], finetune=SCHEDULES[1])


def link_setup(architecture="sage"):
    task = LinkPrediction.from_split(graph(), split_edges(graph().adjacency), L2(output=0.001))
    spec = EncoderSpec(9, 12, architecture, width=12, num_layers=2, heads=2)
    return Setup(
        task,
        spec,
        lambda encoder: Model(NodeFeatures(), encoder, HadamardMLP(12, 6)),
        pretrain=SCHEDULES[0],
        finetune=SCHEDULES[1],
    )


def pair_setup(architecture="gcn"):
    data = block_interactions(60, 80, 1500, 4, seed=1)
    split = split_interactions(data)
    task = Recommendation(split.train, split.validation, L2(input=0.01))
    spec = EncoderSpec(8, 8, architecture, width=8, num_layers=2, heads=2)
    return Setup(
        task,
        spec,
        lambda encoder: Model(UserItemVectors(60, 80, width=8), encoder, InnerProduct()),
        pretrain=SCHEDULES[0],
        finetune=SCHEDULES[1],
    )


SETUPS = {
    "node-classification": node_setup,
    "link-prediction": link_setup,
    "recommendation": pair_setup,
}


def settings_for(task):
    if task == "node-classification":
        return node_settings(graph(), node_split())
    if task == "link-prediction":
        return link_settings(graph(), split_edges(graph().adjacency))
    data = block_interactions(60, 80, 1500, 4, seed=1)
    return (RecommendationSetting(pair_setup().task, split_interactions(data)),)
