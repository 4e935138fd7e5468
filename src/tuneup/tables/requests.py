"""What is asked for: which files, which columns, which rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from tuneup.errors import InputError

from .kinds import FeatureOptions
from .options import ReadOptions

UnknownIds = Literal["error", "add"]
"""What to do about ids of edges that have no row of their own."""

GraphTask = Literal["node-classification", "link-prediction"]


@dataclass(frozen=True)
class GraphTables:
    """A graph in tables of edges and, if there are any, of nodes and labels.

    Args:
        edges: files, patterns or folders of the table of edges.
        nodes: of the table of nodes: one row per node, with features, a label and a split.
        labels: of a table of labels, if they are not in that of nodes: id, label and split.
        task: what is to be learned; node classification needs labels.
        source: column of edges; guessed if not given, as all columns below.
        target: column of edges.
        id: column of nodes (and of labels).
        label: column of nodes (or of labels).
        split: column that says train, validation or test: of the nodes (or labels) for node
            classification, of the edges for link prediction.
        weight: column of edges with weights, which no model here uses: see ``ignore_weights``.
        ignore_weights: whether weights may be left out instead of being refused.
        directed: keep directions instead of reading every edge both ways.
        unknown_ids: "error" refuses edges to ids without a row of nodes, "add" adds such nodes.
        features: which columns of nodes are features.
        reading: how files are read.
    """

    edges: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    task: GraphTask = "node-classification"
    source: str | None = None
    target: str | None = None
    id: str | None = None
    label: str | None = None
    split: str | None = None
    weight: str | None = None
    ignore_weights: bool = False
    directed: bool = False
    unknown_ids: UnknownIds = "error"
    features: FeatureOptions = field(default_factory=FeatureOptions)
    reading: ReadOptions = field(default_factory=ReadOptions)

    def __post_init__(self) -> None:
        if not self.edges:
            raise InputError("A graph needs a table of edges: pass --edges.")
        if self.task not in get_args(GraphTask):
            raise InputError(f"task is one of {', '.join(get_args(GraphTask))}; got {self.task}.")
        if self.unknown_ids not in get_args(UnknownIds):
            raise InputError(
                f"--unknown-ids is one of {', '.join(get_args(UnknownIds))}; got "
                f"{self.unknown_ids}."
            )
        if self.task == "node-classification" and not (self.nodes or self.labels):
            raise InputError(
                "Node classification needs labels: pass --nodes or --labels with a table that has "
                "a column of labels, or --task link-prediction."
            )
        if self.task == "link-prediction" and self.labels:
            raise InputError("Link prediction uses no labels: leave out --labels.")
        if self.task == "link-prediction" and self.directed:
            raise InputError("Link prediction is for undirected edges: leave out --directed.")
        if not self.nodes and (self.features.named or (self.id and not self.labels)):
            option = self.features.named[0][1] if self.features.named else "--id"
            raise InputError(f"{option} names a column of nodes: pass --nodes too.")


@dataclass(frozen=True)
class PairTables:
    """A recommendation problem: a table of (user, item), perhaps with a time.

    Args:
        pairs: files, patterns or folders.
        user: column of users; guessed if not given, as all columns below.
        item: column of items.
        time: column of times.
        split: column that says train, validation or test.
        weight: column of weights or ratings, which no model here uses: see ``ignore_weights``.
        ignore_weights: whether weights may be left out instead of being refused.
        by_time: whether a split by time is wanted, so that a column of times must be there.
        reading: how files are read.
    """

    pairs: tuple[str, ...]
    user: str | None = None
    item: str | None = None
    time: str | None = None
    split: str | None = None
    weight: str | None = None
    ignore_weights: bool = False
    by_time: bool = False
    reading: ReadOptions = field(default_factory=ReadOptions)

    def __post_init__(self) -> None:
        if not self.pairs:
            raise InputError("Recommendation needs a table of pairs: pass --edges.")
        if self.by_time and self.split is not None:
            raise InputError("--by-time and --split are two ways to split; pass one.")
