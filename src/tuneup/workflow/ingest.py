"""From a request for tables to a graph folder, whatever the size of the tables."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor

from tuneup.data.disk import (
    Dtype,
    EdgeSource,
    GraphFolder,
    NodeSource,
    OnStep,
    Scan,
    write_tables,
)
from tuneup.errors import InputError
from tuneup.tables import FeaturePlan, Table, TableFiles, TableRequest, open_table, read_tables

_HEAD = 1000
"""Rows by which the columns of edges are recognised."""
_LABELS, _SPLITS = ("label", "y", "class"), ("split",)
"""Names of columns that are taken for labels and splits, whatever their capitals."""
_UTF_8 = ("utf-8", "utf8", "utf_8")


def ingest(
    request: TableRequest,
    out: Path,
    *,
    memory: int,
    dtype: Dtype = "float32",
    overwrite: bool = False,
    on_step: OnStep | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> GraphFolder:
    """Write a graph folder from tables, within a budget of memory.

    Args:
        request: the tables; the task decides whether there are labels.
        out: the folder.
        memory: bytes of anonymous memory that the process may use.
        dtype: how features are stored.
        overwrite: replace a folder that is there.
        on_step: called with progress.
        say: called with each note about what was guessed or left out.

    Raises:
        InputError: about the first thing that is wrong.
    """
    _refuse_unsupported(request)
    asked = request.with_task()
    edge_files = open_table(asked.edges, asked)
    node_files = open_table(asked.nodes, asked) if asked.nodes else None
    edges, nodes = _scan(edge_files), None if node_files is None else _scan(node_files)
    columns = _columns(asked, edge_files, node_files, say)
    source = None
    if node_files is not None and nodes is not None:
        source = _node_source(asked, node_files, nodes, columns["id"], say)
    return write_tables(
        out,
        EdgeSource(edges, columns["source"], columns["target"]),
        source,
        undirected=not asked.directed,
        add_unknown=asked.unknown_ids == "add",
        memory=memory,
        dtype=dtype,
        name=edge_files.files[0].path.stem,
        settings=asked.words(),
        overwrite=overwrite,
        on_step=on_step,
    )


def _refuse_unsupported(request: TableRequest) -> None:
    if (request.task or request.guess_task()[0]) == "recommendation":
        raise InputError(
            "task: got recommendation; expected node-classification or link-prediction: tuneup fit "
            "reads pairs of users and items from their table."
        )
    for option, given in (
        ("--labels", request.labels),
        ("--weight", request.weight),
    ):
        if given:
            raise InputError(f"{option} is not supported here: leave it out, or join the tables.")


def _scan(files: TableFiles) -> Scan:
    """How the engine reads files that have been looked at."""
    first, dialect = files.files[0], files.dialects[0]
    if first.format == "arrow":
        raise InputError(f"{first.path}: Arrow files cannot be streamed; write it as Parquet.")
    for each in files.dialects:
        if each is not None and each.encoding.lower() not in _UTF_8:
            raise InputError(f"{files.name}: is in {each.encoding}; save it as UTF-8.")
        if each is not None and dialect is not None and each.header != dialect.header:
            raise InputError(f"{files.name}: the order of columns differs between files.")
    return Scan(
        tuple(str(file.path) for file in files.files),
        first.format,
        dialect.header if dialect is not None else files.columns,
        dialect.delimiter if dialect is not None else ",",
        tuple(files.request.no_value),
    )


def _columns(
    request: TableRequest,
    edges: TableFiles,
    nodes: TableFiles | None,
    say: Callable[[str], None],
) -> dict[str, str]:
    """The columns of ids, as ``tuneup fit`` finds them: by the first rows of the tables."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        heads = {"edges": (_save_head(edges, place / "edges"),)}
        if nodes is not None:
            heads["nodes"] = (_save_head(nodes, place / "nodes"),)
        # Only ids: what else the tables hold is read from all of their rows.
        asked = TableRequest(
            edges=heads["edges"],
            nodes=heads.get("nodes", ()),
            task="link-prediction",
            source=request.source,
            target=request.target,
            id=request.id,
            exclude=tuple(name for name in nodes.columns if name) if nodes is not None else (),
            unknown_ids="add",
            ignore_weights=request.ignore_weights,
        )
        try:
            found = read_tables(asked)
        except InputError as error:
            message = str(error)
            for files, head in ((edges, "edges"), (nodes, "nodes")):
                if files is not None:
                    message = message.replace(str(heads.get(head, ("?",))[0]), files.name)
            raise InputError(message, fix=error.fix) from error
    columns = dict(found.columns)
    for what, name in columns.items():
        if getattr(request, what) is None:
            say(f"{what}: column {name!r} (--{what}).")
    return columns


def _save_head(files: TableFiles, stem: Path) -> str:
    """The first rows of a table in a file of its own, of the same format."""
    file = files.files[0]
    if file.is_delimited:
        path = stem.with_suffix(".csv")
        _head(files).write_csv(path)
    else:
        path = stem.with_suffix(".parquet")
        _head(files).write_parquet(path)
    return str(path)


