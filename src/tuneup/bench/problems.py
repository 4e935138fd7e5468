"""What is trained on each dataset: the paper's problems, and those of a user's own tables."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import polars as pl

from tuneup.curriculum import Schedule
from tuneup.data import load_dataset, split_edges, split_interactions, split_nodes
from tuneup.errors import InputError
from tuneup.names import TaskName
from tuneup.tables import Shares, TableRequest, read_tables
from tuneup.train import DEFAULTS
from tuneup.train.defaults import Defaults
from tuneup.workflow.fit import Loaded
from tuneup.workflow.options import FitOptions
from tuneup.workflow.problems import Problem, link_problem, node_problem, pair_problem

from .presets import DATASETS, ITEMS, LINKS, NODES, rules_for
from .store import Point

TABLES = ("csv", "tsv", "parquet")
NEW = 0.05
"""Share of a user's nodes that are held out as new ones."""
_SCHEDULE = ("epochs", "lr", "validate_every", "patience", "milestones", "gamma", "weight_decay")
"""Fields of a schedule that are part of every run's id; others count where they are used."""


def problem_of(
    task: TaskName,
    dataset: str,
    architecture: str,
    preset: str,
    shared: Point,
    study: str = "paper",
) -> Problem:
    """The problem of a cell, with what Base chose for all methods.

    Of labelled nodes half are for the loss, half for validation; of edges among known nodes half
    are for training; of pairs a tenth is for training and a twentieth for validation.  A folder of
    tables is read, split and modelled as ``tuneup fit`` does.
    """
    rules = rules_for(task, dataset, architecture, preset, study)
    where: Any = {"architecture": architecture, "select": "transductive"}
    if is_tables(dataset):
        problem = loaded_tables(dataset).problem(FitOptions(**where, **shared))
        return problem.scheduled(rules["pretrain"], rules["finetune"])
    dropout, metric = shared.get("dropout", 0.0), "accuracy" if task == NODES else None
    options = FitOptions(width=rules["width"], dropout=dropout, metric=metric, **where)
    names = ("norm", "embedding", "std", "unknown", "orthogonal")
    own: dict[str, Any] = {name: rules[name] for name in names if name in rules}
    own |= {"l2": shared["l2"]} if task != NODES else {}
    own |= {"encoder_rates": rules["weights_lr"]} if task == ITEMS else {}
    defaults = replace(DEFAULTS[task], architecture=where["architecture"], **own)
    data = load_dataset(dataset)
    problem = split_problem(task, data, options, defaults, rules.get("labelled", 0.0))
    return replace(problem, name=dataset).scheduled(rules["pretrain"], rules["finetune"])


def split_problem(
    task: TaskName,
    data: Any,
    options: FitOptions,
    defaults: Defaults | None = None,
    labelled: float = 0.5,
) -> Problem:
    """A problem on the paper's split of a graph or of interactions."""
    if task == NODES:
        split = split_nodes(data.num_nodes, labelled=labelled, y=data.y)
        return node_problem(data, split, options, defaults=defaults)
    if task == LINKS:
        return link_problem(data, split_edges(data.adjacency), options, defaults=defaults)
    return pair_problem(data, split_interactions(data), options, defaults=defaults)


def config_of(
    task: TaskName, dataset: str, architecture: str, preset: str, study: str
) -> dict[str, Any]:
    """Everything that decides a run beside seed and settings, as the store has it."""
    rules = rules_for(task, dataset, architecture, preset, study)
    for stage in ("pretrain", "finetune"):
        plain, default = asdict(rules[stage]), asdict(Schedule())
        rules[stage] = {k: v for k, v in plain.items() if k in _SCHEDULE or v != default[k]}
    if is_tables(dataset):
        plans = {name: rules[name] for name in ("pretrain", "finetune", "split_seed")}
        return {**plans, "preset": preset, "tables": True, "new": NEW}
    return {k: v for k, v in rules.items() if k not in ("seeds", "trials", "grid")} | {
        "preset": preset
    }


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
        raise InputError(
            f"--dataset: {dataset} is no folder of tables: expected {dataset}/edges with the "
            f"ending {', '.join(TABLES)}. Names of datasets: tuneup datasets."
        )
    (task,) = tasks_of(dataset)
    files = ((str(edges),), (str(nodes),) if nodes and task != ITEMS else ())
    tables = read_tables(TableRequest(*files, task=task, ignore_weights=True))
    return Loaded.of(tables, Shares() if task == ITEMS else Shares(new=NEW), 0)


def tasks_of(dataset: str) -> list[TaskName]:
    """What can be run on a dataset; a folder says it by its columns."""
    edges, nodes = _table(dataset, "edges"), _table(dataset, "nodes")
    if edges is None:
        return [task for task in get_args(TaskName) if dataset in DATASETS[task]]
    if {"user", "item"} <= _columns(edges):
        return [ITEMS]
    return [NODES if nodes is not None and "label" in _columns(nodes) else LINKS]


def _table(dataset: str, name: str) -> Path | None:
    paths = (Path(dataset) / f"{name}.{ending}" for ending in TABLES)
    return next((path for path in paths if path.is_file()), None)


def _columns(path: Path) -> set[str]:
    if path.suffix == ".parquet":
        return set(pl.read_parquet_schema(path))
    with path.open(encoding="utf-8") as file:
        separator = "\t" if path.suffix == ".tsv" else ","
        return {name.strip().strip('"') for name in file.readline().split(separator)}
