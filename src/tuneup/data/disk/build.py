"""Writing a graph folder: from tables of any size, or from arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Features

from . import encode
from .arrays import append_npy, save_rows, stream
from .engine import Engine, Scan, all_whole, name_of, parquet
from .folder import GraphFolder
from .header import Header
from .sources import Dtype, EdgeSource, NodeSource
from .steps import Build, OnStep, Say

_PACKED = 1 << 63
"""Pairs of nodes are sorted as one number below it, and as two above."""


def write_tables(
    out: str | Path,
    edges: EdgeSource,
    nodes: NodeSource | None = None,
    *,
    undirected: bool = True,
    add_unknown: bool = False,
    memory: int = 2 << 30,
    dtype: Dtype = "float32",
    name: str = "graph",
    settings: Any = None,
    overwrite: bool = False,
    on_step: OnStep | None = None,
) -> GraphFolder:
    """Write a graph folder from tables of any size, within a budget of memory.

    Args:
        out: the folder, which must not exist or be empty.
        edges: the table of edges.
        nodes: the table of nodes; without it nodes are what edges name, in ascending order.
        undirected: read every edge both ways.
        add_unknown: add ids of edges that have no row as nodes, instead of refusing them.
        memory: bytes of anonymous memory that the process may use.
        dtype: how features are stored; they are float32 when they are read.
        name: what to call the graph in reports.
        settings: what else decides the result, as JSON: a run with others does not resume this one.
        overwrite: replace a folder that is there.
        on_step: called with progress.

    Raises:
        InputError: about the first thing that is wrong with the tables.
        OutputError: if the folder cannot be written.
    """
    stamp: list[Any] = [edges.scan.stamp, edges.source, edges.target, undirected, add_unknown]
    stamp += [dtype, name, settings]
    if nodes is not None:
        stamp += [nodes.scan.stamp, nodes.id, nodes.label, nodes.split, nodes.features]
        stamp += [nodes.shares, nodes.seed]
    build = Build(Path(out), memory, stamp, overwrite, on_step)
    with build.running():
        files: dict[str, str] = {}
        if nodes is not None:
            _save_table(build, nodes)
        ids = _save_ids(build, edges, nodes, add_unknown)
        count = ids["nodes"]
        _sort_edges(build, edges, nodes, count, undirected, ids["whole"])
        facts = _save_graph_rows(build, count, undirected)
        files |= {"rowptr": "rowptr.npy", "senders": "senders.npy", "ids": "ids.parquet"}
        classes: list[Any] = []
        if nodes is not None and nodes.label is not None:
            classes = encode.save_labels(build, nodes, count)
            files["y"] = "y.npy"
        if nodes is not None and (nodes.split or nodes.shares):
            encode.save_split(build, nodes, count)
            files["split"] = "split.npy"
        width, plan = 0, ""
        if nodes is not None and nodes.features and nodes.fit is not None:
            made = encode.save_encoded(build, nodes, count, dtype)
            width, plan = made["width"], made["plan"]
            if width:
                files["x"] = "x.npy"
        columns = {"source": edges.source, "target": edges.target}
        columns |= {"id": nodes.id} if nodes is not None else {}
        header = Header(
            name,
            count,
            undirected=undirected,
            width=width,
            classes=tuple(classes),
            columns=columns,
            plan=plan,
            **facts,
        )
        return build.finish(header, files)


def write_graph(
    out: str | Path,
    edge_index: Any,
    num_nodes: int,
    *,
    x: Features | np.ndarray[Any, Any] | None = None,
    y: Tensor | None = None,
    split: Any = None,
    num_classes: int | None = None,
    undirected: bool = True,
    memory: int = 2 << 30,
    dtype: Dtype = "float32",
    name: str = "graph",
    overwrite: bool = False,
    on_step: OnStep | None = None,
) -> GraphFolder:
    """Write a graph folder from arrays, which may be memory-mapped.

    Example::

        folder = write_graph("papers", data.edge_index, data.num_nodes, x=data.x, y=data.y)

    Args:
        out: the folder, which must not exist or be empty.
        edge_index: senders above, receivers below ``[2, E]``; a tensor or an array.
        num_nodes: N.
        x: features ``[N, d]``, dense or sparse.
        y: class of each node ``[N]``, -1 where unknown; or 0, 1 and -1 for each class ``[N, C]``.
        split: a :class:`tuneup.data.NodeSplit`.
        num_classes: by default the largest label plus one, or C.
        undirected: read every edge both ways, whether it is given once or twice.
        memory: bytes of anonymous memory that the process may use beside the arrays.
        dtype: how features are stored.
        name: what to call the graph in reports.
        overwrite: replace a folder that is there.
        on_step: called with progress.
    """
    pairs = edge_index.numpy() if isinstance(edge_index, Tensor) else edge_index
    if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            f"edge_index: got {pairs.dtype} of shape {list(pairs.shape)}; expected integers of "
            "shape [2, E]."
        )
    for what, given in (("x", x), ("y", y)):
        if given is not None and given.shape[0] != num_nodes:
            raise InputError(
                f"{what}: got {given.shape[0]} rows; expected {num_nodes}, one a node."
            )
    stamp = os.urandom(8).hex()  # arrays have no name to be known by: nothing is resumed
    build = Build(Path(out), memory, stamp, overwrite, on_step)
    with build.running():
        edges = _save_pairs(build, pairs, num_nodes)
        _sort_edges(build, edges, None, num_nodes, undirected, whole=None)
        facts = _save_graph_rows(build, num_nodes, undirected)
        files = {"rowptr": "rowptr.npy", "senders": "senders.npy"}
        classes: tuple[int, ...] = ()
        multi = y is not None and y.dim() == 2
        if y is not None:
            top = (
                (y.shape[1] if multi else int(y.max()) + 1) if num_classes is None else num_classes
            )
            classes = tuple(range(top))
            kind = np.int8 if multi else encode.label_type(top)
            append_npy(build.work / "y.npy", kind, y.shape, (y.numpy().astype(kind),))
            files["y"] = "y.npy"
        if split is not None:
            part = np.full(num_nodes, -1, np.int8)
            for number, field_name in enumerate(("train", "validation", "test", "new")):
                part[getattr(split, field_name).numpy()] = number
            append_npy(build.work / "split.npy", np.int8, part.shape, (part,))
            files["split"] = "split.npy"
        width = 0 if x is None else x.shape[1]
        if x is not None:
            files |= encode.save_features(build, x, dtype)
        header = Header(
            name,
            num_nodes,
            undirected=undirected,
            width=width,
            classes=classes,
            multi_label=multi,
            **facts,
        )
        return build.finish(header, files)


# Steps


def _save_pairs(build: Build, pairs: Any, num_nodes: int) -> EdgeSource:
    """Edges in memory as files that can be sorted."""
    files = []
    for number, start in enumerate(range(0, max(1, pairs.shape[1]), build.rows_at_once)):
        part = np.asarray(pairs[:, start : start + build.rows_at_once], dtype=np.int64)
        if part.size and not 0 <= part.min() <= part.max() < num_nodes:
            wrong = int(((part < 0) | (part >= num_nodes)).any(0).argmax())
            raise InputError(
                f"edge_index: column {start + wrong} is {tuple(part[:, wrong].tolist())}; "
                f"expected ids from 0 to {num_nodes - 1}."
            )
        files.append(str(build.work / f"pairs-{number:06}.parquet"))
        pl.DataFrame({"source": part[0], "target": part[1]}).write_parquet(files[-1])
    return EdgeSource(Scan(tuple(files), "parquet"), "source", "target")


def _save_table(build: Build, nodes: NodeSource) -> None:
    """The columns of the nodes that are used, in the order of their rows, in one file."""

    def work(say: Say) -> dict[str, Any]:
        columns = [nodes.id, nodes.label, nodes.split, *nodes.features]
        used = ", ".join(name_of(each) for each in dict.fromkeys(columns) if each is not None)
        path = build.work / "rows.parquet"
        with build.engine() as engine:
            engine.save(f"SELECT {used} FROM {nodes.scan.sql}", path, ordered=True)
            count = engine.one(f"SELECT count(*) FROM {parquet(path)}")
        if not count:
            raise InputError(f"{nodes.scan.files[0]}: has a header but no rows.")
        return {"nodes": count}

    build.step("reading nodes", work)


def _save_ids(
    build: Build, edges: EdgeSource, nodes: NodeSource | None, add_unknown: bool
) -> dict[str, Any]:
    """The id of each node in one file; and whether all ids are whole numbers."""
    ends, path = (edges.source, edges.target), build.work / "ids.parquet"

    def work(say: Say) -> dict[str, Any]:
        with build.engine() as engine:
            whole = all_whole(edges.scan, ends, engine)
            if nodes is not None:
                own = all_whole(nodes.scan, (nodes.id,), engine)
                if own != whole and not (edges.scan.untyped or nodes.scan.untyped):
                    kinds = [("texts", "whole numbers")[each] for each in (whole, own)]
                    raise InputError(
                        f"{edges.scan.files[0]}: ids are {kinds[0]}, but in "
                        f"{nodes.scan.files[0]} they are {kinds[1]}; write both alike."
                    )
                whole = whole and own
            both = _distinct_ends(edges, whole)
            if nodes is None:
                engine.save(f"SELECT id FROM ({both}) ORDER BY id", path, ordered=True)
                added = 0
            else:
                added = _save_known_ids(engine, nodes, whole, both if add_unknown else None)
            count = engine.one(f"SELECT count(*) FROM {parquet(path)}")
        return {"nodes": count, "whole": whole, "added": added}

    def _save_known_ids(engine: Engine, nodes: NodeSource, whole: bool, others: str | None) -> int:
        rows, known = build.work / "rows.parquet", build.work / "known.parquet"
        engine.save(
            f"SELECT {_as_id(nodes.id, whole)} AS id FROM {parquet(rows)}", known, ordered=True
        )
        _refuse_bad_ids(engine, nodes, known)
        if others is None:
            known.replace(path)
            return 0
        fresh = build.work / "fresh.parquet"
        engine.save(
            f"SELECT id FROM ({others}) ANTI JOIN {parquet(known)} USING (id) ORDER BY id",
            fresh,
            ordered=True,
        )
        partial = build.work / "ids.writing"
        parts = [pl.scan_parquet(known), pl.scan_parquet(fresh)]
        pl.concat(parts).sink_parquet(partial, maintain_order=True)
        partial.replace(path)
        return int(engine.one(f"SELECT count(*) FROM {parquet(fresh)}"))

    facts: dict[str, Any] = build.step("numbering nodes", work)
    return facts


def _as_id(column: str, whole: bool) -> str:
    return f"{name_of(column)}::{'BIGINT' if whole else 'VARCHAR'}"


def _distinct_ends(edges: EdgeSource, whole: bool) -> str:
    ends = [
        f"SELECT {_as_id(column, whole)} AS id FROM {edges.scan.sql}"
        for column in (edges.source, edges.target)
    ]
    return f"SELECT DISTINCT id FROM ({' UNION ALL '.join(ends)}) WHERE id IS NOT NULL"


def _refuse_bad_ids(engine: Engine, nodes: NodeSource, known: Path) -> None:
    """Refuse a node without an id, and two with the same one."""
    numbered, where = parquet(known, numbered=True), nodes.scan.files[0]
    missing = engine.rows(f"SELECT min(file_row_number) FROM {numbered} WHERE id IS NULL")[0][0]
    if missing is not None:
        raise InputError(
            f"{where}, row {missing + 1}, column {nodes.id!r}: missing id; fill it in or remove "
            "the row."
        )
    twice = engine.rows(f"SELECT id FROM {parquet(known)} GROUP BY id HAVING count(*) > 1 LIMIT 1")
    if twice:
        raise InputError(
            f"{where}, column {nodes.id!r}: id {twice[0][0]!r} comes more than once; keep one row "
            "per node."
        )


def _sort_edges(
    build: Build,
    edges: EdgeSource,
    nodes: NodeSource | None,
    count: int,
    undirected: bool,
    whole: bool | None,
) -> None:
    """All entries as pairs (receiver, sender) of numbers, in ascending order, in one file.

    Where they fit, a pair is one number ``receiver * N + sender``: that sorts in 0.6 of the time.
    A pair of an id that is no node is null, and comes first.
    """
    path = build.work / "sorted.parquet"
    if whole is None:  # numbers already
        source, target = name_of(edges.source), name_of(edges.target)
        joined = f"SELECT {source} AS s, {target} AS t FROM {edges.scan.sql}"
    else:
        ids = parquet(build.work / "ids.parquet", numbered=True)
        known = f"SELECT id, file_row_number AS node FROM {ids}"
        joined = (
            f"SELECT a.node AS s, b.node AS t FROM {edges.scan.sql} e "
            f"LEFT JOIN ({known}) a ON {_as_end(edges.source, whole)} = a.id "
            f"LEFT JOIN ({known}) b ON {_as_end(edges.target, whole)} = b.id"
        )
    ways = "(VALUES (0), (1)) w(way)" if undirected else "(VALUES (0)) w(way)"
    both = f"FROM ({joined}), {ways} WHERE way = 0 OR s <> t"
    receiver, sender = "CASE way WHEN 0 THEN t ELSE s END", "CASE way WHEN 0 THEN s ELSE t END"
    if count * count < _PACKED:
        query = f"SELECT ({receiver}) * {count} + ({sender}) AS key {both} ORDER BY key NULLS FIRST"
    else:
        query = (
            f"SELECT {receiver} AS receiver, {sender} AS sender {both} "
            "ORDER BY receiver NULLS FIRST, sender NULLS FIRST"
        )

    def work(say: Say) -> dict[str, Any]:
        with build.engine() as engine:
            engine.save(query, path, ordered=False)
            first = engine.rows(f"SELECT * FROM {parquet(path)} LIMIT 1")
            if first and None in first[0]:
                raise _unknown_end(engine, edges, nodes, build.work, bool(whole))
        return {}

    build.step("sorting edges", work)


def _as_end(column: str, whole: bool) -> str:
    return f"e.{_as_id(column, whole)}"


def _unknown_end(
    engine: Engine, edges: EdgeSource, nodes: NodeSource | None, folder: Path, whole: bool
) -> InputError:
    """The error about an end of an edge that is missing, or that is no node."""
    file = edges.scan.files[0]
    for column in (edges.source, edges.target):
        if engine.one(f"SELECT count(*) FROM {edges.scan.sql} WHERE {name_of(column)} IS NULL"):
            return InputError(
                f"{file}, column {column!r}: missing id; fill it in or remove the row."
            )
    assert nodes is not None  # else nodes are what edges name
    ids, found = parquet(folder / "ids.parquet"), []
    for column in (edges.source, edges.target):
        found += engine.rows(
            f"SELECT {_as_id(column, whole)} AS id FROM {edges.scan.sql} e "
            f"ANTI JOIN {ids} i ON {_as_end(column, whole)} = i.id LIMIT 1"
        )
        if found:
            break
    return InputError(
        f"{file}, column {column!r}: id {found[0][0]!r} has no row in {nodes.scan.files[0]}; add "
        "the rows that are missing, or pass --unknown-ids add.",
        fix=("--unknown-ids", "add"),
    )


def _save_graph_rows(build: Build, num_nodes: int, undirected: bool) -> dict[str, Any]:
    """Row pointer and senders of the sorted entries, each once and without self-loops."""

    def work(say: Say) -> dict[str, Any]:
        batches = stream(build.work / "sorted.parquet", build.rows_at_once)
        return save_rows(build.work, batches, num_nodes, undirected, say)

    facts: dict[str, Any] = build.step("writing edges", work)
    (build.work / "sorted.parquet").unlink(missing_ok=True)
    return facts
