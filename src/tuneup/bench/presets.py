"""Schedules, grids and sizes of the paper's experiments, by name.

A preset is a schedule for both stages.  "paper" is the paper's own; "short" is for a machine with
two cores: fewer epochs at a higher learning rate, with patience; link embeddings and decoder of
width 64 in place of 256, which makes the exact ranking of all pairs sixteen times as fast; and
recommenders whose weights move slowly above small embeddings (but for GAT's, which then do not
begin to learn), with an input for who has no edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Literal

from tuneup.curriculum import Schedule
from tuneup.data import DATASETS as CATALOGUE
from tuneup.errors import InputError
from tuneup.methods import METHODS, method_named
from tuneup.names import Architecture, TaskName
from tuneup.nn.encoder import Norm

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
        Schedule(240, 0.01, 10, 60, milestones=(90,)),
        Schedule(250, 0.001, 10, 60),
    ),
}
SHORT_BY_ARCHITECTURE: Mapping[tuple[TaskName, Architecture], Schedules] = {
    # Sums over a hub's neighbours are hundreds or thousands of times those over a tail's.
    ("node-classification", "sage-sum"): (Schedule(300, 0.001, 4, 60), Schedule(150, 0.001, 4, 40)),
    # On gowalla Base still rises at epoch 170; with SAGE, whose nodes also read their own input at
    # full weight, it falls from epoch 80 on until the rate is lowered.
    ("recommendation", "gcn"): (
        Schedule(240, 0.01, 10, 60, milestones=(180,)),
        Schedule(250, 0.005, 10, 60),
    ),
    # Base ranks by popularity until epoch 45 or so, then by neighbours, and soon knows the training
    # pairs by heart.
    ("recommendation", "gat"): (
        Schedule(120, 0.01, 10, 40, milestones=(55,)),
        Schedule(120, 0.001, 10, 40),
    ),
}
SHORT_BY_DATASET: Mapping[tuple[TaskName, str], Schedules] = {
    # A fifth of Computers' edges, a quarter of CS' features: the paper's own rate is fast enough.
    ("node-classification", "dblp"): (Schedule(300, 0.001, 2, 60), Schedule(150, 0.001, 2, 40)),
}

USUAL: Sequence[Architecture] = ("sage", "gcn")
"""Architectures that all methods are compared with; of others, the paper has Base and TuneUp."""

GRAPHS = ("dblp", "Computers", "CS")
SMALL: Mapping[TaskName, Sequence[str]] = {
    "node-classification": GRAPHS,
    "link-prediction": GRAPHS,
    "recommendation": ("gowalla",),
}
"""What is run where no dataset is named: hours on two cores, not weeks."""
DATASETS: Mapping[TaskName, Sequence[str]] = {
    task: tuple(
        dict.fromkeys((*SMALL[task], *(d.name for d in CATALOGUE.values() if task in d.tasks)))
    )
    for task in SMALL
}
"""All that a task can be run on, the small ones first."""
SEEDS: Mapping[str, Sequence[int]] = {
    "node-classification": range(5),
    "link-prediction": range(3),
    "recommendation": range(1),
}
"""Training seeds of the short preset; the paper has five of everything."""

TRIALS: Mapping[str, int] = {
    "node-classification": 6,
    "link-prediction": 3,
    "recommendation": 3,
}
"""Trainings to choose a method's settings by; rankings take their time."""

SHARED: Mapping[TaskName, Mapping[str, Sequence[float]]] = {
    "node-classification": {"dropout": (0.0, 0.5)},
    "link-prediction": {"l2": (0.0, 0.001, 0.01)},
    "recommendation": {"l2": (0.12, 0.25, 0.5)},
}
"""What Base chooses for all methods."""
SHARED_BY_ARCHITECTURE: Mapping[tuple[TaskName, str], Mapping[str, Sequence[float]]] = {
    # GCN's product shrinks with the degree, which others' aggregates do not: less will do.
    ("recommendation", "gcn"): {"l2": (0.01, 0.02, 0.04)},
    # The penalty does not keep weights at full rate from fitting all pairs; more only slows them.
    ("recommendation", "gat"): {"l2": (0.002, 0.01, 0.05)},
}
_WEIGHTS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 0.1)
SHARED_PAPER: Mapping[TaskName, Mapping[str, Sequence[float]]] = {
    "node-classification": {"dropout": (0.0, 0.5)},
    "link-prediction": {"dropout": (0.0, 0.5), "l2": _WEIGHTS},
    "recommendation": {"dropout": (0.0, 0.5), "l2": _WEIGHTS},
}
"""The grid of the paper preset, in full."""

