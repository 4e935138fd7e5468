"""Tables of what a trained model is asked about, read as those that it was trained on were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from .columns import (
    EDGE_ENDS,
    LIKE_WEIGHT,
    NODE_ID,
    PAIR_ENDS,
    SPLIT,
    TIME,
    WEIGHT,
    Notes,
    choose,
    choose_ends,
)
from .edges import note_unused
from .features import Categorical, FeaturePlan
from .ids import check_written, clean_ids, refuse_duplicates, same_kind
from .options import ReadOptions
from .reading import TableFiles, open_table
from .surprises import note_surprises
from .table import Table

_USERS = tuple(dict.fromkeys(user for user, _ in PAIR_ENDS if len(user) > 1))


@dataclass(frozen=True)
class NewTables:
    """What a model is asked about.

    Args:
        nodes: files, patterns or folders of new nodes: an id and features each.
        edges: of their edges, or of the items of new users.
        wanted: of ids that the model knows.
        pairs: whether the model recommends: edges are of users and items.
        plan: the features that the model reads; without one, all columns but the id are.
        id: column of nodes, or of the ids wanted; guessed if not given, as those below.
        source: column of edges, or of pairs the user.
        target: column of edges, or of pairs the item.
        reading: how files are read.
        columns: names in training, by what they held: where a table has them, they are meant.
    """

    nodes: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    pairs: bool = False
    plan: FeaturePlan | None = None
    id: str | None = None
    source: str | None = None
    target: str | None = None
    reading: ReadOptions = field(default_factory=ReadOptions)
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows with ids in one column or two.

    Args:
        table: the rows.
        columns: which columns hold ids.
        ids: what these hold, as they are written ``[rows]``.
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
class New:
    """What was read: new nodes, edges and known ids, each if asked for, and what was guessed."""

    nodes: NewRows | None
    edges: NewRows | None
    wanted: NewRows | None
    notes: tuple[str, ...]


def read_new(request: NewTables) -> New:
    """Read and check all that a request names.

    Raises:
        InputError: About the first thing that is wrong, with file, row, column and what to do.
    """
    notes = Notes()
    given = (request.nodes, request.edges, request.wanted)
    files = [open_table(each, request.reading, notes) if each else None for each in given]
    nodes = _nodes(files[0], request, notes) if files[0] is not None else None
    edges = _edges(files[1], request, notes) if files[1] is not None else None
    wanted = _wanted(files[2], request, notes) if files[2] is not None else None
    if nodes is not None and edges is not None:
        for column, ids in zip(edges.columns[: 1 if request.pairs else 2], edges.ids, strict=False):
            same_kind((edges.table, column, ids), (nodes.table, nodes.columns[0], nodes.ids[0]))
    return New(nodes, edges, wanted, tuple(notes))


def _nodes(files: TableFiles, request: NewTables, notes: Notes) -> NewRows:
    plan = request.plan
    inputs = () if plan is None or request.pairs else plan.inputs
    others = replace(files, columns=tuple(name for name in files.columns if name not in inputs))
    guesses = (*_USERS, *NODE_ID) if request.pairs else NODE_ID
    given = request.id or _as_trained(others, request, "user" if request.pairs else "id", notes)
    if plan is not None and len(others.columns) == 1 and given is None:
        guesses = (*guesses, *others.columns)  # the one that is no feature
    id = choose(
        files if given is not None else others,
        given,
        guesses,
        "--id",
        notes,
        required=True,
    )
    assert id is not None
    keep = None if plan is None and not request.pairs else {id, *inputs}
    if keep is not None:
        note_unused(files, tuple(keep), notes)
    table = files.read({id, *_texts(plan)}, keep)
    rows = _rows(table, (id,))
    refuse_duplicates(table, id, rows.ids[0])
    if plan is not None and not request.pairs:
        note_surprises(table, plan, notes)
    return rows


def _edges(files: TableFiles, request: NewTables, notes: Notes) -> NewRows:
    roles = ("user", "item") if request.pairs else ("source", "target")
    first, second = (
        given or _as_trained(files, request, role, notes)
        for given, role in zip((request.source, request.target), roles, strict=True)
    )
    ends = choose_ends(
        files,
        (first, second),
        PAIR_ENDS if request.pairs else EDGE_ENDS,
        ("--user", "--item") if request.pairs else ("--source", "--target"),
        (*WEIGHT, *LIKE_WEIGHT, *SPLIT, *TIME),
        notes,
    )
    note_unused(files, ends, notes)
    return _rows(files.read(ends, ends), ends)


def _wanted(files: TableFiles, request: NewTables, notes: Notes) -> NewRows:
    """Of the column with a name that ids have, or else of the first one."""
    guesses = (*_USERS, *NODE_ID) if request.pairs else NODE_ID
    given = request.id or _as_trained(files, request, "user" if request.pairs else "id", notes)
    id = choose(files, given, guesses, "--id", notes)
    if id is None:
        id = files.columns[0]
        notes.append(f"{files.name}: id is column {id!r}, the first (--id).")
    return _rows(files.read({id}, {id}), (id,))


def _as_trained(files: TableFiles, request: NewTables, role: str, notes: Notes) -> str | None:
    """The column that held this in training, if the table has it too."""
    name = request.columns.get(role)
    if name not in files.columns:
        return None
    notes.append(f"{files.name}: {role} is column {name!r}, as in training (--{role}).")
    return name


def _rows(table: Table, columns: Sequence[str]) -> NewRows:
    ids = tuple(clean_ids(table, name) for name in columns)
    for name, each in zip(columns, ids, strict=True):
        check_written(table, name, each)
    return NewRows(table, tuple(columns), ids)


def _texts(plan: FeaturePlan | None) -> set[str]:
    """Columns that were texts in training, though a few rows of CSV may look like numbers."""
    features = plan.features if plan is not None else ()
    return {
        each.name
        for each in features
        if isinstance(each, Categorical) and not all(map(_inferred, each.levels))
    }


def _inferred(level: str) -> bool:
    """Whether this is how a number or a truth value of CSV is written once it was read as one."""
    if level in ("true", "false"):
        return True
    try:
        return level in (str(float(level)), str(int(float(level))))
    except (ValueError, OverflowError):
        return False
