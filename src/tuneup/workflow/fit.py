"""From a user's tables to trained models: the problem, both stages, the scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tuneup.data import EdgeSplit, InteractionSplit, NodeSplit
from tuneup.errors import InputError
from tuneup.metrics import metric_for
from tuneup.names import TaskName
from tuneup.tables import Shares, TableGraph, TablePairs
from tuneup.tables.costs import graph_cost, pairs_cost
from tuneup.tables.estimate import Estimate
from tuneup.train import Checkpoints, Result, train_control
from tuneup.train.result import Callback

from .alpha import EVERY, train_tuneup
from .options import FitOptions
from .outcome import Outcome
from .problems import Problem, link_problem, node_problem, pair_problem, with_identities
from .search import Axes, Budget, Searched, search


@dataclass(frozen=True, eq=False)
class Loaded:
    """Tables that were read, with the split that training will respect."""

    tables: TableGraph | TablePairs
    split: NodeSplit | EdgeSplit | InteractionSplit
    everything: bool = False
    """whether all that is known trains, and nothing validates"""

    @classmethod
    def of(
        cls, tables: TableGraph | TablePairs, shares: Shares, seed: int, by_time: bool = False
    ) -> Loaded:
        """With the split of a column, or else a seeded one, or one by time."""
        if isinstance(tables, TablePairs):
            return cls(tables, tables.split(shares, seed, by_time=by_time))
        split: NodeSplit | EdgeSplit = (
            tables.edge_split(shares, seed)
            if tables.bare.y is None
            else tables.node_split(shares, seed)
        )
        tables = tables.with_split(split)
        if not tables.plan.width:
            tables = replace(tables, bare=with_identities(tables.bare, split))
        return cls(tables, split)

    @property
    def task(self) -> TaskName:
        """What is learned."""
        if isinstance(self.split, InteractionSplit):
            return "recommendation"
        return "node-classification" if isinstance(self.split, NodeSplit) else "link-prediction"

    def metric_notes(self, options: FitOptions) -> tuple[str, ...]:
        """Which metric is the validation score and why, where that is not accuracy."""
        if options.metric is not None or not isinstance(self.split, NodeSplit):
            return ()
        assert isinstance(self.tables, TableGraph)
        assert self.tables.graph.y is not None
        metric, why = metric_for(self.tables.graph.y[self.split.train])
        return (
            () if metric == "accuracy" else (f"validation score: {metric}, as {why} (--metric).",)
        )

    def cost(self, options: FitOptions) -> Estimate:
        """Time and memory of a fit."""
        if isinstance(self.tables, TablePairs):
            assert isinstance(self.split, InteractionSplit)
            return pairs_cost(self.tables, self.split, options.width, options.epochs)
        assert not isinstance(self.split, InteractionSplit)
        return graph_cost(self.tables, self.split, options.width, options.epochs)

    def problem(self, options: FitOptions) -> Problem:
        """What a method is given to work on, and what it is judged in."""
        if self.task != "node-classification" and (options.metric or options.class_weights):
            raise InputError(
                f"--metric and --class-weights are for node classification; got {self.task}: leave "
                "them out."
            )
        tables, split, everything = self.tables, self.split, self.everything
        if isinstance(tables, TablePairs):
            assert isinstance(split, InteractionSplit)
            return pair_problem(tables.interactions, split, options, everything=everything)
        learned = not tables.plan.width
        if isinstance(split, NodeSplit):
            classes = tuple(map(str, tables.classes))
            return node_problem(
                tables.graph,
                split,
                options,
                learned=learned,
                everything=everything,
                classes=classes,
            )
        assert isinstance(split, EdgeSplit)
        return link_problem(tables.graph, split, options, learned=learned, everything=everything)


SEARCHED: Mapping[TaskName, Axes] = {
    "node-classification": {"architecture": ("sage", "gcn", "gat"), "dropout": (0.5, 0.2)},
    "link-prediction": {"architecture": ("sage", "gcn"), "dropout": (0.0, 0.3)},
    "recommendation": {"architecture": ("gcn", "sage")},
}
"""What a search on validation tries, each task's default first."""


def search_settings(
    loaded: Loaded,
    options: FitOptions,
    budget: Budget,
    *,
    checkpoints: Path | None = None,
    callback: Callback | None = None,
) -> tuple[FitOptions, Searched]:
    """The options with the architecture and dropout whose Base validates best."""
    found = search(
        SEARCHED[loaded.task],
        lambda point: loaded.problem(replace(options, **point)),
        budget,
        seed=options.seed,
        checkpoints=checkpoints,
        callback=callback,
    )
    return replace(options, **found.point), found


def fit(
    loaded: Loaded,
    options: FitOptions,
    *,
    base: Result | None = None,
    checkpoints: Path | None = None,
    callback: Callback | None = None,
) -> Outcome:
    """Train both stages, and score every model and the simple ones in every setting.

    A finished run of Base with these options, such as a search's, is taken over if it is given.
    """
    problem = loaded.problem(options)
    trained = train_tuneup(
        problem,
        options.alpha,
        seed=options.seed,
        whole=options.whole,
        final="dial" if options.interpolate else "best",
        base=base,
        checkpoints=checkpoints,
        callback=callback,
    )
    control = None
    if options.control:
        result = trained.result
        kept = None if checkpoints is None else Checkpoints(checkpoints / "control", EVERY)
        optimizer = problem.setup.optimizer(result.model)
        control = train_control(result, optimizer=optimizer, checkpoints=kept)
    return Outcome.of(problem, trained, control=control, floors=problem.floors)
