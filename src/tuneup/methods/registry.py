"""All methods by name, in the order of the paper's tables, and methods of other packages.

A package registers methods of its own as entry points in its ``pyproject.toml``; the name is the
method's::

    [project.entry-points."tuneup.methods"]
    rising = "my_package.rising:METHOD"

Without an entry point, ``my_package.rising:METHOD`` is itself a name that :func:`method_named`
accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points

from tuneup.errors import InputError

from . import (
    beyond,
    coldbrew,
    curricula,
    densify,
    graphless,
    local_aug,
    node_dup,
    rawls,
    sgl,
    spot_target,
    tail_gnn,
)
from .base import Method

GROUP = "tuneup.methods"
"""The group of entry points."""

_FILES = (
    *(curricula, local_aug, coldbrew, graphless, tail_gnn, rawls, node_dup),
    *(beyond, spot_target, densify, sgl),
)

METHODS: Mapping[str, Method] = {method.name: method for file in _FILES for method in file.METHODS}
"""The methods of this package by name.

Example::

    for name, method in tuneup.METHODS.items():
        print(name, method.summary)
"""

_PAPER_TITLES: Mapping[str, str] = {
    "base": "Base",
    "dropedge": "DropEdge",
    "localaug": "LocalAug",
    "coldbrew": "ColdBrew",
    "graphlessnn": "GraphLessNN",
    "rawls-gcn": "RAWLS-GCN",
    "tail-gnn": "Tail-GNN",
    "without-curriculum": "TuneUp w/o curriculum",
    "without-pseudo-labels": "TuneUp w/o pseudo-labels",
    "without-syn-tails": "TuneUp w/o syn-tails",
    "tuneup": "TuneUp",
}
ROWS = tuple(_PAPER_TITLES)
"""Rows of the paper's tables, in their order."""


def method_named(name: str) -> Method:
    """The method of a name.

    Args:
        name: of a method of this package, of an entry point, or ``package.module:NAME``.

    Raises:
        InputError: if there is none, or what the name stands for is no :class:`Method`.
    """
    if name in METHODS:
        return METHODS[name]
    if ":" in name:
        module, _, attribute = name.partition(":")
        try:
            found = getattr(import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise InputError(f"method {name!r} cannot be imported: {error}.") from error
    else:
        registered = entry_points(group=GROUP, name=name)
        if not registered:
            known = ", ".join(method_names())
            raise InputError(
                f"There is no method {name!r}; choose from {known}, or package.module:NAME."
            )
        found = next(iter(registered)).load()
    if not isinstance(found, Method):
        raise InputError(f"{name!r} must be a tuneup.methods.Method; got {found!r}.")
    return found


def method_names() -> tuple[str, ...]:
    """Names of the methods of this package, then of the entry points; nothing is imported."""
    others = sorted({entry.name for entry in entry_points(group=GROUP)} - METHODS.keys())
    return (*METHODS, *others)


def title_of(method: str) -> str:
    """What the paper calls a method, or what it calls itself."""
    own = METHODS[method].title if method in METHODS else ""
    return _PAPER_TITLES.get(method) or own or method


def in_order(names: Iterable[str]) -> list[str]:
    """Methods as the paper orders them: Base first, others last."""
    return sorted(names, key=lambda name: (ROWS.index(name) if name in ROWS else len(ROWS), name))
