"""Schedules, sizes, grids and seeds of the paper's experiments, as rules.

A preset is a schedule for both stages and what goes with it.  "paper" is the paper's own; "short"
is for a machine with two cores: fewer epochs at a higher learning rate, with patience; link
embeddings and decoder of width 64 in place of 256, which makes the exact ranking of all pairs
sixteen times as fast; and recommenders whose weights move slowly above small embeddings (but for
GAT's, which then do not begin to learn), with an input for who has no edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Literal

from tuneup.curriculum import Schedule
from tuneup.data import DATASETS as CATALOGUE
from tuneup.errors import InputError
from tuneup.methods import METHODS, ROWS
from tuneup.names import Architecture, TaskName

PresetName = Literal["short", "paper"]
NODES: TaskName = "node-classification"
LINKS: TaskName = "link-prediction"
ITEMS: TaskName = "recommendation"

SETTINGS = ("transductive", "inductive", "cold-30", "cold-60", "cold-90")
METRICS: Mapping[str, str] = {NODES: "accuracy", LINKS: "recall@50", ITEMS: "recall@50"}
USUAL: Sequence[Architecture] = ("sage", "gcn")
"""Architectures that all methods are compared with; of others, the paper has Base and TuneUp."""
LATER = ("nodedup", "nodedup-tuneup")
"""Methods that the tables have beside the paper's."""
VARIANTS = ("coldbrew-two-part",)
"""Methods that are run and shown when they are asked for by name."""

GRAPHS = ("dblp", "Computers", "CS")
SMALL: Mapping[TaskName, Sequence[str]] = {NODES: GRAPHS, LINKS: GRAPHS, ITEMS: ("gowalla",)}
"""What is run where no dataset is named: hours on two cores, not weeks."""
DATASETS: Mapping[TaskName, Sequence[str]] = {
    task: tuple(dict.fromkeys((*own, *(d.name for d in CATALOGUE.values() if task in d.tasks))))
    for task, own in SMALL.items()
}
"""All that a task can be run on, the small ones first."""

ANY = ""
SCHEDULES: Sequence[tuple[str, str, str, Schedule, Schedule]] = (
    ("paper", NODES, ANY, Schedule(1500, 0.001, 10), Schedule(1500, 0.001, 10)),
    ("paper", LINKS, ANY, Schedule(1000, 0.0001, 10), Schedule(1000, 0.0001, 10)),
    ("paper", ITEMS, ANY, Schedule(2000, 0.001, 10, None, (1000, 1500)), Schedule(500, 0.0001, 10)),
    ("short", NODES, ANY, Schedule(300, 0.005, 4, 40), Schedule(150, 0.001, 4, 40)),
    # Sums over a hub's neighbours are hundreds or thousands of times those over a tail's.
    ("short", NODES, "sage-sum", Schedule(300, 0.001, 4, 60), Schedule(150, 0.001, 4, 40)),
    # A fifth of Computers' edges, a quarter of CS' features: the paper's own rate is fast enough.
    ("short", NODES, "dblp", Schedule(300, 0.001, 2, 60), Schedule(150, 0.001, 2, 40)),
    ("short", LINKS, ANY, Schedule(300, 0.005, 10, 60), Schedule(150, 0.002, 10, 50)),
    # On gowalla Base still rises at epoch 170; with SAGE, whose nodes also read their own input at
    # full weight, it falls from epoch 80 on until the rate is lowered.
    ("short", ITEMS, ANY, Schedule(240, 0.01, 10, 60, (90,)), Schedule(250, 0.001, 10, 60)),
    ("short", ITEMS, "gcn", Schedule(240, 0.01, 10, 60, (180,)), Schedule(250, 0.005, 10, 60)),
    # Base ranks by popularity until epoch 45 or so, then by neighbours, and soon knows the training
    # pairs by heart.
    ("short", ITEMS, "gat", Schedule(120, 0.01, 10, 40, (55,)), Schedule(120, 0.001, 10, 40)),
)
"""Of both stages, by preset, task and perhaps a dataset, architecture or study; the last one that
applies holds."""

