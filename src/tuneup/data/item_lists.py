"""The text layout of the LightGCN file set: a line a user, ``user item item ...``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from tuneup.errors import InputError

from .interactions import Interactions, interactions_from


def read_item_lists(paths: Sequence[Path], name: str) -> Interactions:
    """All pairs of one or more files; ids are counted from 0, a user may be on several lines."""
    users: list[int] = []
    items: list[int] = []
    for path in paths:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    user, *rest = map(int, line.split())
                except ValueError:
                    if not line.strip():
                        continue
                    raise InputError(
                        f"{path}, line {number}: expected 'user item item ...' as whole numbers; "
                        f"got {line.strip()[:60]!r}."
                    ) from None
                if user < 0 or min(rest, default=0) < 0:
                    raise InputError(f"{path}, line {number}: ids count from 0; got a negative.")
                users.extend([user] * len(rest))
                items.extend(rest)
    if not users:
        raise InputError(f"{name}: no pair of a user and an item in {', '.join(map(str, paths))}.")
    return interactions_from(
        torch.tensor(users), torch.tensor(items), max(users) + 1, max(items) + 1, name
    )


def read_halves(files: Sequence[Path], name: str) -> Interactions:
    """All pairs of two files that end at the same user, as gowalla's train.txt and test.txt do."""
    last = [_last_user(path) for path in files]
    if last[0] != last[1]:
        short = files[last.index(min(last))]
        raise InputError(
            f"{short} ends at user {min(last)}, its other half at user {max(last)}: it was cut "
            "short. Copy it again."
        )
    return read_item_lists(files, name)


def _last_user(path: Path) -> int:
    """The user of the last line, which both files of the set list last; -1 for an empty file."""
    text = path.read_bytes()
    lines = text.splitlines()
    if lines and not text.endswith(b"\n"):
        raise InputError(f"{path} ends within a line: it was cut short. Copy it again.")
    word = lines[-1].split()[:1] if lines else []
    return int(word[0]) if word and word[0].isdigit() else -1
