import sys
from itertools import product
from pathlib import Path
from typing import get_args

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.image import imread

from tuneup.bench.presets import planned
from tuneup.errors import InputError
from tuneup.evaluation import degree_curve
from tuneup.methods import title_of
from tuneup.metrics import NodeScores
from tuneup.names import Architecture, TaskName
from tuneup.report import degree_figure, degree_grid
from tuneup.report.figures import assign_lines


def make(setting: str = "transductive", lift: float = 0.0, seed: int = 0) -> NodeScores:
    rng = np.random.default_rng(7)
    n = 1500
    degree = (rng.pareto(1.2, n) * 3).astype(np.int64).clip(max=300)
    right = np.random.default_rng(seed).random(n) < 0.5 + lift + 0.3 * (degree > 5)
    return NodeScores(
        setting,
        "accuracy",
        torch.arange(n),
        torch.from_numpy(degree),
        torch.from_numpy(right.astype(np.float32)),
    )


def labelled(figure: Figure, panel: int) -> dict[str, list[float]]:
    lines = figure.axes[panel].get_lines()
    return {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in lines}


def counts(figure: Figure) -> list[float]:
    (bars,) = figure.axes[1].containers
    assert isinstance(bars, BarContainer)
    return [bar.get_height() for bar in bars]


def test_lines_are_the_bin_means_and_bars_the_counts() -> None:
    base, other = make(), make(lift=0.1, seed=1)
    figure = degree_figure({"Base": [base], "TuneUp": [other]}, min_nodes=0)
    top, bottom = figure.axes
    for name, scores in (("Base", base), ("TuneUp", other)):
        expected = [each.mean for each in degree_curve(scores) if each.count]
        assert labelled(figure, 0)[name] == pytest.approx(expected)
    assert counts(figure) == [each.count for each in degree_curve(base)]
    labels = [tick.get_text() for tick in bottom.get_xticklabels()]
    assert labels[:6] == ["0", "1", "2", "3", "4-5", "6-8"]
    assert labels[-1] == "211+"
    styles = [(line.get_label(), line.get_linestyle()) for line in top.get_lines()]
    assert styles == [("Base", ":"), ("TuneUp", "-")]


def test_sparse_bins_are_joined() -> None:
    runs = [make(seed=seed) for seed in range(3)]
    figure = degree_figure({"Base": runs, "TuneUp": runs}, min_nodes=30)
    assert sum(counts(figure)) == 1500
    assert min(counts(figure)) >= 30


def test_several_seeds_are_averaged() -> None:
    runs = [make(seed=seed) for seed in range(3)]
    figure = degree_figure({"Base": runs}, min_nodes=0)
    expected = [each.mean for each in degree_curve(runs) if each.count]
    assert labelled(figure, 0)["Base"] == pytest.approx(expected)
    assert figure.legends[0].get_title().get_text() == "band: ± 1 std over 3 seeds"


def test_one_panel_per_setting_in_order() -> None:
    settings = ("transductive", "inductive", "cold-90")
    curves = {
        name: [make(setting, seed=seed) for setting in settings]
        for seed, name in enumerate(("Base", "A", "B"))
    }
    figure = degree_figure(curves, title="Title", metric_label="share right")
    titles = [axes.get_title() for axes in figure.axes[:3]]
    assert titles == ["transductive", "inductive", "cold 90 %"]
    assert figure.axes[0].get_ylabel() == "share right"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["Base", "A", "B"]
    looks = {(line.get_color(), line.get_marker()) for line in figure.axes[0].get_lines()}
    assert len(looks) == 3


def test_files_are_whole_and_reproducible(tmp_path: Path) -> None:
    settings = dict(mpl.rcParams)
    for suffix, magic in ((".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")):
        path = tmp_path / f"degree{suffix}"
        degree_figure({"Base": [make()]}, path)
        first = path.read_bytes()
        assert first.startswith(magic)
        if suffix != ".svg":  # svg ids are random unless a global setting is changed
            degree_figure({"Base": [make()]}, path)
            assert path.read_bytes() == first
    assert len(list(tmp_path.iterdir())) == 3
    assert dict(mpl.rcParams) == settings


