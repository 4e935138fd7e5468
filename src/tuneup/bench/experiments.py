"""The paper's experiments: what is trained on each dataset, for how long, chosen from what.

A preset is a schedule for both stages.  "paper" is the paper's own; "short" is for a machine with
two cores: fewer epochs at a higher learning rate, with patience; link embeddings and decoder of
width 64 in place of 256, which makes the exact ranking of all pairs sixteen times as fast; and
recommenders whose weights move slowly above small embeddings, with an input for who has no edge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args

from tuneup.curriculum import Schedule
from tuneup.data import load_graph, load_pairs, split_interactions, split_nodes
from tuneup.data.edge_split import split_edges
from tuneup.errors import InputError
from tuneup.evaluation import node_settings
from tuneup.evaluation.edge_settings import RecommendationSetting, link_settings
from tuneup.methods import METHODS, Setup
from tuneup.names import Architecture, TaskName
from tuneup.nn import EncoderSpec, HadamardMLP, LinkModel, Recommender
from tuneup.tasks import NodeClassification
from tuneup.tasks.link_prediction import LinkPrediction
from tuneup.tasks.recommendation import L2, Recommendation

from .problems import Problem, SlowEncoder
from .selection import Point
from .suite import Suite

PresetName = Literal["short", "paper"]
Schedules = tuple[Schedule, Schedule]

PAPER: Mapping[TaskName, Schedules] = {
    "node-classification": (Schedule(1500, 0.001, 10), Schedule(1500, 0.001, 10)),
    "link-prediction": (Schedule(1000, 0.0001, 10), Schedule(1000, 0.0001, 10)),
    "recommendation": (
        Schedule(2000, 0.001, 10, milestones=(1000, 1500)),
        Schedule(500, 0.0001, 10),
    ),
}
SHORT: Mapping[TaskName, Schedules] = {
    "node-classification": (Schedule(300, 0.005, 4, 40), Schedule(150, 0.001, 4, 40)),
    "link-prediction": (Schedule(300, 0.005, 10, 60), Schedule(150, 0.002, 10, 50)),
    "recommendation": (
        Schedule(120, 0.01, 10, 60, milestones=(90,)),
        Schedule(250, 0.005, 10, 60),
    ),
}
SHORT_BY_DATASET: Mapping[tuple[TaskName, str], Schedules] = {
    # A fifth of Computers' edges, a quarter of CS' features: the paper's own rate is fast enough.
    ("node-classification", "dblp"): (Schedule(300, 0.001, 2, 60), Schedule(150, 0.001, 2, 40)),
}

GRAPHS = ("dblp", "Computers", "CS")
DATASETS: Mapping[TaskName, Sequence[str]] = {
    "node-classification": (*GRAPHS, "Photo", "Physics", "cora", "ogbn-arxiv", "ogbn-products"),
    "link-prediction": (*GRAPHS, "ogbn-arxiv", "flickr"),
    "recommendation": ("gowalla", "amazon-book"),
}
SMALL: Mapping[TaskName, Sequence[str]] = {
    "node-classification": GRAPHS,
    "link-prediction": GRAPHS,
    "recommendation": ("gowalla",),
}
"""What is run where no dataset is named: hours on two cores, not weeks."""

SEEDS: Mapping[TaskName, Sequence[int]] = {
    "node-classification": range(5),
    "link-prediction": range(3),
    "recommendation": range(1),
}
"""Training seeds of the short preset; the paper has five of everything."""

TRIALS: Mapping[TaskName, int] = {
    "node-classification": 6,
    "link-prediction": 3,
    "recommendation": 3,
}
"""Trainings to choose a method's settings by; rankings take their time."""

SHARED: Mapping[TaskName, Mapping[str, Sequence[float]]] = {
    "node-classification": {"dropout": (0.0, 0.5)},
    "link-prediction": {"l2": (0.0, 0.001, 0.01)},
    "recommendation": {"l2": (0.02, 0.04, 0.08)},
}
"""What Base chooses for all methods."""
SHARED_BY_ARCHITECTURE: Mapping[tuple[TaskName, str], Mapping[str, Sequence[float]]] = {
    # A mean does not shrink with the degree as GCN's product does: it takes a stronger penalty.
    ("recommendation", "sage"): {"l2": (0.12, 0.25, 0.5)},
}
_WEIGHTS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 0.1)
SHARED_PAPER: Mapping[TaskName, Mapping[str, Sequence[float]]] = {
    "node-classification": {"dropout": (0.0, 0.5)},
    "link-prediction": {"dropout": (0.0, 0.5), "l2": _WEIGHTS},
    "recommendation": {"dropout": (0.0, 0.5), "l2": _WEIGHTS},
}
"""The same with the paper's schedules, where nothing is cut short."""

