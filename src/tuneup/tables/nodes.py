"""Rows about nodes: ids, features, classes and the part of a split."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import polars as pl
import torch
from torch import Tensor

from tuneup.errors import InputError

from .columns import (
    GUESSES,
    ITEMS,
    USERS,
    choose,
    choose_required,
    existing,
    note_unused,
    plain,
    some_of,
)
from .features import KINDS, FeaturePlan
from .ids import IdMap, as_whole_numbers, clean_ids
from .kinds import Categorical, Column, Feature, mean_and_std
from .reading import Notes, Table, TableFiles
from .request import TableRequest
from .splits import PARTS, read_parts
from .values import ID, LONG_ID, TEXT, as_numbers, has_decimal_commas, kind_of

ClassName = str | int | bool
_FORCED_BY = {ID: "--numeric", LONG_ID: "--numeric", TEXT: "--categorical"}
"""Options that make features of columns which are none by default."""
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


def read_nodes(files: TableFiles) -> NodeRows:
    """The table of nodes."""
    request = files.request
    id, label, split = choose_required(files, "id"), None, None
    if request.task == "node-classification" and not request.labels:
        otherwise = ", or --task link-prediction, which needs no labels"
        label = choose_required(files, "label", otherwise=otherwise)
        split = choose(files, "split")
    found = {plain(name): name for name in files.columns}
    masks = [found[mask] for mask in _MASKS if mask in found]
    given = [name for name in (id, label, split) if name is not None]
    if len(set(given)) < len(given):
        raise InputError(f"{files.name}: --id, --label and --split must be different columns.")
    read_masks = masks if label is not None and split is None else []
    others = [*given[1:], *read_masks]
    table, nodes = _read_described(files, id, others, {*given, *masks})
    if label is None:
        return nodes
    y, classes = read_labels(table, label, files)
    part = read_parts(table, split) if split is not None else None
    if read_masks:
        part = _parts_of_masks(table, masks, files.notes)
    if part is not None:
        _check_labelled(table, label, y, part, files.notes)
    return replace(nodes, y=y, classes=classes, part=part)


def read_side(files: TableFiles, role: str, elsewhere: Collection[str]) -> NodeRows:
    """The table of users or of items.

    Args:
        files: the table.
        role: "user" or "item".
        elsewhere: columns of the other table, which the request may name too.
    """
    if getattr(files.request, role) not in files.columns:
        request = files.request
        unnamed = replace(request, user=None) if role == "user" else replace(request, item=None)
        files = replace(files, request=unnamed)
    names = USERS if role == "user" else ITEMS
    id = choose_required(files, role, (*names, *GUESSES["id"]))
    return _read_described(files, id, (), {id}, elsewhere)[1]


def _read_described(
    files: TableFiles,
    id: str,
    others: Sequence[str],
    special: set[str],
    elsewhere: Collection[str] = (),
) -> tuple[Table, NodeRows]:
    """A table's ids and features, with the columns of some others."""
    features = _feature_columns(files, special, elsewhere)
    keep = [id, *others, *features]
    note_unused(files, keep)
    table = files.read(keep, ids=[id, *others], numbers=features)
    ids = clean_ids(table, id, unique=True)
    chosen = choose_features(table, features, files.request, files.notes)
    return table, NodeRows(table.select(id), id, ids, chosen if chosen.columns else None)


def read_labels_of(files: TableFiles, ids: IdMap) -> NodeRows:
    """A table of its own for labels; each id must be a node."""
    if files.request.id not in files.columns:
        files = replace(files, request=replace(files.request, id=None))
    id, label = choose_required(files, "id"), choose_required(files, "label")
    split = choose(files, "split")
    columns = [name for name in (id, label, split) if name is not None]
    note_unused(files, columns)
    table = files.read(columns, ids=columns)
    own = clean_ids(table, id, unique=True)
    nodes = ids.positions(own)
    unknown = nodes < 0
    table.refuse(
        unknown,
        id,
        lambda row: (
            f"a label for {own[row]!r}, which is no node of the graph; {int(unknown.sum()):,} "
            "labels refer to unknown nodes: remove them, or add the nodes to --nodes."
        ),
    )

    def of_all(values: Tensor) -> Tensor:
        return torch.full((len(ids),), -1).index_copy(0, nodes, values)

    y, classes = read_labels(table, label, files)
    part = read_parts(table, split) if split is not None else None
    if part is not None:
        _check_labelled(table, label, y, part, files.notes)
        part = of_all(part)
    return NodeRows(table, id, y=of_all(y), classes=classes, part=part)


