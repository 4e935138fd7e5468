"""Small problems that train in seconds."""

from dataclasses import replace

from tuneup.curriculum import Schedule
from tuneup.data import split_edges, split_interactions, split_nodes
from tuneup.workflow.options import FitOptions
from tuneup.workflow.problems import link_problem, node_problem, pair_problem

PRETRAIN = Schedule(epochs=200, lr=0.005, validate_every=5, patience=60)
FINETUNE = Schedule(epochs=100, lr=0.001, validate_every=5, patience=40)


def node_classification(data, architecture="sage"):
    split = split_nodes(data.num_nodes, labelled=0.02, y=data.y)
    options = FitOptions(architecture=architecture, metric="accuracy")
    return node_problem(data, split, options).scheduled(PRETRAIN, FINETUNE)


def link_prediction(data, architecture="sage"):
    options = FitOptions(architecture=architecture, width=64)
    return link_problem(data, split_edges(data.adjacency), options).scheduled(PRETRAIN, FINETUNE)


def recommendation(data, architecture="sage"):
    options = FitOptions(architecture=architecture, width=64, select="transductive")
    return pair_problem(data, split_interactions(data), options).scheduled(
        replace(PRETRAIN, lr=0.01), FINETUNE
    )
