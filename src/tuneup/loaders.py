"""Mini-batches for a loop of one's own: PyG's loaders by name and by what they yield.

They need no compiled extension, and they drop edges while they sample: batches of synthetic tails
cost little more than those of the graph.  Every batch is a function of seed, epoch and number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import DropEdge, ReceptiveField, Rows
from tuneup.graph.csr import check_nodes, distinct, rowptr_of
from tuneup.graph.hashing import fold_key, uniform
from tuneup.graph.neighbours import Filtered, Neighbours

Exclude = Literal["targets", "tails"] | None
"""Which of a batch's target edges send no messages: all, or those with an end of low degree."""

_ORDER, _DRAWS, _FALSE = 0x6F72646572, 0x6472617773, 0x66616C7365  # "order", "draws", "false"


class _Loader(ABC):
    """Batches of some of an input's ``count`` places, in an order of each epoch's own."""

    def __init__(
        self,
        data: Any,
        num_neighbors: Sequence[int],
        count: int,
        batch_size: int,
        shuffle: bool,
        drop_last: bool,
        drop: DropEdge | None,
        seed: int,
        transform: Callable[[Any], Any] | None,
        num_workers: int,
    ) -> None:
        from tuneup.graph.sampling import check_fanouts  # compiled code takes a while to load

        self.num_neighbors = check_fanouts(num_neighbors)
        if hasattr(data, "edge_types") or not isinstance(getattr(data, "edge_index", None), Tensor):
            raise InputError(
                f"data: got {type(data).__name__}; expected a Data with edge_index. Nodes of "
                "several kinds: make one graph of them (to_homogeneous)."
            )
        if not 1 <= batch_size <= count:
            raise InputError(
                f"batch_size: got {batch_size}; expected 1 to {count}, as many as there are inputs."
            )
        if drop is not None and drop.exact:
            raise InputError(
                "drop: exact=True compares every edge with all others, which no batch sees; use "
                "DropEdge(alpha) without it."
            )
        if num_workers < 0:
            raise InputError(f"num_workers: got {num_workers}; expected 0 threads or more.")
        self.data, self.count, self.batch_size = data, count, batch_size
        self.shuffle, self.drop_last, self.drop = shuffle, drop_last, drop
        self.seed, self.transform, self.num_workers = seed, transform, num_workers
        self.epoch = 0
        sender, receiver = data.edge_index
        order = receiver.argsort(stable=True)
        self.rows = Rows(rowptr_of(receiver, data.num_nodes), sender[order], order)
        self._of_nodes = [name for name in data.node_attrs() if isinstance(data[name], Tensor)]
        edges = (name for name in data.edge_attrs() if name != "edge_index")
        self._of_edges = [name for name in edges if not name.startswith("edge_label")]

    def __len__(self) -> int:
        return (
            self.count // self.batch_size if self.drop_last else -(-self.count // self.batch_size)
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.count:,} inputs, batch_size={self.batch_size}, "
            f"num_neighbors={list(self.num_neighbors)})"
        )

    def __iter__(self) -> Iterator[Any]:
        """One epoch; ``epoch`` counts them, and may be set to continue at another one."""
        epoch, self.epoch = self.epoch, self.epoch + 1
        order = torch.arange(self.count)
        if self.shuffle:
            order = uniform(order, fold_key(_ORDER, self.seed, epoch)).argsort()
        parts = enumerate(order.split(self.batch_size)[: len(self)])
        batches = (
            (part, epoch * len(self) + number, fold_key(_DRAWS, self.seed, epoch, number))
            for number, part in parts
        )
        if not self.num_workers:
            for each in batches:
                yield self._made(*each)
            return
        with ThreadPoolExecutor(self.num_workers) as pool:
            waiting: deque[Future[Any]] = deque()
            try:
                for each in batches:
                    waiting.append(pool.submit(self._made, *each))
                    if len(waiting) > self.num_workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:  # of an epoch that its reader left
                    future.cancel()

    def _made(self, part: Tensor, step: int, key: int) -> Any:
        batch = self._batch(part, self._source(step), key)
        return batch if self.transform is None else self.transform(batch)

    def _source(self, step: int) -> Neighbours:
        """The graph with the edges that survive a step, as ``drop(edge_index, step)`` has them."""
        if self.drop is None or self.drop.alpha == 0.0:
            return self.rows
        return Filtered(self.rows, self.drop.rule(step))

    @abstractmethod
    def _batch(self, part: Tensor, source: Neighbours, key: int) -> Any:
        """The batch of some places of the input."""

    def _data(self, field: ReceptiveField) -> Any:
        """The nodes and edges of a sample, with their attributes."""
        from torch_geometric.data import Data  # takes seconds

        block, entries = field.blocks[0], field.entries[0]
        out = Data(edge_index=torch.stack([block.col, block.row]))
        for names, index in ((self._of_nodes, field.nodes), (self._of_edges, entries)):
            for name in names:
                value = self.data[name]
                out[name] = value.index_select(self.data.__cat_dim__(name, value), index)
        taken = {*self._of_nodes, *self._of_edges, "edge_index"}
        for name, value in self.data.to_dict().items():
            if name not in taken and not name.startswith("edge_label") and name != "num_nodes":
                out[name] = value
        out.num_nodes, out.n_id, out.e_id = field.nodes.numel(), field.nodes, entries
        rows = [b.num_rows for b in reversed(field.blocks)] + [field.nodes.numel()]
        edges = [0] + [b.num_entries for b in reversed(field.blocks)]
        out.num_sampled_nodes = [rows[0], *(b - a for a, b in pairwise(rows))]
        out.num_sampled_edges = [b - a for a, b in pairwise(edges)]
        return out