VARIANTS = ("coldbrew-two-part",)
"""Methods that are run and shown when they are asked for by name."""

WIDTH = 256
RECOMMENDERS: Mapping[str, Mapping[str, Any]] = {
    "paper": {"std": 0.1, "weights_lr": (1.0, 1.0), "unknown": False, "orthogonal": False},
    "short": {"std": 0.01, "weights_lr": (0.003, 0.1), "unknown": True, "orthogonal": True},
}
"""Standard deviation of the embeddings at the start; learning rates of the weights above them in
either stage, as shares of theirs; whether nodes without an edge share an input; whether weights
start orthogonal."""
SHORT_RECOMMENDERS: Mapping[str, Mapping[str, Any]] = {
    "gcn": {"orthogonal": False},
    # Three averages over neighbours leave outputs nearly alike, and slow weights do not part them.
    "gat": {"std": 0.1, "weights_lr": (1.0, 0.1)},
}
"""What differs with the short preset."""
EMBEDDING = {"short": 64, "paper": 256}
LABELLED = 0.02
LABELLED_BY_DATASET: Mapping[str, float] = {"ogbn-arxiv": 0.10}
WIDTH_BY_DATASET: Mapping[tuple[TaskName, str], int] = {
    ("node-classification", "ogbn-products"): 64
}
"""Both as in the paper, where products at width 64 fits into the memory of its GPU."""


def schedules(
    task: TaskName, dataset: str, architecture: Architecture, preset: PresetName
) -> Schedules:
    """Schedules of stage 1 and stage 2."""
    if preset == "paper":
        return PAPER[task]
    own = SHORT_BY_ARCHITECTURE.get((task, architecture), SHORT[task])
    return SHORT_BY_DATASET.get((task, dataset), own)


def recommender(architecture: Architecture, preset: PresetName) -> dict[str, Any]:
    """How a recommender starts and learns: see :data:`RECOMMENDERS`."""
    own = SHORT_RECOMMENDERS.get(architecture, {}) if preset == "short" else {}
    return {**RECOMMENDERS[preset], **own}


def norm_of(task: TaskName, architecture: Architecture, preset: PresetName) -> Norm:
    """Between layers: none, but where features are summed up and nothing else bounds the sums."""
    sums = architecture == "sage-sum" and task != "recommendation" and preset == "short"
    return "layer" if sums else "none"


def seeds_of(task: str, preset: str) -> Sequence[int]:
    """Training seeds where none are named."""
    return SEEDS[task] if preset == "short" else range(5)


def shared_grid(
    task: TaskName, architecture: Architecture, preset: PresetName
) -> Mapping[str, Sequence[float]]:
    """What Base chooses from, for all methods."""
    if preset == "paper":
        return SHARED_PAPER[task]
    return SHARED_BY_ARCHITECTURE.get((task, architecture), SHARED[task])


def points_of(
    method: str, task: TaskName, architecture: Architecture, preset: PresetName
) -> list[dict[str, Any]]:
    """Settings that a method chooses from; of Base, those that it chooses for all methods."""
    if method != "base":
        return method_named(method).points(task)
    grid = shared_grid(task, architecture, preset)
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def grid_size(method: str, task: str, architecture: str, preset: str) -> int:
    """How many points there are to choose from."""
    where: Any = (task, architecture, preset)
    return len(points_of(method, *where))


def applicable(task: str, architecture: str) -> list[str]:
    """The methods that can be run with this task and architecture."""
    where: Any = (task, architecture, task != "recommendation")
    return [
        name
        for name, method in METHODS.items()
        if name not in VARIANTS and method.refusal(*where) is None
    ]


def table_methods(task: str, architecture: str) -> list[str]:
    """The rows of a table: all that apply, or Base and TuneUp where the paper has no others."""
    if architecture in USUAL:
        return applicable(task, architecture)
    return ["base", "tuneup"]


def check_name(what: str, given: str, allowed: Sequence[str], where: str = "") -> None:
    """Refuse a name that is not among those allowed."""
    if given not in allowed:
        raise InputError(f"{what}: got {given!r}; expected one of {', '.join(allowed)}{where}.")
