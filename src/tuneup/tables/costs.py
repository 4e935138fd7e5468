"""What a fit on given tables will cost."""

from __future__ import annotations

import torch

from tuneup.data import EdgeSplit, InteractionSplit, NodeSplit

from .estimate import Estimate, Ranking, estimate_fit
from .graphs import TableGraph
from .pairs import TablePairs

LINK_SOURCES = 500
"""Sources that a validation of link prediction ranks."""
NEW_SETTINGS = 4
"""Settings that new nodes are scored in: with all links, and with three shares of them removed."""


def graph_cost(
    tables: TableGraph, split: NodeSplit | EdgeSplit | None, width: int, epochs: int
) -> Estimate:
    """Of node classification, or without labels of link prediction.

    The latter needs a ``split``, by default a seeded one.
    """
    return estimate_fit(
        tables.bare.num_nodes,
        tables.bare.adjacency.num_entries,
        tables.plan.width,
        width=width,
        epochs=epochs,
        ranking=_link_ranking(tables, split) if tables.bare.y is None else None,
    )


def pairs_cost(
    tables: TablePairs, split: InteractionSplit | None, width: int, epochs: int
) -> Estimate:
    """Of a recommender with this ``split``, by default a seeded one."""
    data, split = tables.interactions, split or tables.split()
    ranking = Ranking(
        candidates=data.num_items,
        validated=split.validation.user.unique().numel(),
        scored=split.test.user.unique().numel() + NEW_SETTINGS * split.new.numel(),
        positives=len(split.train),
        decoded=False,
    )
    nodes = data.num_users + data.num_items
    return estimate_fit(nodes, 2 * len(data), 0, width=width, epochs=epochs, ranking=ranking)


def _link_ranking(tables: TableGraph, split: NodeSplit | EdgeSplit | None) -> Ranking:
    found = split if isinstance(split, EdgeSplit) else tables.edge_split()
    new = torch.isin(found.new, found.new_target).sum()
    return Ranking(
        candidates=tables.bare.num_nodes,
        validated=min(LINK_SOURCES, found.validation.unique().numel()),
        scored=found.test.unique().numel() + NEW_SETTINGS * int(new),
        positives=found.train.shape[1],
        decoded=True,
    )