def _feature_columns(files: TableFiles, special: set[str], elsewhere: Collection[str]) -> list[str]:
    """The columns that are asked for, or all that are nothing else."""
    request = files.request
    for name, option in request.named_features:
        if name not in elsewhere:
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
    names = (*GUESSES["label"], *GUESSES["split"])
    answers = {name for name in files.columns if plain(name) in names}
    left_out = {"", *special, *request.exclude, *(answers - {*request.categorical})}
    return [name for name in files.columns if name not in left_out]


def _parts_of_masks(table: Table, masks: list[str], notes: Notes) -> Tensor:
    """``train_mask``, ``val_mask`` and ``test_mask`` as one column of parts."""
    part = torch.full((table.frame.height,), -1)
    for name in masks:
        values = table.select(name).typed().frame[name]
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
        lambda row: f"a row for {PARTS[int(part[row])]} without a label; fill in one of the two.",
    )
    unused = int(((y >= 0) & (part < 0)).sum())
    if unused:
        notes.append(
            f"{table.where(column=label)}: not in the split, so unused: {unused:,} labels."
        )


def read_labels(
    table: Table, column: str, files: TableFiles
) -> tuple[Tensor, tuple[ClassName, ...]]:
    """The class of each row, -1 where there is none, and the value that each class stands for.

    Spaces around texts are cut off.
    """
    where, notes = table.where(column=column), files.notes
    values = _label_values(table, column)
    if values.dtype == pl.String:
        short = values.str.strip_chars()
        changed = int((short != values).sum())
        if changed:
            notes.append(f"{where}: spaces around {changed:,} labels are cut off.")
        values = short.set((short == "").fill_null(False), None)
    if files.request.missing:
        absent = values.cast(pl.String).is_in([*files.request.missing]).fill_null(False)
        values = values.set(absent, None)
    distinct = as_whole_numbers(values.drop_nulls().unique()).sort()
    count, labelled = len(distinct), len(values) - values.null_count()
    problem = ""
    if not count:
        problem = "no row has a label."
    elif count == 1:
        problem = f"every label is {distinct[0]!r}; there must be two classes or more."
    elif count > 2 and (count == labelled or (count > _MANY and count > labelled / 2)):
        problem = (
            f"{count:,} different labels in {labelled:,} rows look like an id or a quantity; pass "
            "another --label, or write few classes."
        )
    if problem:
        raise table.error(problem, None, column)
    texts = values.cast(pl.String)
    y = texts.cast(pl.Enum(distinct.cast(pl.String))).to_physical().cast(pl.Int64).fill_null(-1)
    rows = dict(texts.drop_nulls().value_counts().iter_rows())
    for word, number in sorted(rows.items()):
        no_label = word.lower() in _NO_LABEL
        if no_label or (word == "-1" and count > 2 and distinct[0] == -1):
            notes.append(
                f"{where}: {word!r} ({number:,} row{'s' if number > 1 else ''}) counts as a class; "
                f"if it means no label, pass --missing {word!r}."
            )
    rare = sum(number == 1 for number in rows.values())
    if rare:
        notes.append(
            f"{where}: {rare} of {count} classes have a single labelled row, so they are trained "
            "on or scored, not both."
        )
    if len(values) > labelled:
        notes.append(
            f"{where}: {len(values) - labelled:,} of {len(values):,} rows have no label; they take "
            "part in the graph only."
        )
    return torch.from_numpy(y.to_numpy(writable=True)), tuple(distinct.to_list())


def _label_values(table: Table, column: str) -> pl.Series:
    """Labels as String, Int64 or Boolean."""
    values = table.frame[column]
    kind = values.dtype
    if kind.is_float():
        values = values.fill_nan(None)
        table.refuse(
            (values != values.round()) | values.is_infinite(),
            column,
            lambda row: f"{values[row]} is not a class; write whole numbers or texts.",
        )
    if kind.is_numeric() and not kind.is_decimal():
        return values.cast(pl.Int64, strict=False)
    if kind not in (pl.String, pl.Boolean, pl.Null, pl.Categorical, pl.Enum):
        problem = f"labels cannot be of type {kind}; use texts or whole numbers."
        raise table.error(problem, None, column)
    return values if kind == pl.Boolean else values.cast(pl.String)


