"""PyG's own data as tasks: a ``Data`` with masks, parts of ``RandomLinkSplit``, users' items."""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor

from tuneup.data import Graph, Interactions, graph_from, interactions_from
from tuneup.errors import InputError

from .base import Task
from .imbalance import ClassWeights
from .link_prediction import LinkPrediction
from .node_classification import NodeClassification
from .pyg_checks import (
    check_messages,
    count_of,
    is_hetero,
    mask_of,
    pair_type,
    refuse_unused,
    true_edges,
)
from .recommendation import L2, Recommendation


def task_of(data: Any, val_data: Any = None) -> Task[Any]:
    """The task that PyG's data stands for.

    A ``Data`` with masks: node classification.  Two ``Data``, for training and validation:
    link prediction.  ``HeteroData``, one or two: recommendation.  A task is one already.
    """
    if isinstance(data, Task):
        if val_data is not None:
            raise InputError("A task holds its own validation: leave out val_data.")
        return data
    if isinstance(data, tuple | list):
        raise InputError(
            f"Pass a graph, not a {type(data).__name__} of them: dataset[0], or of a "
            "RandomLinkSplit parts[0], parts[1]."
        )
    if is_hetero(data):
        return pair_task(data, val_data)
    return node_task(data) if val_data is None else link_task(data, val_data)


def node_task(
    data: Any,
    *,
    metric: str = "accuracy",
    class_weights: ClassWeights = None,
) -> NodeClassification:
    """The node-classification task of a PyG ``Data`` with masks.

    Args:
        data: features, edges, labels, and the masks of training and validation nodes.
        metric: validation score, one of :data:`tuneup.metrics.CLASS_METRICS`.
        class_weights: of the loss; see :class:`NodeClassification`.
    """
    if isinstance(data, Graph):
        raise InputError("A tuneup Graph has no masks: use NodeClassification(graph, train, val).")
    if not hasattr(data, "train_mask") and hasattr(data, "edge_label_index"):
        raise InputError(
            f"{type(data).__name__} is a part of a RandomLinkSplit: to predict links, pass its "
            "validation part too, as val_data."
        )
    graph = _graph(data)
    train, validation = (
        mask_of(data, name, data, graph.num_nodes) for name in ("train_mask", "val_mask")
    )
    return NodeClassification(
        graph,
        train.nonzero().view(-1),
        validation.nonzero().view(-1),
        metric=metric,
        class_weights=class_weights,
    )


def link_task(
    data: Any, val_data: Any, l2: L2 | None = None, *, metric: str = "recall@50"
) -> LinkPrediction:
    """The link-prediction task of two ``Data`` as ``RandomLinkSplit(is_undirected=True)`` makes.

    Args:
        data: features and training edges, along which messages flow and which are the positives.
        val_data: the same nodes; of its ``edge_label_index``, the true ones are to be found.
        l2: penalty on the output embeddings.
        metric: validation score; negatives that a split drew are not used, as every node that is
            no known neighbour is ranked.
    """
    if isinstance(data, Graph):
        raise InputError("A tuneup Graph is split otherwise: see LinkPrediction.from_split.")
    if getattr(data, "x", None) is None:
        raise InputError(
            f"{type(data).__name__} has no node features x. To learn some: x = "
            "tuneup.graph.identities(...), tuneup.nn.NodeVectors as inputs, and LinkPrediction."
        )
    graph = _graph(data)
    if not graph.adjacency.undirected:
        raise InputError(
            "Links are predicted in undirected graphs, and edge_index has edges without their "
            "reverse: split with RandomLinkSplit(is_undirected=True), after ToUndirected() if need "
            "be."
        )
    check_messages(data, data.edge_index, both_ways=True)
    return LinkPrediction(graph, true_edges(val_data, "val_data"), l2 or L2(), metric)


def pair_task(
    data: Any, val_data: Any = None, l2: L2 | None = None, *, metric: str = "recall@50"
) -> Recommendation:
    """The recommendation task of a ``HeteroData`` with one kind of edge, (user, ..., item).

    Args:
        data: training pairs; without ``val_data``, all pairs, with a ``train_mask`` and a
            ``val_mask`` on the edges.
        val_data: the validation part of ``RandomLinkSplit``.
        l2: penalties on input and output embeddings.
        metric: validation score; every item that the user is not known to have is ranked.
    """
    user, relation, item = kind = pair_type(data)
    store = data[kind]
    if any(getattr(data[side], "y", None) is not None for side in (user, item)):
        raise InputError(
            "A HeteroData is taken as users and items, but this one has labels y: classifying "
            "nodes of several kinds is not supported."
        )
    for side in (user, item):
        if getattr(data[side], "x", None) is not None:
            raise InputError(
                f"data[{side!r}] has features x, which would be ignored: recommendation learns an "
                f"embedding per node. Remove them (del data[{side!r}].x) to train without."
            )
    refuse_unused(store, f"data[{user!r}, {relation!r}, {item!r}]")
    sizes = count_of(data, user), count_of(data, item)

    def made(edges: Tensor, part: str) -> Interactions:
        return interactions_from(edges[0], edges[1], sizes[0], sizes[1], part)

    if val_data is not None:
        check_messages(store, store.edge_index, both_ways=False)
        found = true_edges(val_data[kind], f"val_data[{user!r}, {relation!r}, {item!r}]")
        parts = made(store.edge_index, "train"), made(found, "validation")
    else:
        count = store.edge_index.shape[1]
        masks = [mask_of(store, name, data, count) for name in ("train_mask", "val_mask")]
        parts = (
            made(store.edge_index[:, masks[0]], "train"),
            made(store.edge_index[:, masks[1]], "validation"),
        )
    return Recommendation(*parts, l2 or L2(), metric)


def _graph(data: Any) -> Graph:
    """Edges and features, with a word about what training leaves out."""
    refuse_unused(data, type(data).__name__)
    graph = graph_from(data, name=type(data).__name__)
    loops, repeated = graph.adjacency.num_self_loops, graph.adjacency.num_duplicates
    if loops or repeated:
        warnings.warn(
            f"edge_index has {loops} self-loops and {repeated} repeated edges; training leaves "
            "them out. Predict without them too (torch_geometric.utils.remove_self_loops, "
            "coalesce), or the model sees a graph that it was not validated on.",
            stacklevel=5,
        )
    return graph
