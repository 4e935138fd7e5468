"""Rows about nodes: ids, features, labels and the part of a split."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl
import torch
from torch import Tensor

from tuneup.errors import InputError

from .columns import LABEL, NODE_ID, SPLIT, Notes, choose, existing, plain
from .edges import note_unused
from .fitting import RawFeatures
from .ids import IdMap, check_written, clean_ids, refuse_duplicates
from .kinds import choose_kinds
from .labels import ClassName, read_labels
from .reading import TableFiles
from .requests import GraphTables
from .splits import PARTS, read_parts
from .table import Table

_MASKS = ("trainmask", "valmask", "testmask")
"""PyG's way to write a split, in plain names."""


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


def read_node_rows(files: TableFiles, request: GraphTables, notes: Notes) -> NodeRows:
    """The table of nodes."""
    id = choose(files, request.id, NODE_ID, "--id", notes, required=True)
    assert id is not None
    label = split = None
    if request.task == "node-classification" and not request.labels:
        label = choose(
            files,
            request.label,
            LABEL,
            "--label",
            notes,
            required=True,
            otherwise=", or --task link-prediction, which needs no labels",
        )
        split = choose(files, request.split, SPLIT, "--split", notes)
    masks = _masks(files)
    special = {id, label, split, *masks}
    if len({id, label, split} - {None}) < sum(name is not None for name in (id, label, split)):
        raise InputError(f"{files.name}: --id, --label and --split must be different columns.")
    features = _feature_columns(files, request, special)
    asked = set(masks) if label is not None and split is None else set()
    note_unused(files, (id, label, split, *asked, *features), notes)
    keep = {id, label, split, *features, *asked} - {None}
    table = files.read({id, label or id, split or id}, {name for name in keep if name})
    ids = clean_ids(table, id)
    check_written(table, id, ids)
    refuse_duplicates(table, id, ids)
    raw = _raw_features(table, features, request, notes)
    brief = Table(table.frame.select(id), table.parts)  # of the frame, only what messages name
    if label is None:
        return NodeRows(brief, id, ids, raw)
    labels = read_labels(table, label, notes, request.reading.missing)
    part = read_parts(table, split) if split is not None else None
    if part is None and masks:
        part = _parts_of_masks(table, masks, notes)
    if part is not None:
        _check_labelled(table, label, labels.y, part, notes)
    return NodeRows(brief, id, ids, raw, labels.y, labels.classes, part)


def read_label_rows(files: TableFiles, request: GraphTables, ids: IdMap, notes: Notes) -> NodeRows:
    """A table of its own for labels; each id must be a node."""
    given = request.id if request.id in files.columns else None
    id = choose(files, given, NODE_ID, "--id", notes, required=True)
    label = choose(files, request.label, LABEL, "--label", notes, required=True)
    split = choose(files, request.split, SPLIT, "--split", notes)
    assert id is not None
    assert label is not None
    note_unused(files, (id, label, split), notes)
    columns = {name for name in (id, label, split) if name is not None}
    table = files.read(columns, columns)
    own = clean_ids(table, id)
    refuse_duplicates(table, id, own)
    nodes = ids.positions(own)
    if bool((nodes < 0).any()):
        row = int((nodes < 0).nonzero()[0])
        count = int((nodes < 0).sum())
        raise table.error(
            f"a label for {own[row]!r}, which is no node of the graph; {count:,} labels are so: "
            "remove these rows, or add the nodes to --nodes.",
            row,
            id,
        )
    labels = read_labels(table, label, notes, request.reading.missing)
    y = torch.full((len(ids),), -1)
    y[nodes] = labels.y
    part = None
    if split is not None:
        own_part = read_parts(table, split)
        _check_labelled(table, label, labels.y, own_part, notes)
        part = torch.full((len(ids),), -1)
        part[nodes] = own_part
    return NodeRows(table, id, y=y, classes=labels.classes, part=part)


def _feature_columns(
    files: TableFiles, request: GraphTables, special: set[str | None]
) -> list[str]:
    """The columns that are asked for, or all that are nothing else."""
    options = request.features
    for name, option in options.named:
        existing(files, name, option)
        if name in special and option != "--exclude":
            raise InputError(
                f"{files.name}: column {name!r} is the id, the label or the split, so it is no "
                f"feature; leave it out of {option}."
            )
    if options.only:
        return [name for name in files.columns if name in {*options.only} - {*options.exclude}]
    # Whatever the task, a column that is called label would give the answer away.
    answers = {name for name in files.columns if plain(name) in (*LABEL, *SPLIT)}
    left_out = {"", *special, *options.exclude, *(answers - set(options.categorical))}
    return [name for name in files.columns if name not in left_out]


def _raw_features(
    table: Table, columns: list[str], request: GraphTables, notes: Notes
) -> RawFeatures | None:
    """The columns that can be features, if there are any."""
    chosen = choose_kinds(table, columns, request.features, notes)
    if not chosen:
        return None
    frame = table.frame.select(column.name for column in chosen)
    return RawFeatures(Table(frame, table.parts), chosen, request.features.max_levels)


def _masks(files: TableFiles) -> list[str]:
    found = {plain(name): name for name in files.columns}
    return [found[mask] for mask in _MASKS if mask in found]


def _parts_of_masks(table: Table, masks: list[str], notes: Notes) -> Tensor:
    """``train_mask``, ``val_mask`` and ``test_mask`` as one column of parts."""
    part = torch.full((table.frame.height,), -1)
    for name in masks:
        values = table.frame[name]
        if values.dtype != pl.Boolean or values.null_count():
            raise table.error("a mask holds true or false in every row.", None, name)
        chosen = torch.from_numpy(values.to_numpy(writable=True))
        twice = chosen & (part >= 0)
        if bool(twice.any()):
            row = int(twice.nonzero()[0])
            raise table.error("this row is in two masks; give it one part.", row, name)
        part[chosen] = _MASKS.index(plain(name))
    for number, name in enumerate(PARTS[:2]):
        if not bool((part == number).any()):
            raise table.error(f"no mask marks rows for {name}; write a column split instead.")
    notes.append(f"{table.name}: the split is that of {', '.join(masks)}.")
    return part


def _check_labelled(table: Table, label: str, y: Tensor, part: Tensor, notes: Notes) -> None:
    bad = (y < 0) & (part >= 0)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        raise table.error(
            f"a row for {PARTS[int(part[row])]} without a label; fill it in, or leave its split "
            "empty.",
            row,
            label,
        )
    unused = int(((y >= 0) & (part < 0)).sum())
    if unused:
        notes.append(
            f"{table.where(column=label)}: {unused:,} label{'s are' if unused > 1 else ' is'} in "
            "no part of the split, so they are not used; their nodes take part in the graph."
        )
