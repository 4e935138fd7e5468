"""What is trained on each dataset: the paper's problems, and those of a user's own tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import polars as pl

from tuneup.curriculum import Schedule
from tuneup.data import (
    Graph,
    Interactions,
    load_dataset,
    split_edges,
    split_interactions,
    split_nodes,
)
from tuneup.errors import InputError
from tuneup.names import Architecture, TaskName
from tuneup.tables import Shares, TableRequest, read_tables
from tuneup.train import DEFAULTS
from tuneup.workflow.fit import Loaded
from tuneup.workflow.options import FitOptions
from tuneup.workflow.problems import (
    Problem,
    link_problem,
    node_problem,
    pair_problem,
)

from .presets import (
    DATASETS,
    EMBEDDING,
    LABELLED,
    LABELLED_BY_DATASET,
    WIDTH,
    WIDTH_BY_DATASET,
    PresetName,
    norm_of,
    recommender,
    schedules,
)
from .store import Point

TABLES = ("csv", "tsv", "parquet")
SCHEDULE = (
    "epochs",
    "lr",
    "validate_every",
    "patience",
    "milestones",
    "gamma",
    "weight_decay",
)
"""Fields of a schedule that are part of every run's id."""
NEW = 0.05
"""Share of a user's nodes that are held out as new ones."""


def problem_of(
    task: TaskName,
    dataset: str,
    architecture: Architecture,
    preset: PresetName,
    shared: Point,
    study: str = "paper",
) -> Problem:
    """The problem of a cell, with what Base chose for all methods.

    Of labelled nodes half are for the loss, half for validation; of edges among known nodes half
    are for training; of pairs a tenth is for training and a twentieth for validation.  A folder of
    tables is read, split and modelled as ``tuneup fit`` does.
    """
    plans = schedules(task, dataset, architecture, preset)
    if is_tables(dataset):
        options = FitOptions(architecture, select="transductive", **shared)
        return loaded_tables(dataset).problem(options).scheduled(*plans)
    data = load_dataset(dataset)
    options = FitOptions(
        architecture,
        WIDTH_BY_DATASET.get((task, dataset), WIDTH),
        dropout=shared.get("dropout", 0.0),
        select="transductive",
        metric="accuracy" if task == "node-classification" else None,
    )
    norm = norm_of(task, architecture, preset)
    defaults = replace(DEFAULTS[task], architecture=architecture, norm=norm)
    if task == "node-classification":
        assert isinstance(data, Graph)
        share = labelled_share(dataset, study)
        split = split_nodes(data.num_nodes, labelled=share, y=data.y)
        problem = node_problem(data, split, options, defaults=defaults)
    elif task == "link-prediction":
        assert isinstance(data, Graph)
        defaults = replace(defaults, l2=shared["l2"], embedding=EMBEDDING[preset])
        problem = link_problem(data, split_edges(data.adjacency), options, defaults=defaults)
    else:
        assert isinstance(data, Interactions)
        own = recommender(architecture, preset)
        rates = own.pop("weights_lr")
        defaults = replace(defaults, l2=shared["l2"], embedding=64, encoder_rates=rates, **own)
        problem = pair_problem(data, split_interactions(data), options, defaults=defaults)
    return replace(problem, name=dataset).scheduled(*plans)


def is_tables(dataset: str) -> bool:
    """Whether a dataset is a folder with a table of edges."""
    return _table(dataset, "edges") is not None


@cache
def loaded_tables(dataset: str) -> Loaded:
    """A folder with ``edges`` and perhaps ``nodes`` as CSV, TSV or Parquet.

    Columns ``user`` and ``item`` are recommendation, a column ``label`` of the nodes is node
    classification, all else is link prediction.
    """
    edges, nodes = _table(dataset, "edges"), _table(dataset, "nodes")
    if edges is None:
        endings = ", ".join(TABLES)
        raise InputError(
            f"--dataset: {dataset} is no folder of tables: expected {dataset}/edges with the "
            f"ending {endings}. Names of datasets: tuneup datasets."
        )
    (task,) = tasks_of(dataset)
    files = ((str(edges),), (str(nodes),) if nodes and task != "recommendation" else ())
    tables = read_tables(TableRequest(*files, task=task, ignore_weights=True))
    return Loaded.of(tables, Shares() if task == "recommendation" else Shares(new=NEW), 0)


def tasks_of(dataset: str) -> list[TaskName]:
    """What can be run on a dataset; a folder says it by its columns."""
    if is_tables(dataset):
        edges, nodes = _table(dataset, "edges"), _table(dataset, "nodes")
        assert edges is not None
        if {"user", "item"} <= _columns(edges):
            return ["recommendation"]
        labelled = nodes is not None and "label" in _columns(nodes)
        return ["node-classification" if labelled else "link-prediction"]
    return [task for task in get_args(TaskName) if dataset in DATASETS[task]]


def _table(dataset: str, name: str) -> Path | None:
    paths = (Path(dataset) / f"{name}.{ending}" for ending in TABLES)
    return next((path for path in paths if path.is_file()), None)


def _columns(path: Path) -> set[str]:
    if path.suffix == ".parquet":
        return set(pl.read_parquet_schema(path))
    with path.open(encoding="utf-8") as file:
        separator = "\t" if path.suffix == ".tsv" else ","
        return {name.strip().strip('"') for name in file.readline().split(separator)}


def config_of(
    task: TaskName, dataset: str, architecture: Architecture, preset: PresetName, study: str
) -> dict[str, Any]:
    """Everything that decides a run beside seed and settings, as the store has it."""
    first, second = schedules(task, dataset, architecture, preset)
    plans = {"preset": preset, "pretrain": _facts(first), "finetune": _facts(second)}
    if is_tables(dataset):
        return {**plans, "tables": True, "new": NEW, "split_seed": 0}
    common = {
        **plans,
        "width": WIDTH_BY_DATASET.get((task, dataset), WIDTH),
        "layers": 3,
        "norm": norm_of(task, architecture, preset),
        "split_seed": 0,
    }
    embedding = EMBEDDING[preset]
    more: Mapping[TaskName, dict[str, Any]] = {
        "node-classification": {"labelled": labelled_share(dataset, study)},
        "link-prediction": {"embedding": embedding, "decoder_width": embedding},
        "recommendation": {"embedding": 64, **recommender(architecture, preset)},
    }
    return common | more[task]


def _facts(schedule: Schedule) -> dict[str, Any]:
    """A schedule; fields that it got since the first runs count where they are used."""
    plain, default = asdict(schedule), asdict(Schedule())
    return {name: v for name, v in plain.items() if name in SCHEDULE or v != default[name]}


def labelled_share(dataset: str, study: str) -> float:
    """Of the nodes, for training and validation; the study ``labels`` has five times as many."""
    return 0.1 if study == "labels" else LABELLED_BY_DATASET.get(dataset, LABELLED)