def _head(files: TableFiles) -> pl.DataFrame:
    file, dialect = files.files[0], files.dialects[0]
    if dialect is not None:
        return pl.read_csv(
            file.path,
            separator=dialect.delimiter,
            infer_schema=False,
            n_rows=_HEAD,
            glob=False,
        )
    if file.format == "parquet":
        return pl.scan_parquet(file.path, glob=False).head(_HEAD).collect()
    return pl.read_ndjson(file.path, n_rows=_HEAD)


def _node_source(
    request: TableRequest, files: TableFiles, scan: Scan, id: str, say: Callable[[str], None]
) -> NodeSource:
    label = split = None
    if request.task == "node-classification":
        label = _find(files, request.label, _LABELS, "--label", say)
        if label is None:
            raise InputError(
                f"{files.name}: no column of labels; pass --label, or --task link-prediction."
            )
        split = _find(files, request.split, _SPLITS, "--split", say)
    shares = None
    if label is not None and split is None:
        given = request.shares(has_split=False)
        shares = (given.train, given.validation, given.new)
    features = _feature_columns(request, files, {id, label, split})
    return NodeSource(
        scan,
        id,
        label,
        split,
        features,
        PlanFitter(request, files, id, say) if features else None,
        shares,
        request.split_seed,
    )


def _find(
    files: TableFiles,
    given: str | None,
    names: Sequence[str],
    option: str,
    say: Callable[[str], None],
) -> str | None:
    if given is not None:
        if given not in files.columns:
            raise InputError(f"{files.name}: no column {given!r} ({option}).")
        return given
    found = next((name for name in files.columns if name.lower() in names), None)
    if found is not None:
        say(f"{option.removeprefix('--')}: column {found!r} ({option}).")
    return found


def _feature_columns(
    request: TableRequest, files: TableFiles, special: set[str | None]
) -> tuple[str, ...]:
    for name, option in request.named_features:
        if name not in files.columns:
            raise InputError(f"{files.name}: no column {name!r} ({option}).")
    wanted = request.features or files.columns
    left_out = {"", *request.exclude, *special}
    left_out |= {name for name in files.columns if name.lower() in (*_LABELS, *_SPLITS)}
    return tuple(name for name in files.columns if name in wanted and name not in left_out)


@dataclass(frozen=True, eq=False)
class PlanFitter:
    """Fits a feature plan to a sample of rows, as ``tuneup fit`` does to all of them.

    Args:
        request: what becomes a feature, and how.
        files: the table of nodes.
        id: its column of ids.
        say: called with notes about features.
    """

    request: TableRequest
    files: TableFiles
    id: str
    say: Callable[[str], None]

    def __call__(self, sample: pl.DataFrame) -> PlanEncoder:
        """The plan of a sample, which has the column of ids too."""
        with tempfile.TemporaryDirectory() as folder:
            untyped = self.files.files[0].is_delimited
            nodes = Path(folder) / f"nodes.{'csv' if untyped else 'parquet'}"
            edges = Path(folder) / f"edges.{'csv' if untyped else 'parquet'}"
            ends = sample.select(pl.col(self.id).alias("source"), target=pl.col(self.id).reverse())
            for frame, path in ((sample, nodes), (ends, edges)):
                _write(frame, path)
            asked = TableRequest(
                edges=(str(edges),),
                nodes=(str(nodes),),
                task="link-prediction",
                id=self.id,
                features=self.request.features,
                exclude=self.request.exclude,
                categorical=self.request.categorical,
                numeric=self.request.numeric,
                max_levels=self.request.max_levels,
                missing=self.request.missing,
                nan_is_missing=self.request.nan_is_missing,
            )
            try:
                tables = read_tables(asked)
                plan = tables.plan  # type: ignore[union-attr]
            except InputError as error:
                message = str(error).replace(str(nodes), f"{self.files.name} (a sample)")
                raise InputError(message, fix=error.fix) from error
            for note in tables.notes:
                if str(edges) not in note:
                    self.say(note.replace(str(nodes), f"{self.files.name}, {sample.height:,} rows"))
            parts = open_table(asked.nodes, asked).read([self.id]).parts
        return PlanEncoder(plan, parts[0])


def _write(frame: pl.DataFrame, path: Path) -> None:
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)


@dataclass(frozen=True, eq=False)
class PlanEncoder:
    """A feature plan as the encoder of a graph folder.

    Args:
        plan: the plan.
        part: of a table of the same format: delimited files do not tell types.
    """

    fitted: FeaturePlan
    part: Any

    @property
    def width(self) -> int:
        """Numbers per node."""
        return self.fitted.width

    @property
    def plan(self) -> str:
        """The plan as JSON."""
        return self.fitted.to_json()

    @property
    def blank(self) -> Tensor:
        """Features of a node about which nothing is known ``[width]``."""
        return self.fitted.blanks(1)[0]

    def __call__(self, frame: pl.DataFrame) -> Tensor:
        """Features ``[rows, width]``."""
        if not frame.height:
            return torch.zeros(0, self.width)
        return self.fitted.apply(Table(frame, (replace(self.part, rows=frame.height),)))
