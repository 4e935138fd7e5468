"""Which column holds what: as the request says, or guessed by its name, with a note."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from tuneup.errors import InputError

if TYPE_CHECKING:
    from .reading import Table, TableFiles
    from .request import TableRequest

EDGE_ENDS = (
    ("source", "target"),
    ("src", "dst"),
    ("src", "dest"),
    ("from", "to"),
    ("u", "v"),
    ("head", "tail"),
    ("node1", "node2"),
    ("id1", "id2"),
    ("citing", "cited"),
    ("follower", "followee"),
    ("start", "end"),
)
USERS = ("user", "customer", "client", "buyer", "member", "visitor", "reader", "account")
ITEMS = ("item", "product", "sku", "movie", "location", "book", "article", "song", "track", "asin")
PAIR_ENDS = (*product(USERS, ITEMS), ("u", "i"), ("source", "target"))
NODE_ID = (
    *("id", "node", "key", "vertex", "uuid", "guid", "identifier", "index", "code"),
    *("name", "nodename", "username", "login", "handle", "email", "url", "doi"),
)
LABEL = ("label", "y", "class")
SPLIT = ("split",)
TIME = (
    *("timestamp", "time", "datetime", "date", "ts", "createdat"),
    *("orderdate", "ordertime", "orderedat", "purchasedat", "boughtat", "eventtime"),
)
WEIGHT = ("weight", "weights", "w", "edgeweight", "rating", "score", "strength", "count")
LIKE_WEIGHT = (
    *("amount", "value", "quantity", "qty", "price", "total", "sum", "frequency", "freq"),
    *("volume", "stars", "times", "num", "clicks", "minutes", "distance"),
)
"""Names of what may be a weight or not: noted, where a weight is refused."""


class Notes(list[str]):
    """What was guessed, dropped or filled in, as lines to print."""


def plain(name: str) -> str:
    """A column's name as guesses see it: ``User_ID`` is ``user``, ``id`` stays ``id``."""
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    return letters.removesuffix("id") or letters if letters != "uuid" else letters


def choose(
    files: TableFiles, given: str | None, guesses: Sequence[str], option: str, notes: Notes
) -> str | None:
    """The column that was asked for, or else the first with one of the guessed names.

    Args:
        files: the table.
        given: the column that the user named; it must exist.
        guesses: plain names, the likeliest first.
        option: of the command line, for messages.
        notes: gets a line if the column was guessed.
    """
    if given is not None:
        return existing(files, given, option)
    found = {plain(name): name for name in reversed(files.columns)}
    for guess in guesses:
        if guess in found:
            notes.append(f"{files.name}: {option[2:]} is column {found[guess]!r} ({option}).")
            return found[guess]
    return None


def choose_required(
    files: TableFiles,
    given: str | None,
    guesses: Sequence[str],
    option: str,
    notes: Notes,
    otherwise: str = "",
) -> str:
    """As :func:`choose`; a table without such a column is refused, saying what else can be done."""
    found = choose(files, given, guesses, option, notes)
    if found is None:
        raise InputError(
            f"{files.name}: no column is called {', '.join(guesses[:3])} or similar; pass "
            f"{option} with one of {_listed(files.columns)}{otherwise}."
        )
    return found


