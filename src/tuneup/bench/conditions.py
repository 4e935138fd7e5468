"""What a block of results was made under, and where that is not what the paper had.

Shown with the table in every form, so that no table travels without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from tuneup.curriculum import MODEL
from tuneup.tasks import VALIDATION_SOURCES

from .floors import floor_words
from .presets import EMBEDDING, LABELLED, LABELLED_BY_DATASET, PAPER
from .rows import Row
from .tables import Block

PAPER_SEEDS = 5
_PAPER_LABELLED = (*LABELLED_BY_DATASET.items(), ("ogbn-products", LABELLED))


def conditions(block: Block) -> str:
    """Schedules, what was shared and what the runs ended by, as the records say."""
    return " ".join(_sentences(block))


def _sentences(block: Block) -> Iterator[str]:
    known = block.records.get("base") or next(iter(block.records.values()), [])
    config = known[0].config if known else {}
    if config:
        yield _schedules(block, config)
        yield _shared(block, config)
    seeds = len(block.seeds)
    yield f"{seeds} training seed{'s' * (seeds > 1)} (paper: {PAPER_SEEDS})."
    if "labelled" in config:
        theirs = ", ".join(f"{100 * share:g} % of {name}" for name, share in _PAPER_LABELLED)
        yield f"{100 * config['labelled']:g} % of the nodes are labelled (paper: {theirs})."
    width = config.get("embedding")
    if block.task == "link-prediction" and width and width != EMBEDDING["paper"]:
        yield f"Embeddings and decoder of width {width} (paper: {EMBEDDING['paper']})."
    if block.task == "link-prediction":
        yield f"Validation ranks for {VALIDATION_SOURCES} nodes, tests for all."
    if config.get("norm", "none") != "none":
        yield f"With {config['norm']} normalisation between layers."
    if block.task == "recommendation" and config.get("weights_lr", [1, 1]) != [1, 1]:
        yield _own_model(config)
    cut = [words for row in block.rows for words in cut_short(row)]
    if cut:
        yield f"Ended by the number of epochs, not by patience: {', '.join(cut)}."
    means = [words for row in block.rows for words in means_words(row)]
    if means:
        yield f"Without scores by node, and so left out of intervals: {', '.join(means)}."
    yield from filter(None, [floor_words(block.results, block.dataset)])
    made = {run.versions.get("revision") for own in block.records.values() for run in own}
    if len(made) > 1:
        yield f"Made by {len(made)} revisions of the code; every record names its own."
    yield from _processors(block)


def _schedules(block: Block, config: dict[str, Any]) -> str:
    ours = _budget(config["pretrain"], config["finetune"])
    theirs = _budget(*map(asdict, PAPER[block.task]))
    paper = "" if ours == theirs else f" (paper: {theirs})"
    waits = [config[stage]["patience"] for stage in ("pretrain", "finetune")]
    ended = f", ended after {waits[0]} and {waits[1]} epochs without a better score"
    patience = ended if all(waits) else ""
    return f"Preset {block.preset}: {ours}{patience}{paper}."


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


def _shared(block: Block, config: dict[str, Any]) -> str:
    found = {name: config[name] for name in ("dropout", "l2") if name in config}
    base = next(row for row in block.rows if row.method == "base")
    tried = [trial.point for trial in base.selection.trials] if base.selection else []
    told = ", ".join(
        f"{name} {value:g}" + _of_values(point[name] for point in tried if name in point)
        for name, value in found.items()
    )
    without = "" if "dropout" in found else "; no dropout was tried"
    return f"Chosen on Base for all rows: {told}{without}."


def _of_values(tried: Iterable[float]) -> str:
    """`` of 0, 0.5``."""
    values = sorted(set(tried))
    return f" of {', '.join(f'{value:g}' for value in values)}" if values else ""


def means_words(row: Row) -> Iterator[str]:
    """How many runs have means alone: release 0.1 recorded Base's scores by node for them."""
    if row.means_only:
        yield f"{row.title} {len(row.means_only)} of {len(row.records)}"


def cut_short(row: Row) -> Iterator[str]:
    """How many runs had a last stage, or one of a module of their own, that patience did not end.

    Other stages before the last are Base's, which has a row.
    """
    ended: Counter[str] = Counter()
    for record in row.records:
        *earlier, last = record.stages
        ended[row.title] += _ran_out(last)
        for stage in earlier:
            if stage["module"] != MODEL:
                ended[f"{row.title}'s {stage['module']}"] += _ran_out(stage)
    for name, count in ended.items():
        if count:
            yield f"{name} {count} of {len(row.records)}"


def _ran_out(stage: Mapping[str, Any]) -> bool:
    """Whether a stage was ended by its number of epochs."""
    return bool(stage["stopped"].startswith("ran all"))


def _processors(block: Block) -> Iterator[str]:
    """Which rows were made on another kind of processor than most, where there are several.

    How sums are rounded there makes another run of the same seed: as far away as another seed's.
    """
    found: dict[str, Counter[str]] = {}
    for row in block.rows:
        for run in row.records:
            processor = str(run.machine.get("processor", "an unknown processor"))
            found.setdefault(processor, Counter())[row.title] += 1
    if len(found) < 2:
        return
    usual, *others = sorted(found, key=lambda processor: -found[processor].total())
    runs = {row.title: len(row.records) for row in block.rows}
    for processor in others:
        told = [
            title if count == runs[title] else f"{title} ({count} of {runs[title]} runs)"
            for title, count in found[processor].items()
        ]
        yield f"Made on {processor}: {', '.join(told)}; all else on {usual}."
