"""Which column holds what: as the request says, or guessed by its name, with a note."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

from tuneup.errors import InputError

from .request import option_name

if TYPE_CHECKING:
    from .reading import TableFiles

EDGE_ENDS = (
    *(("source", "target"), ("src", "dst"), ("src", "dest"), ("from", "to"), ("u", "v")),
    *(("head", "tail"), ("node1", "node2"), ("id1", "id2"), ("citing", "cited")),
    *(("follower", "followee"), ("start", "end")),
)
USERS = ("user", "customer", "client", "buyer", "member", "visitor", "reader", "account")
ITEMS = ("item", "product", "sku", "movie", "location", "book", "article", "song", "track", "asin")
PAIR_ENDS = (*product(USERS, ITEMS), ("u", "i"), ("source", "target"))
GUESSES: Mapping[str, Sequence[str]] = {
    "id": (
        *("id", "node", "key", "vertex", "uuid", "guid", "identifier", "index", "code"),
        *("name", "nodename", "username", "login", "handle", "email", "url", "doi"),
    ),
    "label": ("label", "y", "class"),
    "split": ("split",),
    "time": (
        *("timestamp", "time", "datetime", "date", "ts", "createdat"),
        *("orderdate", "ordertime", "orderedat", "purchasedat", "boughtat", "eventtime"),
    ),
}
"""Plain names of a column, by the field of the request that would name it, the likeliest first."""
_WEIGHT = ("weight", "weights", "w", "edgeweight", "rating", "score", "strength", "count")
_LIKE_WEIGHT = (
    *("amount", "value", "quantity", "qty", "price", "total", "sum", "frequency", "freq"),
    *("volume", "stars", "times", "num", "clicks", "minutes", "distance"),
)
"""Names of what may be a weight or not: noted, where a weight is refused."""


def plain(name: str) -> str:
    """A column's name as guesses see it: ``User_ID`` is ``user``, ``id`` stays ``id``."""
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    return letters.removesuffix("id") or letters if letters != "uuid" else letters


def some_of(names: Sequence[object], most: int = 6) -> str:
    """``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def _by_plain_name(columns: Sequence[str]) -> dict[str, str]:
    return {plain(name): name for name in reversed(columns)}


def existing(files: TableFiles, name: str, option: str) -> str:
    """The name itself, if the table has that column."""
    if name not in files.columns:
        raise InputError(f"{files.name}: no column {name!r} ({option}); there are {_all(files)}.")
    return name


def _all(files: TableFiles) -> str:
    return some_of([*map(repr, files.columns)], 12)


def choose(
    files: TableFiles, role: str, guesses: Sequence[str] = (), *, quiet: bool = False
) -> str | None:
    """The column that the request names, or else the first with a name that suits.

    Args:
        files: the table; gets a note if the column was guessed.
        role: the field of the request that names the column.
        guesses: plain names, by default those of :data:`GUESSES`.
        quiet: leave out the note.
    """
    given, option = getattr(files.request, role), option_name(role)
    if given is not None:
        return existing(files, given, option)
    found = _by_plain_name(files.columns)
    name = next((found[guess] for guess in guesses or GUESSES[role] if guess in found), None)
    if name is not None and not quiet:
        files.notes.append(f"{files.name}: {role} is column {name!r} ({option}).")
    return name


def choose_required(
    files: TableFiles, role: str, guesses: Sequence[str] = (), otherwise: str = ""
) -> str:
    """As :func:`choose`; a table without such a column is refused, saying what else can be done."""
    found = choose(files, role, guesses)
    if found is None:
        raise InputError(
            f"{files.name}: no column is called {some_of(guesses or GUESSES[role], 3)} or similar; "
            f"pass {option_name(role)} with one of {_all(files)}{otherwise}."
        )
    return found


def choose_ends(files: TableFiles, otherwise: str = "") -> tuple[str, str]:
    """The two columns of ids of a table of edges, or of pairs where items are recommended.

    If only two columns can be ids, they need no telling names.
    """
    request = files.request
    roles = ("user", "item") if request.task == "recommendation" else ("source", "target")
    options = [option_name(role) for role in roles]
    named = [getattr(request, role) for role in roles]
    for name, option in zip(named, options, strict=True):
        if name is not None:
            existing(files, name, option)
    first, second = named
    if first is not None and first == second:
        raise InputError(
            f"{files.name}: {' and '.join(options)} are both {first!r}; name two columns."
        )
    if first is not None and second is not None:
        return first, second
    ends = _guess_ends(files, named, PAIR_ENDS if roles[0] == "user" else EDGE_ENDS)
    if ends is None:
        raise InputError(
            f"{files.name}: cannot tell which two columns are the ends of an edge; pass "
            f"{' and '.join(options)} with two of {_all(files)}{otherwise}."
        )
    files.notes.append(
        f"{files.name}: {roles[0]} is column {ends[0]!r}, {roles[1]} is {ends[1]!r} "
        f"({', '.join(options)})."
    )
    return ends


def _guess_ends(
    files: TableFiles, named: Sequence[str | None], guesses: Sequence[tuple[str, str]]
) -> tuple[str, str] | None:
    found = _by_plain_name(files.columns)
    for pair in guesses:
        first, second = (name or found.get(guess) for name, guess in zip(named, pair, strict=True))
        if first is not None and second is not None and first != second:
            return first, second
    others = (*_WEIGHT, *_LIKE_WEIGHT, *GUESSES["split"], *GUESSES["time"])
    rest = [name for name in files.columns if name and plain(name) not in others]
    return (rest[0], rest[1]) if len(rest) == 2 and not any(named) else None


def looks_like_pairs(columns: Sequence[str]) -> tuple[str | None, str | None]:
    """The columns whose names are those of users and of items, each ``None`` if there is none."""
    found = _by_plain_name(columns)
    user, item = (
        next((found[name] for name in names if name in found), None) for names in (USERS, ITEMS)
    )
    return user, item


def weight_column(files: TableFiles, taken: Sequence[str | None]) -> str | None:
    """The column that holds weights, if there is one."""
    if files.request.weight is not None:
        return existing(files, files.request.weight, "--weight")
    return next((n for n in files.columns if n not in taken and plain(n) in _WEIGHT), None)


def note_unused(files: TableFiles, used: Sequence[str | None], *, weights: bool = False) -> None:
    """Note the columns that nothing is read from, and which of them may be weights."""
    unused = [name for name in files.columns if name not in used]
    if unused:
        names = some_of([name or "(no name)" for name in unused])
        files.notes.append(f"{files.name}: not used: {names}.")
    like = [repr(name) for name in unused if weights and plain(name) in _LIKE_WEIGHT]
    if like:
        looks = "looks like a weight" if len(like) == 1 else "look like weights"
        use = " (--weight)" if files.request.task == "node-classification" else ""
        files.notes.append(f"{files.name}: {', '.join(like)} {looks}; all rows count alike{use}.")
