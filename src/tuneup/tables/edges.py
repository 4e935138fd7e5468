"""What tables of edges and tables of pairs have in common: two columns of ids, and weights."""

from __future__ import annotations

from collections.abc import Sequence

from .columns import LIKE_WEIGHT, WEIGHT, Notes, existing, plain
from .reading import TableFiles
from .table import Table


def weight_column(files: TableFiles, given: str | None, taken: Sequence[str | None]) -> str | None:
    """The column that holds weights, if there is one."""
    if given is not None:
        return existing(files, given, "--weight")
    free = [name for name in files.columns if name not in taken]
    return next((name for name in free if plain(name) in WEIGHT), None)


def check_weights(table: Table, column: str | None, ignore: bool, notes: Notes) -> None:
    """Weights are refused, unless they are all equal or the user lets them go."""
    if column is None:
        return
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


def note_weights(files: TableFiles, used: Sequence[str | None], notes: Notes) -> None:
    """Tell of columns of edges that may be weights: nobody should think that they count."""
    found = [
        repr(name) for name in files.columns if name not in used and plain(name) in LIKE_WEIGHT
    ]
    if found:
        looks = "looks like a weight" if len(found) == 1 else "look like weights"
        notes.append(
            f"{files.name}: {', '.join(found)} {looks}, which the models do not use: all rows "
            "count alike."
        )


def note_unused(files: TableFiles, used: Sequence[str | None], notes: Notes) -> None:
    """Tell of the columns that nothing is read from."""
    unused = [name or "(no name)" for name in files.columns if name not in used]
    if unused:
        shown = ", ".join(unused[:6]) + (f" and {len(unused) - 6} more" if len(unused) > 6 else "")
        notes.append(f"{files.name}: not used: {shown}.")
