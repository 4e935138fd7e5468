"""Names that users type, in a module that imports nothing: the command line lists them at once."""

from typing import Literal

Architecture = Literal["sage", "sage-max", "sage-sum", "gcn", "gat"]
"""The paper's five graph neural networks; "sage" is the one with the mean."""

TaskName = Literal["node-classification", "link-prediction", "recommendation"]
"""The paper's three tasks."""

Alpha = float | Literal["graded"]
"""Share of edges to drop, 0 to 1; "graded": every node draws a share of its own."""

Selection = Literal["transductive", "cold", "balanced"]
"""What models are selected by: see :mod:`tuneup.tasks.base`.

Example::

    selection: tuneup.Selection = "cold"
    result = tuneup.fit(model, data, select=selection, pretrain=schedule, finetune=schedule)
"""

TAIL_DEGREE = 5
"""A tail node has at most this many edges in the input graph: the paper's 0-5."""
