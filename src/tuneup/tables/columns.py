"""Which column is what: as the user says, or by its name, and then the guess is told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from tuneup.errors import InputError

if TYPE_CHECKING:
    from .reading import TableFiles

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
"""What may be a weight or not: told, where a weight is refused."""


class Notes(list[str]):
    """What was guessed, dropped or filled in, as lines to print."""


def plain(name: str) -> str:
    """A column's name as guesses see it: ``User_ID`` is ``user``, ``id`` stays ``id``."""
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    return letters.removesuffix("id") or letters if letters != "uuid" else letters


def choose(
    files: TableFiles,
    given: str | None,
    guesses: Sequence[str],
    option: str,
    notes: Notes,
    *,
    required: bool = False,
    otherwise: str = "",
) -> str | None:
    """The column that was asked for, or else the first with one of the guessed names.

    Args:
        files: the table.
        given: what the user said; it must exist.
        guesses: plain names, the likeliest first.
        option: of the command line, for messages.
        notes: gets a line if the column was guessed.
        required: whether to refuse a table without.
        otherwise: what else can be done about such a table.
    """
    if given is not None:
        return existing(files, given, option)
    found = {plain(name): name for name in reversed(files.columns)}
    for guess in guesses:
        if guess in found:
            notes.append(f"{files.name}: {option[2:]} is column {found[guess]!r} ({option}).")
            return found[guess]
    if required:
        raise InputError(
            f"{files.name}: no column is called {', '.join(guesses[:3])} or the like; pass "
            f"{option} with one of {_listed(files.columns)}{otherwise}."
        )
    return None


def choose_ends(
    files: TableFiles,
    given: tuple[str | None, str | None],
    guesses: Sequence[tuple[str, str]],
    options: tuple[str, str],
    others: Sequence[str],
    notes: Notes,
    *,
    otherwise: str = "",
) -> tuple[str, str]:
    """The two columns of ids of a table of edges or pairs.

    Args:
        files: the table.
        given: what the user said, for each end.
        guesses: pairs of plain names, the likeliest first.
        options: of the command line, for each end.
        others: plain names that are no ends; a table with only two further columns needs no names.
        notes: gets a line if the columns were guessed.
        otherwise: what else can be done where they cannot be guessed.
    """
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
    found = {plain(name): name for name in reversed(files.columns)}
    for pair in guesses:
        ends = [name or found.get(guess) for name, guess in zip(named, pair, strict=True)]
        if ends[0] is not None and ends[1] is not None and ends[0] != ends[1]:
            return _told(files, (ends[0], ends[1]), options, notes)
    rest = [name for name in files.columns if name and plain(name) not in others]
    if len(rest) == 2 and not any(named):
        return _told(files, (rest[0], rest[1]), options, notes)
    raise InputError(
        f"{files.name}: cannot tell which two columns are the ends of an edge; pass {options[0]} "
        f"and {options[1]} with two of {_listed(files.columns)}{otherwise}."
    )


def looks_like_pairs(columns: Sequence[str]) -> tuple[str | None, str | None]:
    """The columns whose names are those of users and of items, each ``None`` if there is none."""
    found = {plain(name): name for name in reversed(columns)}
    user, item = (
        next((found[name] for name in names if name in found), None) for names in (USERS, ITEMS)
    )
    return user, item


def _told(
    files: TableFiles, ends: tuple[str, str], options: tuple[str, str], notes: Notes
) -> tuple[str, str]:
    notes.append(
        f"{files.name}: {options[0][2:]} is column {ends[0]!r}, {options[1][2:]} is {ends[1]!r} "
        f"({options[0]}, {options[1]})."
    )
    return ends


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
