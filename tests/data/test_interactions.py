"""Pairs of users and items: distinct and sorted, one graph, and a split that loses nothing."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tasks.edge_toys import pair_set
from tuneup.data import exact_share, interactions_from, merge, split_interactions
from tuneup.errors import InputError

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), max_size=40)


def made_of(pairs, num_users=6, num_items=8):
    user, item = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()
    return interactions_from(user, item, num_users, num_items, "toy")


@settings(max_examples=40, deadline=None)
@given(PAIRS)
def test_distinct_and_sorted(pairs):
    data = made_of(pairs)
    assert list(zip(data.user.tolist(), data.item.tolist(), strict=True)) == sorted(set(pairs))
    assert len(data) == len(set(pairs))
    assert (data.num_users, data.num_items) == (6, 8)


@settings(max_examples=40, deadline=None)
@given(PAIRS)
def test_rows_list_the_items_of_each_user(pairs):
    rows = made_of(pairs).rows()
    assert rows.rowptr.numel() == 7
    for user in range(6):
        mine = rows.col[rows.rowptr[user] : rows.rowptr[user + 1]].tolist()
        assert mine == sorted({i for u, i in pairs if u == user})


@settings(max_examples=40, deadline=None)
@given(PAIRS)
def test_users_and_items_share_one_undirected_graph(pairs):
    graph = made_of(pairs).adjacency()
    assert graph.undirected
    assert graph.num_nodes == 14
    assert (graph.num_duplicates, graph.num_self_loops) == (0, 0)
    found = sorted(zip(graph.row.tolist(), graph.col.tolist(), strict=True))
    there = {(u, 6 + i) for u, i in pairs}
    assert found == sorted(there | {(i, u) for u, i in there})
    assert graph.num_edges == len(set(pairs))


def test_small_integers_do_not_overflow():
    """Ids as int32: the key of a pair needs more bits than they have."""
    user, item = torch.tensor([99_999, 3], dtype=torch.int32), torch.tensor([99_998, 7]).int()
    data = interactions_from(user, item, 100_000, 100_000)
    assert pair_set(data) == {(3, 7), (99_999, 99_998)}
    assert data.user.dtype == data.item.dtype == torch.long


def test_nothing_at_all():
    data = made_of([], 3, 0)
    assert len(data) == 0
    assert data.adjacency().num_nodes == 3
    assert data.rows().count.tolist() == [0, 0, 0]


def test_take_keeps_the_order():
    data = made_of([(2, 1), (0, 3), (1, 1), (0, 2)])
    some = data.take(torch.tensor([3, 0]))
    assert (some.user.tolist(), some.item.tolist()) == ([0, 2], [2, 1])
    assert (some.num_users, some.num_items, some.name) == (6, 8, "toy")


def test_merge_is_the_union():
    first, second = made_of([(0, 1), (2, 5)]), made_of([(0, 0), (2, 5), (5, 7)])
    both = merge(first, second)
    assert list(zip(both.user.tolist(), both.item.tolist(), strict=True)) == [
        (0, 0),
        (0, 1),
        (2, 5),
        (5, 7),
    ]


def test_repr():
    assert repr(made_of([(0, 1)])) == "Interactions(toy: 6 users, 8 items, 1 pairs)"


# The split


def a_thousand():
    generator = torch.Generator().manual_seed(0)
    keys = torch.randperm(50 * 60, generator=generator)[:1000]
    return interactions_from(keys // 60, keys % 60, 50, 60)


def test_the_papers_shares():
    split = split_interactions(a_thousand())
    assert [len(part) for part in (split.train, split.validation, split.test)] == [100, 50, 850]


def test_disjoint_and_complete():
    for count in [40, 57, 999]:
        data = a_thousand().take(torch.arange(count))
        split = split_interactions(data, train=0.2, validation=0.1, seed=3)
        train, validation, test = map(pair_set, (split.train, split.validation, split.test))
        assert len(train) == int(0.2 * count)
        assert len(validation) == int(0.1 * count)
        assert len(train) + len(validation) + len(test) == count
        assert train | validation | test == pair_set(data)
        for part in (split.train, split.validation, split.test):
            key = part.user * 60 + part.item
            assert (key.diff() > 0).all()
            assert (part.num_users, part.num_items) == (50, 60)


def test_the_seed_decides():
    data = a_thousand()
    first, again, other = (split_interactions(data, seed=seed) for seed in (0, 0, 1))
    for name in ("train", "validation", "test"):
        assert pair_set(getattr(first, name)) == pair_set(getattr(again, name))
        assert pair_set(getattr(first, name)) != pair_set(getattr(other, name))


def test_every_pair_is_as_likely_to_train():
    """Over 300 seeds, each of 40 pairs is in the training tenth about 30 times."""
    data = a_thousand().take(torch.arange(40))
    count = torch.zeros(50 * 60)
    for seed in range(300):
        train = split_interactions(data, seed=seed).train
        count[train.user * 60 + train.item] += 1
    found = count[data.user * 60 + data.item]
    assert int(found.sum()) == 300 * 4
    assert ((found - 30).abs() < 4.5 * (30 * 0.9) ** 0.5).all()


# New users


@settings(max_examples=40, deadline=None)
@given(st.integers(30, 400), st.floats(0, 0.9), st.floats(0.05, 0.95), st.integers(0, 9))
def test_new_users_take_all_their_pairs_along(count, share, shown, seed):
    data = a_thousand().take(torch.arange(1000)[:: 1000 // count])
    split = split_interactions(
        data, train=0.4, validation=0.4, new=share, new_input=shown, seed=seed
    )
    new, known = set(split.new.tolist()), [split.train, split.validation, split.test]
    own, rest = (
        pair_set(split.new_input) | pair_set(split.new_target),
        set().union(*map(pair_set, known)),
    )
    assert own == {(u, i) for u, i in pair_set(data) if u in new}
    assert rest == {(u, i) for u, i in pair_set(data) if u not in new}
    assert sum(map(len, known)) + len(split.new_input) + len(split.new_target) == len(data)
    degree = data.rows().count
    able = [user for user in range(50) if degree[user] > 1]
    assert new <= set(able)
    assert len(new) == int(exact_share(share) * len(able))
    for user in new:
        mine = int((split.new_input.user == user).sum())
        quota = int(exact_share(shown) * int(degree[user]))
        assert mine == min(max(quota, 1), int(degree[user]) - 1)
    assert split.seed == seed


def test_without_new_users_the_split_is_the_one_it_always_was():
    data = a_thousand()
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(3))
    split = split_interactions(data, seed=3)
    for part, chosen in zip(
        (split.train, split.validation, split.test), order.split([100, 50, 850]), strict=True
    ):
        assert pair_set(part) == pair_set(data.take(chosen))
    assert (split.new.numel(), len(split.new_input), len(split.new_target)) == (0, 0, 0)


def test_the_seed_decides_who_is_new_and_what_is_shown():
    first, again, other = (split_interactions(a_thousand(), new=0.2, seed=s) for s in (0, 0, 1))
    assert first.new.equal(again.new)
    assert not first.new.equal(other.new)
    assert pair_set(first.new_input) == pair_set(again.new_input)
    by_item = [first.new_input.item[first.new_input.user == u].float().mean() for u in first.new]
    assert 20 < float(torch.stack(by_item).mean()) < 40  # of 60 items, not those with small numbers


def test_a_split_moves_as_one():
    split = split_interactions(a_thousand(), new=0.2, seed=4).to("cpu")
    assert (split.new.numel(), split.seed) == (10, 4)


def test_a_new_user_with_a_training_pair_is_refused():
    split = split_interactions(a_thousand(), new=0.2)
    with pytest.raises(InputError, match="new user 7 has a train pair"):
        replace(split, new=torch.tensor([7]), train=made_of([(7, 1)], 50, 60))


# What is refused


def test_bad_pairs_are_named():
    for user, item, words in [
        ([0, 1], [0], r"lists of one length; got shapes \[2\] and \[1\]"),
        ([[0]], [[0]], r"lists of one length; got shapes \[1, 1\] and \[1, 1\]"),
        ([0, 6], [0, 0], r"Pair 1 has user 6, outside 0\.\.5"),
        ([-1], [0], r"Pair 0 has user -1, outside 0\.\.5"),
        ([0, 0, 1], [0, 1, 8], r"Pair 2 has item 8, outside 0\.\.7"),
        ([0], [-2], r"Pair 0 has item -2, outside 0\.\.7"),
    ]:
        with pytest.raises(InputError, match=words):
            interactions_from(torch.tensor(user), torch.tensor(item), 6, 8)


def test_bad_shares_are_refused():
    for train, validation in [(0, 0.1), (0.1, 0), (0.6, 0.4), (-0.1, 0.5)]:
        with pytest.raises(InputError, match=f"leave some for the test; got {train}, {validation}"):
            split_interactions(a_thousand(), train=train, validation=validation)


def test_bad_shares_of_new_users_are_refused():
    for name, share in [("new", 1.0), ("new_input", 0.0), ("new_input", 1.0)]:
        with pytest.raises(InputError, match=rf"{name} is .* share .*; got {share}"):
            split_interactions(a_thousand(), **{"new": 0.1, name: share})
