"""What PyG's data must be like to become a task, and what is said if it is not."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tuneup.errors import InputError

_UNUSED = ("edge_weight", "edge_attr")


def refuse_unused(store: Any, called: str) -> None:
    """Refuse weights and features of edges, which no model here reads."""
    for name in _UNUSED:
        if getattr(store, name, None) is not None:
            raise InputError(
                f"{called} has {name}, which would be ignored: tuneup's graphs have "
                f"no edge weights or features. Remove it (del data.{name}) to train without."
            )


def pair_type(data: Any) -> tuple[str, str, str]:
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


def count_of(data: Any, side: str) -> int:
    """How many nodes there are of a kind: nothing else tells of those without an edge."""
    if "num_nodes" not in data[side]:
        raise InputError(f"Say how many there are: data[{side!r}].num_nodes = ...")
    return int(data[side]["num_nodes"])


def true_edges(store: Any, called: str) -> Tensor:
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


def check_messages(store: Any, messages: Tensor, *, both_ways: bool) -> None:
    """Refuse a training part whose labelled edges are not those that messages flow along."""
    if getattr(store, "edge_label_index", None) is None:
        return
    true, listed = true_edges(store, "data"), store.edge_label_index
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


def mask_of(store: Any, name: str, data: Any, count: int) -> Tensor:
    """A mask of ``count`` nodes or edges ``[count]`` that marks some."""
    kind, mask = type(data).__name__, getattr(store, name, None)
    each = "edge" if is_hetero(data) else "node"
    fits = isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.shape == (count,)
    if not fits:
        way = (
            "torch_geometric.transforms.RandomNodeSplit makes both masks."
            if each == "node"
            else "Or pass the second part of a RandomLinkSplit as val_data."
        )
        raise InputError(
            f"{kind}.{name} must be a boolean tensor with one entry per {each} [{count}]; got "
            f"{_kind(mask)}. {way}"
        )
    assert isinstance(mask, Tensor)
    if not mask.any():
        raise InputError(f"{kind}.{name} marks no {each} at all.")
    return mask


def _kind(mask: Any) -> str:
    """What was found in a mask's place, in a few words."""
    if mask is None:
        return "nothing"
    if not isinstance(mask, Tensor):
        return type(mask).__name__
    hint = ": choose one split, as in mask[:, 0]" if mask.dim() == 2 else ""
    return f"{mask.dtype} of shape {list(mask.shape)}{hint}"


def is_hetero(data: Any) -> bool:
    """Whether it is a ``HeteroData``."""
    return hasattr(data, "edge_types")  # not by its class: importing PyG takes seconds
