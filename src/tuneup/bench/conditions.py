"""What a block of results was made under, and where that is not what the paper had.

Shown with the table in every form, so that no table travels without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tuneup.curriculum import MODEL

from .presets import EMBEDDING, PAPER
from .rows import Row
from .tables import Block

PAPER_SEEDS = 5


def title(block: Block) -> str:
    """``dblp, link-prediction, gcn``, and the preset where it is the paper's."""
    words = f"{block.dataset}, {block.task}, {block.architecture}"
    return words if block.preset == "short" else f"{words}, {block.preset} preset"


def conditions(block: Block) -> str:
    """Schedules, what was shared and what the runs ended by, as the records say."""
    return " ".join(_sentences(block))


def _sentences(block: Block) -> Iterator[str]:
    config = block.records["base"][0].config if block.records.get("base") else {}
    if config:
        yield _schedules(block, config)
        yield _shared(config)
    seeds = block.seeds
    yield f"{seeds} training seed{'s' * (seeds > 1)} (paper: {PAPER_SEEDS})."
    width = config.get("embedding")
    if block.task == "link-prediction" and width and width != EMBEDDING["paper"]:
        yield f"Embeddings and decoder of width {width} (paper: {EMBEDDING['paper']})."
    if config.get("norm", "none") != "none":
        yield f"With {config['norm']} normalisation between layers."
    if block.task == "recommendation" and config.get("weights_lr", [1, 1]) != [1, 1]:
        yield _own_model(config)
    cut = [words for row in block.rows for words in cut_short(row)]
    if cut:
        yield f"Ended by the number of epochs, not by patience: {', '.join(cut)}."


def _schedules(block: Block, config: dict[str, Any]) -> str:
    ours = _budget(config["pretrain"], config["finetune"])
    theirs = _budget(*map(asdict, PAPER[block.task]))
    paper = "" if ours == theirs else f" (paper: {theirs})"
    return f"Preset {block.preset}: {ours}{paper}."


def _budget(first: dict[str, Any], second: dict[str, Any]) -> str:
    """``at most 240 + 250 epochs at 0.01, times 0.1 at epoch 90, and 0.001``."""

    def rate(stage: dict[str, Any]) -> str:
        steps = " and ".join(map(str, stage["milestones"]))
        return f"{stage['lr']:g}" + (f", times {stage['gamma']:g} at epoch {steps}," * bool(steps))

    return (
        f"at most {first['epochs']} + {second['epochs']} epochs at {rate(first)} and {rate(second)}"
    )


def _own_model(config: dict[str, Any]) -> str:
    """How a recommender of the short preset differs from what the paper says of its own."""
    first, second = config["weights_lr"]
    parts = [
        f"inputs start with a standard deviation of {config['std']:g}",
        f"weights learn at {first:g} and {second:g} of the rate of the inputs",
    ]
    parts += ["weights start orthogonal"] * bool(config.get("orthogonal"))
    parts += ["nodes without an edge share an input of their own"] * bool(config.get("unknown"))
    return f"Not the paper's: {', '.join(parts)}."


def _shared(config: dict[str, Any]) -> str:
    found = {name: config[name] for name in ("dropout", "l2") if name in config}
    told = ", ".join(f"{name} {value:g}" for name, value in found.items())
    without = "" if "dropout" in found else "; no dropout was tried"
    return f"Chosen on Base for all rows: {told}{without}."


def cut_short(row: Row) -> Iterator[str]:
    """How many runs had a last stage, or one of a module of their own, that patience did not end.

    Other stages before the last are Base's, which has a row.
    """
    ended: Counter[str] = Counter()
    for record in row.records:
        *earlier, last = record.stages
        own = {f"{row.title}'s {stage['module']}": stage for stage in earlier}
        own.pop(f"{row.title}'s {MODEL}", None)
        for name, stage in {**own, row.title: last}.items():
            ended[name] += stage["stopped"].startswith("ran all")
    for name, count in ended.items():
        if count:
            yield f"{name} {count} of {len(row.records)}"