def test_png_shows_both_colours(tmp_path: Path) -> None:
    path = tmp_path / "degree.png"
    degree_figure({"Base": [make()], "TuneUp": [make(lift=0.1)]}, path)
    pixels = imread(path)[..., :3]
    assert pixels.shape[0] == 750
    for colour in ("#1f77b4", "#e8710a"):
        wanted = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
        assert (np.abs(pixels - wanted).max(axis=-1) < 0.01).sum() > 100


def test_one_node_is_drawn_and_a_setting_without_nodes_is_not() -> None:
    scores = make()
    one = scores.select(scores.nodes == 0)
    none = make("inductive").select(scores.nodes < 0)
    figure = degree_figure({"Base": [one, none]})
    assert len(figure.axes) == 2
    assert labelled(figure, 0)["Base"] == [one.mean()]
    figure.draw_without_rendering()


def test_bins_with_few_nodes_are_hollow_and_the_legend_says_so() -> None:
    scores = make()
    head = scores.degree > 5
    few = scores.select(~head | (torch.cumsum(head, 0) <= 3))  # three nodes in the head
    for run, hollow in ((scores, 0), (few, 1)):
        figure = degree_figure({"Base": [run]})
        assert counts(figure)[-1] == 3 or not hollow
        (points,) = (
            each for each in figure.axes[0].collections if isinstance(each, PathCollection)
        )
        assert len(np.asarray(points.get_offsets())) == hollow
        note = figure.legends[0].get_title().get_text()
        assert ("hollow: fewer than 5 nodes" in note) == bool(hollow)


def test_users_are_called_so() -> None:
    figure = degree_figure({"Base": [make()]}, unit="users")
    assert figure.axes[1].get_ylabel() == "users"
    assert figure.legends[0].get_title().get_text() == "band: 95 % bootstrap interval over users"


def test_bad_requests_are_refused_before_drawing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"degree\.jpg: a figure's name must end in \.png, \.pdf"):
        degree_figure({"Base": [make()]}, tmp_path / "degree.jpg")
    with pytest.raises(InputError, match="at least one method with at least one scored node"):
        degree_figure({"Base": []}, tmp_path / "degree.png")
    scores = make()
    recall = NodeScores("transductive", "recall@50", scores.nodes, scores.degree, scores.score)
    with pytest.raises(InputError, match="one metric, got accuracy, recall@50"):
        degree_figure({"Base": [scores], "TuneUp": [recall]}, tmp_path / "degree.png")
    assert not list(tmp_path.iterdir())


def test_no_two_methods_of_a_table_look_alike() -> None:
    for task, architecture in product(get_args(TaskName), get_args(Architecture)):
        names = [title_of(name) for name in planned(task, architecture)]
        lines = assign_lines(names)
        assert len(set(lines.values())) == len({line.color for line in lines.values()})
        assert len(set(lines.values())) == len(names)


def test_a_figure_says_where_lines_coincide() -> None:
    one = [make(seed=seed) for seed in range(3)]
    figure = degree_figure({"Base": one, "TuneUp": one})
    (titled,) = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titled.endswith(", lines coincide")


def test_a_grid_says_how_many_seeds_and_where_lines_coincide() -> None:
    one, other = [make(seed=seed) for seed in range(3)], [make(seed=9), make(seed=10)]
    same = degree_grid(
        {("gcn", "dblp"): {"Base": one, "TuneUp": one}}, title="t", metric_label="accuracy"
    )
    (titled,) = [axes.get_title() for axes in same.axes if axes.get_title()]
    assert titled == "dblp, gcn, lines coincide"
    panels = {
        ("gcn", "dblp"): {"Base": one, "TuneUp": [make(seed=seed) for seed in (3, 4, 5)]},
        ("gcn", "CS"): {"Base": other, "TuneUp": [make(seed=11), make(seed=12)]},
    }
    figure = degree_grid(panels, title="t", metric_label="accuracy")
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == ["dblp, gcn, 3 seeds", "CS, gcn, 2 seeds"]
    assert figure.legends[0].get_title().get_text() == "band: ± 1 std over 2 to 3 seeds"


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"pip install 'tuneup-gnn\[report\]'"):
        degree_figure({"Base": [make()]})
