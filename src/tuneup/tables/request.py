"""What a user asks of tables: which files and columns, how to read them, and how to split.

The options of ``tuneup fit``, ``inspect`` and ``predict`` are generated from the fields of
:class:`TableRequest`, so this module imports nothing heavy.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from typing import Any, Literal, get_args

from tuneup.errors import InputError
from tuneup.names import TaskName

Format = Literal["csv", "tsv", "parquet", "jsonl", "arrow"]
"""The formats that are read."""

UnknownIds = Literal["error", "add"]
"""What to do about ids of edges that have no row in the table of nodes."""

UTF_8 = "utf-8"
NEW_SHARE = 0.05
"""Share of nodes or users that a seeded split holds out as new, as in the paper."""

_NAMED_DELIMITERS = {"tab": "\t", r"\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
_CHOICES: Mapping[str, Any] = {"task": TaskName, "unknown_ids": UnknownIds, "format": Format}


@dataclass(frozen=True)
class OptionInfo:
    """How a field of a request is an option of the command line.

    Args:
        help: what it says.
        panel: heading that it stands under.
        metavar: what its value is called; ``None`` for flags.
        default: what happens without the option, where its default value does not say so.
        bounds: smallest and largest number.
        commas: whether one value may hold several names, as in ``a,b,c``.
        only: the kind of tables that it is for, "graph" or "pairs"; ``None`` if for both.
        parse: makes the value of a text, where its type does not say how.
    """

    help: str
    panel: str
    metavar: str | None = None
    default: str | None = None
    bounds: tuple[float, float] | None = None
    commas: bool = False
    only: Literal["graph", "pairs"] | None = None
    parse: Callable[[str], Any] | None = None


# ruff: noqa: RUF009 - the functions below only make fields.


def _option(panel: str, default: Any, help: str, metavar: str | None = None, **more: Any) -> Any:
    info = OptionInfo(help, panel, metavar, more.pop("shown", None), **more)
    return field(default=default, metadata={"option": info})


def _files(help: str, **more: Any) -> Any:
    return _option("Tables", (), help, "PATH", **more)


def _column(help: str, **more: Any) -> Any:
    return _option("Columns", None, help, "NAME", **more)


def _columns(help: str) -> Any:
    help = f"{help}; repeatable, or a,b,c."
    return _option("Columns", (), help, "NAME", commas=True)


def _share(default: float | None, help: str, **more: Any) -> Any:
    return _option("Splitting", default, help, "SHARE", bounds=(0, 1), **more)


@dataclass(frozen=True)
class TableRequest:
    """A graph or a recommendation problem in tables; each field is an option of the command line.

    A graph has a table of edges and, if there are any, tables of nodes and labels.  For
    recommendation the edges are pairs (user, item).  Columns that are not named are guessed by
    their names, and the guesses are noted.  What each field means is its ``help`` below.

    Example:
        >>> request = TableRequest(edges=("edges.csv",), nodes=("nodes.parquet",))
        >>> tables = read_tables(request)
    """

    edges: tuple[str, ...] = _files(
        "Table of edges, or for recommendation of pairs (user, item): a file, a quoted pattern or "
        "a folder; CSV, TSV, Parquet, JSON lines or Arrow. May be repeated."
    )
    nodes: tuple[str, ...] = _files("Table of nodes: id, features, label.", only="graph")
    users: tuple[str, ...] = _files("Table of users: id, features.", only="pairs")
    items: tuple[str, ...] = _files("Table of items: id, features.", only="pairs")
    labels: tuple[str, ...] = _files(
        "Table of labels, if they are not in that of nodes.", only="graph"
    )
    ids_from: tuple[str, ...] = _files("Known nodes or users: a table with a column of ids.")
    task: TaskName | None = _option(
        "Tables",
        None,
        f"What is learned: {', '.join(get_args(TaskName)[:-1])} or {get_args(TaskName)[-1]}.",
        "TASK",
        shown="by the columns there are",
    )
    source: str | None = _column("Where an edge begins.", only="graph")
    target: str | None = _column("Where an edge ends.", only="graph")
    user: str | None = _column("The user of a pair.", only="pairs")
    item: str | None = _column("The item of a pair.", only="pairs")
    id: str | None = _column("The id of a node.", only="graph")
    label: str | None = _column("The class of a node.", only="graph")
    split: str | None = _column("train, validation or test.")
    time: str | None = _column("When a pair was seen.", only="pairs")
    weight: str | None = _column(
        "Weights of edges, above 0, by which sage, sage-sum and gcn multiply messages "
        "(node-classification)."
    )
    ignore_weights: bool = _option("Columns", False, "Leave weights out instead of refusing.")
    features: tuple[str, ...] = _columns("Features: these only")
    exclude: tuple[str, ...] = _columns("Features: all but these")
    categorical: tuple[str, ...] = _columns("Features to take as categories")
    numeric: tuple[str, ...] = _columns("Features to take as numbers, though they look like ids")
    text: tuple[str, ...] = _columns("Features to take as free text")
    text_width: int = _option(
        "Columns",
        32,
        "Numbers that a column of free text becomes; 0 leaves free text out.",
        "COUNT",
        bounds=(0, 1000),
    )
    max_levels: int = _option(
        "Columns",
        50,
        "Most categories of one column; rarer ones count as one.",
        "COUNT",
        bounds=(0, 10_000),
    )
    directed: bool = _option(
        "Reading", False, "Keep directions; by default edges go both ways.", only="graph"
    )
    unknown_ids: UnknownIds = _option(
        "Reading", "error", "Ids of edges without a row of nodes: error or add.", "RULE"
    )
    format: Format | None = _option(
        "Reading", None, "csv, tsv, parquet, jsonl or arrow, whatever the suffix.", "FORMAT"
    )
    delimiter: str | None = _option("Reading", None, "Of CSV: one character, tab or space.", "TEXT")
    encoding: str | None = _option(
        "Reading", None, "Of CSV.", "NAME", shown="UTF-8, or else Windows-1252"
    )
    missing: tuple[str, ...] = _option(
        "Reading", (), "A text that means no value; repeatable.", "TEXT"
    )
    nan_is_missing: bool = _option("Reading", False, "Read NaN as no value.")
    train: float = _share(0.8, "Share that trains, without a split column.")
    validation: float = _share(0.1, "Share that selects the model; the rest is tested.")
    new: float | None = _share(
        None,
        "Share of nodes (of labelled ones, if these are classified) or of users held out as new, "
        "to measure cold start; features are scaled by training nodes only.",
        shown="0.05; 0 with a split column",
    )
    by_time: bool = _option(
        "Splitting", False, "Recommendation: the earliest pairs train.", only="pairs"
    )
    split_seed: int = _option("Splitting", 0, "Seed of the split.", "SEED", bounds=(0, 2**31 - 1))

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in get_args(choices):
                raise InputError(
                    f"{option_name(name)} is one of {', '.join(get_args(choices))}; got {value}."
                )
        if self.delimiter is not None and (
            len(self.separator.encode()) != 1 or self.separator in '"\n\r'
        ):
            raise InputError(
                f"--delimiter is one ASCII character, or tab or space; got {self.delimiter!r}."
            )
        try:
            codecs.lookup(self.encoding or UTF_8)
        except LookupError as error:
            raise InputError(f"--encoding {self.encoding}: no such encoding.") from error
        if self.max_levels < 1:
            raise InputError(f"--max-levels must be 1 or more; got {self.max_levels}.")
        for first, second in combinations(("categorical", "numeric", "text"), 2):
            both = sorted({*getattr(self, first)} & {*getattr(self, second)})
            if both:
                raise InputError(f"{both[0]!r} is in --{first} and in --{second}; name it in one.")
        if self.text and not self.text_width:
            raise InputError("--text and --text-width 0 contradict each other; leave one out.")
        if self.by_time and self.split is not None:
            raise InputError("--by-time and --split are two ways to split; pass one.")

    @property
    def separator(self) -> str:
        """The delimiter that was asked for, as a character; empty if none was."""
        return _NAMED_DELIMITERS.get(self.delimiter or "", self.delimiter or "")

    @property
    def no_value(self) -> list[str]:
        """All texts of delimited files that mean "no value"."""
        return [*self.missing, *(("nan", "NaN", "NAN") if self.nan_is_missing else ())]

    @property
    def named_features(self) -> tuple[tuple[str, str], ...]:
        """Every column that was named as a feature or as none, with the option that names it."""
        lists = ("features", "exclude", "categorical", "numeric", "text")
        return tuple((name, option_name(each)) for each in lists for name in getattr(self, each))

    def guess_task(self) -> tuple[TaskName, str]:
        """The task by the other fields (users and times are of pairs), and the reason."""
        for name, info in option_fields().items():
            if info.only == "pairs" and getattr(self, name):
                return "recommendation", f"{option_name(name)} is about pairs of a user and an item"
        for name in ("labels", "label", "nodes"):
            if getattr(self, name):
                return "node-classification", f"{option_name(name)} is given"
        return "link-prediction", "there is no table of nodes or labels"

    def with_task(self) -> TableRequest:
        """The same request with its task.

        Raises:
            InputError: If a field is missing for the task, or not supported by it.
        """
        task = self.task or self.guess_task()[0]
        unsupported = "graph" if task == "recommendation" else "pairs"
        for name, info in option_fields().items():
            if info.only == unsupported and getattr(self, name):
                raise InputError(f"{option_name(name)} is not supported for {task}: leave it out.")
        if self.weight and not self.ignore_weights and task != "node-classification":
            raise InputError(
                f"--weight is not supported for {task}: its edges are examples to learn, which "
                "count alike; pass --ignore-weights to leave the column out."
            )
        if not self.edges:
            raise InputError("There is no table of edges or pairs: pass --edges.")
        if task == "node-classification" and not (self.nodes or self.labels):
            raise InputError(
                "Node classification needs labels: pass --nodes or --labels with a table that has "
                "a column of labels, or --task link-prediction."
            )
        if task == "link-prediction" and self.labels:
            raise InputError("Link prediction uses no labels: leave out --labels.")
        if task == "link-prediction" and self.directed:
            raise InputError("Link prediction is for undirected edges: leave out --directed.")
        tables = (self.users or self.items) if task == "recommendation" else self.nodes
        if not tables and (self.named_features or (self.id and not self.labels)):
            option = self.named_features[0][1] if self.named_features else "--id"
            which = "--users or --items" if task == "recommendation" else "--nodes"
            raise InputError(f"{option} names a column of {which}: pass that table too.")
        return replace(self, task=task)

    def shares(self, *, has_split: bool) -> Shares:
        """Shares of a seeded split; by default nothing is new where a column gives the split."""
        usual = 0.0 if has_split else NEW_SHARE
        return Shares(self.train, self.validation, usual if self.new is None else self.new)

    def with_fix(self, fix: tuple[str, ...]) -> TableRequest:
        """The request with one more option, as :class:`tuneup.errors.InputError` suggests it."""
        name = fix[0].removeprefix("--").replace("-", "_")
        value: Any = fix[1] if len(fix) > 1 else True
        if isinstance(getattr(self, name), tuple):
            value = (*getattr(self, name), value)
        return replace(self, **{name: value})

    def words(self) -> list[str]:
        """The words of a command line that asks for the same."""
        words: list[str] = []
        for each in fields(self):
            value = getattr(self, each.name)
            if value == each.default:
                continue
            if value is True:
                words.append(option_name(each.name))
                continue
            for one in value if isinstance(value, tuple) else (value,):
                words += [option_name(each.name), str(one)]
        return words


@dataclass(frozen=True)
class Shares:
    """Shares of a seeded split or one by time; what is left is for the test.

    Args:
        train: share that trains.
        validation: share that selects the model.
        new: share of all nodes of a graph, or of the users, that training never sees.
    """

    train: float = 0.8
    validation: float = 0.1
    new: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.new < 1:
            raise InputError(
                f"--new is a share of the nodes or users, 0 to below 1; got {self.new:g}."
            )
        if not (min(self.train, self.validation) > 0 and self.train + self.validation <= 1):
            raise InputError(
                "--train and --validation are shares above 0 that add up to 1 at most; got "
                f"{self.train:g} and {self.validation:g}."
            )


def option_fields(kind: Any = TableRequest) -> dict[str, OptionInfo]:
    """The fields of a dataclass, such as a request, that are options of the command line."""
    return {each.name: each.metadata["option"] for each in fields(kind)}


def option_name(field_name: str) -> str:
    """``--by-time`` of ``by_time``."""
    return "--" + field_name.replace("_", "-")
