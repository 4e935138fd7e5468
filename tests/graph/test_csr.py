"""The index arithmetic under everything else, against loops."""

from __future__ import annotations

import pytest
import torch
from graph_oracles import graphs, quick
from hypothesis import given
from hypothesis import strategies as st

from tuneup.graph import csr


@quick
@given(graphs())
def test_rows_of_is_the_inverse_of_rowptr_of(graph):
    row = csr.rows_of(graph.rowptr, graph.num_entries)
    expected = []
    for i in range(graph.num_rows):
        expected += [i] * int(graph.rowptr[i + 1] - graph.rowptr[i])
    assert row.tolist() == expected
    assert torch.equal(csr.rowptr_of(row, graph.num_rows), graph.rowptr)
    shuffled = row[torch.randperm(row.numel(), generator=torch.Generator().manual_seed(0))]
    assert torch.equal(csr.rowptr_of(shuffled, graph.num_rows), graph.rowptr)


@quick
@given(graphs())
def test_transpose_lists_every_entry_by_column_in_the_order_of_rows(graph):
    t_rowptr, t_col, order = csr.transpose(graph.rowptr, graph.col, graph.num_cols)
    entries = [
        (c, r, k)
        for k, (c, r) in enumerate(zip(graph.col.tolist(), graph.row.tolist(), strict=True))
    ]
    expected = sorted(entries)
    assert t_col.tolist() == [r for _, r, _ in expected]
    assert order.tolist() == [k for _, _, k in expected]
    columns = [c for c, _, _ in expected]
    assert t_rowptr.tolist() == [
        sum(c < i for c in columns) for i in range(graph.num_cols + 1)
    ]  # fmt: skip


@quick
@given(graphs(), st.data())
def test_take_rows_and_compact_against_slices(graph, data):
    nodes = st.integers(0, max(0, graph.num_rows - 1))
    rows = data.draw(st.lists(nodes, max_size=8 if graph.num_rows else 0))
    pointer, entries = csr.take_rows(graph.rowptr, torch.tensor(rows, dtype=torch.long))
    bounds = [(int(graph.rowptr[i]), int(graph.rowptr[i + 1])) for i in rows]
    assert entries.tolist() == [k for start, end in bounds for k in range(start, end)]
    assert pointer.diff().tolist() == [end - start for start, end in bounds]

    keep = data.draw(
        st.lists(st.booleans(), min_size=graph.num_entries, max_size=graph.num_entries)
    )
    compacted, position = csr.compact(graph.rowptr, torch.tensor(keep, dtype=torch.bool))
    assert position.tolist() == [sum(keep[:k]) for k in range(len(keep) + 1)]
    assert compacted.tolist() == [sum(keep[: int(end)]) for end in graph.rowptr]


@quick
@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(-3, 3), max_size=40))
def test_distinct_is_what_unique_says(values):
    keys = torch.tensor(values, dtype=torch.long)
    assert csr.distinct(keys).tolist() == sorted(set(values))
    assert keys.tolist() == values, "the index itself stays in its order"


@pytest.mark.parametrize("budget", [1, 3, 10, 1 << 20])
@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 5], [2, 9, 0, 1, 1, 0], [4] * 7])
def test_row_ranges_cover_every_row_once_within_the_budget(lengths, budget):
    pointer = torch.tensor([0, *lengths]).cumsum(0)
    ranges = csr.row_ranges(pointer, budget)
    assert [i for start, stop in ranges for i in range(start, stop)] == list(range(len(lengths)))
    for start, stop in ranges:
        assert stop == start + 1 or sum(lengths[start:stop]) <= budget
        assert start < stop <= start + budget
