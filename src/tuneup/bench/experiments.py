"""The paper's experiments: what is trained on each dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

from tuneup.data import (
    Graph,
    Interactions,
    load_dataset,
    split_edges,
    split_interactions,
    split_nodes,
)
from tuneup.errors import InputError
from tuneup.methods import METHODS
from tuneup.names import Architecture, TaskName
from tuneup.train import DEFAULTS
from tuneup.train.defaults import Defaults
from tuneup.workflow import problems
from tuneup.workflow.options import FitOptions
from tuneup.workflow.problems import Problem

from .presets import (
    DATASETS,
    EMBEDDING,
    LABELLED,
    LABELLED_BY_DATASET,
    TRIALS,
    WIDTH,
    WIDTH_BY_DATASET,
    PresetName,
    applicable,
    check_name,
    folder_of,
    norm_of,
    schedules,
    seeds_of,
    shared_grid,
    starts_orthogonal,
    std_of,
    weights_lr,
)
from .selection import Point
from .suite import Suite


def node_problem(
    dataset: str,
    architecture: Architecture,
    preset: PresetName,
    shared: Point,
    labelled: float | None = None,
) -> Problem:
    """Of the ``labelled`` share (2 %, arxiv: 10 %) half is for the loss, half for validation."""
    graph = load_dataset(dataset)
    assert isinstance(graph, Graph)
    if labelled is None:
        labelled = LABELLED_BY_DATASET.get(dataset, LABELLED)
    split = split_nodes(graph.num_nodes, labelled=labelled, y=graph.y)
    width = WIDTH_BY_DATASET.get(("node-classification", dataset), WIDTH)
    options = _options(architecture, shared, width)
    defaults = _defaults("node-classification", architecture, preset)
    problem = problems.node_problem(graph, split, options, defaults=defaults)
    return _paced(problem, dataset, preset)


def link_problem(
    dataset: str, architecture: Architecture, preset: PresetName, shared: Point
) -> Problem:
    """Half of the edges among known nodes for training; validation ranks for 500 sources."""
    graph = load_dataset(dataset)
    assert isinstance(graph, Graph)
    defaults = replace(
        _defaults("link-prediction", architecture, preset),
        l2=shared["l2"],
        embedding=EMBEDDING[preset],
    )
    problem = problems.link_problem(
        graph, split_edges(graph.adjacency), _options(architecture, shared), defaults=defaults
    )
    return _paced(problem, dataset, preset)


def pair_problem(
    dataset: str, architecture: Architecture, preset: PresetName, shared: Point
) -> Problem:
    """A tenth of the pairs for training, a twentieth for validation."""
    data = load_dataset(dataset)
    assert isinstance(data, Interactions)
    defaults = replace(
        _defaults("recommendation", architecture, preset),
        l2=shared["l2"],
        embedding=64,
        orthogonal=starts_orthogonal(architecture, preset),
        std=std_of(architecture, preset),
        encoder_rates=weights_lr(architecture, preset),
        unknown=preset == "short",
    )
    problem = problems.pair_problem(
        data, split_interactions(data), _options(architecture, shared), defaults=defaults
    )
    return _paced(problem, dataset, preset)


def _options(architecture: Architecture, shared: Point, width: int = WIDTH) -> FitOptions:
    """Options of the paper's protocol."""
    return FitOptions(
        architecture,
        width,
        dropout=shared.get("dropout", 0.0),
        select="transductive",
        metric="accuracy",
    )


def _defaults(task: TaskName, architecture: Architecture, preset: PresetName) -> Defaults:
    return replace(DEFAULTS[task], norm=norm_of(task, architecture, preset))


def _paced(problem: Problem, dataset: str, preset: PresetName) -> Problem:
    """With the name of the dataset and the schedules of the preset."""
    setup = problem.setup
    first, second = schedules(setup.task_name, dataset, setup.encoder.architecture, preset)
    return replace(problem, name=dataset).scheduled(first, second)


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
    check_name("dataset", dataset, DATASETS[task], f" for {task}")
    check_name("architecture", architecture, get_args(Architecture))
    possible = applicable(task, architecture)
    for name in methods or ():
        reason = METHODS[name].refusal(task, architecture, task != "recommendation")
        if reason is not None:
            raise InputError(reason)
    return Suite(
        dataset,
        task,
        architecture,
        shared_grid(task, architecture, preset),
        lambda shared: PROBLEMS[task](dataset, architecture, preset, shared),
        folder_of(results, task, preset),
        runs,
        tuple(methods or possible),
        tuple(seeds_of(task, preset) if seeds is None else seeds),
        TRIALS[task] if budget is None else budget,
        _described(task, dataset, architecture, preset),
    )


def _described(
    task: TaskName, dataset: str, architecture: Architecture, preset: PresetName
) -> dict[str, Any]:
    """What a record says beside what was chosen."""
    width = WIDTH_BY_DATASET.get((task, dataset), WIDTH)
    first, second = schedules(task, dataset, architecture, preset)
    common = {
        "preset": preset,
        "width": width,
        "layers": 3,
        "norm": norm_of(task, architecture, preset),
        "pretrain": asdict(first),
        "finetune": asdict(second),
    }
    labelled = LABELLED_BY_DATASET.get(dataset, LABELLED)
    embedding = EMBEDDING[preset]
    more: Mapping[TaskName, dict[str, Any]] = {
        "node-classification": {"labelled": labelled, "split_seed": 0},
        "link-prediction": {"embedding": embedding, "decoder_width": embedding, "split_seed": 0},
        "recommendation": {
            "embedding": 64,
            "split_seed": 0,
            "std": std_of(architecture, preset),
            "weights_lr": weights_lr(architecture, preset),
            "unknown": preset == "short",
            "orthogonal": starts_orthogonal(architecture, preset),
        },
    }
    return common | more[task]
