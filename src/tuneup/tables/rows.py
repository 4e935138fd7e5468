"""Rows with ids: edges, pairs of users and items, and what a saved model is asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl
import torch
from torch import Tensor

from tuneup.data import EdgeSplit
from tuneup.errors import InputError

from .columns import (
    GUESSES,
    USERS,
    choose,
    choose_ends,
    choose_required,
    looks_like_pairs,
    note_unused,
    plain,
    weight_column,
)
from .features import FeaturePlan
from .ids import check_same_type, clean_ids
from .kinds import Numeric
from .reading import Notes, Table, TableFiles, open_table
from .request import TableRequest
from .splits import read_parts, read_times
from .values import as_numbers


@dataclass(frozen=True, eq=False)
class IdRows:
    """Rows with ids in one column or two.

    Args:
        table: the rows.
        columns: which columns hold ids.
        ids: of these columns, as they are written ``[rows]``.
    """

    table: Table
    columns: tuple[str, ...]
    ids: tuple[pl.Series, ...]


@dataclass(frozen=True, eq=False)
class EdgeRows(IdRows):
    """Edges between nodes, or pairs where items are recommended; ``table`` has no values.

    Args:
        split: name of the column of parts.
        part: of each row ``[rows]``, as :func:`~tuneup.tables.splits.read_parts` gives it.
        time: of each row ``[rows]``, of pairs.
        weight: of each row ``[rows]``, above 0.
    """

    split: str | None = None
    part: Tensor | None = None
    time: Tensor | None = None
    weight: Tensor | None = None

    def merge(self, keys: Tensor, what: str, among: Tensor | None = None) -> pl.DataFrame:
        """Each distinct key once, ascending, with its part and its earliest time if there are any.

        Args:
            keys: what identifies the edge or pair of each row ``[rows]``.
            what: "edge" or "pair", for messages.
            among: the rows to merge, bool ``[rows]``; by default all.

        Raises:
            InputError: About an edge or pair in two parts.
        """
        given = {"key": keys, "part": self.part, "time": self.time}
        frame = pl.DataFrame(
            {k: values.numpy() for k, values in given.items() if values is not None}
        )
        if among is not None:
            frame = frame.filter(pl.Series(among.numpy()))
        if frame.width == 1:
            return frame.unique().sort("key")
        others = pl.all().exclude("key")
        merged = frame.group_by("key").agg(others.min(), others.max().name.suffix(" most"))
        if self.part is not None:
            torn = merged.filter(pl.col("part") != pl.col("part most"))["key"]
            if len(torn):
                raise self.table.error(
                    f"this {what} is in another part too; give each {what} one part.",
                    int((keys == int(torn.sort()[0])).nonzero()[-1]),
                    self.split,
                )
        return merged.sort("key")

    def check_weights(self, edge_index: Tensor, num_nodes: int, *, directed: bool) -> None:
        """Refuse an edge that is repeated with another weight."""
        if self.weight is None:
            return
        first, second = edge_index if directed else edge_index.sort(0).values
        rows = pl.DataFrame({"key": (first * num_nodes + second).numpy(), "w": self.weight.numpy()})
        of_edge = rows.select(pl.col("w").min().over("key").alias("least"), "w")
        self.table.refuse(
            of_edge["w"] > of_edge["least"],
            self.columns[1],
            lambda row: (
                "this edge has the weights {:g} and {:g}; give each edge one, for example their "
                "sum.".format(*of_edge.row(row))
            ),
        )

    def edge_split(self, edge_index: Tensor, num_nodes: int) -> EdgeSplit | None:
        """The parts of the column, each undirected edge once; ``None`` without such a column.

        Raises:
            InputError: About an edge in two parts, or in none: training could not use it.
        """
        if self.part is None:
            return None
        low, high = edge_index.min(0).values, edge_index.max(0).values
        keys, proper = low * num_nodes + high, low != high
        # Rows that repeat an edge may leave its part out.
        merged = self.merge(keys, "edge", proper & (self.part >= 0))
        distinct, part = (
            torch.from_numpy(merged[name].to_numpy(writable=True)) for name in ("key", "part")
        )
        bare = proper & ~torch.isin(keys, distinct)
        more = keys[bare].unique().numel() - 1
        self.table.refuse(
            bare,
            self.split or "",
            f"this edge has no part{f', like {more:,} more' if more else ''}; write train, "
            "validation or test, or remove the row.",
        )
        edges, none = torch.stack([distinct // num_nodes, distinct % num_nodes]), part[:0]
        train, validation, test = (edges[:, part == number].contiguous() for number in range(3))
        nodes, no_edge = torch.arange(num_nodes), edges[:, :0].contiguous()
        return EdgeSplit(nodes, none, train, validation, test, no_edge, no_edge, seed=0)


def read_edges(files: TableFiles) -> EdgeRows:
    """The table of edges or pairs."""
    request = files.request
    pairs = request.task == "recommendation"
    columns = choose_ends(files, "" if pairs else _or_pairs(files))
    split = time = None
    if not pairs:
        _note_pairs(files, columns)
    if pairs and request.by_time:
        time = choose_required(files, "time")
    elif request.task != "node-classification":
        split = choose(files, "split")
        time = choose(files, "time", quiet=True) if pairs else None
        if time is not None:
            files.notes.append(
                f"{files.name}: column {time!r} may be a time; not used without --by-time."
            )
    special = [name for name in (*columns, split, time) if name is not None]
    weight = weight_column(files, special)
    note_unused(files, (*special, weight), weights=True)
    table = files.read((*special, weight), ids=special)
    weights = None
    if weight is not None:
        weights = _read_weights(table.select(weight).typed(), weight, files)
    first, second = (clean_ids(table, name) for name in columns)
    if not pairs:
        check_same_type((table, columns[0], first), (table, columns[1], second))
    return EdgeRows(
        table.select(),
        columns,
        (first, second),
        split,
        read_parts(table, split) if split is not None else None,
        read_times(table, time) if time is not None else None,
        weights,
    )


def _read_weights(table: Table, column: str, files: TableFiles) -> Tensor | None:
    """Weights ``[rows]``, if the request names them; ``None`` if they are equal or not wanted."""
    values, where, request = table.frame[column], table.where(column=column), files.request
    if request.ignore_weights:
        files.notes.append(f"{where}: weights are left out, as asked.")
        return None
    if values.n_unique() == 1 and not values.null_count():
        files.notes.append(f"{where}: every weight is {values[0]}; left out.")
        return None
    if request.weight is None:
        row = int((values != values[0]).fill_null(True).arg_max() or 0)
        use = ", or --weight to use them" if request.task == "node-classification" else ""
        raise table.error(
            f"weights that differ ({values[row]} after {values[0]}); pass --ignore-weights to "
            f"train without{use}.",
            row,
            column,
            fix=("--ignore-weights",),
        )
    weights = as_numbers(table, column)
    table.refuse(weights.is_null(), column, "missing weight; fill it in or remove the row.")
    table.refuse(
        weights <= 0, column, lambda row: f"a weight of {weights[row]:g}; weights are above 0."
    )
    found = torch.from_numpy(weights.cast(pl.Float32).to_numpy(writable=True))
    if not bool(((found > 0) & found.isfinite()).all()):
        raise table.error("weights beyond single precision; multiply them.", None, column)
    files.notes.append(f"{where}: edge weights, {found.min():g} to {found.max():g} (--weight).")
    return found


def _note_pairs(files: TableFiles, columns: tuple[str, str]) -> None:
    user, item = looks_like_pairs(columns)
    given = files.request.source or files.request.target
    if given is None and user is not None and item is not None:
        files.notes.append(
            f"{files.name}: {user!r} and {item!r} look like users and items; --task recommendation "
            "ranks items for users."
        )


def _or_pairs(files: TableFiles) -> str:
    """What to do instead if there are columns of users or items."""
    user, item = looks_like_pairs(files.columns)
    if user is None and item is None:
        return ""
    return (
        "; if rows are items that users chose, pass --task recommendation "
        f"--user {user or 'COLUMN'} --item {item or 'COLUMN'}"
    )


@dataclass(frozen=True, eq=False)
class NewRows(IdRows):
    """What a saved model is asked about: ids and, of new nodes, features."""

    def texts(self, column: int = 0) -> list[str]:
        """The ids of a column as texts."""
        found: list[str] = self.ids[column].cast(pl.String).to_list()
        return found

    @property
    def features(self) -> Table:
        """The columns that are no ids."""
        return Table(self.table.frame.drop(self.columns), self.table.parts)


@dataclass(frozen=True, eq=False)
class NewTables:
    """What was read: new nodes, edges and known ids, each if asked for, and what was guessed."""

    nodes: NewRows | None
    edges: NewRows | None
    known: NewRows | None
    notes: tuple[str, ...]


def read_new(
    request: TableRequest,
    plan: FeaturePlan | None = None,
    columns: Mapping[str, str] | None = None,
) -> NewTables:
    """Read and check all that is asked of a saved model.

    Args:
        request: names tables of new nodes, of edges (or of the items of new users) and of known
            ids; its task is the model's.
        plan: the features that the model reads; without one, all columns but the id are.
        columns: names in training, by what they held: where a table has them, they are meant.

    Raises:
        InputError: About the first thing that is wrong, with file, row, column and what to do.
    """
    pairs = request.task == "recommendation"
    for name in ("source", "target") if pairs else ("user", "item"):
        if getattr(request, name):
            kind = "recommends items to users" if pairs else "has nodes, not users and items"
            raise InputError(f"--{name} is not supported: the model {kind}; leave it out.")
    reader, notes = _Reader(pairs, None if pairs else plan, columns or {}), Notes()
    given = (request.nodes, request.edges, request.ids_from)
    files = [open_table(each, request, notes) if each else None for each in given]
    nodes, edges, known = (
        read(each) if each is not None else None
        for read, each in zip((reader.nodes, reader.edges, reader.known), files, strict=True)
    )
    if nodes is not None and edges is not None:
        own = (nodes.table, nodes.columns[0], nodes.ids[0])
        for column, ids in zip(edges.columns[: 1 if pairs else 2], edges.ids, strict=False):
            check_same_type((edges.table, column, ids), own)
    return NewTables(nodes, edges, known, tuple(notes))


@dataclass(frozen=True, eq=False)
class _Reader:
    """Reads what a model is asked; where ``columns`` of training are there, they are meant."""

    pairs: bool
    plan: FeaturePlan | None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def guesses(self) -> tuple[str, ...]:
        """Names of columns of ids."""
        return (*USERS, "source", *GUESSES["id"]) if self.pairs else (*GUESSES["id"],)

    def nodes(self, files: TableFiles) -> NewRows:
        inputs = () if self.plan is None else self.plan.inputs
        others = tuple(name for name in files.columns if name not in inputs)
        files = self._as_trained(files, among=others)
        guesses, look_in = self.guesses, files
        if files.request.id is None:
            look_in = replace(files, columns=others)
            if self.plan is not None and len(others) == 1:
                guesses = (*guesses, *map(plain, others))  # the one that is no feature
        id = choose_required(look_in, "id", guesses)
        keep = None if self.plan is None and not self.pairs else (id, *inputs)
        if keep is not None:
            note_unused(files, keep)
        features = () if self.plan is None else self.plan.features
        numbers = [each.name for each in features if isinstance(each, Numeric)]
        table = files.read(keep, ids=(id,), numbers=[n for n in numbers if n in files.columns])
        ids = clean_ids(table, id, unique=True)
        if self.plan is not None:
            self.plan.note_unseen(table, files.notes)
        elif not self.pairs:
            table = table.typed()  # no plan says what the columns hold
        return NewRows(table, (id,), (ids,))

    def edges(self, files: TableFiles) -> NewRows:
        roles = ("user", "item") if self.pairs else ("source", "target")
        ends = choose_ends(self._as_trained(files, roles))
        note_unused(files, ends)
        return self._rows(files, ends)

    def known(self, files: TableFiles) -> NewRows:
        """Ids in the column with a name that ids have, or else in the first one."""
        id = choose(self._as_trained(files), "id", self.guesses)
        if id is None:
            id = files.columns[0]
            files.notes.append(f"{files.name}: id is column {id!r}, the first (--id).")
        return self._rows(files, (id,))

    def _rows(self, files: TableFiles, columns: tuple[str, ...]) -> NewRows:
        table = files.read(columns, ids=columns)
        return NewRows(table, columns, tuple(clean_ids(table, name) for name in columns))

    def _as_trained(
        self,
        files: TableFiles,
        roles: Sequence[str] = ("id",),
        among: Sequence[str] | None = None,
    ) -> TableFiles:
        """With a request that names the columns of training, where the table has them."""
        named: dict[str, str] = {}
        for role in roles:
            known = "user" if role == "id" and self.pairs else role
            name = self.columns.get(known)
            if getattr(files.request, role) is None and name in (
                files.columns if among is None else among
            ):
                assert name is not None
                named[role] = name
                files.notes.append(
                    f"{files.name}: {known} is column {name!r}, as in training (--{known})."
                )
        changed: TableRequest = replace(files.request, **named)  # type: ignore[arg-type]
        return replace(files, request=changed)
