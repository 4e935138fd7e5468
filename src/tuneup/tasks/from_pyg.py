"""PyG's own data as tasks: a ``Data`` with masks, parts of ``RandomLinkSplit``, users' items."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tuneup.data import Graph, Interactions, graph_from, interactions_from
from tuneup.errors import InputError

from .base import Task
from .link_prediction import LinkPrediction
from .node_classification import ClassWeights, NodeClassification
from .ranking import L2
from .recommendation import Recommendation


def task_of(
    data: Any,
    val_data: Any = None,
    *,
    metric: str | None = None,
    class_weights: ClassWeights = None,
) -> Task[Any]:
    """The task that PyG's data stands for.

    A ``Data`` with masks: node classification, with several classes a node if ``y`` is ``[N, C]``.
    Two ``Data``, for training and validation: link prediction.  ``HeteroData``, one or two:
    recommendation.  A task is one already.

    Args:
        data: the data, or a task.
        val_data: the validation part of ``RandomLinkSplit``.
        metric: validation score, by default the task's: see :data:`tuneup.metrics.METRICS`.
        class_weights: of the loss of node classification; see :class:`NodeClassification`.
    """
    if isinstance(data, Task):
        if val_data is not None:
            raise InputError("A task holds its own validation: leave out val_data.")
        task = data
    else:
        task = _task_of_data(data, val_data)
    changes: dict[str, Any] = {} if metric is None else {"metric": metric}
    if class_weights is not None:
        if not isinstance(task, NodeClassification):
            raise InputError(f"class_weights: {task.kind} has no classes; leave them out.")
        changes["class_weights"] = class_weights
    return replace(task, **changes) if changes else task  # type: ignore[type-var]


def _task_of_data(data: Any, val_data: Any) -> Task[Any]:
    if isinstance(data, tuple | list):
        raise InputError(
            f"Pass a graph, not a {type(data).__name__} of them: dataset[0], or of a "
            "RandomLinkSplit parts[0], parts[1]."
        )
    if _is_hetero(data):
        return pair_task(data, val_data)
    return node_task(data) if val_data is None else link_task(data, val_data)


def node_task(
    data: Any,
    *,
    metric: str = "",
    class_weights: ClassWeights = None,
) -> NodeClassification:
    """The node-classification task of a PyG ``Data`` with masks.

    Args:
        data: features, edges, labels, and the masks of training and validation nodes.
        metric: validation score; see :class:`NodeClassification`.
        class_weights: of the loss; likewise.
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
        _mask_of(data, name, data, graph.num_nodes) for name in ("train_mask", "val_mask")
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
    _check_messages(data, data.edge_index, both_ways=True)
    return LinkPrediction(graph, _true_edges(val_data, "val_data"), l2 or L2(), metric)


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
    user, relation, item = kind = _pair_type(data)
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
    _refuse_unused(store, f"data[{user!r}, {relation!r}, {item!r}]")
    sizes = _count_of(data, user), _count_of(data, item)

    def made(edges: Tensor, part: str) -> Interactions:
        return interactions_from(edges[0], edges[1], sizes[0], sizes[1], part)

    if val_data is not None:
        _check_messages(store, store.edge_index, both_ways=False)
        found = _true_edges(val_data[kind], f"val_data[{user!r}, {relation!r}, {item!r}]")
        parts = made(store.edge_index, "train"), made(found, "validation")
    else:
        count = store.edge_index.shape[1]
        masks = [_mask_of(store, name, data, count) for name in ("train_mask", "val_mask")]
        parts = (
            made(store.edge_index[:, masks[0]], "train"),
            made(store.edge_index[:, masks[1]], "validation"),
        )
    return Recommendation(*parts, l2 or L2(), metric)


def _graph(data: Any) -> Graph:
    """Edges and features; warns of edges that training leaves out."""
    _refuse_unused(data, type(data).__name__, ("edge_attr",))
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


def _refuse_unused(
    store: Any, called: str, names: Sequence[str] = ("edge_weight", "edge_attr")
) -> None:
    """Refuse what no model here reads of edges."""
    for name in names:
        if getattr(store, name, None) is not None:
            raise InputError(
                f"{called} has {name}, which would be ignored: no model here reads it. Remove it "
                f"(del data.{name}) to train without, or call it edge_weight if it is the weights "
                "of a graph of nodes with features."
            )


