"""How many train, validate, are tested and are new, in words for a report."""

from __future__ import annotations

from tuneup.data import EdgeSplit, InteractionSplit, NodeSplit


def split_facts(split: NodeSplit | EdgeSplit | InteractionSplit) -> dict[str, str]:
    """Counts by name; what there is none of is left out."""
    if isinstance(split, InteractionSplit):
        sizes = {"pairs": [len(split.train), len(split.validation), len(split.test)]}
    elif isinstance(split, EdgeSplit):
        sizes = {"edges": [part.shape[1] for part in (split.train, split.validation, split.test)]}
    else:
        sizes = {"nodes": [part.numel() for part in (split.train, split.validation, split.test)]}
    ((unit, counts),) = sizes.items()
    words = (f"{unit} to train on", f"{unit} to validate on", f"{unit} to test on")
    facts = {word: f"{count:,}" for word, count in zip(words, counts, strict=True) if count}
    new, who = split.new.numel(), "users" if unit == "pairs" else "nodes"
    return facts | ({f"{who} held out as new": f"{new:,}"} if new else {})
