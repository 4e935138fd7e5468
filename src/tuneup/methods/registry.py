"""All methods by name; whoever adds one adds its file's ``METHODS`` here."""

from __future__ import annotations

from collections.abc import Mapping

from tuneup.errors import InputError

from . import (
    coldbrew,
    coldbrew_two_part,
    curricula,
    graphless,
    local_aug,
    node_dup,
    rawls,
    tail_gnn,
)
from .base import Method

_FILES = (curricula, local_aug, coldbrew, coldbrew_two_part, graphless, tail_gnn, rawls, node_dup)

METHODS: Mapping[str, Method] = {method.name: method for file in _FILES for method in file.METHODS}
"""All methods by name, in the order of the paper's tables.

Example::

    for name, method in tuneup.METHODS.items():
        print(name, method.summary)
"""


def method_named(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        raise InputError(f"There is no method {name!r}; choose from {', '.join(METHODS)}.")
    return METHODS[name]
