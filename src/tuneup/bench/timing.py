"""How long a run should take, from the records of others.

Seconds multiply: a task has its factor, and so have a dataset, an architecture, a method, and some
pairs of these.  Factors are fitted to the logarithms of what was recorded, each held near 1 as far
as the records leave it open, so that there is a guess for a method that was never run on a task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from statistics import median
from typing import NamedTuple, get_args

import numpy as np

from tuneup.names import TaskName

from .presets import PresetName, folder_of
from .records import read_records, without_shared

_PULL = {1: 0.03, 2: 0.3}
"""How strongly factors of one thing, and of a pair, are held near 1."""
_PAIRED = (
    {"kind", "method"},
    {"kind", "dataset"},
    {"architecture", "method"},
    {"dataset", "architecture"},
)


class Place(NamedTuple):
    """Whose seconds: ``kind`` is the folder of the records, a task with its preset."""

    kind: str
    dataset: str
    architecture: str
    method: str

    @property
    def factors(self) -> list[tuple[tuple[str, str], ...]]:
        """What its seconds are a product of."""
        things = list(self._asdict().items())
        pairs = [pair for pair in combinations(things, 2) if set(dict(pair)) in _PAIRED]
        return [*((thing,) for thing in things), *pairs]


class Timings:
    """Seconds of every place that was run, and guesses for all others.

    Args:
        seconds: of each run, by its place.
    """

    def __init__(self, seconds: Iterable[tuple[Place, float]]) -> None:
        found = defaultdict(list)
        for place, each in seconds:
            found[place].append(each)
        self.known = {place: median(each) for place, each in found.items()}

    def of(self, place: Place) -> float | None:
        """The median where it was run; None where nothing is known of one of its parts."""
        if place in self.known:
            return self.known[place]
        if not all((part,) in self._weights for part in place._asdict().items()):
            return None
        logarithm = sum(self._weights.get(factor, 0.0) for factor in place.factors)
        return float(np.exp(self._weights[()] + logarithm))

    @cached_property
    def _weights(self) -> dict[tuple[tuple[str, str], ...], float]:
        """Logarithm of each factor; that of none is the common one."""
        timed = {place: seconds for place, seconds in self.known.items() if seconds > 0}
        names = dict.fromkeys(factor for place in timed for factor in place.factors)
        order = {name: k for k, name in enumerate([(), *names])}
        shown = np.zeros((len(timed), len(order)))
        shown[:, 0] = 1.0
        for row, place in zip(shown, timed, strict=True):
            row[[order[factor] for factor in place.factors]] = 1.0
        pull = np.diag([_PULL.get(len(name), 1e-6) for name in order])
        logarithms = np.log(list(timed.values()))
        solved = np.linalg.solve(shown.T @ shown + pull, shown.T @ logarithms)
        return dict(zip(order, solved.tolist(), strict=True))


def read_timings(results: Path) -> Timings:
    """All that is recorded, of every task and preset; a stage that rows share counts once."""
    places = [
        folder_of(results, task, preset)
        for task, preset in product(get_args(TaskName), get_args(PresetName))
    ]
    return Timings(
        (Place(folder.name, run.dataset, run.architecture, run.method), run.seconds)
        for folder in places
        if folder.exists()
        for run in without_shared([each for each in read_records(folder) if not each.variant])
    )
