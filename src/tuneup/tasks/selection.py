"""How models are selected: on validation nodes as they are, and on copies that lost edges.

A model that is to serve nodes with few edges must be selected on such nodes.  Every task can score
its validation nodes on the training graph and on *cold copies* of it, in which a share of the
validation nodes' own edges is removed::

    "transductive"   the training graph                                    (the paper's protocol)
    "cold"           the mean over copies without 30, 60 and 90 % of the edges
    "balanced"       the mean over the training graph and those copies

The removed edges are drawn from a fixed seed and nested: an edge that the 30 % copy lacks is
missing from the others too.  Copies are made of the training graph alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from tuneup.data import COLD_RATIOS
from tuneup.errors import InputError
from tuneup.names import Selection, TaskName

WHOLE = 0.0
"""The ratio of removed edges that stands for the training graph itself."""

RATIOS: Mapping[Selection, tuple[float, ...]] = {
    "transductive": (WHOLE,),
    "cold": COLD_RATIOS,
    "balanced": (WHOLE, *COLD_RATIOS),
}
"""Shares of removed edges that each selection averages over."""

EVERY_RATIO = RATIOS["balanced"]
"""All that a task can score its validation nodes at."""

COLD_SEED = 0x636F6C64
"""Seed of the edges that cold copies lack; other draws than those of the test settings."""

INTERVAL: Mapping[TaskName, int] = {
    "node-classification": 8,
    "link-prediction": 36,
    "recommendation": 20,
}
"""Epochs between two validations on cold copies: at most a quarter of the time of training.

Four passes forward over nodes; for links and users a ranking is what costs.
"""


def check_selection(selection: str) -> None:
    """Refuse a name that is no selection."""
    if selection not in RATIOS:
        raise InputError(
            f"selection must be one of {', '.join(get_args(Selection))}; got {selection!r}."
        )
