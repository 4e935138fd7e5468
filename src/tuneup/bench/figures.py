"""The paper's figures from the records alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from tuneup.evaluation import MeanStd
from tuneup.metrics import NodeScores
from tuneup.names import Architecture
from tuneup.report import degree_figure, degree_grid
from tuneup.report.figures import cold_start_figure, save_figure, training_figure
from tuneup.workflow.run_folders import unit_of

from .tables import Block

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
            preset = _preset(block, " ({} preset)")
            panels[block.architecture, f"{block.dataset}{preset}"] = found
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
        row.title: [
            scores for name in settings for scores in block.scores[row.method][name].values()
        ]
        for row in block.rows
        if row.method in PAIR and len(row.means_only) < len(row.records)
    }


def _preset(block: Block, words: str) -> str:
    """Said where it is not the usual one."""
    return "" if block.preset == "short" else words.format(block.preset)


def validation_figure(block: Block) -> Figure:
    """How Base and TuneUp were trained, every seed."""
    runs = {
        row.title: [record.curve for record in row.records]
        for row in block.rows
        if row.method in PAIR
    }
    title = f"{block.short_name}: validation during training"
    return training_figure(runs, block.metric, title)


def cold_figure(block: Block) -> Figure | None:
    """Every method's score of new nodes by the share of edges removed, if there are new nodes."""
    scores: dict[str, dict[int, MeanStd]] = {}
    for row in block.rows:
        for setting, cell in row.cells.items():
            found = re.fullmatch(r"cold-(\d+)", setting)
            share = int(found[1]) if found else 0
            if found or setting == "inductive":
                scores.setdefault(row.label, {})[share] = cell.score
    if not scores:
        return None
    title = f"{block.short_name}: new nodes that lose their edges"
    return cold_start_figure(scores, block.metric, title)


def write_figures(blocks: Sequence[Block], folder: Path) -> Iterator[Path]:
    """Draw all figures of the blocks as PNG and PDF; each path when it is there."""
    yield from write_overviews(blocks, folder)
    for block in blocks:
        name = f"{block.task}-{block.dataset}-{block.architecture}{_preset(block, '-{}')}"
        drawn = {
            "degrees": degree_figures(block),
            "training": validation_figure(block),
            "cold-start": cold_figure(block),
        }
        for kind, figure in drawn.items():
            yield from _save(figure, folder / f"{name}-{kind}", FORMATS)


def write_overviews(
    blocks: Sequence[Block], folder: Path, suffixes: Sequence[str] = FORMATS
) -> Iterator[Path]:
    """Draw :func:`degree_overview` of every task; each path when it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for task in dict.fromkeys(block.task for block in blocks):
        own = [block for block in blocks if block.task == task]
        (preset, *others) = {_preset(block, "-{}") for block in own}
        name = overview_name(task) + ("" if others else preset)
        yield from _save(degree_overview(own), folder / name, suffixes)


def overview_name(task: str) -> str:
    """How the name of a task's overview begins; that of another preset alone goes on with it."""
    return f"{task}-by-degree"


def _save(figure: Figure | None, path: Path, suffixes: Sequence[str]) -> Iterator[Path]:
    for suffix in suffixes if figure is not None else ():
        assert figure is not None
        whole = path.with_name(path.name + suffix)
        save_figure(figure, whole)
        yield whole
