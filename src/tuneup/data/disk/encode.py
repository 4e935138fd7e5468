"""Labels, splits and features of a graph folder, from tables in a stream or from arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from tuneup.errors import InputError
from tuneup.graph import Features, SparseMatrix
from tuneup.graph.hashing import fold_key, uniform

from .arrays import append_npy, sized_npy, stream
from .engine import name_of, parquet
from .folder import NEW, TEST, TRAIN, VALIDATION
from .sources import Dtype, Encoder, NodeSource
from .steps import Build, Say

_SAMPLE, _SPLIT = 0x73616D706C65, 0x73706C6974
"""Keep these draws apart from others of the same seed ("sample" and "split" in ASCII)."""
_MOST_CLASSES = 100_000
_FEW = 20
"""Up to this many classes are taken for classes, however few rows there are."""
_PARTS = {
    **dict.fromkeys(("train", "training"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "dev"), VALIDATION),
    **dict.fromkeys(("test", "testing"), TEST),
}
_MOST_SAMPLED = 1_000_000
"""Rows that an encoder is fitted by, where memory allows."""
_BYTES_A_VALUE = 64
"""Of memory while an encoder is fitted, and while rows are encoded."""


def label_type(classes: int) -> Any:
    """The smallest type for so many classes and -1."""
    return np.int16 if classes <= 1 << 15 else np.int32


def save_labels(build: Build, nodes: NodeSource, count: int) -> list[Any]:
    """Write the class of each node, -1 where there is none; and return what each class stands for.

    Spaces around texts are cut off; classes are in ascending order.
    """
    label, rows = nodes.label, build.work / "rows.parquet"
    assert label is not None

    def work(say: Say) -> dict[str, Any]:
        classes = _classes(build, nodes)
        kind = label_type(len(classes))
        known = pl.Enum([str(each) for each in classes])

        def parts() -> Iterator[NDArray[Any]]:
            done = 0
            for batch in stream(rows, build.rows_at_once):
                texts = _label_texts(batch[label])
                part = texts.cast(known).to_physical().cast(pl.Int64).fill_null(-1)
                done += len(part)
                say(done, count)
                yield part.to_numpy()
            for start in range(done, count, build.rows_at_once):  # nodes that only edges name
                yield np.full(min(count - start, build.rows_at_once), -1)

        append_npy(build.work / "y.npy", kind, (count,), parts())
        return {"classes": classes}

    found: list[Any] = build.step("writing labels", work)["classes"]
    return found


def _label_texts(values: pl.Series) -> pl.Series:
    """Labels as texts, null where there is none."""
    kind = values.dtype
    if kind.is_float():
        values = values.fill_nan(None).cast(pl.Int64)
    texts = values.cast(pl.String).str.strip_chars()
    return texts.set((texts == "").fill_null(False), None)


def _classes(build: Build, nodes: NodeSource) -> list[Any]:
    """The distinct labels in order: whole numbers if all are, or else texts."""
    label, place = name_of(nodes.label or ""), f"{nodes.scan.files[0]}, column {nodes.label!r}"
    rows = parquet(build.work / "rows.parquet")
    with build.engine() as engine:
        kind = engine.rows(f"DESCRIBE SELECT {label} FROM {rows}")[0][1]
        if kind in ("FLOAT", "DOUBLE"):
            odd = engine.rows(
                f"SELECT {label} FROM {rows} WHERE NOT isnan({label}) AND {label} <> "
                f"trunc({label}) LIMIT 1"
            )
            if odd:
                raise InputError(f"{place}: {odd[0][0]} is not a class; write whole numbers.")
        trimmed = f"trim({label}::VARCHAR)"
        if kind in ("FLOAT", "DOUBLE"):
            trimmed = f"CASE WHEN isnan({label}) THEN NULL ELSE {label}::BIGINT::VARCHAR END"
        found = engine.rows(
            f"SELECT DISTINCT {trimmed} AS l FROM {rows} WHERE l IS NOT NULL AND l <> '' "
            f"LIMIT {_MOST_CLASSES + 1}"
        )
        labelled = engine.one(f"SELECT count({label}) FROM {rows}")
    texts = sorted(row[0] for row in found)
    if kind == "BOOLEAN":
        texts = [text.lower() for text in texts]
    if len(texts) < 2:
        raise InputError(f"{place}: got {len(texts)} classes; expected two or more.")
    if len(texts) > _MOST_CLASSES or (len(texts) > _FEW and len(texts) > labelled / 2):
        raise InputError(
            f"{place}: {len(texts):,} different labels in {labelled:,} rows look like ids or "
            "quantities, not like classes; pass another --label."
        )
    if all(_is_whole(text) for text in texts):
        return sorted(map(int, texts))
    return texts


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text


def save_split(build: Build, nodes: NodeSource, count: int) -> None:
    """Write the part of each node: that of a column, or drawn for nodes that have a label.

    A node's draw is a function of its number and the seed, so shares are those asked for on
    average, and a node keeps its part when others are added behind it.
    """
    rows = build.work / "rows.parquet"

    def work(say: Say) -> dict[str, Any]:
        seen = np.zeros(4, dtype=np.int64)

        def parts() -> Iterator[NDArray[Any]]:
            done = 0
            for batch in stream(rows, build.rows_at_once):
                if nodes.split is not None:
                    part = _given_parts(batch[nodes.split], nodes, done)
                else:
                    part = _drawn_parts(batch, nodes, done)
                if nodes.label is not None:
                    bare = _label_texts(batch[nodes.label]).is_null().to_numpy()
                    wrong = np.flatnonzero(bare & (part >= 0) & (part != NEW))
                    if wrong.size:
                        raise InputError(
                            f"{nodes.scan.files[0]}, row {done + int(wrong[0]) + 1}: a row of the "
                            "split without a label; fill it in, or leave its split empty."
                        )
                seen[:] += np.bincount(part[part >= 0], minlength=4)
                done += part.size
                say(done, count)
                yield part
            for start in range(done, count, build.rows_at_once):
                yield np.full(min(count - start, build.rows_at_once), -1)

        append_npy(build.work / "split.npy", np.int8, (count,), parts())
        for number, what in ((TRAIN, "train"), (VALIDATION, "validation")):
            if not seen[number]:
                raise InputError(
                    f"{nodes.scan.files[0]}: no node is in the part {what}; give more rows, other "
                    "shares, or a column --split."
                )
        return {"counts": seen.tolist()}

    build.step("writing the split", work)


def _given_parts(values: pl.Series, nodes: NodeSource, start: int) -> NDArray[Any]:
    words = values.cast(pl.String).str.strip_chars().str.to_lowercase()
    part = words.replace_strict(_PARTS, default=None, return_dtype=pl.Int8)
    wrong = (part.is_null() & words.is_not_null()).arg_true()
    if len(wrong):
        raise InputError(
            f"{nodes.scan.files[0]}, row {start + wrong[0] + 1}, column {nodes.split!r}: "
            f"{values[wrong[0]]!r} is not the name of a split; write train, validation or test."
        )
    return part.fill_null(-1).to_numpy()


def _drawn_parts(batch: pl.DataFrame, nodes: NodeSource, start: int) -> NDArray[Any]:
    assert nodes.shares is not None
    train, validation, new = nodes.shares
    number = torch.arange(start, start + batch.height)
    arrives = uniform(number, fold_key(_SPLIT, nodes.seed, 0)).numpy() < new
    draw = uniform(number, fold_key(_SPLIT, nodes.seed, 1)).numpy()
    part = np.where(draw < train, TRAIN, np.where(draw < train + validation, VALIDATION, TEST))
    if train + validation >= 1:
        part[part == TEST] = VALIDATION
    part[arrives] = NEW
    if nodes.label is not None:
        part[_label_texts(batch[nodes.label]).is_null().to_numpy()] = -1
    return part.astype(np.int8)


def save_encoded(build: Build, nodes: NodeSource, count: int, dtype: Dtype) -> dict[str, Any]:
    """Write the features that columns of a table become; the encoder's width and plan.

    The encoder is fitted by a sample of the rows that training knows: all of them, if memory
    allows.
    """

    def work(say: Say) -> dict[str, Any]:
        assert nodes.fit is not None
        encoder = nodes.fit(_sample(build, nodes, count))
        if encoder.width:
            _encode(build, nodes, count, encoder, dtype, say)
        return {"width": encoder.width, "plan": encoder.plan}

    facts: dict[str, Any] = build.step("writing features", work)
    return facts


def _sample(build: Build, nodes: NodeSource, count: int) -> pl.DataFrame:
    """Rows that training knows: neither new nor in validation or test."""
    room = build.memory // 4 // (_BYTES_A_VALUE * _values(build, nodes))
    share = min(1.0, min(_MOST_SAMPLED, max(1000, room)) / count)
    split = build.work / "split.npy"
    parts = np.lib.format.open_memmap(split, mode="r") if split.exists() else None
    found, start = [], 0
    for batch in stream(build.work / "rows.parquet", build.rows_at_once):
        stop = start + batch.height
        keep = uniform(torch.arange(start, stop), fold_key(_SAMPLE, nodes.seed)).numpy() < share
        if parts is not None:
            part = parts[start:stop]
            keep &= (part == TRAIN) | (part == -1)
        found.append(batch.select(nodes.id, *nodes.features).filter(pl.Series(keep)))
        start = stop
    return pl.concat(found)


def _values(build: Build, nodes: NodeSource) -> int:
    """Numbers of one row of features: a column of lists has several."""
    head = pl.scan_parquet(build.work / "rows.parquet").select(nodes.features).head(1).collect()
    lists = [head[each][0] for each in head.columns if head[each].dtype.is_nested()]
    return len(nodes.features) + sum(len(each) for each in lists if each is not None)


def _encode(
    build: Build, nodes: NodeSource, count: int, encoder: Encoder, dtype: Dtype, say: Say
) -> None:
    kind, progress = np.dtype(dtype), build.state.setdefault("features", {"rows": 0})
    at_once = max(1024, build.memory // 8 // (_BYTES_A_VALUE * (encoder.width + 1)))
    at_once = min(at_once, build.rows_at_once)
    done = int(progress["rows"])
    with sized_npy(build.work / "x.npy", kind, (count, encoder.width)) as (file, begin):
        file.seek(begin + done * encoder.width * kind.itemsize)
        for batch in stream(build.work / "rows.parquet", at_once, done):
            try:
                part = encoder(batch.select(nodes.features)).numpy()
            except InputError as error:
                raise InputError(
                    f"{nodes.scan.files[0]}, rows {done + 1:,} to {done + batch.height:,}: {error}"
                ) from error
            file.write(_narrow(part, kind, nodes.scan.files[0]).data)
            done += batch.height
            file.flush()
            progress["rows"] = done
            build.save()
            say(done, count)
        blank = encoder.blank.numpy()[None]
        for start in range(done, count, at_once):
            part = blank.repeat(min(at_once, count - start), 0)
            file.write(_narrow(part, kind, nodes.scan.files[0]).data)


def _narrow(part: NDArray[Any], kind: np.dtype[Any], where: str) -> NDArray[Any]:
    """Numbers in the type that they are stored in."""
    with np.errstate(over="ignore"):
        found = np.ascontiguousarray(part, dtype=kind)
    if not np.isfinite(found).all():
        wrong = part[~np.isfinite(found)][0]
        raise InputError(
            f"{where}: the feature {wrong:g} is not a number that {kind} can hold; "
            + ("store features as float32." if np.isfinite(wrong) else "fill it in.")
        )
    return found


def save_features(build: Build, x: Features | NDArray[Any], dtype: Dtype) -> dict[str, str]:
    """Write features that are there as an array; the names of the files."""
    kind, where = np.dtype(dtype), "x"
    if isinstance(x, SparseMatrix):
        col = np.int32 if x.num_cols < 1 << 31 else np.int64
        value = _narrow(x.value.numpy(), kind, where)
        for name, array in (
            ("rowptr", x.rowptr.numpy()),
            ("col", x.col.numpy().astype(col)),
            ("value", value),
        ):
            append_npy(build.work / f"x_{name}.npy", array.dtype, array.shape, (array,))
        return {f"x_{name}": f"x_{name}.npy" for name in ("rowptr", "col", "value")}
    rows = max(1, build.memory // 16 // (8 * max(1, x.shape[1])))
    parts = (
        _narrow(np.asarray(x[start : start + rows]), kind, where)
        for start in range(0, x.shape[0], rows)
    )
    append_npy(build.work / "x.npy", kind, tuple(x.shape), parts)
    return {"x": "x.npy"}
