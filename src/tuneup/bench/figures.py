"""The paper's figures from the records alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from tuneup.evaluation import MeanStd
from tuneup.report import draw_degree_figure
from tuneup.report.curves import cold_start_figure, save_figure, training_figure

from .tables import Block

FORMATS = (".png", ".pdf")
PAIR = ("base", "tuneup")


def degree_figures(block: Block) -> Figure:
    """Figure 1 and its full versions: Base and TuneUp by degree, a panel a setting."""
    unit = "users" if block.task == "recommendation" else "nodes"
    curves = {
        row.title: [
            scores
            for setting in block.settings
            for scores in block.scores[row.method][setting].values()
        ]
        for row in block.rows
        if row.method in PAIR and row.records
    }
    title = f"{block.dataset}, {block.architecture}: {block.metric} by degree"
    return draw_degree_figure(curves, title=title, unit=unit)


def validation_figure(block: Block) -> Figure:
    """How Base and TuneUp were trained, every seed."""
    runs = {
        row.title: [
            # TuneUp's first stage is Base's run: drawn once, as Base's.
            [point for point in record.curve if row.method == "base" or point[0] > 0]
            for record in row.records
        ]
        for row in block.rows
        if row.method in PAIR
    }
    title = f"{block.dataset}, {block.architecture}: validation during training"
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
    title = f"{block.dataset}, {block.architecture}: new nodes that lose their edges"
    return cold_start_figure(scores, block.metric, title)


def write_figures(blocks: Sequence[Block], folder: Path) -> Iterator[Path]:
    """Draw all figures of the blocks as PNG and PDF; each path when it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for block in blocks:
        name = f"{block.task}-{block.dataset}-{block.architecture}"
        drawn = {
            "degrees": degree_figures(block),
            "training": validation_figure(block),
            "cold-start": cold_figure(block),
        }
        for kind, figure in drawn.items():
            for suffix in FORMATS if figure is not None else ():
                assert figure is not None
                path = folder / f"{name}-{kind}{suffix}"
                save_figure(figure, path)
                yield path
