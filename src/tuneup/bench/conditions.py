"""What a block was made under, and where that is not what the paper had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tuneup.curriculum import MODEL
from tuneup.methods import title_of
from tuneup.tasks import VALIDATION_SOURCES

from .presets import EMBEDDING, LABELLED, LABELLED_BY_DATASET, PAPER
from .tables import Block

PAPER_SEEDS = 5


def conditions(block: Block) -> str:
    """Schedules, shared settings, how runs ended, and what needs no training."""
    return " ".join(_sentences(block))


def _sentences(block: Block) -> Iterator[str]:
    runs = block.runs.get("base") or next(iter(block.runs.values()), [])
    config = runs[0].config if runs else {}
    if "pretrain" in config:
        yield _schedules(block, config)
        yield _shared(block)
    seeds = len(block.seeds)
    yield f"{seeds} training seed{'s' * (seeds > 1)} (paper: {PAPER_SEEDS})."
    if "labelled" in config:
        shares = [*LABELLED_BY_DATASET.items(), ("ogbn-products", LABELLED)]
        theirs = ", ".join(f"{100 * share:g} % of {name}" for name, share in shares)
        yield f"{100 * config['labelled']:g} % of the nodes are labelled (paper: {theirs})."
    width, paper_width = config.get("embedding"), EMBEDDING["paper"]
    if block.task == "link-prediction":
        if width and width != paper_width:
            yield f"Embeddings and decoder of width {width} (paper: {paper_width})."
        yield f"Validation ranks for {VALIDATION_SOURCES} nodes, tests for all."
    if config.get("norm", "none") != "none":
        yield f"With {config['norm']} normalisation between layers."
    if config.get("weights_lr", [1, 1]) != [1, 1]:
        yield _own_recommender(config)
    if ended := [words for method in block.runs for words in hit_epoch_limit(block, method)]:
        yield f"Ended by the number of epochs, not by patience: {', '.join(ended)}."
    lacking = {m: block.means_only(m) for m in block.runs}
    if means := [
        f"{title_of(m)} {count} of {len(block.runs[m])}" for m, count in lacking.items() if count
    ]:
        yield f"Without scores by node, and so not in intervals: {', '.join(means)}."
    if block.floors:
        yield f"Without training: {', '.join(map(_floor, block.floors.items()))}."
    revisions = {run.versions.get("revision") for own in block.runs.values() for run in own}
    if len(revisions) > 1:
        yield f"Made by {len(revisions)} revisions of the code; every run names its own."
    yield from _processors(block)


def _schedules(block: Block, config: Mapping[str, Any]) -> str:
    ours = _budget(config["pretrain"], config["finetune"])
    theirs = _budget(*map(asdict, PAPER[block.task]))  # type: ignore[index]
    paper = "" if ours == theirs else f" (paper: {theirs})"
    waits = [config[stage]["patience"] for stage in ("pretrain", "finetune")]
    ended = f", ended after {waits[0]} and {waits[1]} epochs without a better score"
    return f"Preset {block.preset}: {ours}{ended if all(waits) else ''}{paper}."


def _budget(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """``at most 240 + 250 epochs at 0.01, times 0.1 at epoch 90, and 0.001``."""

    def rate(stage: Mapping[str, Any]) -> str:
        steps = " and ".join(map(str, stage["milestones"]))
        return f"{stage['lr']:g}" + (f", times {stage['gamma']:g} at epoch {steps}," * bool(steps))

    epochs = f"{first['epochs']} + {second['epochs']}"
    return f"at most {epochs} epochs at {rate(first)} and {rate(second)}"


def _shared(block: Block) -> str:
    base = block.runs.get("base") or next(iter(block.runs.values()))
    tried = [trial.shared for trial in block.trials("base")]
    words = []
    for name, value in base[0].shared.items():
        values = sorted({point[name] for point in tried if name in point})
        words.append(
            f"{name} {value:g}" + (f" of {', '.join(f'{v:g}' for v in values)}" if values else "")
        )
    without = "" if "dropout" in base[0].shared else "; no dropout was tried"
    return f"Chosen on Base for all rows: {', '.join(words)}{without}."


def _own_recommender(config: Mapping[str, Any]) -> str:
    """How a recommender of the short preset differs from the paper's."""
    first, second = config["weights_lr"]
    parts = [
        f"inputs start with a standard deviation of {config['std']:g}",
        f"weights learn at {first:g} and {second:g} of the rate of the inputs",
    ]
    parts += ["weights start orthogonal"] * bool(config.get("orthogonal"))
    parts += ["nodes without an edge share an input of their own"] * bool(config.get("unknown"))
    return f"Not the paper's: {', '.join(parts)}."


def hit_epoch_limit(block: Block, method: str) -> Iterator[str]:
    """How many runs had a last stage, or one of a module of their own, that patience did not end.

    Other stages before the last are Base's, which has a row.
    """
    ended: Counter[str] = Counter()
    runs, title = block.runs.get(method, []), title_of(method)
    for run in runs:
        for k, stage in enumerate(run.stages):
            last, module = k == len(run.stages) - 1, stage.get("module", MODEL)
            if last or module != MODEL:
                name = title if last else f"{title}'s {module}"
                ended[name] += str(stage.get("stopped", "")).startswith("ran all")
    return (f"{name} {count} of {len(runs)}" for name, count in ended.items() if count)


def _floor(item: tuple[str, Mapping[str, float]]) -> str:
    """``popularity 4.89 (5.37 for users without an edge)``, in %."""
    name, means = item
    cold = means.get("no-edge")
    more = "" if cold is None else f" ({100 * cold:.2f} for users without an edge)"
    return f"{name.replace('co-occ', 'item co-occ')} {100 * means['transductive']:.2f}{more}"


def _processors(block: Block) -> Iterator[str]:
    """Which rows were made on another kind of processor than most.

    Sums are rounded otherwise there, and scores end as far apart as those of two seeds.
    """
    found: dict[str, Counter[str]] = {}
    for method, runs in block.runs.items():
        for run in runs:
            processor = str(run.machine.get("processor", "an unknown processor"))
            found.setdefault(processor, Counter())[method] += 1
    usual, *others = sorted(found, key=lambda name: -found[name].total()) or [""]
    for processor in others:
        told = [_share(title_of(m), n, block.runs[m]) for m, n in found[processor].items()]
        yield f"Made on {processor}: {', '.join(told)}; all else on {usual}."


def _share(title: str, count: int, runs: Sequence[object]) -> str:
    return title if count == len(runs) else f"{title} ({count} of {len(runs)} runs)"
