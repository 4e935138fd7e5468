"""Rows about nodes: ids, features, classes and the part of a split."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import polars as pl
import torch
from torch import Tensor

from tuneup.errors import InputError

from .columns import (
    LABEL,
    NODE_ID,
    SPLIT,
    Notes,
    choose,
    choose_required,
    existing,
    note_unused,
    plain,
)
from .fitting import RawFeatures, choose_features
from .ids import IdMap, as_whole_numbers, check_not_rounded, check_unique, clean_ids
from .reading import Table, TableFiles
from .request import TableRequest
from .splits import PARTS, read_parts
from .values import typed

ClassName = str | int | bool
_MASKS = ("trainmask", "valmask", "testmask")
"""PyG's names of the parts of a split, in plain letters."""
_MANY = 20
"""Up to this many classes are taken for classes, however few rows there are."""
_NO_LABEL = (
    *("n/a", "na", "#n/a", "nan", "none", "null", "nil", "-", "--", "?", ".", "unknown"),
    *("missing", "undefined", "unlabeled", "unlabelled", "not available", "tbd"),
)
"""Texts, in small letters, that often mean that there is no label."""


@dataclass(frozen=True, eq=False)
class NodeRows:
    """What tables say about nodes; ``ids`` is ``None`` if only labels were given.

    Rows of ``features``, ``y`` and ``part`` are nodes: in the order of ``ids``, or of all nodes.
    """

    table: Table
    id: str
    ids: pl.Series | None = None
    features: RawFeatures | None = None
    y: Tensor | None = None
    classes: tuple[ClassName, ...] = ()
    part: Tensor | None = None

    def with_labels(self, labels: NodeRows) -> NodeRows:
        """The same nodes with the labels and the split of another table."""
        return replace(self, y=labels.y, classes=labels.classes, part=labels.part)


def read_nodes(files: TableFiles, request: TableRequest, notes: Notes) -> NodeRows:
    """The table of nodes."""
    id = choose_required(files, request.id, NODE_ID, "--id", notes)
    label = split = None
    if request.task == "node-classification" and not request.labels:
        otherwise = ", or --task link-prediction, which needs no labels"
        label = choose_required(files, request.label, LABEL, "--label", notes, otherwise)
        split = choose(files, request.split, SPLIT, "--split", notes)
    masks = _masks(files)
    given = [name for name in (id, label, split) if name is not None]
    if len(set(given)) < len(given):
        raise InputError(f"{files.name}: --id, --label and --split must be different columns.")
    features = _feature_columns(files, request, {*given, *masks})
    used_masks = masks if label is not None and split is None else []
    keep = [*given, *used_masks, *features]
    note_unused(files, keep, notes)
    table = files.read(keep, ids=given)
    ids = clean_ids(table, id)
    check_not_rounded(table, id, ids)
    check_unique(table, id, ids)
    chosen = choose_features(table, features, request, notes)
    raw = chosen if chosen.columns else None
    brief = table.select(id)  # of the frame, only what messages name
    if label is None:
        return NodeRows(brief, id, ids, raw)
    y, classes = read_labels(table, label, notes, request.missing)
    part = read_parts(table, split) if split is not None else None
    if part is None and masks:
        part = _parts_of_masks(table, masks, notes)
    if part is not None:
        _check_labelled(table, label, y, part, notes)
    return NodeRows(brief, id, ids, raw, y, classes, part)


def read_labels_of(files: TableFiles, request: TableRequest, ids: IdMap, notes: Notes) -> NodeRows:
    """A table of its own for labels; each id must be a node."""
    given = request.id if request.id in files.columns else None
    id = choose_required(files, given, NODE_ID, "--id", notes)
    label = choose_required(files, request.label, LABEL, "--label", notes)
    split = choose(files, request.split, SPLIT, "--split", notes)
    columns = [name for name in (id, label, split) if name is not None]
    note_unused(files, columns, notes)
    table = files.read(columns, ids=columns)
    own = clean_ids(table, id)
    check_unique(table, id, own)
    nodes = ids.positions(own)
    unknown = nodes < 0
    table.refuse(
        unknown,
        id,
        lambda row: (
            f"a label for {own[row]!r}, which is no node of the graph; "
            f"{int(unknown.sum()):,} labels refer to unknown nodes: remove these rows, or add the "
            "nodes to --nodes."
        ),
    )
    own_y, classes = read_labels(table, label, notes, request.missing)
    y = torch.full((len(ids),), -1)
    y[nodes] = own_y
    part = None
    if split is not None:
        own_part = read_parts(table, split)
        _check_labelled(table, label, own_y, own_part, notes)
        part = torch.full((len(ids),), -1)
        part[nodes] = own_part
    return NodeRows(table, id, y=y, classes=classes, part=part)


def _feature_columns(files: TableFiles, request: TableRequest, special: set[str]) -> list[str]:
    """The columns that are asked for, or all that are nothing else."""
    for name, option in request.named_features:
        existing(files, name, option)
        if name in special and option != "--exclude":
            raise InputError(
                f"{files.name}: column {name!r} is the id, the label or the split, so it is no "
                f"feature; leave it out of {option}."
            )
    if request.features:
        asked = {*request.features} - {*request.exclude}
        return [name for name in files.columns if name in asked]
    # Whatever the task, a column that is called label would give the answer away.
    answers = {name for name in files.columns if plain(name) in (*LABEL, *SPLIT)}
    left_out = {"", *special, *request.exclude, *(answers - set(request.categorical))}
    return [name for name in files.columns if name not in left_out]