def choose_ends(
    files: TableFiles, request: TableRequest, notes: Notes, *, otherwise: str = ""
) -> tuple[str, str]:
    """The two columns of ids of a table of edges, or of pairs where items are recommended.

    Args:
        files: the table; if only two of its columns can be ids, they need no telling names.
        request: what the user said, for each end.
        notes: gets a line if the columns were guessed.
        otherwise: what else can be done where they cannot be guessed.
    """
    pairs = request.task == "recommendation"
    options = ("--user", "--item") if pairs else ("--source", "--target")
    given = (request.user, request.item) if pairs else (request.source, request.target)
    named = [
        existing(files, name, option) if name is not None else None
        for name, option in zip(given, options, strict=True)
    ]
    if named[0] is not None and named[0] == named[1]:
        raise InputError(
            f"{files.name}: {options[0]} and {options[1]} are both {named[0]!r}; an edge has two "
            "columns of ids."
        )
    if named[0] is not None and named[1] is not None:
        return named[0], named[1]
    ends = _guess_ends(files, named, PAIR_ENDS if pairs else EDGE_ENDS)
    if ends is None:
        raise InputError(
            f"{files.name}: cannot tell which two columns are the ends of an edge; pass "
            f"{options[0]} and {options[1]} with two of {_listed(files.columns)}{otherwise}."
        )
    notes.append(
        f"{files.name}: {options[0][2:]} is column {ends[0]!r}, {options[1][2:]} is {ends[1]!r} "
        f"({options[0]}, {options[1]})."
    )
    return ends


def _guess_ends(
    files: TableFiles, named: Sequence[str | None], guesses: Sequence[tuple[str, str]]
) -> tuple[str, str] | None:
    found = {plain(name): name for name in reversed(files.columns)}
    for pair in guesses:
        first, second = (name or found.get(guess) for name, guess in zip(named, pair, strict=True))
        if first is not None and second is not None and first != second:
            return first, second
    others = (*WEIGHT, *LIKE_WEIGHT, *SPLIT, *TIME)
    rest = [name for name in files.columns if name and plain(name) not in others]
    return (rest[0], rest[1]) if len(rest) == 2 and not any(named) else None


def looks_like_pairs(columns: Sequence[str]) -> tuple[str | None, str | None]:
    """The columns whose names are those of users and of items, each ``None`` if there is none."""
    found = {plain(name): name for name in reversed(columns)}
    user, item = (
        next((found[name] for name in names if name in found), None) for names in (USERS, ITEMS)
    )
    return user, item


def existing(files: TableFiles, name: str, option: str) -> str:
    """The name itself, if the table has that column."""
    if name not in files.columns:
        raise InputError(
            f"{files.name}: no column {name!r}, which {option} asks for; there are "
            f"{_listed(files.columns)}."
        )
    return name


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:12])
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown


def weight_column(files: TableFiles, given: str | None, taken: Sequence[str | None]) -> str | None:
    """The column that holds weights, if there is one."""
    if given is not None:
        return existing(files, given, "--weight")
    free = [name for name in files.columns if name not in taken]
    return next((name for name in free if plain(name) in WEIGHT), None)


def check_weights(table: Table, column: str, ignore: bool, notes: Notes) -> None:
    """Refuse weights, unless they are all equal or the user leaves them out."""
    values = table.frame[column]
    if values.n_unique() == 1:
        notes.append(f"{table.where(column=column)}: every weight is {values[0]}; left out.")
        return
    if ignore:
        notes.append(f"{table.where(column=column)}: weights are left out, as asked.")
        return
    row = int((values != values[0]).fill_null(True).arg_max() or 0)
    raise table.error(
        f"weights that differ ({values[row]} after {values[0]}), which the models do not use; pass "
        "--ignore-weights to train without, or remove rows that should not count.",
        row,
        column,
        fix=("--ignore-weights",),
    )


def note_unused(
    files: TableFiles, used: Sequence[str | None], notes: Notes, *, weights: bool = False
) -> None:
    """Note the columns that nothing is read from, and which of them may be weights."""
    unused = [name for name in files.columns if name not in used]
    if unused:
        some = ", ".join(name or "(no name)" for name in unused[:6])
        more = f" and {len(unused) - 6} more" if len(unused) > 6 else ""
        notes.append(f"{files.name}: not used: {some}{more}.")
    like = [repr(name) for name in unused if weights and plain(name) in LIKE_WEIGHT]
    if like:
        looks = "looks like a weight" if len(like) == 1 else "look like weights"
        notes.append(
            f"{files.name}: {', '.join(like)} {looks}, which the models do not use: all rows count "
            "alike."
        )