class NeighborLoader(_Loader):
    """Batches of nodes with the neighbourhoods that a model reads for them.

    Example::

        loader = tuneup.NeighborLoader(
            data, num_neighbors=[15, 10], batch_size=32, input_nodes=data.train_mask,
            drop=tuneup.DropEdge(0.5), shuffle=True,
        )
        for batch in loader:  # a Data: the first batch.batch_size nodes are the inputs
            out = model(batch.x, batch.edge_index)[: batch.batch_size]

    A batch has all attributes of the data, those of nodes and edges for its own, and ``n_id``,
    ``e_id``, ``input_id``, ``batch_size``, ``num_sampled_nodes`` and ``num_sampled_edges``.

    Args:
        data: a PyG ``Data``.
        num_neighbors: most neighbours of a node, for each layer of the model from the outputs
            back; -1: all of them.
        input_nodes: a mask or a list of nodes; by default all.
        batch_size: inputs a batch.
        shuffle: whether each epoch has an order of its own.
        drop_last: whether to leave out a last batch that is smaller.
        drop: edges to drop: batch number b of epoch e is a sample of
            ``drop(edge_index, step=e * len(loader) + b)``.
        seed: of the order and of the neighbours.
        transform: applied to every batch.
        num_workers: threads that make batches ahead; any number gives the same ones.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Sequence[int],
        *,
        batch_size: int = 1,
        input_nodes: Tensor | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
        drop: DropEdge | None = None,
        seed: int = 0,
        transform: Callable[[Any], Any] | None = None,
        num_workers: int = 0,
    ) -> None:
        nodes = input_nodes
        if nodes is None:
            nodes = torch.arange(data.num_nodes)
        elif nodes.dtype == torch.bool:
            nodes = nodes.nonzero().view(-1)
        nodes = nodes.long()
        super().__init__(
            data, num_neighbors, nodes.numel(), batch_size, shuffle, drop_last, drop, seed,
            transform, num_workers,
        )  # fmt: skip
        check_nodes(nodes, data.num_nodes)
        self.input_nodes = nodes

    def _batch(self, part: Tensor, source: Neighbours, key: int) -> Any:
        from tuneup.graph.sampling import sample

        out = self._data(sample(source, self.input_nodes[part], self.num_neighbors, key))
        out.input_id, out.batch_size = part, part.numel()
        return out


class LinkNeighborLoader(_Loader):
    """Batches of links with the neighbourhoods that a model reads for their ends.

    Example::

        loader = tuneup.LinkNeighborLoader(
            data, num_neighbors=[15, 10], batch_size=64, neg_sampling_ratio=1.0,
            exclude="tails", drop=tuneup.DropEdge(0.5), shuffle=True,
        )
        for batch in loader:
            z = model(batch.x, batch.edge_index)
            first, second = z[batch.edge_label_index]
            score = (first * second).sum(1)  # to be compared with batch.edge_label

    A batch has what that of a :class:`NeighborLoader` has; its first ``batch_size`` nodes are the
    ends of its links. ``edge_label_index`` counts the batch's nodes, true links first.

    Args:
        data: a PyG ``Data``.
        num_neighbors: as of :class:`NeighborLoader`.
        edge_label_index: links ``[2, E]``; by default the edges.
        edge_label: their labels ``[E]``; where pairs without a link are drawn, these have label 0,
            and labels that are given are raised by 1.
        neg_sampling_ratio: pairs without a link for each link, drawn from all pairs of nodes.
        batch_size: links a batch.
        exclude: links of a batch that send no messages in it, in either direction: "targets", all;
            "tails", those with an end of a degree up to ``tail_degree``. What a node with few
            edges is to be linked by, it must not read; a node with many hardly misses one.
        tail_degree: by default the mean degree.
        shuffle: as of :class:`NeighborLoader`, like the arguments that follow.
        drop_last: likewise.
        drop: likewise.
        seed: likewise.
        transform: likewise.
        num_workers: likewise.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Sequence[int],
        *,
        edge_label_index: Tensor | None = None,
        edge_label: Tensor | None = None,
        neg_sampling_ratio: float = 0.0,
        batch_size: int = 1,
        exclude: Exclude = None,
        tail_degree: float | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
        drop: DropEdge | None = None,
        seed: int = 0,
        transform: Callable[[Any], Any] | None = None,
        num_workers: int = 0,
    ) -> None:
        links = data.edge_index if edge_label_index is None else edge_label_index
        if exclude not in (None, "targets", "tails"):
            raise InputError(f'exclude: got {exclude!r}; expected "targets", "tails" or None.')
        if edge_label is not None and edge_label.shape[:1] != links.shape[1:]:
            raise InputError(
                f"edge_label: got shape {list(edge_label.shape)}; expected {links.shape[1]} labels."
            )
        if not neg_sampling_ratio >= 0:
            raise InputError(f"neg_sampling_ratio: got {neg_sampling_ratio}; expected 0 or more.")
        super().__init__(
            data, num_neighbors, links.shape[1], batch_size, shuffle, drop_last, drop, seed,
            transform, num_workers,
        )  # fmt: skip
        check_nodes(distinct(links.flatten().long()), data.num_nodes)
        self.links, self.labels = links.long(), edge_label
        self.ratio, self.exclude = neg_sampling_ratio, exclude
        mean = self.rows.col.numel() / max(1, data.num_nodes)
        self.tail_degree = mean if tail_degree is None else tail_degree
        self._known: Tensor | None = None
        if neg_sampling_ratio:
            self._known = distinct(data.edge_index[0] * data.num_nodes + data.edge_index[1])

    def _batch(self, part: Tensor, source: Neighbours, key: int) -> Any:
        from tuneup.graph.sampling import sample

        links = self.links[:, part]
        pairs = torch.cat([links, self._false(round(self.ratio * part.numel()), key)], 1)
        seeds = distinct(pairs.flatten())
        banned = banned_neighbours(seeds, self._excluded(links))
        out = self._data(sample(source, seeds, self.num_neighbors, key, banned))
        out.edge_label_index = torch.searchsorted(seeds, pairs)
        out.edge_label = self._label(part, pairs.shape[1])
        out.input_id, out.batch_size = part, seeds.numel()
        return out

    def _excluded(self, links: Tensor) -> Tensor:
        if self.exclude is None:
            return links[:, :0]
        if self.exclude == "targets":
            return links
        degree = torch.stack([self.rows.degree(ends) for ends in links]).amin(0)
        return links[:, degree <= self.tail_degree]

    def _false(self, count: int, key: int) -> Tensor:
        """Pairs of different nodes without an edge from the first to the second ``[2, count]``."""
        size = self.data.num_nodes
        pairs = torch.zeros(2, count, dtype=torch.long)
        left = torch.arange(count)
        for attempt in range(100):
            if not left.numel():
                return pairs
            for end in range(2):
                draws = uniform(left, fold_key(_FALSE, key, attempt, end))
                pairs[end, left] = (draws * size).long()
            drawn = pairs[0, left] * size + pairs[1, left]
            taken = pairs[0, left] == pairs[1, left]
            if self._known is not None and self._known.numel():
                place = torch.searchsorted(self._known, drawn).clamp_(max=self._known.numel() - 1)
                taken |= self._known[place] == drawn
            left = left[taken]
        if left.numel():
            raise InputError(
                f"neg_sampling_ratio: found no pair without an edge for {left.numel()} of {count}; "
                "the graph is too dense for a ratio."
            )
        return pairs

    def _label(self, part: Tensor, count: int) -> Tensor:
        labels = torch.ones(part.numel()) if self.labels is None else self.labels[part]
        if self.labels is not None and self.ratio:
            labels = labels + 1
        return torch.cat([labels, labels.new_zeros(count - part.numel(), *labels.shape[1:])])


def banned_neighbours(seeds: Tensor, links: Tensor) -> Rows | None:
    """For each of ascending seeds the other ends of its links ``[2, E]``, if there are links."""
    if not links.shape[1]:
        return None
    row = torch.searchsorted(seeds, torch.cat([links[0], links[1]]))
    order = row.argsort(stable=True)
    other = torch.cat([links[1], links[0]])[order]
    return Rows(rowptr_of(row, seeds.numel()), other)
