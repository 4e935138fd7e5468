"""The paper's figures from the store alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from tuneup.evaluation import MeanStd
from tuneup.methods import title_of
from tuneup.metrics import NodeScores
from tuneup.names import Architecture
from tuneup.report import degree_figure, degree_grid
from tuneup.report.figures import cold_start_figure, save_figure, training_figure
from tuneup.workflow.outcome import unit_of

from .tables import Block, row_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf")
PAIR = ("base", "tuneup")


def degree_figures(block: Block) -> Figure:
    """Figure 1 with all settings: Base and TuneUp by degree, a panel a setting."""
    title = f"{block.short_name}: {block.metric} by degree"
    return degree_figure(_pair(block, block.settings), title=title, unit=unit_of(block.task))


def degree_overview(blocks: Sequence[Block]) -> Figure | None:
    """Figure 1 in full, of one task: known nodes by degree, a panel a dataset and architecture."""
    order = get_args(Architecture)
    panels: dict[tuple[str, str], Mapping[str, Sequence[NodeScores]]] = {}
    for block in sorted(blocks, key=lambda block: order.index(block.architecture)):
        found = _pair(block, ["transductive"])
        if len(found) == len(PAIR):
            panels[block.architecture, block.dataset] = found
    if not panels:
        return None
    first = blocks[0]
    return degree_grid(
        panels,
        title=f"{first.task}, known {unit_of(first.task)}: Base and TuneUp by degree",
        metric_label=first.metric,
        unit=unit_of(first.task),
    )


def _pair(block: Block, settings: Sequence[str]) -> dict[str, list[NodeScores]]:
    """Scores of Base and TuneUp in some settings, all seeds."""
    return {
        title_of(method): [s for name in settings for s in block.scores[method][name].values()]
        for method in PAIR
        if block.scores.get(method)
    }


def validation_figure(block: Block) -> Figure:
    """How Base and TuneUp were trained, every seed."""
    runs = {
        title_of(method): [block.store.curve(run) for run in block.runs[method]]
        for method in PAIR
        if method in block.runs
    }
    return training_figure(runs, block.metric, f"{block.short_name}: validation during training")


def cold_figure(block: Block) -> Figure | None:
    """Every method's score of new nodes by the share of edges removed, if there are new nodes."""
    scores: dict[str, dict[int, MeanStd]] = {}
    for method in block.runs:
        for setting in block.settings:
            found = re.fullmatch(r"cold-(\d+)", setting)
            score = block.score(method, setting)
            if score and (found or setting == "inductive"):
                share = int(found[1]) if found else 0
                mean = MeanStd(score.mean, score.std, score.seeds)
                scores.setdefault(row_label(block, method), {})[share] = mean
    if not scores:
        return None
    title = f"{block.short_name}: new nodes that lose their edges"
    return cold_start_figure(scores, block.metric, title)


def write_figures(blocks: Sequence[Block], folder: Path) -> Iterator[Path]:
    """Draw all figures of the blocks as PNG and PDF; each path when it is there."""
    yield from write_overviews(blocks, folder)
    for block in blocks:
        drawn = {
            "degrees": degree_figures(block),
            "training": validation_figure(block),
            "cold-start": cold_figure(block),
        }
        name = f"{block.task}-{Path(block.dataset).name}-{block.architecture}"
        for kind, figure in drawn.items():
            yield from _save(figure, folder / f"{name}-{kind}", FORMATS)


def write_overviews(
    blocks: Sequence[Block], folder: Path, suffixes: Sequence[str] = FORMATS
) -> Iterator[Path]:
    """Draw :func:`degree_overview` of every task; each path when it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for task in dict.fromkeys(block.task for block in blocks):
        own = [block for block in blocks if block.task == task]
        yield from _save(degree_overview(own), folder / f"{task}-by-degree", suffixes)


def _save(figure: Figure | None, path: Path, suffixes: Sequence[str]) -> Iterator[Path]:
    for suffix in suffixes if figure is not None else ():
        assert figure is not None
        whole = path.with_name(path.name + suffix)
        save_figure(figure, whole)
        yield whole
