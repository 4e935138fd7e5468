"""What is measured, and what comes out: both travel between processes as JSON."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Literal

Architecture = Literal["sage", "gcn", "gat"]
Variant = Literal["ours", "pyg-edge-index", "pyg-adj-t", "bare-products"]
Malloc = Literal["default", "raised"]
Supervision = Literal["labelled", "all"]
Problem = Literal["nodes", "pairs", "ranking"]

ARXIV_NODES = 169_343
ARXIV_EDGES = 1_157_799
GOWALLA_USERS = 29_858
GOWALLA_NODES = GOWALLA_USERS + 40_981
GOWALLA_PAIRS = 1_027_370
WIDTH = 256
HEADS = 4
LABELLED = 0.05
THREADS = 2


@dataclass(frozen=True)
class Case:
    """One measurement, made in a process of its own.

    Args:
        architecture: three layers of it, width 256 (GAT: 4 heads x 64), dropout 0.
        variant: our encoder, or PyG's layers on an ``edge_index`` or on a torch CSR ``adj_t``.
        malloc: glibc's default thresholds, or those of ``tuneup.runtime.tune_malloc``.
        supervision: the loss reads 5 % of the nodes, or all of them.
        alpha: share of edges dropped anew in every epoch.
        nodes: size of the graph, at ogbn-arxiv's mean degree of 13.7.
        warmup: epochs before the timed ones.
        epochs: timed epochs.
        profile: whether the timed epochs run under torch's profiler.
        problem: node classification, recommendation (its nodes in gowalla's proportion of users,
            items and pairs), or a ranking of all items for all users, which is then an "epoch".
    """

    architecture: Architecture = "sage"
    variant: Variant = "ours"
    malloc: Malloc = "default"
    supervision: Supervision = "labelled"
    alpha: float = 0.0
    nodes: int = ARXIV_NODES
    warmup: int = 2
    epochs: int = 3
    profile: bool = False
    problem: Problem = "nodes"

    @property
    def edges(self) -> int:
        """Undirected edges that messages flow along."""
        if self.problem != "nodes":
            return self.nodes * GOWALLA_PAIRS // GOWALLA_NODES // 10
        return round(self.nodes * ARXIV_EDGES / ARXIV_NODES)

    @property
    def memory_needed(self) -> int:
        """Bytes to be on the safe side: more than any measured peak at this size."""
        entries, width = 2 * self.edges + self.nodes, 4 * WIDTH
        if self.variant == "pyg-edge-index":
            return entries * width * (7 if self.architecture == "gat" else 4)
        return self.nodes * width * 18

    def __str__(self) -> str:
        parts = [self.architecture, self.variant, f"{self.malloc} malloc", f"{self.nodes:,} nodes"]
        if self.supervision == "all":
            parts.append("all nodes supervised")
        if self.alpha:
            parts.append(f"alpha {self.alpha}")
        return ", ".join(parts + ["profiled"] * self.profile)


@dataclass(frozen=True)
class Measurement:
    """What one process saw.

    Args:
        first: seconds of the first epoch, which prepares what later epochs reuse.
        seconds: of each timed epoch.
        losses: of every epoch, warm-up included.
        peak: bytes of peak resident memory above what was resident before the model was built.
        others: share of the machine's processor time taken by other processes meanwhile.
        operators: self time of each torch operator, seconds an epoch, if profiled.
    """

    first: float
    seconds: list[float]
    losses: list[float]
    peak: int
    others: float
    operators: dict[str, float] = field(default_factory=dict)

    @property
    def epoch(self) -> float:
        """Median seconds of an epoch."""
        return statistics.median(self.seconds)

    @property
    def dense_share(self) -> float:
        """Share of the profiled time spent in dense matrix products."""
        dense = sum(self.operators[name] for name in DENSE if name in self.operators)
        return dense / sum(self.operators.values())


DENSE = ("aten::mm", "aten::addmm", "aten::addmm_")