def _pair_type(data: Any) -> tuple[str, str, str]:
    """The kind of edge between users and items; its reverse, where there is one, adds nothing."""
    kinds = [
        kind for kind in data.edge_types if not kind[1].startswith("rev_") and kind[0] != kind[2]
    ]
    if len(kinds) != 1 or len(data.node_types) != 2:
        found = ", ".join("-".join(kind) for kind in data.edge_types) or "none"
        raise InputError(
            "Recommendation takes a HeteroData of two kinds of nodes and one kind of edge, from "
            f"users to items (and perhaps its rev_); got nodes {', '.join(data.node_types)} and "
            f"edges {found}. Take out the others first."
        )
    user, relation, item = kinds[0]
    return user, relation, item


def _count_of(data: Any, side: str) -> int:
    """The number of nodes of a kind, which edges do not show for nodes without one."""
    if "num_nodes" not in data[side]:
        raise InputError(f"Number of nodes unknown: set data[{side!r}].num_nodes.")
    return int(data[side]["num_nodes"])


def _true_edges(store: Any, called: str) -> Tensor:
    """The true edges of ``edge_label_index``; false ones, drawn by a split, are not needed."""
    edges = getattr(store, "edge_label_index", None)
    if not isinstance(edges, Tensor):
        raise InputError(
            f"{called} has no edge_label_index, the edges to be found: make it by "
            "torch_geometric.transforms.RandomLinkSplit."
        )
    label = getattr(store, "edge_label", None)
    if label is not None and not torch.isin(label, label.new_tensor([0, 1])).all():
        raise InputError(
            f"{called}.edge_label holds more than 1 for true and 0 for false edges: classes or "
            "ratings would be ignored. Remove edge_label before the split to go without."
        )
    true = edges if label is None else edges[:, label.view(-1) > 0]
    if not true.numel():
        raise InputError(f"{called}.edge_label_index holds no true edge to be found.")
    return true.long()


def _check_messages(store: Any, messages: Tensor, *, both_ways: bool) -> None:
    """Refuse a training part whose labelled edges are not those that messages flow along."""
    if getattr(store, "edge_label_index", None) is None:
        return
    true, listed = _true_edges(store, "data"), store.edge_label_index
    size = 1 + int(max(listed.max(), messages.max())) if messages.numel() else 1
    sent = messages[0] * size + messages[1]
    if both_ways:
        sent = torch.cat([sent, messages[1] * size + messages[0]])
    if not torch.isin(true[0] * size + true[1], sent).all():
        raise InputError(
            "Some edges of data.edge_label_index are not in its edge_index. Here messages flow "
            "along all edges that are learned from: pass the training part first, and split with "
            "disjoint_train_ratio=0."
        )
    label = getattr(store, "edge_label", None)
    false = listed[:, :0] if label is None else listed[:, label.view(-1) == 0]
    if torch.isin(false[0] * size + false[1], sent).any():
        raise InputError(
            "data.edge_label calls some edges of edge_index false: is 0 one of your own classes or "
            "ratings? They would be ignored. Remove edge_label before the split to go without."
        )


def _mask_of(store: Any, name: str, data: Any, count: int) -> Tensor:
    """A mask of ``count`` nodes or edges ``[count]`` that marks some."""
    kind, mask = type(data).__name__, getattr(store, name, None)
    each = "edge" if _is_hetero(data) else "node"
    fits = isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.shape == (count,)
    if not fits:
        way = (
            "torch_geometric.transforms.RandomNodeSplit makes both masks."
            if each == "node"
            else "Or pass the second part of a RandomLinkSplit as val_data."
        )
        raise InputError(
            f"{kind}.{name} must be a boolean tensor with one entry per {each} [{count}]; got "
            f"{_described(mask)}. {way}"
        )
    assert isinstance(mask, Tensor)
    if not mask.any():
        raise InputError(f"{kind}.{name} marks no {each} at all.")
    return mask


def _described(mask: Any) -> str:
    """What was given as a mask, in a few words."""
    if mask is None:
        return "nothing"
    if not isinstance(mask, Tensor):
        return type(mask).__name__
    hint = ": choose one split, as in mask[:, 0]" if mask.dim() == 2 else ""
    return f"{mask.dtype} of shape {list(mask.shape)}{hint}"


def _is_hetero(data: Any) -> bool:
    """Whether it is a ``HeteroData``."""
    return hasattr(data, "edge_types")  # not by its class: importing PyG takes seconds
