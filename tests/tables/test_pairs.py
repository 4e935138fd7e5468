"""Tables of pairs into interactions, and their splits."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneup.data import interactions_from
from tuneup.errors import InputError
from tuneup.tables import Shares, TableRequest, read_tables
from tuneup.tables.splits import cut, split_by_time

PAIRS = pl.DataFrame(
    {
        "user_id": ["u2", "u1", "u1", "u2", "u2"],
        "product": [30, 10, 20, 30, 10],
        "timestamp": [5, 1, 2, 3, 4],
    }
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    PAIRS.write_csv("pairs.csv")
    return tmp_path


def test_pairs_once_with_their_first_time(folder):
    found = read_tables(TableRequest(("pairs.csv",), task="recommendation"))
    assert found.users.values.to_list() == ["u1", "u2"]
    assert found.items.values.to_list() == [10, 20, 30]
    data = found.interactions
    assert list(zip(data.user.tolist(), data.item.tolist(), strict=True)) == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 2),
    ]
    assert found.times.tolist() == [1, 2, 4, 3]
    assert found.rows == 5
    assert "'user_id'" in found.notes[0]


def test_a_note_says_whether_times_are_used(folder):
    (note,) = (
        each
        for each in read_tables(TableRequest(("pairs.csv",), task="recommendation")).notes
        if "time" in each
    )
    assert note == "pairs.csv: column 'timestamp' may be a time; not used without --by-time."
    asked = read_tables(TableRequest(("pairs.csv",), task="recommendation", time="timestamp")).notes
    assert any("'timestamp' may be a time; not used without --by-time" in each for each in asked)
    used = read_tables(TableRequest(("pairs.csv",), task="recommendation", by_time=True)).notes
    assert "pairs.csv: time is column 'timestamp' (--time)." in used


def test_by_time(folder):
    found = read_tables(TableRequest(("pairs.csv",), task="recommendation", by_time=True))
    split = found.split(Shares(0.5, 0.25))
    assert split.train.user.tolist() == [0, 0]
    assert (split.validation.user.tolist(), split.validation.item.tolist()) == ([1], [2])
    assert (split.test.user.tolist(), split.test.item.tolist()) == ([1], [0])


TIMES = [
    ["2024-01-05", "2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"],
    [f"2024-01-01T00:00:0{i}" for i in (5, 1, 2, 3, 4)],
    [f"2024-01-01 00:00:0{i}" for i in (5, 1, 2, 3, 4)],
    [f"2024-01-01T00:00:0{i}Z" for i in (5, 1, 2, 3, 4)],
    [0.5, 0.1, 0.2, 0.3, 0.4],
    [5e9, 1e9, 2e9, 3e9, 4e9],
    [Decimal(text) for text in ("1.5", "1.1", "1.2", "1.3", "1.4")],
    ["5", "1", "2", "3", "4"],
]


def test_ways_to_write_a_time(folder):
    for times in TIMES:
        frame = PAIRS.with_columns(timestamp=pl.Series(times))
        frame.write_csv("p.csv")
        frame.write_parquet("p.parquet")
        for name in ("p.csv", "p.parquet"):
            found = read_tables(TableRequest((name,), task="recommendation"))
            assert found.times.argsort().tolist() == [0, 1, 3, 2], (name, times)


def test_a_split_column_and_a_seeded_split(folder):
    frame = PAIRS.head(3).with_columns(split=pl.Series(["test", "train", "val"]))
    frame.write_csv("p.csv")
    split = read_tables(TableRequest(("p.csv",), task="recommendation")).split()
    assert [len(part) for part in (split.train, split.validation, split.test)] == [1, 1, 1]
    assert split.test.user.tolist() == [1]
    pl.DataFrame({"user": range(40), "item": [i % 7 for i in range(40)]}).write_csv("q.csv")
    found = read_tables(TableRequest(("q.csv",), task="recommendation"))
    split = found.split(seed=1)
    assert [len(part) for part in (split.train, split.validation, split.test)] == [32, 4, 4]
    with pytest.raises(InputError, match="--time"):
        read_tables(TableRequest(("q.csv",), task="recommendation", by_time=True))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=3, max_size=40))
def test_time_never_runs_backwards(times):
    count = len(times)
    data = interactions_from(torch.arange(count), torch.zeros(count), count, 1)
    time = torch.tensor(times)
    shares = Shares(0.6, 0.2)
    first, second = cut(shares, count, "pairs")
    ordered = sorted(times)
    none_validates = ordered[first - 1] == ordered[second - 1]
    if none_validates or (second < count and ordered[second - 1] == ordered[-1]):
        with pytest.raises(InputError, match="share one moment"):
            split_by_time(data, time, shares)
        return
    split = split_by_time(data, time, shares)
    parts = [time[part.user] for part in (split.train, split.validation, split.test)]
    assert sum(part.numel() for part in parts) == count
    assert parts[0].max() < parts[1].min()
    assert not parts[2].numel() or parts[1].max() < parts[2].min()
    assert parts[0].numel() >= int(0.6 * count)


# New users


def parts_of(split) -> list[set[tuple[int, int]]]:
    names = ("train", "validation", "test", "new_input", "new_target")
    pairs = [getattr(split, name) for name in names]
    return [set(zip(each.user.tolist(), each.item.tolist(), strict=True)) for each in pairs]


def shop(**columns) -> pl.DataFrame:
    """20 users with 10 pairs each, in an order of time that no user or item explains."""
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0)).tolist()
    user, item = [i // 10 for i in range(200)], [i % 10 + i // 10 for i in range(200)]
    return pl.DataFrame({"user": user, "item": item, "time": order, **columns})


def test_the_earliest_pairs_of_a_new_user_are_shown(folder):
    shop().write_csv("p.csv")
    found = read_tables(TableRequest(("p.csv",), task="recommendation", by_time=True))
    split = found.split(Shares(0.8, 0.1, 0.1), seed=2)
    time = dict(zip(zip(*shop()["user", "item"], strict=True), shop()["time"], strict=True))
    train, validation, test, shown, asked = parts_of(split)
    assert split.new.numel() == 2
    for user in split.new.tolist():
        mine = sorted((pair for pair in time if pair[0] == user), key=time.__getitem__)
        assert {pair for pair in shown if pair[0] == user} == set(mine[:5])
        assert {pair for pair in asked if pair[0] == user} == set(mine[5:])
    rest = sorted(set(time) - shown - asked, key=time.__getitem__)
    assert (train, validation, test) == (set(rest[:144]), set(rest[144:162]), set(rest[162:]))


def test_test_pairs_of_a_columns_new_users_are_targets(folder):
    words = [("train", "train", "val", "test")[i * 7 % 10 % 4] for i in range(200)]
    shop(split=words).write_csv("p.csv")
    found = read_tables(TableRequest(("p.csv",), task="recommendation"))
    before = parts_of(found.split())
    assert found.split(Shares(new=0.0)) is found.given
    split = found.split(Shares(new=0.3), seed=1)
    assert split.new.numel() == 6
    for part, whole in zip(parts_of(split)[:3], before[:3], strict=True):
        assert part == {pair for pair in whole if pair[0] not in split.new.tolist()}
    train, validation, test, shown, asked = parts_of(split)
    assert train | validation | shown == before[0] | before[1]
    assert test | asked == before[2]
    assert {user for user, _ in shown} == {user for user, _ in asked} == set(split.new.tolist())