VARIANTS = ("coldbrew-two-part",)
"""Methods that are run and shown when they are asked for by name."""

WIDTH = 256
STD = {"short": 0.01, "paper": 0.1}
"""Of the embeddings that recommendation starts from."""
WEIGHTS_LR = {"short": (0.003, 0.1), "paper": (1.0, 1.0)}
"""Learning rates of the weights above them, as shares of theirs, in either stage."""
EMBEDDING = {"short": 64, "paper": 256}
LABELLED = 0.02
LABELLED_BY_DATASET: Mapping[str, float] = {"ogbn-arxiv": 0.10}
WIDTH_BY_DATASET: Mapping[tuple[TaskName, str], int] = {
    ("node-classification", "ogbn-products"): 64
}
"""Both as in the paper, where products at width 64 fits into the memory of its GPU."""


def schedules(task: TaskName, dataset: str, preset: PresetName) -> Schedules:
    """Of both stages."""
    if preset == "paper":
        return PAPER[task]
    return SHORT_BY_DATASET.get((task, dataset), SHORT[task])


def shared_grid(
    task: TaskName, architecture: Architecture, preset: PresetName
) -> Mapping[str, Sequence[float]]:
    """What Base chooses from, for all methods."""
    if preset == "paper":
        return SHARED_PAPER[task]
    return SHARED_BY_ARCHITECTURE.get((task, architecture), SHARED[task])


def applicable(task: TaskName, architecture: Architecture) -> list[str]:
    """The methods that a table of this task and architecture has a row for."""
    features = task != "recommendation"
    return [
        name
        for name, method in METHODS.items()
        if name not in VARIANTS and method.refusal(task, architecture, features) is None
    ]


def node_problem(
    dataset: str, architecture: Architecture, preset: PresetName, shared: Point
) -> Problem:
    """2 % of the nodes labelled (arxiv: 10 %), half for the loss and half for validation."""
    graph = load_graph(dataset)
    labelled = LABELLED_BY_DATASET.get(dataset, LABELLED)
    split = split_nodes(graph.num_nodes, labelled=labelled, y=graph.y)
    width = WIDTH_BY_DATASET.get(("node-classification", dataset), WIDTH)
    first, second = schedules("node-classification", dataset, preset)
    setup = Setup(
        NodeClassification.from_split(graph, split),
        EncoderSpec(
            graph.num_features,
            graph.num_classes,
            architecture,
            width=width,
            dropout=shared["dropout"],
        ),
        pretrain=first,
        finetune=second,
    )
    return Problem(dataset, graph, setup, node_settings(graph, split))


def link_problem(
    dataset: str, architecture: Architecture, preset: PresetName, shared: Point
) -> Problem:
    """Half of the edges among known nodes for training; validation ranks for 500 sources."""
    graph = load_graph(dataset)
    split, width = split_edges(graph.adjacency), EMBEDDING[preset]
    first, second = schedules("link-prediction", dataset, preset)
    setup = Setup(
        LinkPrediction.from_split(graph, split, L2(output=shared["l2"])),
        EncoderSpec(
            graph.num_features,
            width,
            architecture,
            width=WIDTH,
            dropout=shared.get("dropout", 0.0),
        ),
        lambda encoder: LinkModel(encoder, HadamardMLP(width, width)),
        pretrain=first,
        finetune=second,
    )
    return Problem(dataset, graph, setup, link_settings(graph, split))


