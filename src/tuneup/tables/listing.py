"""Every feature of a plan with its kind, in lines to print."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .features import Categorical, Feature, FeaturePlan, NumberList

_KINDS = {
    "numeric": "numbers",
    "boolean": "yes or no",
    "categorical": "categories",
    "list": "lists of numbers",
}


def feature_lines(plan: FeaturePlan) -> Iterator[str]:
    """A line for each kind, such as ``Features as numbers: age, f0 ... f49``."""
    for kind, title in _KINDS.items():
        names = [_described(each) for each in plan.features if each.kind == kind]
        if names:
            yield f"Features as {title}: {', '.join(_in_runs(names))}."


def _described(feature: Feature) -> str:
    if isinstance(feature, Categorical):
        return f"{feature.name} ({len(feature.levels)})"
    if isinstance(feature, NumberList):
        return f"{feature.name} ({len(feature.mean)})"
    return feature.name


def _in_runs(names: list[str]) -> Iterator[str]:
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
