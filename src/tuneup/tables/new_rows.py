"""Tables of what a trained model is asked about, read as those that it was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from tuneup.errors import InputError

from .columns import (
    NODE_ID,
    USERS,
    Notes,
    choose,
    choose_ends,
    choose_required,
    note_unused,
    plain,
)
from .features import FeaturePlan
from .ids import check_not_rounded, check_same_type, check_unique, clean_ids
from .reading import Table, TableFiles, open_table
from .request import TableRequest
from .values import typed


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows with ids in one column or two.

    Args:
        table: the rows.
        columns: which columns hold ids.
        ids: of these columns, as they are written ``[rows]``.
    """

    table: Table
    columns: tuple[str, ...]
    ids: tuple[pl.Series, ...]

    def texts(self, column: int = 0) -> list[str]:
        """The ids of a column as texts."""
        found: list[str] = self.ids[column].cast(pl.String).to_list()
        return found

    @property
    def features(self) -> Table:
        """The other columns."""
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
    reader = _Reader(request, None if pairs else plan, columns or {})
    notes = reader.notes
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
    """Reads one table after the other, and notes what it guesses."""

    request: TableRequest
    plan: FeaturePlan | None
    columns: Mapping[str, str]
    notes: Notes = field(default_factory=Notes)

    @property
    def pairs(self) -> bool:
        """Whether the model recommends."""
        return self.request.task == "recommendation"

    def nodes(self, files: TableFiles) -> NewRows:
        inputs = () if self.plan is None else self.plan.inputs
        others = replace(files, columns=tuple(name for name in files.columns if name not in inputs))
        guesses = self._id_names
        given = self.request.id or self._as_trained(others, self._id_role)
        if self.plan is not None and len(others.columns) == 1 and given is None:
            guesses = (*guesses, *map(plain, others.columns))  # the one that is no feature
        look_in = files if given is not None else others
        id = choose_required(look_in, given, guesses, "--id", self.notes)
        keep = None if self.plan is None and not self.pairs else {id, *inputs}
        if keep is not None:
            note_unused(files, tuple(keep), self.notes)
        table = files.read(keep, ids=(id,))
        ids = clean_ids(table, id)
        check_not_rounded(table, id, ids)
        check_unique(table, id, ids)
        if self.plan is not None:
            self.plan.note_unseen(table, self.notes)
        elif not self.pairs:
            table = typed(table)  # no plan says what the columns hold
        return NewRows(table, (id,), (ids,))

    def edges(self, files: TableFiles) -> NewRows:
        roles = ("user", "item") if self.pairs else ("source", "target")
        named: dict[str, Any] = {
            role: getattr(self.request, role) or self._as_trained(files, role) for role in roles
        }
        ends = choose_ends(files, replace(self.request, **named), self.notes)
        note_unused(files, ends, self.notes)
        return self._rows(files, ends)

    def known(self, files: TableFiles) -> NewRows:
        """Ids in the column with a name that ids have, or else in the first one."""
        given = self.request.id or self._as_trained(files, self._id_role)
        id = choose(files, given, self._id_names, "--id", self.notes)
        if id is None:
            id = files.columns[0]
            self.notes.append(f"{files.name}: id is column {id!r}, the first (--id).")
        return self._rows(files, (id,))

    def _rows(self, files: TableFiles, columns: Sequence[str]) -> NewRows:
        table = files.read(columns, ids=columns)
        ids = tuple(clean_ids(table, name) for name in columns)
        for name, each in zip(columns, ids, strict=True):
            check_not_rounded(table, name, each)
        return NewRows(table, tuple(columns), ids)

    @property
    def _id_role(self) -> str:
        return "user" if self.pairs else "id"

    @property
    def _id_names(self) -> tuple[str, ...]:
        return (*USERS, "source", *NODE_ID) if self.pairs else NODE_ID

    def _as_trained(self, files: TableFiles, role: str) -> str | None:
        """The column that held this in training, if the table has it too."""
        name = self.columns.get(role)
        if name not in files.columns:
            return None
        self.notes.append(f"{files.name}: {role} is column {name!r}, as in training (--{role}).")
        return name