@dataclass(frozen=True, eq=False)
class RawFeatures:
    """Columns that are features, typed and checked: what a plan is fitted and applied to.

    Args:
        table: rows of nodes 0, 1, 2, ...; nodes that only edges name have none.
        columns: name and kind of each.
    """

    table: Table
    columns: tuple[Column, ...]

    def fit(self, training: Tensor | None, notes: Notes) -> FeaturePlan:
        """A plan by some of the rows.

        Args:
            training: which nodes training knows, bool ``[N]``; by default all.
            notes: gets a line for everything that is filled in, merged or left out.
        """
        frame, name = self.table.frame, self.table.name
        if training is not None:
            frame = frame.filter(pl.Series(training[: frame.height].numpy()))
        features: list[Feature] = []
        for column in self.columns:
            values = frame[column.name].drop_nulls()
            feature = KINDS[column.kind].fit(column, frame[column.name]) if len(values) else None
            if feature is None:
                why = "the same in all" if len(values) else "no values in"
                notes.append(f"{name}: left out {column.name!r}: {why} training rows.")
                continue
            features.append(feature)
            other = int(feature.unseen(values).sum()) if isinstance(feature, Categorical) else 0
            if other:
                notes.append(
                    f"{self.table.where(column=column.name)}: {values.n_unique():,} categories; "
                    f"the {column.max_levels} commonest ({1 - other / len(values):.0%} of rows) "
                    "are used and others count as one (--max-levels)."
                )
        self._note_gaps(features, notes)
        return FeaturePlan(tuple(features))

    def _note_gaps(self, features: Sequence[Feature], notes: Notes) -> None:
        """Note how many values are missing, in lines by what they are taken as."""
        gaps: dict[str, dict[str, int]] = {}
        for feature in features:
            count = self.table.frame[feature.name].null_count()
            if count:
                says_so = ", and a further feature says so" if feature.has_indicator else ""
                gaps.setdefault(feature.gap + says_so, {})[feature.name] = count
        for filled_in, counts in gaps.items():
            worst = sorted(counts, key=lambda name: -counts[name])
            some = some_of([f"{name!r} {counts[name]:,}" for name in worst], 3)
            notes.append(f"{self.table.name}: missing values ({some}) are taken as {filled_in}.")


def choose_features(
    table: Table, columns: Sequence[str], request: TableRequest, notes: Notes
) -> RawFeatures:
    """The columns that can be features, each with its kind by all of its rows.

    Every value is checked.  Notes say what is left out, and how to use it all the same.

    Raises:
        InputError: About a value that does not fit the others of its column, or a column that
            ``--features`` asks for and that cannot be a feature.
    """
    chosen: dict[Column, pl.Series] = {}
    left_out: dict[str, list[str]] = {}
    known = table.select(*columns).typed()
    for name in columns:
        kind = kind_of(known.frame[name], name, request)
        if kind in KINDS:
            try:
                comma = kind == "numeric" and has_decimal_commas(known, name)
                column = Column(name, kind, comma, request.max_levels, request.text_width)
                chosen[column] = _read(known, column).alias(name)
            except InputError as error:
                if error.fix:
                    raise
                problem = f"{str(error).removesuffix('.')}; or pass --exclude {name}."
                raise InputError(problem, fix=("--exclude", name)) from error
        elif name in request.features:
            other = f", or pass {_FORCED_BY[kind]} {name}" if kind in _FORCED_BY else ""
            raise table.error(f"{kind}; leave it out of --features{other}.", column=name)
        else:
            left_out.setdefault(kind, []).append(name)
    for reason, names in left_out.items():
        forced = f" ({_FORCED_BY[reason]} {names[0]} to use it)" if reason in _FORCED_BY else ""
        some = some_of([*map(repr, names)])
        notes.append(f"{table.name}: left out {some}: {reason}{forced}.")
    commas = [repr(each.name) for each in chosen if each.decimal_comma]
    if commas:
        notes.append(f"{table.name}: decimal commas in {', '.join(commas)}.")
    return RawFeatures(Table(pl.DataFrame([*chosen.values()]), table.parts), tuple(chosen))


def _read(table: Table, column: Column) -> pl.Series:
    """The values of a column in the type of its kind, all of them checked."""
    name = column.name
    if column.kind != "numeric":
        return KINDS[column.kind].reader(table, name)
    values = as_numbers(table, name, column.decimal_comma, f", or --categorical {name}")
    if not all(math.isfinite(each) for each in mean_and_std(values)):
        raise table.error("numbers too large to standardise; divide them.", None, name)
    return values
