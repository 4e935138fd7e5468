"""The arguments of every command that reads a user's tables, in one place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from tuneup.errors import InputError
from tuneup.names import TaskName

from .options import listed, number_between, whole_number_to
from .table_panels import (
    COLUMNS,
    FILES,
    READING,
    ReadingOptions,
    column,
    flag,
    reading_panel,
    silent_stderr,
    table,
)

if TYPE_CHECKING:
    from tuneup.tables import GraphTables, PairTables, Shares, TableGraph, TablePairs

TaskChoice = StrEnum("TaskChoice", {n: n for n in get_args(TaskName)})  # type: ignore[misc]
UnknownChoice = StrEnum("UnknownChoice", ["error", "add"])

PAIRS = TaskChoice("recommendation")

NEW = 0.05
"""Share of nodes or users that a seeded split holds out as new, as in the paper."""

_SPLITTING = "Splitting"


def _share(help: str) -> Any:
    return typer.Option(
        parser=number_between(0, 1), metavar="SHARE", help=help, rich_help_panel=_SPLITTING
    )


@dataclass(frozen=True, kw_only=True)
class TableOptions(ReadingOptions):
    """What was typed about tables; each field is an option of the command line."""

    edges: Annotated[
        list[str],
        table(
            "Table of edges, or for recommendation of pairs (user, item): a file, a quoted "
            "pattern or a folder; CSV, TSV, Parquet, JSON lines or Arrow. May be repeated."
        ),
    ]
    nodes: Annotated[list[str] | None, table("Table of nodes: id, features, label.")] = None
    labels: Annotated[
        list[str] | None, table("Table of labels, if they are not in that of nodes.")
    ] = None
    task: Annotated[
        TaskChoice | None,
        typer.Option(
            metavar="TASK",
            help=f"What is learned: {listed(get_args(TaskName))}.",
            show_default="by the columns there are",
            rich_help_panel=FILES,
        ),
    ] = None
    source: Annotated[str | None, column("Where an edge begins.")] = None
    target: Annotated[str | None, column("Where an edge ends.")] = None
    user: Annotated[str | None, column("The user of a pair.")] = None
    item: Annotated[str | None, column("The item of a pair.")] = None
    id: Annotated[str | None, column("The id of a node.")] = None
    label: Annotated[str | None, column("The class of a node.")] = None
    split: Annotated[str | None, column("train, validation or test.")] = None
    time: Annotated[str | None, column("When a pair was seen.")] = None
    weight: Annotated[str | None, column("Weights, which are refused.")] = None
    ignore_weights: Annotated[
        bool, flag("--ignore-weights", "Leave weights out instead of refusing.", COLUMNS)
    ] = False
    features: Annotated[list[str] | None, column("Features: these only; repeatable, or a,b,c.")] = (
        None
    )
    exclude: Annotated[
        list[str] | None, column("Features: all but these; repeatable, or a,b,c.")
    ] = None
    categorical: Annotated[
        list[str] | None, column("Features to take as categories; repeatable, or a,b,c.")
    ] = None
    numeric: Annotated[
        list[str] | None,
        column("Features to take as numbers, though they look like ids; repeatable, or a,b,c."),
    ] = None
    max_levels: Annotated[
        int,
        typer.Option(
            parser=whole_number_to(10_000),
            metavar="COUNT",
            help="Most categories of one column; rarer ones count as one.",
            rich_help_panel=COLUMNS,
        ),
    ] = 50
    directed: Annotated[
        bool, flag("--directed", "Keep directions; by default edges go both ways.", READING)
    ] = False
    unknown_ids: Annotated[
        UnknownChoice, reading_panel("Ids of edges without a row of nodes: error or add.", "RULE")
    ] = UnknownChoice.error
    train: Annotated[float, _share("Share that trains, without a split column.")] = 0.8
    validation: Annotated[float, _share("Share that chooses the model; the rest is tested.")] = 0.1
    new: Annotated[
        float | None,
        typer.Option(
            parser=number_between(0, 1),
            metavar="SHARE",
            help="Share of nodes (of labelled ones, if these are classified) or of users held out "
            "as new, to measure cold start; features are scaled by training nodes only.",
            show_default="0.05; 0 with a split column",
            rich_help_panel=_SPLITTING,
        ),
    ] = None
    by_time: Annotated[
        bool, flag("--by-time", "Recommendation: the earliest pairs train.", _SPLITTING)
    ] = False
    split_seed: Annotated[
        int,
        typer.Option(
            parser=whole_number_to(2**31 - 1),
            metavar="SEED",
            help="Seed of the split.",
            rich_help_panel=_SPLITTING,
        ),
    ] = 0

    def shares(self, tables: TableGraph | TablePairs) -> Shares:
        """Shares of a seeded split, and of new nodes or users; by default none with a column."""
        from tuneup.tables import Shares

        usual = NEW if tables.given is None else 0.0
        return Shares(self.train, self.validation, usual if self.new is None else self.new)

    def request(self) -> GraphTables | PairTables:
        """The request that the options stand for."""
        from tuneup.tables import FeatureOptions, GraphTables, PairTables

        task = self.task or self._guessed_task()[0]
        self._check(task)
        if task == PAIRS:
            return PairTables(
                tuple(self.edges),
                self.user,
                self.item,
                self.time,
                self.split,
                self.weight,
                self.ignore_weights,
                self.by_time,
                self.reading(),
            )
        features = FeatureOptions(
            only=_names(self.features),
            exclude=_names(self.exclude),
            categorical=_names(self.categorical),
            numeric=_names(self.numeric),
            max_levels=self.max_levels,
        )
        return GraphTables(
            edges=tuple(self.edges),
            nodes=tuple(self.nodes or ()),
            labels=tuple(self.labels or ()),
            task=task.value,  # type: ignore[arg-type]
            source=self.source,
            target=self.target,
            id=self.id,
            label=self.label,
            split=self.split,
            weight=self.weight,
            ignore_weights=self.ignore_weights,
            directed=self.directed,
            unknown_ids=self.unknown_ids.value,  # type: ignore[arg-type]
            features=features,
            reading=self.reading(),
        )

    def load(self) -> TableGraph | TablePairs:
        """What the tables hold; whatever is wrong with them is an :class:`InputError`."""
        from tuneup.tables import PairTables, load_graph, load_pairs

        request = self.request()
        with silent_stderr():
            found: TableGraph | TablePairs = (
                load_pairs(request) if isinstance(request, PairTables) else load_graph(request)
            )
        if self.task is not None:
            return found
        task, why = self._guessed_task()
        words = task.replace("-", " ")
        return replace(found, notes=(f"task: {words}, as {why} (--task).", *found.notes))

    def _guessed_task(self) -> tuple[TaskChoice, str]:
        """By what was said: users or times are of pairs, labels of nodes; and the reason."""
        of_pairs = ("user", "item", "time", "by_time")
        for name in (each for each in of_pairs if getattr(self, each)):
            return PAIRS, f"--{name.replace('_', '-')} is about pairs of a user and an item"
        for name in (each for each in ("labels", "label", "nodes") if getattr(self, each)):
            return TaskChoice("node-classification"), f"--{name} is given"
        return TaskChoice("link-prediction"), "there is no table of nodes or labels"

    def _check(self, task: TaskChoice) -> None:
        """Options that the task has no use for would be ignored: say so instead."""
        of_graphs = (
            *("nodes", "labels", "source", "target", "id", "label"),
            *("features", "exclude", "categorical", "numeric", "directed"),
        )
        of_pairs = ("user", "item", "time", "by_time")
        strangers = of_graphs if task == PAIRS else of_pairs
        for name in strangers:
            if getattr(self, name):
                option = "--" + name.replace("_", "-")
                raise InputError(f"{option} is of no use to {task}: leave it out.")


def _names(given: list[str] | None) -> tuple[str, ...]:
    """Names given one by one or with commas between."""
    return tuple(name for each in given or () for name in each.split(",") if name)
