"""A neighbour sampler: the part of a graph that the layers of a model read for a few seeds.

Each hop reads the neighbours of the nodes that the hop before it found, at most ``fanout`` of each,
without replacement, or all of them.  Every draw is a pure function of a key and the node, so that
batches depend neither on each other nor on the thread that draws them.

**Dropped edges** are left out while sampling, by the hash of :class:`~tuneup.graph.DropEdge`, bit
for bit: a batch is a sample of the very graph that a full pass would see.  A node with many edges
tries them in random order until enough have survived; one with few looks at all of them.  Both give
every set of survivors the same probability, and no work depends on the size of the graph.

**Degrees** are those of the graph, dropped edges left out, as GCN divides by them in a full pass.
Only layers that divide by them pay for counting.  Where a fan-out is limited, of a node with more
than :data:`COUNTED` edges only so many are looked at, and the others count by the share that
survives on average: the standard error of the degree is at most 1.6 % for a share of one half.

A sum over a row that was sampled is scaled by the node's degree over the length of the row, so that
it has the mean of the full sum; means need no scale, and a maximum or an attention has none.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache, cached_property, partial
from operator import index
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuneup.errors import InputError

from . import compiled, csr
from .adjacency import Adjacency
from .csr import Rows
from .dropping import Survival
from .hashing import threshold
from .neighbours import Block, Filtered, Neighbours, ReceptiveField

Ints = NDArray[np.int64]

COUNTED = 1024
"""Edges of a node that are looked at when its survivors are counted, where fan-outs are limited."""

PLACES = 1 << 24
"""Nodes of a graph up to which a thread keeps a number for each (64 MB), not a hash table."""


class _Numbers:
    """A list of distinct nodes, and where each stands in it."""

    def __init__(self, seeds: Ints, num_nodes: int) -> None:
        self.nodes, self.count = seeds.copy(), seeds.size
        self.wide = num_nodes > compiled.LOW
        self.place = None if num_nodes > PLACES else _places(num_nodes)
        self.table: tuple[Ints, int]
        if self.place is None:
            self.table = compiled.table_of(self.nodes, self.count, 4 * self.count)
        else:
            compiled.mark(self.nodes, self.place)

    def number(self, senders: Ints) -> None:
        """Replace ids by numbers, and append those that are new."""
        longer = np.empty(self.count + senders.size + 1, np.int64)
        longer[: self.count] = self.nodes[: self.count]
        self.nodes = longer
        if self.place is None:
            self.count, table, bits, _ = compiled.number_by_hash(
                senders, longer, self.count, *self.table, self.wide
            )
            self.table = table, bits
        else:
            self.count, _ = compiled.number(senders, longer, self.count, self.place)

    def finish(self) -> Ints:
        """The list; places are free for the next one."""
        nodes = self.nodes[: self.count].copy()
        if self.place is not None:
            compiled.forget(nodes, self.place)
            _thread.places = self.place
        return nodes


_thread = threading.local()


def _places(num_nodes: int) -> NDArray[np.int32]:
    """A number for every node, -1 between two batches: one array a thread."""
    found: NDArray[np.int32] | None = getattr(_thread, "places", None)
    _thread.places = None  # until the batch is finished: what an error leaves is not used again
    if found is None or found.size < num_nodes:
        found = np.full(num_nodes, -1, np.int32)
    return found


class SampledBlock(Block):
    """A block whose rows may hold only some of a receiver's senders."""

    is_sampled = True

    @property
    def received(self) -> Tensor:
        """Number of senders of each receiver in the graph ``[R]``."""
        return self.degree[: self.num_rows]

    @cached_property
    def reverse(self) -> tuple[Tensor, Tensor, Tensor]:
        """The transpose: row pointer ``[C + 1]``, receivers ``[E]``, entry behind each ``[E]``."""
        found = compiled.transposed(self.rowptr.numpy(), self.col.numpy(), self.num_cols)
        with torch.inference_mode(False):
            rowptr, row, order = map(torch.from_numpy, found)
        return rowptr, row, order


class _Rules(NamedTuple):
    """What the compiled code reads of a source."""

    base: Neighbours
    mode: int
    key: np.uint64
    cut: int
    ids: Ints


_NO_IDS: Ints = np.empty(0, np.int64)


def _rules_of(source: Neighbours) -> _Rules:
    """A source and its rule; a rule that is not ours is asked by the source itself."""
    if not isinstance(source, Filtered) or not isinstance(source.rule, Survival):
        return _Rules(source, compiled.KEEP_ALL, np.uint64(0), 0, _NO_IDS)
    rule = source.rule
    mode, cut = compiled.KEEP_GRADED, 0
    if not isinstance(rule.alpha, str):
        mode = compiled.KEEP_PAIRED if rule.symmetric else compiled.KEEP_DIRECTED
        cut = threshold(rule.alpha)
    ids = _NO_IDS if source.ids is None else source.ids.numpy()
    return _Rules(source.base, mode, np.uint64(rule.key), cut, ids)


