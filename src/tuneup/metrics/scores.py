"""One score per node: what every evaluation returns and every summary is read off."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.files import atomic_path

_SCHEMA = {
    "setting": pl.String(),
    "metric": pl.String(),
    "node": pl.Int64(),
    "degree": pl.Int64(),
    "score": pl.Float32(),
}
# Names and order of the parts: a part without nodes has no row to be remembered by.
_PARTS = "tuneup.scores"


@dataclass(frozen=True, eq=False)
class NodeScores:
    """The scores of one model in one setting, node by node.

    Attributes:
        setting: how they were predicted: ``"transductive"``, ``"inductive"``, ``"cold-30"``, ...
        metric: what the score is: ``"accuracy"``, ``"recall@50"``, ...
        nodes: int64 ``[n]``, global node ids, each at most once.
        degree: int64 ``[n]``, each node's degree in that setting's *input* graph.
        score: float32 ``[n]``, finite.
    """

    setting: str
    metric: str
    nodes: Tensor
    degree: Tensor
    score: Tensor

    def __post_init__(self) -> None:
        for name in ("setting", "metric"):
            if not getattr(self, name):
                raise InputError(f"NodeScores: {name} must not be empty")
        for name, dtype in (
            ("nodes", torch.int64),
            ("degree", torch.int64),
            ("score", torch.float32),
        ):
            self._check_vector(name, dtype)
        if bool((self.degree < 0).any()):
            raise InputError(f"{self._where}: degree must not be negative")
        self._check_unique()
        finite = torch.isfinite(self.score)
        if not bool(finite.all()):
            first = int(self.nodes[~finite][0])
            raise InputError(
                f"{self._where}: {int((~finite).sum())} of {len(self)} scores are not finite, "
                f"the first at node {first}"
            )

    @property
    def _where(self) -> str:
        return f"NodeScores({self.setting}, {self.metric})"

    def _check_vector(self, name: str, dtype: torch.dtype) -> None:
        value: Tensor = getattr(self, name)
        if value.dim() != 1 or value.dtype != dtype:
            raise InputError(
                f"{self._where}: {name} must be a {dtype} vector, "
                f"got {value.dtype} of shape {list(value.shape)}"
            )
        if value.shape != self.nodes.shape or value.device != self.nodes.device:
            raise InputError(
                f"{self._where}: nodes, degree and score must have one length and one device, "
                f"got {len(self.nodes)} nodes on {self.nodes.device} "
                f"and {len(value)} values of {name} on {value.device}"
            )

    def _check_unique(self) -> None:
        ordered = self.nodes.sort().values
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(twice):
            raise InputError(f"{self._where}: node {int(twice[0])} is scored more than once")

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"{self._where[:-1]}, nodes={len(self)}, mean={self.mean():.4f})"

    def mean(self) -> float:
        """The metric: the mean score over the nodes; NaN without nodes."""
        return float(self.score.double().mean())

    def select(self, mask: Tensor) -> "NodeScores":
        """The nodes where ``mask`` (bool ``[n]``, in the order of ``nodes``) is true."""
        if mask.dtype != torch.bool or mask.shape != self.nodes.shape:
            raise InputError(
                f"{self._where}: mask must be bool of shape [{len(self)}], "
                f"got {mask.dtype} of shape {list(mask.shape)}"
            )
        return NodeScores(
            self.setting, self.metric, self.nodes[mask], self.degree[mask], self.score[mask]
        )


def write_scores(path: str | Path, scores: Sequence[NodeScores]) -> None:
    """Write the scores of one run, one (setting, metric) each, to a single Parquet file.

    Columns: setting, metric, node, degree, score; one row per scored node. The file appears whole
    or not at all.
    """
    parts = [(part.setting, part.metric) for part in scores]
    for key in parts:
        if parts.count(key) > 1:
            raise InputError(
                f"{path}: {key[1]} in the {key[0]} setting is given more than once; "
                "write each run (seed, method) to a file of its own"
            )
    frame = pl.concat([pl.DataFrame(schema=_SCHEMA), *map(_to_frame, scores)])
    with atomic_path(Path(path)) as temporary:
        frame.write_parquet(temporary, metadata={_PARTS: json.dumps(parts)})


def read_scores(path: str | Path) -> list[NodeScores]:
    """Read what :func:`write_scores` wrote, in the order it was given, on the CPU.

    Any Parquet file with those five columns is accepted; its parts come in order of appearance.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected a Parquet file of node scores")
    try:
        frame = pl.read_parquet(path, use_pyarrow=False)
        parts = json.loads(pl.read_parquet_metadata(path).get(_PARTS, "[]"))
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise InputError(f"{path}: not a readable Parquet file of node scores: {error}") from error
    if dict(frame.schema) != _SCHEMA:
        raise InputError(
            f"{path}: expected the columns {_describe(_SCHEMA)}, got {_describe(frame.schema)}"
        )
    if frame.null_count().row(0) != (0,) * len(_SCHEMA):
        raise InputError(f"{path}: columns {', '.join(_SCHEMA)} must not hold missing values")
    found = {
        (str(key[0]), str(key[1])): rows
        for key, rows in frame.group_by("setting", "metric", maintain_order=True)
    }
    keys = dict.fromkeys([*((str(setting), str(metric)) for setting, metric in parts), *found])
    return [_from_frame(*key, found.get(key, frame.clear())) for key in keys]


def _describe(schema: "dict[str, pl.DataType] | pl.Schema") -> str:
    return ", ".join(f"{name} ({dtype})" for name, dtype in schema.items())


def _to_frame(scores: NodeScores) -> pl.DataFrame:
    columns = {"node": scores.nodes, "degree": scores.degree, "score": scores.score}
    frame = pl.DataFrame({name: value.detach().cpu().numpy() for name, value in columns.items()})
    labels = pl.lit(scores.setting).alias("setting"), pl.lit(scores.metric).alias("metric")
    return frame.with_columns(*labels).select(list(_SCHEMA))


def _from_frame(setting: str, metric: str, rows: pl.DataFrame) -> NodeScores:
    # torch refuses to share polars' read-only memory, hence the copies.
    node, degree, score = (
        torch.from_numpy(rows[name].to_numpy().copy()) for name in ("node", "degree", "score")
    )
    return NodeScores(setting, metric, nodes=node, degree=degree, score=score)
