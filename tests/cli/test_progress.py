"""Progress of the training: a bar that fits its terminal, silence where there is none."""

import io
import re
from itertools import product

from rich.console import Console

from tuneup.cli.progress import TrainingProgress, followed
from tuneup.train import JsonLines, Progress

NAMES = ("Base", "Stage 2")


def epoch_of(epoch: int, stage: int = 2, metric: str = "recall@50", stopped: str = "") -> Progress:
    return Progress(stage, 2, epoch, 200, 12.345, 0.854, 0.854, 0.5, metric, stopped)


def bar_at(width: int) -> str:
    """The line of stage 2 in a terminal, once the time left is known."""
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    progress = TrainingProgress(console, NAMES)
    clock = iter(range(1000))
    progress.bars.get_time = lambda: float(next(clock))
    for epoch in range(100, 104):
        progress(epoch_of(epoch))
    console.print(progress.bars.get_renderable())
    return file.getvalue().splitlines()[-1]  # before it: from where the run was resumed


def test_the_bar_and_the_time_left_are_whole_and_the_least_important_goes_first():
    shown = {120: 4, 80: 4, 70: 4, 60: 3, 50: 2, 40: 1, 32: 0}
    for width, count in shown.items():
        line = bar_at(width)
        assert len(line) <= width
        assert "…" not in line
        assert re.search(r" \d\d:\d\d *$", line)
        bar = re.match(r"Stage 2 ([━╸╺ ]+) ", line)  # what is not done yet may be blank
        assert bar is not None
        assert len(bar[1]) >= 12
        words = [word for word in ("loss", "103/200", "best", "85.4 %") if word in line]
        assert words == ["loss", "103/200", "best", "85.4 %"][4 - count :], width


def test_a_pipe_gets_one_line_a_stage(tmp_path):
    file, log = io.StringIO(), JsonLines(tmp_path / "log.jsonl")
    with followed(Console(file=file, width=80), NAMES, log, None) as progress:
        for stage in (1, 2):
            for epoch in range(1, 61):
                progress(epoch_of(epoch, stage, "accuracy", "no gain" if epoch == 60 else ""))
    lines = file.getvalue().splitlines()
    assert "\x1b" not in file.getvalue()
    assert lines == [
        "Base: best validation accuracy 85.4 %, 60 epochs in 30 s (no gain)",
        "Stage 2: best validation accuracy 85.4 %, 60 epochs in 30 s (no gain)",
        "Scoring all models ...",
    ]


def test_only_a_resumed_run_prints_where_it_resumed(tmp_path):
    cases = {
        ((1, 61), (1, 62)): "resumed after epoch 60 of Base, from the checkpoints",
        ((2, 1), (2, 2)): "resumed after Base, from the checkpoints",
        ((2, 21),): "resumed after epoch 20 of Stage 2, from the checkpoints",
        (): "Nothing was left to train: all of it is in the checkpoints.",
        ((1, 1), (1, 2), (2, 1)): "",
    }
    for terminal, (places, said) in product((False, True), cases.items()):
        file = io.StringIO()
        console = Console(file=file, width=80, force_terminal=terminal, color_system=None)
        log = JsonLines(tmp_path / "log.jsonl")
        with followed(console, NAMES, log, None) as progress:
            for stage, epoch in places:
                progress(epoch_of(epoch, stage))
        text = file.getvalue()
        assert text.count("resumed") + text.count("Nothing was") == bool(said)
        assert said in text
