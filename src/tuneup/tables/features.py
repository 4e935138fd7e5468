"""Columns of a table as a matrix of numbers, by a plan that is fitted once and saved as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuneup.errors import InputError

from .kinds import Boolean, Categorical, Feature, NumberList, Numeric
from .reading import Notes, Table, first_true, shown
from .text import Text

_VERSION = 1

KINDS: dict[str, type[Feature]] = {
    each.kind: each for each in (Numeric, Boolean, Categorical, NumberList, Text)
}


@dataclass(frozen=True)
class FeaturePlan:
    """How each column becomes numbers: fitted on one table, applied to any with its columns.

    Without features the width is 0, and a model learns a vector for each node.
    """

    features: tuple[Feature, ...] = ()

    @property
    def width(self) -> int:
        """Numbers per node."""
        return len(self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """What each of them means."""
        return tuple(name for feature in self.features for name in feature.columns)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return tuple(feature.name for feature in self.features)

    def apply(self, table: Any) -> Tensor:
        """Features ``[rows, width]``, float32, of a table or frame that has the plan's columns.

        A frame is one of polars or pandas.  Values that are missing here but never were in training
        get the mean.  Levels that are new count as "other".
        """
        if not isinstance(table, Table):
            table = Table.of(table)
        missing = [name for name in self.inputs if name not in table.frame.columns]
        if missing:
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise table.error(
                f"lacks column {missing[0]!r}, a feature that the model was trained with{more}."
            )
        out = np.empty((table.frame.height, self.width), dtype=np.float32)
        columns = (column for feature in self.features for column in feature.apply(table))
        for at, column in enumerate(columns):
            out[:, at] = column.to_numpy()
        return torch.from_numpy(out)

    def blanks(self, count: int) -> Tensor:
        """Features ``[count, width]`` of nodes about which nothing is known."""
        one: list[float] = []
        for feature in self.features:
            one += [0.0] * len(feature.own_columns) + [1.0] * feature.has_indicator
        return torch.tensor(one, dtype=torch.float32).repeat(count, 1)

    def note_unseen(self, table: Table, notes: Notes) -> None:
        """Note categories and gaps that training never saw, by the first row of each column."""
        for feature in self.features:
            name = feature.name
            if name not in table.frame.columns:
                continue  # refused when the plan is applied
            values = table.frame[name]
            if isinstance(feature, Categorical):
                values = feature.read(table)
                odd, fate = feature.unseen(values), "counts as another"
            elif feature.has_indicator:
                continue
            else:
                odd, fate = values.is_null(), f"taken as {feature.gap}"
            row = first_true(odd)
            if row is not None:
                what = "no value" if values[row] is None else shown(values[row])
                notes.append(
                    f"{table.where(row, name)}: {what}, which training never saw; {fate} in "
                    f"{int(odd.sum()):,} of {len(odd):,} rows."
                )

    def lines(self) -> Iterator[str]:
        """A line for each kind, such as ``Features as numbers: age, f0 ... f49``."""
        for kind in KINDS.values():
            names = [each.described for each in self.features if isinstance(each, kind)]
            if names:
                yield f"Features as {kind.title}: {', '.join(_in_runs(names))}."

    def to_json(self) -> str:
        """The plan as text; :meth:`from_json` reads it back."""
        features = [{"kind": feature.kind, **asdict(feature)} for feature in self.features]
        return json.dumps({"version": _VERSION, "features": features}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> FeaturePlan:
        """The plan that :meth:`to_json` wrote."""
        try:
            saved = json.loads(text)
            version, features = saved["version"], saved["features"]
            if version == _VERSION:
                return cls(tuple(_feature(dict(each)) for each in features))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"Not a plan of features ({error}).") from error
        raise InputError(f"A plan of features of version {version}; this reads {_VERSION}.")


def _feature(saved: dict[str, Any]) -> Feature:
    make: Callable[..., Feature] = KINDS[saved.pop("kind")]
    types = {"name": str, "indicator": bool, "decimal_comma": bool}
    for name, value in saved.items():
        if not isinstance(value, types.get(name, object)):
            raise TypeError(f"{name} is {value!r}")
    return make(**{name: tuple(v) if isinstance(v, list) else v for name, v in saved.items()})


def _in_runs(names: Sequence[str]) -> Iterator[str]:
    """``f0, f1, f2, f3`` as ``f0 ... f3``."""
    start = 0
    while start < len(names):
        stop = start + 1
        while stop < len(names) and _follows(names[stop - 1], names[stop]):
            stop += 1
        if stop - start > 2:
            yield f"{names[start]} ... {names[stop - 1]}"
        else:
            yield from names[start:stop]
        start = stop


def _follows(name: str, other: str) -> bool:
    """Whether the names end in numbers that follow each other."""
    first, second = (re.fullmatch(r"(.*?)(\d+)", each) for each in (name, other))
    if first is None or second is None:
        return False
    return first[1] == second[1] and int(first[2]) + 1 == int(second[2])