def pair_problem(
    dataset: str, architecture: Architecture, preset: PresetName, shared: Point
) -> Problem:
    """A tenth of the pairs for training, a twentieth for validation."""
    data = load_pairs(dataset)
    split = split_interactions(data)
    task = Recommendation(split.train, split.validation, L2(input=shared["l2"]))
    first, second = schedules("recommendation", dataset, preset)
    ours = preset == "short"
    setup = Setup(
        task,
        EncoderSpec(
            64,
            WIDTH,
            architecture,
            width=WIDTH,
            dropout=shared.get("dropout", 0.0),
            orthogonal=ours and architecture != "gcn",
        ),
        lambda encoder: Recommender(
            data.num_users, data.num_items, encoder, std=STD[preset], unknown=ours
        ),
        pretrain=first,
        finetune=second,
        optimizer=SlowEncoder(WEIGHTS_LR[preset][0]),
        finetune_optimizer=SlowEncoder(WEIGHTS_LR[preset][1]),
    )
    return Problem(dataset, data, setup, (RecommendationSetting(task, split),))


PROBLEMS: Mapping[TaskName, Callable[[str, Architecture, PresetName, Point], Problem]] = {
    "node-classification": node_problem,
    "link-prediction": link_problem,
    "recommendation": pair_problem,
}


def experiment(
    dataset: str,
    task: TaskName,
    architecture: Architecture,
    *,
    results: Path,
    runs: Path,
    preset: PresetName = "short",
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    budget: int | None = None,
) -> Suite:
    """All rows of one table's block; data is read when the first run needs it.

    Args:
        dataset: one of :data:`DATASETS`, for the task.
        task: what is learned.
        architecture: of the encoder.
        results: folder of all records; each task and preset has one of its own in it.
        runs: folder of checkpoints and studies.
        preset: schedules and widths.
        methods: rows, by default all that apply.
        seeds: of the training, by default the preset's.
        budget: trials to choose a method's settings by, by default :data:`TRIALS`.
    """
    _check("dataset", dataset, DATASETS[task], f" for {task}")
    _check("architecture", architecture, get_args(Architecture))
    possible = applicable(task, architecture)
    for name in methods or ():
        reason = METHODS[name].refusal(task, architecture, task != "recommendation")
        if reason is not None:
            raise InputError(reason)
    usual = SEEDS[task] if preset == "short" else range(5)
    return Suite(
        dataset,
        task,
        architecture,
        shared_grid(task, architecture, preset),
        lambda shared: PROBLEMS[task](dataset, architecture, preset, shared),
        results / (task if preset == "short" else f"{task}-{preset}"),
        runs,
        tuple(methods or possible),
        tuple(usual if seeds is None else seeds),
        TRIALS[task] if budget is None else budget,
        _described(task, dataset, preset),
    )


def _described(task: TaskName, dataset: str, preset: PresetName) -> dict[str, Any]:
    """What a record says beside what was chosen."""
    width = WIDTH_BY_DATASET.get((task, dataset), WIDTH)
    first, second = schedules(task, dataset, preset)
    common = {
        "preset": preset,
        "width": width,
        "layers": 3,
        "pretrain": asdict(first),
        "finetune": asdict(second),
    }
    labelled = LABELLED_BY_DATASET.get(dataset, LABELLED)
    width = EMBEDDING[preset]
    more: Mapping[TaskName, dict[str, Any]] = {
        "node-classification": {"labelled": labelled, "split_seed": 0},
        "link-prediction": {"embedding": width, "decoder_width": width, "split_seed": 0},
        "recommendation": {
            "embedding": 64,
            "split_seed": 0,
            "std": STD[preset],
            "weights_lr": WEIGHTS_LR[preset],
            "unknown": preset == "short",
        },
    }
    return common | more[task]


def check_request(
    datasets: Sequence[str], task: str | None, architectures: Sequence[str], preset: str
) -> None:
    """Refuse names that nothing has."""
    every = dict.fromkeys(name for names in DATASETS.values() for name in names)
    for name in datasets:
        _check("dataset", name, list(every))
    if task is not None:
        _check("task", task, get_args(TaskName))
    for name in architectures:
        _check("architecture", name, get_args(Architecture))
    _check("preset", preset, get_args(PresetName))


def _check(what: str, given: str, allowed: Sequence[str], where: str = "") -> None:
    if given not in allowed:
        raise InputError(f"{what} is one of {', '.join(allowed)}{where}; got {given!r}.")