def _masks(files: TableFiles) -> list[str]:
    found = {plain(name): name for name in files.columns}
    return [found[mask] for mask in _MASKS if mask in found]


def _parts_of_masks(table: Table, masks: list[str], notes: Notes) -> Tensor:
    """``train_mask``, ``val_mask`` and ``test_mask`` as one column of parts."""
    part = torch.full((table.frame.height,), -1)
    for name in masks:
        values = typed(table.select(name)).frame[name]
        if values.dtype != pl.Boolean or values.null_count():
            raise table.error("a mask holds true or false in every row.", None, name)
        chosen = torch.from_numpy(values.to_numpy(writable=True))
        table.refuse(chosen & (part >= 0), name, "this row is in two masks; give it one part.")
        part[chosen] = _MASKS.index(plain(name))
    for number, name in enumerate(PARTS[:2]):
        if not bool((part == number).any()):
            raise table.error(f"no mask marks rows for {name}; write a column split instead.")
    notes.append(f"{table.name}: the split is that of {', '.join(masks)}.")
    return part


def _check_labelled(table: Table, label: str, y: Tensor, part: Tensor, notes: Notes) -> None:
    table.refuse(
        (y < 0) & (part >= 0),
        label,
        lambda row: (
            f"a row for {PARTS[int(part[row])]} without a label; fill it in, or leave its "
            "split empty."
        ),
    )
    unused = int(((y >= 0) & (part < 0)).sum())
    if unused:
        notes.append(
            f"{table.where(column=label)}: {unused:,} label{'s are' if unused > 1 else ' is'} in "
            "no part of the split, so they are not used; their nodes take part in the graph."
        )


def read_labels(
    table: Table, column: str, notes: Notes, missing: Collection[str] = ()
) -> tuple[Tensor, tuple[ClassName, ...]]:
    """The class of each row, -1 where there is none, and the value that each class stands for.

    Spaces around texts are cut off; ``missing`` are further values that mean "no label".
    """
    values = _label_values(table, column)
    if values.dtype == pl.String:
        values = _trimmed(table, column, values, notes)
    if missing:
        values = values.set(values.cast(pl.String).is_in([*missing]).fill_null(False), None)
    distinct = as_whole_numbers(values.drop_nulls().unique()).sort()
    count, labelled = len(distinct), len(values) - values.null_count()
    if not count:
        raise table.error("no row has a label.", None, column)
    if count == 1:
        raise table.error(
            f"every label is {distinct[0]!r}; there must be two classes or more to tell apart.",
            None,
            column,
        )
    if count > 2 and (count == labelled or (count > _MANY and count > labelled / 2)):
        raise table.error(
            f"{count:,} different labels in {labelled:,} rows: this looks like an id or a quantity "
            "to predict, not like classes; pass another --label, or write few classes.",
            None,
            column,
        )
    _note_words_for_no_label(table, column, values, distinct, notes)
    known = pl.Enum(distinct.cast(pl.String))
    y = values.cast(pl.String).cast(known).to_physical().cast(pl.Int64).fill_null(-1)
    rare = int((values.drop_nulls().value_counts(name="rows")["rows"] == 1).sum())
    if rare:
        notes.append(
            f"{table.where(column=column)}: {rare} of {count} classes have a single labelled row, "
            "so they are trained on or scored, not both."
        )
    if len(values) > labelled:
        notes.append(
            f"{table.where(column=column)}: {len(values) - labelled:,} of {len(values):,} rows "
            "have no label; they take part in the graph only."
        )
    return torch.from_numpy(y.to_numpy(writable=True)), tuple(distinct.to_list())


def _trimmed(table: Table, column: str, values: pl.Series, notes: Notes) -> pl.Series:
    """Labels without spaces around them; what is empty then is no label."""
    short = values.str.strip_chars()
    changed = int((short != values).sum())
    if changed:
        notes.append(
            f"{table.where(column=column)}: spaces around {changed:,} "
            f"label{'s are' if changed > 1 else ' is'} cut off."
        )
    return short.set((short == "").fill_null(False), None)


def _note_words_for_no_label(
    table: Table, column: str, values: pl.Series, distinct: pl.Series, notes: Notes
) -> None:
    """Say which classes look like words for "no label"."""
    texts = distinct.cast(pl.String)
    odd = texts.filter(texts.str.to_lowercase().is_in(_NO_LABEL)).to_list()
    if distinct.dtype == pl.Int64 and len(distinct) > 2 and distinct[0] == -1:
        odd.append("-1")
    for word in odd:
        count = int((values.cast(pl.String) == word).sum())
        notes.append(
            f"{table.where(column=column)}: {word!r} ({count:,} row{'s' if count > 1 else ''}) "
            f"counts as a class; if it means no label, pass --missing {word!r}."
        )


def _label_values(table: Table, column: str) -> pl.Series:
    """Labels as String, Int64 or Boolean."""
    values = table.frame[column]
    kind = values.dtype
    if kind.is_float():
        values = values.fill_nan(None)
        table.refuse(
            (values != values.round()) | values.is_infinite(),
            column,
            lambda row: (
                f"{values[row]} is not a class; quantities cannot be predicted, write "
                "whole numbers or texts."
            ),
        )
        return values.cast(pl.Int64)
    if kind.is_integer():
        return values.cast(pl.Int64, strict=False)
    if kind in (pl.Categorical, pl.Enum):
        return values.cast(pl.String)
    if kind in (pl.String, pl.Boolean, pl.Null):
        return values.cast(pl.String) if kind == pl.Null else values
    raise table.error(f"labels cannot be of type {kind}; use texts or whole numbers.", None, column)
