"""The seam to tables: how rows of a user's columns become features.

An artefact keeps a plan as the JSON that it gives of itself and never looks inside.  Whoever loads
the artefact says who can read that JSON::

    save_artefact("model", model, graph, plan=plan)
    Predictor.load("model", read_plan=FeaturePlan.from_json)

Without a plan, or without a reader, features are given as numbers: a tensor, an array, or a frame
whose columns are all numbers in the order of the features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.tables import Table


class Plan(Protocol):
    """What turns rows of columns into rows of features."""

    def to_json(self) -> Any:
        """Plain values from which a reader makes the plan again."""

    def apply(self, frame: Table | pl.DataFrame) -> Tensor:
        """Features ``[rows, d]``; raises InputError where a row cannot be read."""


PlanReader = Callable[[Any], Plan]
"""Makes a plan from the JSON that :meth:`Plan.to_json` gave."""

FeatureRows = Tensor | np.ndarray[Any, Any] | pl.DataFrame | Table
"""Rows of features, or of columns that a plan reads."""


def read_features(x: FeatureRows, width: int, plan: Plan | None) -> Tensor:
    """Features ``[m, width]`` of new nodes, checked."""
    if isinstance(x, pl.DataFrame | Table):
        found = _numbers(x) if plan is None else plan.apply(x)
    elif isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.floating):
        found = torch.from_numpy(x.astype(np.float32))  # a copy: arrays may be read-only
    else:
        found = torch.tensor(x) if isinstance(x, np.ndarray) else x
    if found.dim() != 2 or found.shape[1] != width:
        raise InputError(
            f"The model reads {width} features a node, x of shape [nodes, {width}]; got "
            f"{list(found.shape)}."
        )
    if found.dtype == torch.bool or found.is_complex():
        raise InputError(f"Features must be numbers; got {found.dtype}.")
    found = found.float()
    if not torch.isfinite(found).all():
        row, column = (~torch.isfinite(found)).nonzero()[0].tolist()
        raise InputError(f"Feature {column} of new node {row} is {found[row, column]}: not finite.")
    return found


def _numbers(rows: Table | pl.DataFrame) -> Tensor:
    table = rows if isinstance(rows, Table) else Table.of(rows)
    frame = table.frame
    wrong = [name for name, kind in frame.schema.items() if not kind.is_numeric()]
    if wrong:
        raise table.error(
            f"holds {frame.schema[wrong[0]]}, and no feature plan says how to read it: give "
            "columns of numbers, in the order of the features.",
            column=wrong[0],
        )
    empty = [name for name in frame.columns if frame[name].null_count()]
    if empty:
        row = int(frame[empty[0]].is_null().arg_max() or 0)
        raise table.error("no number here, and features must be numbers.", row, empty[0])
    return torch.from_numpy(frame.to_numpy().astype(np.float32))