_L2 = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 0.1)
RULES: Sequence[tuple[str, str, str, Mapping[str, Any]]] = (
    (ANY, ANY, ANY, {"width": 256, "layers": 3, "norm": "none", "split_seed": 0, "trials": 3}),
    (ANY, NODES, ANY, {"labelled": 0.02, "trials": 6}),
    (ANY, NODES, "ogbn-arxiv", {"labelled": 0.10}),
    (ANY, NODES, "ogbn-products", {"width": 64}),  # to fit into the memory of the paper's GPU
    (ANY, NODES, "labels", {"labelled": 0.1}),
    (ANY, ITEMS, ANY, {"embedding": 64}),
    ("paper", ANY, ANY, {"seeds": range(5), "grid": {"dropout": (0.0, 0.5), "l2": _L2}}),
    ("paper", NODES, ANY, {"grid": {"dropout": (0.0, 0.5)}}),
    ("paper", LINKS, ANY, {"embedding": 256, "decoder_width": 256}),
    ("paper", ITEMS, ANY, {"std": 0.1, "weights_lr": (1.0, 1.0)}),
    ("paper", ITEMS, ANY, {"unknown": False, "orthogonal": False}),
    ("short", NODES, ANY, {"seeds": range(5), "grid": {"dropout": (0.0, 0.5)}}),
    ("short", NODES, "sage-sum", {"norm": "layer"}),
    ("short", LINKS, ANY, {"seeds": range(3), "grid": {"l2": (0.0, 0.001, 0.01)}}),
    ("short", LINKS, ANY, {"embedding": 64, "decoder_width": 64}),
    ("short", LINKS, "sage-sum", {"norm": "layer"}),
    ("short", ITEMS, ANY, {"seeds": range(1), "grid": {"l2": (0.12, 0.25, 0.5)}}),
    ("short", ITEMS, ANY, {"std": 0.01, "weights_lr": (0.003, 0.1)}),
    ("short", ITEMS, ANY, {"unknown": True, "orthogonal": True}),
    # GCN's product shrinks with the degree, which others' aggregates do not: less will do.
    ("short", ITEMS, "gcn", {"orthogonal": False, "grid": {"l2": (0.01, 0.02, 0.04)}}),
    # Three averages over neighbours leave outputs nearly alike, and slow weights do not part them;
    # the penalty does not keep weights at full rate from fitting all pairs, it only slows them.
    ("short", ITEMS, "gat", {"std": 0.1, "weights_lr": (1.0, 0.1)}),
    ("short", ITEMS, "gat", {"grid": {"l2": (0.002, 0.01, 0.05)}}),
)
"""Everything else, a later rule before an earlier one.

``seeds`` are those of the training, ``trials`` the trainings by which a method's settings are
chosen (rankings take their time), ``grid`` what Base chooses from for all methods.  A recommender's
inputs start with the standard deviation ``std``; the weights above them learn at the shares
``weights_lr`` of its rate, one for each stage, and may start ``orthogonal``; nodes without an edge
may share an ``unknown`` input.
"""


def rules_for(
    task: str,
    dataset: str = ANY,
    architecture: str = "sage",
    preset: str = "short",
    study: str = "paper",
) -> dict[str, Any]:
    """Everything that holds in a cell."""

    def applies(rule_preset: str, rule_task: str, only: str) -> bool:
        own = rule_preset in (ANY, preset) and rule_task in (ANY, task)
        return own and only in (ANY, dataset, architecture, study)

    found: dict[str, Any] = {}
    for *where, first, second in SCHEDULES:
        found |= {"pretrain": first, "finetune": second} if applies(*where) else {}
    for *where, values in RULES:
        found |= values if applies(*where) else {}
    return found


def base_points(
    task: str, architecture: str, preset: str, study: str = "paper"
) -> list[dict[str, Any]]:
    """Settings that Base chooses from, for all methods."""
    grid = rules_for(task, ANY, architecture, preset, study)["grid"]
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def applicable(task: str, architecture: str) -> list[str]:
    """The methods that can be run with this task and architecture."""
    where: Any = (task, architecture, task != ITEMS)
    return [
        name
        for name, method in METHODS.items()
        if name not in VARIANTS and method.refusal(*where) is None
    ]


def planned(task: str, architecture: str) -> list[str]:
    """The paper's methods and NodeDup where they apply; others are run when they are named."""
    return [name for name in applicable(task, architecture) if name in (*ROWS, *LATER)]


def table_methods(task: str, architecture: str) -> list[str]:
    """The rows of a table: all planned, or Base and TuneUp where the paper has no others."""
    return planned(task, architecture) if architecture in USUAL else ["base", "tuneup"]


def check_name(what: str, given: str, allowed: Sequence[str], where: str = "") -> None:
    """Refuse a name that is not among those allowed."""
    if given not in allowed:
        raise InputError(f"{what}: got {given!r}; expected one of {', '.join(allowed)}{where}.")
