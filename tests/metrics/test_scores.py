from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneup.errors import InputError
from tuneup.metrics import NodeScores, read_scores, write_scores


def make(
    nodes: Sequence[int] = (4, 2, 9),
    degree: Sequence[int] = (0, 7, 5),
    score: Sequence[float] = (1.0, 0.0, 0.5),
    setting: str = "transductive",
    metric: str = "accuracy",
) -> NodeScores:
    return NodeScores(
        setting,
        metric,
        torch.tensor(nodes, dtype=torch.int64),
        torch.tensor(degree, dtype=torch.int64),
        torch.tensor(score, dtype=torch.float32),
    )


def same(left: NodeScores, right: NodeScores) -> bool:
    names = ("nodes", "degree", "score")
    return (left.setting, left.metric) == (right.setting, right.metric) and all(
        torch.equal(getattr(left, name), getattr(right, name)) for name in names
    )


def test_mean_length_and_repr() -> None:
    scores = make()
    assert len(scores) == 3
    assert scores.mean() == 0.5
    assert repr(scores) == "NodeScores(transductive, accuracy, nodes=3, mean=0.5000)"


def test_mean_does_not_lose_small_scores_among_many() -> None:
    count = 300_000
    score = torch.full((count,), 0.1)
    scores = NodeScores("t", "m", torch.arange(count), torch.zeros(count, dtype=torch.int64), score)
    assert scores.mean() == pytest.approx(float(score[0]), abs=1e-12)


def test_select_keeps_rows_together() -> None:
    scores = make()
    picked = scores.select(scores.degree >= 5)
    assert same(picked, make((2, 9), (7, 5), (0.0, 0.5)))
    nothing = scores.select(scores.degree > 99)
    assert len(nothing) == 0
    assert nothing.mean() != nothing.mean()  # NaN


@pytest.mark.parametrize("mask", [torch.tensor([0, 1, 1]), torch.tensor([True, False])])
def test_select_refuses_indices_and_wrong_lengths(mask: torch.Tensor) -> None:
    with pytest.raises(InputError, match=r"mask must be bool of shape \[3\]"):
        make().select(mask)


def test_refuses_inconsistent_scores() -> None:
    with pytest.raises(InputError, match="one length"):
        make(degree=(0, 7))
    with pytest.raises(InputError, match="node 4 is scored more than once"):
        make(nodes=(4, 2, 4))
    with pytest.raises(InputError, match="2 of 3 scores are not finite, the first at node 2"):
        make(score=(0.0, float("nan"), float("inf")))
    with pytest.raises(InputError, match="degree must not be negative"):
        make(degree=(0, -1, 2))
    with pytest.raises(InputError, match="setting must not be empty"):
        make(setting="")


def test_refuses_wrong_types_and_shapes() -> None:
    good = make()
    with pytest.raises(InputError, match=r"score must be a torch\.float32 vector, got torch\.floa"):
        NodeScores("t", "m", good.nodes, good.degree, good.score.double())
    with pytest.raises(InputError, match=r"nodes must be a torch\.int64 vector, got torch\.int32"):
        NodeScores("t", "m", good.nodes.int(), good.degree, good.score)
    with pytest.raises(InputError, match=r"shape \[3, 1\]"):
        NodeScores("t", "m", good.nodes, good.degree, good.score[:, None])


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10)


@st.composite
def score_sets(draw: st.DrawFn) -> list[NodeScores]:
    keys = draw(st.lists(st.tuples(names, names), unique=True, max_size=4))
    rows = st.tuples(st.integers(0, 2**62), st.integers(0, 10**9), st.floats(-1e3, 1e3, width=32))
    parts = []
    for setting, metric in keys:
        drawn = draw(st.lists(rows, unique_by=lambda row: row[0], max_size=20))
        nodes, degree, score = zip(*drawn, strict=True) if drawn else ((), (), ())
        parts.append(make(nodes, degree, score, setting, metric))
    return parts


@settings(max_examples=40, deadline=None)
@given(scores=score_sets())
def test_parquet_round_trip(
    scores: list[NodeScores], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("scores") / "scores.parquet"
    write_scores(path, scores)
    again = read_scores(path)
    assert len(again) == len(scores)
    assert all(same(left, right) for left, right in zip(scores, again, strict=True))
    assert [each.name for each in path.parent.iterdir()] == ["scores.parquet"]


def test_file_is_plain_parquet_for_other_tools(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    write_scores(path, [make(), make(setting="cold-90")])
    frame = pl.read_parquet(path)
    assert frame.columns == ["setting", "metric", "node", "degree", "score"]
    assert frame.row(5) == ("cold-90", "accuracy", 9, 5, 0.5)
    # and a file written by one of them is read back, without our note on its parts
    other = tmp_path / "other.parquet"
    frame.write_parquet(other)
    assert [part.setting for part in read_scores(other)] == ["transductive", "cold-90"]


def test_a_refused_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    write_scores(path, [make()])
    before = path.read_bytes()
    with pytest.raises(InputError, match="accuracy in the transductive setting is given more than"):
        write_scores(path, [make(), make()])
    assert path.read_bytes() == before


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    with pytest.raises(InputError, match=r"scores\.parquet: no such file"):
        read_scores(path)
    write_scores(path, [make()])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"scores\.parquet: not a readable Parquet file"):
        read_scores(path)
    pl.DataFrame({"node": [1], "score": [0.5]}).write_parquet(path)
    with pytest.raises(InputError, match=r"expected the columns setting \(String\), .* got node"):
        read_scores(path)


def test_missing_values_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    write_scores(path, [make()])
    frame = pl.read_parquet(path).with_columns(degree=pl.lit(None, dtype=pl.Int64))
    frame.write_parquet(path)
    with pytest.raises(InputError, match="must not hold missing values"):
        read_scores(path)