def check_fanouts(fanouts: Sequence[int], depth: int | None = None) -> tuple[int, ...]:
    """Fan-outs from the seeds on, of one number for each layer.

    Raises:
        InputError: if one is neither -1 nor above 0, or there are not ``depth`` of them.
    """
    try:
        found = tuple(map(index, fanouts))
    except TypeError:
        found = ()
    if not found or any(each < 1 and each != -1 for each in found):
        raise InputError(
            f"num_neighbors: got {fanouts!r}; expected one number a layer, from 1 on, or -1 for "
            "all neighbours, such as [15, 10]."
        )
    if depth is not None and len(found) != depth:
        raise InputError(
            f"num_neighbors: got {len(found)} fan-outs, {list(found)}; expected {depth}, one for "
            f"each layer of the encoder, the one nearest to the outputs first."
        )
    return found


def sample(
    source: Neighbours,
    seeds: Tensor,
    fanouts: Sequence[int],
    key: int,
    banned: Rows | None = None,
) -> ReceptiveField:
    """A part of a graph that is drawn for some seeds.

    Nodes come in the order in which they are found: the seeds, their neighbours, and so on.  The
    blocks are one set of rows: each layer reads the first of them, as far as it needs.

    Args:
        source: where neighbours are read from; ``graph.neighbours`` of a graph with dropped edges
            leaves them out as it samples.
        seeds: distinct nodes ``[n]``.
        fanouts: most neighbours of a node, from the seeds on; -1: all.
        key: of the draws: equal keys draw the same neighbours.
        banned: for the first of the seeds, neighbours that are left out.
    """
    fanouts = check_fanouts(fanouts)
    csr.check_nodes(seeds, source.num_nodes)
    base, mode, drop_key, cut, ids = _rules_of(source)
    rule = mode, drop_key, cut, ids
    direct = isinstance(base, Rows)
    ends, barred = (_NO_IDS,) * 2 if banned is None else (banned.rowptr.numpy(), banned.col.numpy())
    numbers, low = _Numbers(seeds.numpy(), source.num_nodes), 0
    found: list[tuple[Ints, Ints, Ints, Ints]] = []
    counts = [numbers.count]
    for fanout in fanouts:
        nodes = numbers.nodes[: numbers.count]
        rows = base if isinstance(base, Rows) else base.take(torch.from_numpy(nodes[low:]))
        index = rows.rowptr.numpy(), rows.col.numpy()
        length, entries, degree = compiled.hop(
            *index, direct, nodes, low, fanout, np.uint64(key), *rule, ends, barred
        )
        senders = compiled.gather(index[1], entries)
        if rows.entries is not None:
            entries = rows.entries.numpy()[entries]
        low = numbers.count
        numbers.number(senders)
        found.append((length, entries, degree, senders))
        counts.append(numbers.count)
    length, entries, degree, col = map(np.concatenate, zip(*found, strict=True))
    nodes = numbers.finish()
    rowptr = np.zeros(length.size + 1, np.int64)
    length.cumsum(out=rowptr[1:])
    known = np.full(nodes.size, -1, np.int64)
    known[: degree.size] = degree
    most = COUNTED if max(fanouts) > 0 else -1
    degrees = cache(partial(_degrees, source, nodes, known, most))
    pointer, columns, places, everyone = map(torch.from_numpy, (rowptr, col, entries, nodes))
    blocks = []
    for rows_here, cols_here in zip(counts[-2::-1], counts[:0:-1], strict=True):
        last = int(rowptr[rows_here])
        part = pointer[: rows_here + 1], columns[:last], cols_here
        blocks.append(SampledBlock(Adjacency(*part, False, everyone[:cols_here]), degrees))
    return ReceptiveField(
        everyone, tuple(blocks), tuple(places[: block.num_entries] for block in blocks)
    )


def _degrees(
    source: Neighbours, nodes: Ints, known: Ints, most: int = -1, enough: int = -1
) -> Tensor:
    """Degrees of nodes where they are not known; ``enough``: as far as they are below it."""
    base, mode, key, cut, ids = _rules_of(source)
    degree = known.copy()
    if not isinstance(base, Rows):
        left = torch.from_numpy((degree < 0).nonzero()[0])
        degree[left] = source.degree(torch.from_numpy(nodes)[left]).numpy()
    else:
        index = base.rowptr.numpy(), base.col.numpy()
        compiled.count(*index, True, nodes, degree, most, enough, mode, key, cut, ids)
    with torch.inference_mode(False):
        return torch.from_numpy(degree)


def one_graph(field: ReceptiveField) -> Adjacency:
    """A sample as one graph of its nodes, for models that know no blocks: leaves receive nothing.

    As the rows of each layer are the first ones of one list, the seeds' outputs are the same.
    """
    block = field.blocks[0]
    assert isinstance(block, SampledBlock)
    missing = block.num_cols - block.num_rows
    rowptr = torch.cat([block.rowptr, block.rowptr[-1:].expand(missing)])
    graph = Adjacency(rowptr, block.col, block.num_cols, False, field.nodes)
    return SampledBlock(graph, lambda: block.degree)


def is_alone(source: Neighbours, nodes: Tensor) -> Tensor:
    """Which nodes receive from no one: their edges are only looked at until one survives."""
    unknown = np.full(nodes.numel(), -1, np.int64)
    return _degrees(source, nodes.numpy(), unknown, enough=1) == 0
